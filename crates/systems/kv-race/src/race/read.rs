//! Reading: blocks of entries that may be the key's, lookups, misses.

use super::operation::{Looker, Operation};
use crate::costs;
use crate::error::RaceError;
use crate::mistake::Mistake;
use drover_index::race::{Candidates, Slot, SlotId, SlotSet, Verdict};
use drover_mem::Buffer;
use drover_memnode::MemoryError;
use drover_memnode::block::{BLOCK_HEADER_BYTES, BlockMeta, Chain, decode_block};
use drover_rt::{StageError, TaskError, Ticket};
use drover_verbs::Provider;

/// Blocks that an operation READs in one list.
const BLOCKS: usize = 4;

/// The value of a key, in the buffer that it was READ into.
#[derive(Debug)]
pub struct Found {
    buffer: Buffer,
    start: usize,
    len: usize,
    /// The whole value, if it is longer than a block.
    pub(super) long: Vec<u8>,
    /// The version, which no other value of any key ever had.
    pub version: u64,
    /// The flags that it was written with.
    pub flags: u32,
    /// When it expires, in [`ItemMeta`](super::ItemMeta)'s terms.
    pub expire_s: u32,
}

impl Found {
    /// The value.
    pub fn value(&self) -> &[u8] {
        match self.long.is_empty() {
            true => &self.buffer[self.start..self.start + self.len],
            false => &self.long,
        }
    }
}

/// A confirmed entry of the key.
pub(super) struct Match {
    pub(super) id: SlotId,
    pub(super) slot: Slot,
    /// Whether the item has neither expired nor was flushed.
    pub(super) is_live: bool,
    /// The way to the rest of the value.
    pub(super) chain: Chain,
    pub(super) found: Found,
}

/// What entries are the key's.
pub(super) enum Search {
    Found(Match),
    Missing,
    /// A block was broken: begin anew.
    Torn,
}

/// An entry whose block is being READ.
type Asked = (SlotId, Slot, Ticket);

/// Whether all buffers that are long enough are in use, as they are for a moment.
#[cold]
fn lacks_buffer(error: &RaceError) -> bool {
    let RaceError::Memory(MemoryError::Task(TaskError::Stage(error))) = error else {
        return false;
    };
    matches!(error, StageError::NoBuffer { .. })
}

impl<P: Provider> Operation<'_, P> {
    pub(super) async fn get(&mut self) -> Result<Option<Found>, RaceError> {
        let mut looker = Looker::Reader;
        loop {
            self.look(looker).await?;
            match self.find().await? {
                // To be removed where writers look, which is not the bucket that it may be moved from.
                Search::Found(found) if !found.is_live && looker == Looker::Reader => looker = Looker::Writer,
                Search::Found(found) if !found.is_live => {
                    if self.clear(&found).await? {
                        return Ok(None);
                    }
                }
                Search::Found(found) if found.chain.next().is_none() => return Ok(Some(found.found)),
                Search::Found(found) => {
                    if let Some(found) = self.complete(found).await? {
                        return Ok(Some(found.found));
                    }
                }
                Search::Missing if self.is_missing().await? => return Ok(None),
                Search::Missing | Search::Torn => {}
            }
        }
    }

    /// Looks for the key's entry among those with its fingerprint.
    #[inline]
    pub(super) fn find(&mut self) -> impl Future<Output = Result<Search, RaceError>> {
        let entries = self.view.candidates.matches();
        self.examine(entries)
    }

    /// READs the blocks of these entries, up to one with the key.
    pub(super) async fn examine(&mut self, mut entries: SlotSet) -> Result<Search, RaceError> {
        let mut search = Search::Missing;
        loop {
            let mut asked: [Option<Asked>; BLOCKS] = [None; BLOCKS];
            for place in &mut asked {
                let Some(one) = entries.pop() else { break };
                let (id, slot) = self.view.candidates.first(one);
                match self.stage_block(slot) {
                    Ok(ticket) => *place = Some((id, slot, ticket)),
                    Err(RaceError::Memory(MemoryError::BadPointer { addr, .. })) => {
                        self.bad.bad(addr)?;
                        search = Search::Torn;
                    }
                    Err(error) if lacks_buffer(&error) => {
                        // What is staged holds buffers that others wait for: this look begins anew.
                        drop(self.cx.sync());
                        self.wait().await?;
                        return Ok(Search::Torn);
                    }
                    Err(error) => return Err(error),
                }
            }
            if asked.iter().all(Option::is_none) {
                return Ok(search);
            }
            let mut completed = self.cx.sync().await?;
            for (id, slot, ticket) in asked.into_iter().flatten() {
                let buffer = completed.take(ticket);
                match self.check(id, slot, buffer)? {
                    Search::Missing => {}
                    Search::Torn => search = Search::Torn,
                    found => return Ok(found),
                }
            }
        }
    }

    fn stage_block(&self, slot: Slot) -> Result<Ticket, RaceError> {
        let (addr, bytes) = self.block(slot)?;
        let at = self.race.nodes().locate(addr, bytes)?;
        Ok(self.cx.read(at.peer, self.cx.buffer(bytes)?, at.remote)?)
    }

    /// Whether the block in `buffer` is the key's. The whole key counts, length included.
    fn check(&mut self, id: SlotId, slot: Slot, buffer: Buffer) -> Result<Search, RaceError> {
        self.race.charge(costs::BLOCK);
        let Ok(block) = decode_block(&buffer) else {
            // Blocks do not change, and this one was in use when the operation began.
            self.bad.bad(self.block(slot)?.0)?;
            self.count_reread();
            return Ok(Search::Torn);
        };
        self.bad.good();
        if block.key != self.key && !self.race.makes(Mistake::TrustsFingerprints) {
            self.race.0.count(|stats| stats.collisions += 1);
            return Ok(Search::Missing);
        }
        let is_live =
            self.race.is_live(self.cx, self.shard, &block.meta) || self.race.makes(Mistake::KeepsExpired);
        let BlockMeta {
            version,
            flags,
            expire_s,
            ..
        } = block.meta;
        let (start, len) = (BLOCK_HEADER_BYTES + block.key.len(), block.part.len());
        let chain = block.chain();
        Ok(Search::Found(Match {
            id,
            slot,
            is_live,
            chain,
            found: Found {
                buffer,
                start,
                len,
                long: Vec::new(),
                version,
                flags,
                expire_s,
            },
        }))
    }

    /// Whether the key certainly had no entry at some time during this operation, after [`find`](Operation::find) found
    /// none. If not, begin anew.
    ///
    /// A READ may see a bucket's header as it was before a split, and its slots as they were after it. And of a bucket
    /// that was pending, the old one is right only if it is pending still.
    pub(super) async fn is_missing(&mut self) -> Result<bool, RaceError> {
        let is_torn = self.race.0.reads.is_torn;
        if self.view.old.is_none() && !is_torn {
            return Ok(true);
        }
        let (seen, entry) = (self.view.candidates, self.view.entry);
        if !self.read_pairs(entry.subtable).await? {
            self.count_reread();
            return Ok(false);
        }
        let (again, old) = (self.view.candidates, &self.view.old);
        let headers = old.as_ref().map_or_else(|| seen.headers(), |old| old.1);
        let is_elsewhere = again.verdict(entry.depth) == Verdict::Elsewhere;
        if is_elsewhere || is_torn && again.headers() != headers {
            self.count_reread();
            return Ok(false);
        }
        let again = match old {
            Some((old, _)) => again.with_old(old),
            None => Some(again),
        };
        let is_alike = |again: Candidates| again.iter(again.matches()).eq(seen.iter(seen.matches()));
        let is_same = again.is_some_and(is_alike);
        if !is_same {
            self.count_reread();
        }
        Ok(is_same)
    }
}
