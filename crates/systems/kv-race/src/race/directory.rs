//! READing directories. Nobody tells a client of a split; it finds out by a bucket's header, and one of its tasks READs
//! the directory for all.

use super::{Race, Shard};
use crate::error::RaceError;
use crate::options::RaceOptions;
use drover_index::race::{BadDirectory, Directory, Entry, directory_bytes};
use drover_memnode::{Addr, BadRun, Nodes};
use drover_rt::{Joined, TaskCx};
use drover_verbs::Provider;

/// Longest READ of a directory, bytes.
const READ_BYTES: usize = 8 << 10;

impl Shard {
    /// The directory entry for a key with these bits, as last READ.
    pub(super) fn entry(&self, directory_bits: u32) -> Entry {
        self.directory.borrow().entry(directory_bits)
    }
}

impl<P: Provider> Race<P> {
    /// READs the directory of `shard`, or waits until another task has.
    pub(super) async fn refresh(&self, cx: &TaskCx<P>, shard: &Shard) -> Result<(), RaceError> {
        match self.0.refreshing.join(cx, shard.index).await {
            Joined::Value(()) => {}
            Joined::Lead(lead) => {
                self.read_directory(cx, shard).await?;
                lead.finish(());
            }
        }
        Ok(())
    }

    /// READs the directory of `shard`.
    pub(super) async fn read_directory(&self, cx: &TaskCx<P>, shard: &Shard) -> Result<(), RaceError> {
        self.0.count(|stats| stats.refreshes += 1);
        let depth = shard.directory.borrow().global().depth;
        let read = read_directory(cx, self.nodes(), shard.node, shard.table, depth, &self.0.options);
        let directory = read.await?;
        shard.directory.replace(directory);
        Ok(())
    }
}

/// READs a directory that is probably `depth` deep.
pub(super) async fn read_directory<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    node: usize,
    table: u64,
    depth: u8,
    options: &RaceOptions,
) -> Result<Directory, RaceError> {
    let mut needed = directory_bytes(depth);
    let mut bad = BadRun::default();
    let deadline = cx.now() + options.deadline;
    loop {
        let mut bytes = Vec::with_capacity(needed);
        while bytes.len() < needed {
            let len = (needed - bytes.len()).min(READ_BYTES);
            let at = nodes.locate(Addr::new(node, table + bytes.len() as u64), len)?;
            let ticket = cx.read(at.peer, cx.buffer(len)?, at.remote)?;
            bytes.extend_from_slice(&cx.sync().await?.take(ticket));
        }
        match Directory::from_bytes(&bytes) {
            Ok(directory) => return Ok(directory),
            Err(BadDirectory::Longer { needed: bytes }) => needed = bytes,
            // It was doubled between two READs, or is corrupt: that lasts.
            Err(BadDirectory::Entry { .. }) if cx.now() < deadline => cx.sleep(options.wait).await,
            Err(_) => bad.bad(Addr::new(node, table))?,
        }
    }
}
