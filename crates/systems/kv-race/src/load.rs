//! [`load`]: writes a table with its items at a node itself, before clients come.

use crate::error::RaceError;
use crate::layout::{TABLE_ROOT, TableHeader};
use drover_index::race::{
    BLOCK_UNIT, BlockRef, Candidates, Choice, ENTRIES_OFFSET, Entry, Location, PAIR_BYTES, Slot, UNITS_MAX,
};
use drover_memnode::block::{BlockMeta, Cut, encode_block};
use drover_memnode::node::Loader;
use drover_memnode::{Addr, MemoryError, PoolMembership};

/// Writes a table that is not divided, with those of `items` (key and value, no key twice) that belong to the node of
/// `place`, and makes it the node's. For tests, benchmarks and simulations: an item takes no request.
///
/// # Errors
/// [`RaceError::TooLarge`] for values that need several blocks; [`RaceError::TableFull`] if the shape of `header` is too small for the items;
/// [`MemoryError::Full`].
///
/// # Panics
/// If a node is to have several tables.
pub fn load<'a>(
    loader: &mut Loader<'_>,
    header: &TableHeader,
    place: PoolMembership,
    items: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), RaceError> {
    assert_eq!(header.tables, 1, "a node with several tables is not loaded");
    let hasher = header.seed.hasher();
    // A bucket of depth 0 without entries is 0.
    let mut subtable = vec![0; header.shape.bytes() as usize];
    let mut block = Vec::new();
    let node = place.index as usize;
    let full = |_| MemoryError::Full { node };
    for (key, value) in items {
        let hash = hasher.hash(key);
        if hash.partition_index(place.count as usize) != node {
            continue;
        }
        let location = Location::new(hash, header.shape);
        let pairs = [0, 1].map(|choice| {
            let at = location.pair_offset(choice) as usize;
            &subtable[at..at + PAIR_BYTES]
        });
        let candidates = Candidates::from_bytes(location, pairs).expect("buckets of depth 0");
        let Choice::Slot(id) = candidates.choose() else {
            return Err(RaceError::TableFull);
        };
        let cut = Cut::new(key.len(), value.len()).filter(|cut| cut.piece_count() == 0);
        let units = cut.ok_or(RaceError::TooLarge)?.block_bytes().div_ceil(BLOCK_UNIT);
        if units > UNITS_MAX {
            return Err(RaceError::TooLarge);
        }
        block.clear();
        block.resize(units * BLOCK_UNIT, 0);
        let addr = loader.alloc(block.len()).map_err(full)?;
        let meta = BlockMeta {
            version: loader.version(),
            // The first second of a node's clock; earlier would be before every flush.
            created_s: 1,
            ..BlockMeta::default()
        };
        encode_block(&mut block, &meta, key, value, Addr::NULL);
        loader.write(addr, &block);
        let block = BlockRef {
            addr: addr.offset(),
            units: units as u8,
        };
        let slot = Slot::new(location.fingerprint, block, 0);
        let at = id.offset() as usize;
        subtable[at..at + 8].copy_from_slice(&slot.word().to_le_bytes());
    }
    let at = loader.alloc(subtable.len()).map_err(full)?;
    loader.write(at, &subtable);
    let first = Entry {
        subtable: at.offset(),
        depth: 0,
        locked: false,
    };
    let table = loader.alloc(header.table_bytes()).map_err(full)?;
    loader.write(table, &header.encode());
    loader.write(table.add(ENTRIES_OFFSET as u64), &first.word().to_le_bytes());
    loader.set_root(TABLE_ROOT, table.offset());
    Ok(())
}
