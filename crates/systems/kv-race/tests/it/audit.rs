//! Looks at the memory of a node whose clients rest: what is reachable, what is in use, what was left.

use drover_index::race::{BUCKET_BYTES, Bucket, Directory, ENTRIES_OFFSET, Slot, SlotKind};
use drover_kv_race::TableHeader;
use drover_kv_race::layout::{TABLE_HEADER_BYTES, TABLE_ROOT};
use drover_mem::Region;
use drover_memnode::ClientId;
use drover_memnode::block::decode_block;
use drover_memnode::chunks::{CHUNK_BYTES, ChunkEntry, ChunkKind};
use drover_memnode::header::{HEADER_BYTES, Header};
use drover_memnode::locks::Lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// What a walk over a node's table has found.
#[derive(Debug)]
pub struct Audit {
    header: Header,
    entries: BTreeMap<u32, ChunkEntry>,
    /// Offset and length of each piece of memory that is reachable.
    used: BTreeMap<u64, usize>,
    subtables: usize,
    /// Bits of the hash that the directory uses.
    pub depth: u8,
}

fn bytes(region: &Region, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.copy_out(offset as usize, &mut bytes);
    bytes
}

fn word(region: &Region, offset: u64) -> u64 {
    region.load_u64(offset as usize, Ordering::Relaxed)
}

/// Walks over the table of the node with this memory.
///
/// # Panics
/// If a lock is held, an entry is locked, a bucket is pending, a slot is tentative, frozen or bad, or its block is none.
pub fn audit(region: &Region) -> Audit {
    let header = Header::decode(&bytes(region, 0, HEADER_BYTES), region.len() as u64).expect("a header");
    let (table, own) = table_of(region);
    let directory = Directory::from_bytes(&bytes(region, table, own.table_bytes())).expect("a directory");
    assert!(!directory.global().doubling, "the directory is being doubled");
    let locks = (0..1u32 << own.depth_max).map(|suffix| own.subtable_lock(suffix));
    // Behind the others is that of who looks for expired items.
    let search_lock = own.subtable_lock((1 << own.depth_max) - 1) + 8;
    for lock in locks.chain([own.directory_lock(), search_lock]) {
        assert_eq!(word(region, table + lock), 0, "the lock at {lock} is held");
    }
    let mut used = BTreeMap::from([(table, own.table_bytes())]);
    let subtables: BTreeSet<u64> = directory.entries().iter().map(|entry| entry.subtable).collect();
    assert!(
        directory.entries().iter().all(|entry| !entry.locked),
        "{directory:?}"
    );
    let count = subtables.len();
    for subtable in subtables {
        let all = bytes(region, subtable, own.shape.bytes() as usize);
        used.insert(subtable, all.len());
        for bucket in all.as_chunks::<BUCKET_BYTES>().0 {
            let bucket = Bucket::from_bytes(bucket).expect("a header");
            assert!(!bucket.header.pending, "{bucket:?}");
            for slot in bucket.slots.into_iter().filter(|slot| *slot != Slot::EMPTY) {
                let is_right = slot.kind() == SlotKind::Live && !slot.is_frozen();
                assert!(is_right, "{slot:?}");
                let block = slot.block().expect("an entry's block");
                let twice = used.insert(block.addr, block.bytes());
                assert_eq!(twice, None, "two slots lead to {block:?}");
                let item = bytes(region, block.addr, block.bytes());
                let mut chain = decode_block(&item).expect("a block").chain();
                while let Some((piece, len, _)) = chain.next() {
                    assert_eq!(used.insert(piece.offset(), len), None, "two values share a piece");
                    chain.take(&bytes(region, piece.offset(), len)).expect("a piece");
                }
            }
        }
    }
    let chunks = header.geometry.first_data_chunk()..header.geometry.chunk_count();
    let entries = chunks.map(|chunk| {
        let at = header.geometry.chunk_entry(chunk) as u64;
        (
            chunk,
            ChunkEntry::decode(word(region, at)).expect("an entry of a chunk"),
        )
    });
    Audit {
        entries: entries.collect(),
        used,
        subtables: count,
        depth: directory.global().depth,
        header,
    }
}

/// Lets the client that took `lock` hold the lock of the directory.
pub fn hold_directory(region: &Region, lock: Lock) {
    let (table, own) = table_of(region);
    let at = (table + own.directory_lock()) as usize;
    region.store_u64(at, lock.bits(), Ordering::Relaxed);
}

/// Number of locks of subtables that are held.
pub fn splits_under_way(region: &Region) -> usize {
    let (table, own) = table_of(region);
    let locks = (0..1u32 << own.depth_max).map(|suffix| word(region, table + own.subtable_lock(suffix)));
    locks.filter(|lock| *lock != 0).count()
}

fn table_of(region: &Region) -> (u64, TableHeader) {
    let header = Header::decode(&bytes(region, 0, HEADER_BYTES), region.len() as u64).expect("a header");
    let table = header.roots[TABLE_ROOT];
    let own = bytes(region, table, TABLE_HEADER_BYTES);
    let own = TableHeader::decode(own.first_chunk().expect("as long")).expect("a table");
    (table, own)
}

/// Offset of the only slot in use, of a table with one key.
pub fn slot_of(region: &Region) -> u64 {
    let header = Header::decode(&bytes(region, 0, HEADER_BYTES), region.len() as u64).expect("a header");
    let entry = word(region, header.roots[TABLE_ROOT] + ENTRIES_OFFSET as u64);
    let subtable = drover_index::race::Entry::from_word(entry)
        .expect("an entry")
        .subtable;
    let slots = (0..).map(|index| subtable + index * 8);
    let mut used = slots.filter(|slot| word(region, *slot) != 0);
    used.next().expect("a slot in use")
}

/// Chunks of a client, by their first one, as they are now.
pub fn chunks_of(region: &Region, client: ClientId) -> Vec<(u32, ChunkEntry)> {
    let header = Header::decode(&bytes(region, 0, HEADER_BYTES), region.len() as u64).expect("a header");
    let chunks = header.geometry.first_data_chunk()..header.geometry.chunk_count();
    let entries = chunks.filter_map(|chunk| {
        let entry = ChunkEntry::decode(word(region, header.geometry.chunk_entry(chunk) as u64))?;
        // A recovery that was not finished may have marked it.
        let kind = match entry.kind {
            ChunkKind::Blocks | ChunkKind::SweptBlocks => ChunkKind::Blocks,
            ChunkKind::Run | ChunkKind::SweptRun => ChunkKind::Run,
            _ => return None,
        };
        (entry.owner == client).then_some((chunk, ChunkEntry { kind, ..entry }))
    });
    entries.collect()
}

impl Audit {
    /// Pieces of memory that items take.
    pub fn item_pieces(&self) -> usize {
        self.used.len() - 1 - self.subtables
    }

    /// Pieces in use that begin in `chunk`.
    fn used_in(&self, chunk: u32) -> usize {
        let first = u64::from(chunk) * CHUNK_BYTES as u64;
        self.used.range(first..first + CHUNK_BYTES as u64).count()
    }

    /// Checks that all memory that is not reachable in `chunks`, which belonged to a dead client, was found: chunks
    /// without a piece in use went back to the node, the others belong to `heir`. Returns the free blocks in these.
    pub fn inherited(&self, chunks: &[(u32, ChunkEntry)], heir: ClientId) -> usize {
        let mut free = 0;
        for (chunk, was) in chunks {
            let (now, used) = (self.entries[chunk], self.used_in(*chunk));
            if used == 0 {
                assert_eq!(now.kind, ChunkKind::Returned, "chunk {chunk} is not in use");
                continue;
            }
            assert_eq!((now.kind, now.owner, now.link), (was.kind, heir, was.link));
            if was.kind == ChunkKind::Blocks {
                let class = drover_memnode::Class::from_index(was.link as usize).expect("a class");
                free += class.per_chunk() - used;
            }
        }
        free
    }

    /// Checks that every chunk that was ever taken has an owner or was returned.
    pub fn assert_no_orphans(&self) {
        let taken = self
            .entries
            .range(..self.header.supply.bump.min(u32::MAX.into()) as u32);
        let kinds = taken.clone().filter(|(_, entry)| entry.kind == ChunkKind::Fresh);
        assert_eq!(kinds.count(), 0, "chunks that nobody owns");
        let returned = taken
            .filter(|(_, entry)| entry.kind == ChunkKind::Returned)
            .count();
        assert_eq!(returned, self.header.supply.stack.count as usize);
    }
}

const _: () = assert!(ENTRIES_OFFSET == TABLE_HEADER_BYTES);
