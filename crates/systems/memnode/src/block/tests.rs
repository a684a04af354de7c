use super::*;
use proptest::prelude::*;

fn meta() -> impl Strategy<Value = BlockMeta> {
    let owner = (any::<u16>(), any::<u16>()).prop_map(|(id, epoch)| ClientId { id, epoch });
    (owner, any::<[u32; 3]>(), any::<u64>()).prop_map(|(owner, [flags, expire_s, created_s], version)| {
        BlockMeta {
            owner,
            flags,
            expire_s,
            created_s,
            version,
        }
    })
}

/// Writes an item as blocks, at made-up addresses; the first is the block itself.
fn write(meta: &BlockMeta, key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
    let cut = Cut::new(key.len(), value.len()).expect("it fits");
    let count = cut.piece_count();
    let addr = |index: usize| match index {
        index if index > count => Addr::NULL,
        index => Addr::new(0, (index * CHUNK_BYTES) as u64),
    };
    let mut blocks = vec![vec![0; cut.block_bytes()]];
    assert_eq!(
        encode_block(&mut blocks[0], meta, key, value, addr(1)),
        cut.block_bytes()
    );
    for index in 1..=count {
        let mut piece = vec![0; cut.piece_block_bytes(index)];
        encode_piece(&mut piece, meta, &cut, index, value, addr(index + 1));
        blocks.push(piece);
    }
    blocks
}

fn read(blocks: &[Vec<u8>]) -> Result<Vec<u8>, BlockError> {
    let block = decode_block(&blocks[0])?;
    let (mut value, mut chain) = (block.part.to_vec(), block.chain());
    while let Some((addr, _, range)) = chain.next() {
        let piece = &blocks[addr.offset() as usize / CHUNK_BYTES];
        assert_eq!(range.start, value.len());
        value.extend(chain.take(piece)?);
    }
    Ok(value)
}

proptest! {
    /// Who follows headers alone comes to the same pieces.
    #[test]
    fn pieces_are_found_by_their_headers(meta in meta(), key in 1usize..250, value in 0usize..60_000) {
        let (key, value) = (vec![7; key], vec![8; value]);
        let blocks = write(&meta, &key, &value);
        prop_assert_eq!(key_of(&blocks[0][..BLOCK_HEADER_BYTES + key.len()]), Some(&key[..]));
        prop_assert_eq!(key_of(&blocks[0][..BLOCK_HEADER_BYTES + key.len() - 1]), None);
        let mut chain = decode_block(&blocks[0]).expect("a block").chain();
        let mut met = 1;
        while let Some((addr, bytes, _)) = chain.next() {
            let piece = &blocks[addr.offset() as usize / CHUNK_BYTES];
            prop_assert_eq!(piece.len(), bytes);
            prop_assert!(chain.skip(&piece[..PIECE_HEADER_BYTES - 1]).is_err());
            chain.skip(&piece[..PIECE_HEADER_BYTES]).expect("the piece");
            met += 1;
        }
        prop_assert_eq!(met, blocks.len());
    }
}

#[test]
fn a_short_item_fits_a_line() {
    assert_eq!(Cut::new(8, 8).map(|cut| cut.block_bytes()), Some(64));
    assert_eq!(Cut::new(0, 8), None);
    assert_eq!(Cut::new(KEY_BYTES_MAX + 1, 8), None);
    assert_eq!(Cut::new(8, VALUE_BYTES_MAX + 1), None);
    let longest = Cut::new(KEY_BYTES_MAX, VALUE_BYTES_MAX).expect("it fits");
    assert_eq!(longest.piece_count(), 64);
}

#[test]
fn an_item_expires_when_its_second_has_come() {
    let meta = |expire_s| BlockMeta {
        expire_s,
        ..BlockMeta::default()
    };
    assert!(!meta(0).is_expired(u32::MAX));
    assert!(!meta(5).is_expired(4) && meta(5).is_expired(5));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn items_come_back(
        meta in meta(),
        key in proptest::collection::vec(any::<u8>(), 1..=KEY_BYTES_MAX),
        value_bytes in prop_oneof![0usize..100, 16_000usize..17_000, 0usize..=VALUE_BYTES_MAX],
        first: u8,
    ) {
        let value: Vec<u8> = (0..value_bytes).map(|byte| (byte as u8).wrapping_mul(31) ^ first).collect();
        let blocks = write(&meta, &key, &value);
        let block = decode_block(&blocks[0]).expect("a block");
        prop_assert_eq!((block.meta, block.key, block.value_bytes), (meta, &key[..], value.len()));
        prop_assert!(read(&blocks).as_deref() == Ok(&value[..]));
    }

    #[test]
    fn a_changed_bit_is_noticed(
        meta in meta(),
        value in proptest::collection::vec(any::<u8>(), 0..200),
        at: prop::sample::Index,
        bit in 0u32..8,
    ) {
        let mut blocks = write(&meta, b"a key", &value);
        let at = at.index(blocks[0].len());
        blocks[0][at] ^= 1 << bit;
        prop_assert!(decode_block(&blocks[0]).is_err());
    }

    #[test]
    fn pieces_of_other_values_are_noticed(one in meta(), other in meta(), swap in 1usize..3) {
        let value = vec![7; 3 * CHUNK_BYTES];
        let blocks = write(&one, b"key", &value);
        let mut mixed = blocks.clone();
        mixed[1] = write(&other, b"key", &value)[1].clone();
        prop_assert_eq!(read(&mixed).is_err(), one.version != other.version);
        let mut mixed = blocks;
        mixed.swap(swap, swap + 1);
        prop_assert!(read(&mixed).is_err());
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, lengths: [u16; 2], tail: Vec<u8>) {
        let _ = decode_block(&bytes);
        // With plausible lengths, so that more than the first test is reached.
        let mut block = [&bytes[..], &[0; 64]].concat();
        put(&mut block, 8, (lengths[0] % 300).to_le_bytes());
        put(&mut block, 12, u32::from(lengths[1]).to_le_bytes());
        put(&mut block, 28, u32::from(lengths[1]).to_le_bytes());
        let _ = decode_block(&block);
        let blocks = write(&BlockMeta::default(), b"k", &[1; 40_000]);
        let mut chain = decode_block(&blocks[0]).expect("a block").chain();
        prop_assert!(chain.take(&tail).is_err());
    }
}
