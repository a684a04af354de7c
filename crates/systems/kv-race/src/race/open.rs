//! Finding the tables of a pool, and creating those that are missing.

use super::directory::read_directory;
use super::{Inner, Race, ReadOrder, Shard};
use crate::error::RaceError;
use crate::layout::{FLUSHES_AT, Flushes, TABLE_HEADER_BYTES, TABLE_ROOT, TableHeader};
use crate::options::RaceOptions;
use drover_base::HashSeed;
use drover_index::race::{BUCKET_BYTES, ENTRIES_OFFSET, Entry};
use drover_memnode::{Addr, Arena, Located, Need, Nodes};
use drover_rt::{SingleFlight, TaskCx};
use drover_verbs::{Caps, Provider};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Longest WRITE of a new table or subtable, bytes.
const WRITE_BYTES: usize = 1024;
/// WRITEs of a new subtable that are outstanding at a time.
const WRITES: usize = 16;

impl<P: Provider> Race<P> {
    /// Opens the tables of all nodes, or creates them. `caps` are those of the thread's context; `refreshing` is a new
    /// [`TaskPool::single_flight`](drover_rt::TaskPool::single_flight) of the thread's tasks.
    ///
    /// If the process is [alone with one node](drover_memnode::PoolOptions::alone), only that node's tables are opened, to be
    /// repaired: keys must not be looked for.
    ///
    /// # Errors
    /// [`RaceError::NoTable`] if a node has none and none is to be created, or their seeds differ.
    pub async fn open(
        cx: &TaskCx<P>,
        arena: &Arena<P>,
        caps: &Caps,
        refreshing: SingleFlight<P, usize, ()>,
        mut options: RaceOptions,
    ) -> Result<Race<P>, RaceError> {
        let pool = arena.nodes().pool();
        let count = pool.node_count();
        let mut shards: Vec<Shard> = Vec::with_capacity(count);
        let mut index = 0;
        // As many as the first table says.
        while index < count * shards.first().map_or(1, |first| first.header.tables as usize) {
            let here = index;
            index += 1;
            if pool.node(here % count).is_absent() {
                continue;
            }
            let shard = open_shard(cx, arena, here, count, &options).await?;
            let (node, header) = (shard.node, shard.header);
            let first = shards.first().map_or(header, |first| first.header);
            if (first.seed, first.tables) != (header.seed, header.tables) {
                return Err(RaceError::NoTable { node });
            }
            options.evicts |= header.evicts;
            shards.push(shard);
        }
        let seed = shards.first().map(|first| first.header.seed);
        let reads = ReadOrder {
            is_torn: caps.reads.unit_bytes < BUCKET_BYTES,
            sees_earlier: caps.reads.see_earlier,
        };
        Ok(Race(Rc::new(Inner {
            arena: arena.clone(),
            options,
            hasher: seed.unwrap_or(HashSeed::new(0, 0)).hasher(),
            shards: shards.into(),
            refreshing,
            reads,
            core: OnceCell::new(),
            draws: Cell::default(),
            stats: Cell::default(),
            has_left_locks: Cell::new(false),
            met: Cell::default(),
        })))
    }
}

async fn open_shard<P: Provider>(
    cx: &TaskCx<P>,
    arena: &Arena<P>,
    index: usize,
    node_count: usize,
    options: &RaceOptions,
) -> Result<Shard, RaceError> {
    let nodes = arena.nodes();
    let (node, root) = (index % node_count, TABLE_ROOT + index / node_count);
    let root = nodes.root(node, root);
    let ticket = cx.read(root.peer, cx.buffer(8)?, root.remote)?;
    let word = cx.sync().await?.take(ticket);
    let table = match u64::from_le_bytes(word[..].try_into().expect("8 bytes")) {
        0 => create(cx, arena, node, root, options).await?,
        table => table,
    };
    let missing = RaceError::NoTable { node };
    let at = nodes.locate(addr(node, table).ok_or(missing)?, TABLE_HEADER_BYTES)?;
    let ticket = cx.read(at.peer, cx.buffer(TABLE_HEADER_BYTES)?, at.remote)?;
    let bytes = cx.sync().await?.take(ticket);
    let header = bytes.first_chunk().and_then(TableHeader::decode).ok_or(missing)?;
    let directory = read_directory(cx, nodes, node, table, 0, options).await?;
    let tail = addr(node, table + header.tail()).ok_or(missing)?;
    let at = nodes.locate(tail.add(FLUSHES_AT), 8)?;
    let ticket = cx.read(at.peer, cx.buffer(8)?, at.remote)?;
    let flushes = cx.sync().await?.take(ticket);
    let flushes = u64::from_le_bytes(flushes[..].try_into().expect("8 bytes"));
    Ok(Shard {
        index,
        node,
        table,
        header,
        directory: RefCell::new(directory),
        flushes: Cell::new(Flushes::from_word(flushes)),
        search_lock: Cell::default(),
    })
}

/// The address at an offset that was READ from a pool.
fn addr(node: usize, offset: u64) -> Option<Addr> {
    (offset >> 48 == 0).then(|| Addr::new(node, offset))
}

/// Creates an empty table unless another client is first; returns the offset of the one that exists then.
async fn create<P: Provider>(
    cx: &TaskCx<P>,
    arena: &Arena<P>,
    node: usize,
    root: Located,
    options: &RaceOptions,
) -> Result<u64, RaceError> {
    let nodes = arena.nodes();
    let _pin = nodes.pin(node);
    let header = options.create.ok_or(RaceError::NoTable { node })?;
    let subtable_bytes = header.shape.bytes() as usize;
    let table = arena
        .alloc(cx, node, header.table_bytes(), Need::Ordinary)
        .await?;
    let subtable = arena.alloc(cx, node, subtable_bytes, Need::Ordinary).await?;
    // A header of depth 0 is 0.
    fill(cx, nodes, subtable, subtable_bytes, &[0; BUCKET_BYTES]).await?;
    fill(cx, nodes, table, header.table_bytes(), &[0; BUCKET_BYTES]).await?;
    let first = Entry {
        subtable: subtable.offset(),
        depth: 0,
        locked: false,
    };
    let mut buffer = cx.buffer(ENTRIES_OFFSET + 8)?;
    buffer[..ENTRIES_OFFSET].copy_from_slice(&header.encode());
    buffer[ENTRIES_OFFSET..].copy_from_slice(&first.word().to_le_bytes());
    let at = nodes.locate_to_write(cx, table, buffer.len())?;
    cx.write(at.peer, buffer, at.remote)?;
    let ticket = cx.cas(root.peer, root.remote, 0, table.offset())?;
    let was = cx.sync().await?.value(ticket);
    if was != 0 {
        arena.put_back(table, header.table_bytes());
        arena.put_back(subtable, subtable_bytes);
        return Ok(was);
    }
    Ok(table.offset())
}

/// WRITEs `line` again and again, `bytes` in all, which is a multiple of its length or ends within it.
pub(super) async fn fill<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    addr: Addr,
    bytes: usize,
    line: &[u8; BUCKET_BYTES],
) -> Result<(), RaceError> {
    let mut done = 0;
    while done < bytes {
        for _ in 0..WRITES {
            let len = WRITE_BYTES.min(bytes - done);
            if len == 0 {
                break;
            }
            let mut buffer = cx.buffer(len)?;
            for piece in buffer.chunks_mut(BUCKET_BYTES) {
                piece.copy_from_slice(&line[..piece.len()]);
            }
            let at = nodes.locate_to_write(cx, addr.add(done as u64), len)?;
            cx.write(at.peer, buffer, at.remote)?;
            done += len;
        }
        cx.sync().await?;
    }
    Ok(())
}
