//! [`Operation`]: what all operations on a key do: look at its buckets, wait, CAS a slot.

use super::{Race, Shard};
use crate::costs;
use crate::error::RaceError;
use crate::mistake::Mistake;
use drover_base::Ns;
use drover_index::race::{Candidates, Entry, Header, Location, PAIR_BYTES, Slot, SlotId, Verdict};
use drover_memnode::block::BLOCK_HEADER_BYTES;
use drover_memnode::{Addr, BadRun, Class, EpochPin, MemoryError};
use drover_rt::{Completed, TaskCx, Ticket};
use drover_verbs::Provider;

/// Longest key, bytes. The shortest is 1.
pub(super) const KEY_BYTES_MAX: usize = 250;

/// An operation on a key. While it lives, no block that it may have a pointer to is used again.
pub(super) struct Operation<'a, P: Provider> {
    pub(super) race: &'a Race<P>,
    pub(super) cx: &'a TaskCx<P>,
    pub(super) shard: &'a Shard,
    pub(super) key: &'a [u8],
    pub(super) location: Location,
    /// What the last look saw.
    pub(super) view: View,
    pub(super) pin: EpochPin<P>,
    /// Broken structures in a row.
    pub(super) bad: BadRun,
    pub(super) deadline: Ns,
    /// Size of the block for which there was no memory.
    pub(super) wanted: Option<Class>,
}

/// Copies of a key's buckets, of the right subtable.
pub(super) struct View {
    pub(super) candidates: Candidates,
    /// The directory's entry that led there.
    pub(super) entry: Entry,
    /// The buckets of the subtable that is being split, if some entries are still there, and the four headers of the new ones.
    pub(super) old: Option<(Candidates, [Header; 4])>,
}

/// Who looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Looker {
    /// Looks at the old buckets, too, where the new ones are pending.
    Reader,
    /// Waits until no bucket is pending.
    Writer,
}

impl<P: Provider> Drop for Operation<'_, P> {
    fn drop(&mut self) {
        // What an operation that failed has staged is not posted.
        drop(self.cx.sync());
    }
}

impl<P: Provider> Race<P> {
    // An operation is large: it is built where it stays.
    #[inline(always)]
    pub(super) fn begin<'a>(
        &'a self,
        cx: &'a TaskCx<P>,
        key: &'a [u8],
    ) -> Result<Operation<'a, P>, RaceError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(RaceError::TooLarge);
        }
        self.charge(costs::BEGIN);
        let hash = self.0.hasher.hash(key);
        let shard = &self.0.shards[hash.partition_index(self.0.shards.len())];
        let location = Location::new(hash, shard.header.shape);
        Ok(Operation {
            race: self,
            cx,
            shard,
            key,
            location,
            view: View {
                candidates: Candidates::new(location),
                entry: shard.entry(location.directory_bits),
                old: None,
            },
            pin: self.nodes().pin(shard.node),
            bad: BadRun::default(),
            deadline: cx.now() + self.0.options.deadline,
            wanted: None,
        })
    }
}

impl<'a, P: Provider> Operation<'a, P> {
    /// The address at an offset of the shard's node, which was READ from there.
    pub(super) fn addr(&self, offset: u64) -> Addr {
        Addr::new(self.shard.node, offset & ((1 << 48) - 1))
    }

    /// Waits about a round trip.
    pub(super) async fn wait(&self) -> Result<(), RaceError> {
        if self.cx.now() >= self.deadline {
            return Err(RaceError::Deadline);
        }
        self.race.0.count(|stats| stats.waits += 1);
        self.cx.sleep(self.race.0.options.wait).await;
        Ok(())
    }

    /// Stages READs of both pairs in a subtable.
    pub(super) fn stage_pairs(&self, subtable: u64) -> Result<[Ticket; 2], RaceError> {
        let stage = |choice| {
            let addr = self.addr(subtable + self.location.pair_offset(choice));
            let at = self.race.nodes().locate(addr, PAIR_BYTES)?;
            let ticket = self.cx.read(at.peer, self.cx.buffer(PAIR_BYTES)?, at.remote)?;
            Ok::<_, RaceError>(ticket)
        };
        Ok([stage(0)?, stage(1)?])
    }

    /// Takes what [`stage_pairs`](Operation::stage_pairs) asked for into the view; false if those are no buckets: begin anew.
    #[inline]
    pub(super) fn take_pairs(
        &mut self,
        completed: &mut Completed<'_, P>,
        tickets: [Ticket; 2],
        subtable: u64,
    ) -> Result<bool, RaceError> {
        self.race.charge(costs::LOOK);
        let [first, second] = tickets.map(|ticket| completed.take(ticket));
        let is_good = self.view.candidates.fill([&first, &second]).is_ok();
        if !is_good {
            self.bad.bad(self.addr(subtable))?;
        }
        Ok(is_good)
    }

    /// READs both pairs in a subtable into the view; false: begin anew.
    pub(super) async fn read_pairs(&mut self, subtable: u64) -> Result<bool, RaceError> {
        let tickets = self.stage_pairs(subtable)?;
        let mut completed = self.cx.sync().await?;
        self.take_pairs(&mut completed, tickets, subtable)
    }

    /// Looks at the key's buckets until they are those of the right subtable. Posts what is staged with the first READs.
    pub(super) async fn look(&mut self, looker: Looker) -> Result<(), RaceError> {
        loop {
            let entry = self.shard.entry(self.location.directory_bits);
            (self.view.entry, self.view.old) = (entry, None);
            if !self.read_pairs(entry.subtable).await? {
                self.count_reread();
                continue;
            }
            match self.view.candidates.verdict(entry.depth) {
                Verdict::Here { .. } => return Ok(()),
                Verdict::Elsewhere if self.race.makes(Mistake::TrustsDirectory) => return Ok(()),
                Verdict::Pending if self.race.makes(Mistake::IgnoresPending) => return Ok(()),
                Verdict::Pending if looker == Looker::Reader => {
                    if self.look_at_old().await? {
                        return Ok(());
                    }
                }
                Verdict::Pending => self.wait().await?,
                Verdict::Elsewhere => self.refresh(entry).await?,
            }
        }
    }

    /// What was READ is READ again.
    #[cold]
    pub(super) fn count_reread(&self) {
        self.race.0.count(|stats| stats.rereads += 1);
    }

    /// READs the directory, whose entry for the key is out of date.
    pub(super) async fn refresh(&self, stale: Entry) -> Result<(), RaceError> {
        self.count_reread();
        if self.shard.entry(self.location.directory_bits) == stale {
            self.race.refresh(self.cx, self.shard).await?;
            if self.shard.entry(self.location.directory_bits) == stale {
                self.wait().await?;
            }
        }
        Ok(())
    }

    /// READs the pairs in the subtable that is being split, where entries of pending buckets still are; false: begin anew.
    async fn look_at_old(&mut self) -> Result<bool, RaceError> {
        let (new, entry) = (self.view.candidates, self.view.entry);
        let headers = new.headers();
        let pending = headers.iter().find(|header| header.pending);
        let depth = pending.map_or(0, |header| header.depth);
        let directory_bits = self.location.directory_bits;
        let old = self.shard.directory.borrow().split_from(directory_bits, depth);
        let Some(old) = old else {
            self.refresh(entry).await?;
            return Ok(false);
        };
        if !self.read_pairs(old.subtable).await? {
            return Ok(false);
        }
        let old = self.view.candidates;
        let Some(candidates) = new.with_old(&old) else {
            self.refresh(entry).await?;
            return Ok(false);
        };
        (self.view.candidates, self.view.old) = (candidates, Some((old, headers)));
        Ok(true)
    }

    /// The address of a slot in the subtable that was looked at.
    pub(super) fn slot_addr(&self, id: SlotId) -> Addr {
        self.addr(self.view.entry.subtable + id.offset())
    }

    /// Stages a CAS of a word.
    pub(super) fn stage_cas(&self, addr: Addr, expect: u64, set: u64) -> Result<Ticket, RaceError> {
        self.race.charge(costs::CAS);
        let at = self.race.nodes().locate_to_write(self.cx, addr, 8)?;
        Ok(self.cx.cas(at.peer, at.remote, expect, set)?)
    }

    /// CASes a slot. Returns whether it had the expected word.
    ///
    /// # Errors
    /// [`RaceError::Indeterminate`] if it is unknown whether the slot was changed.
    pub(super) async fn cas(&mut self, addr: Addr, expect: Slot, set: Slot) -> Result<bool, RaceError> {
        let ticket = self.stage_cas(addr, expect.word(), set.word())?;
        match self.cx.sync().await {
            Ok(completed) if completed.value(ticket) == expect.word() => Ok(true),
            Ok(_) => {
                self.race.charge(costs::RETRY);
                Ok(false)
            }
            Err(_) => self.resolve(addr, set).await,
        }
    }

    /// A CAS to `set` has failed, perhaps after it took effect: if the word is there, it was this one, since the block
    /// is ours.
    async fn resolve(&mut self, addr: Addr, set: Slot) -> Result<bool, RaceError> {
        let unknown = RaceError::Indeterminate;
        let at = self.race.nodes().locate(addr, 8)?;
        let buffer = self.cx.buffer(8).map_err(|_| unknown)?;
        let ticket = self.cx.read(at.peer, buffer, at.remote).map_err(|_| unknown)?;
        let mut completed = self.cx.sync().await.map_err(|_| unknown)?;
        let word = u64::from_le_bytes(completed.take(ticket)[..].try_into().expect("8 bytes"));
        match set != Slot::EMPTY && word == set.word() {
            true => Ok(true),
            false => Err(unknown),
        }
    }

    /// Length of a READ of an entry's block.
    ///
    /// # Errors
    /// [`MemoryError::BadPointer`] if it cannot be one.
    pub(super) fn block(&self, slot: Slot) -> Result<(Addr, usize), MemoryError> {
        let block = slot.block().filter(|block| block.bytes() >= BLOCK_HEADER_BYTES);
        let bad = MemoryError::BadPointer {
            addr: Addr::from_bits(slot.word()),
            bytes: 0,
        };
        let block = block.ok_or(bad)?;
        Ok((self.addr(block.addr), block.bytes()))
    }
}
