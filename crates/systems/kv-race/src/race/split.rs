//! Splitting: carries out the steps of `index::race`'s state machines.

use super::open::fill;
use super::operation::{KEY_BYTES_MAX, Operation};
use super::{Race, Shard};
use crate::error::RaceError;
use crate::mistake::Mistake;
use drover_index::race::split::{BucketMove, Division, Lock, MoveRequest, Outcome, Split, Step};
use drover_index::race::{
    BLOCK_UNIT, BUCKET_BYTES, Bucket, ENTRIES_OFFSET, Entry, GlobalDepth, Location, Slot,
};
use drover_memnode::block::{BLOCK_HEADER_BYTES, decode_block, key_of};
use drover_memnode::{Addr, BadRun, ClientId, MemoryError, Need, locks};
use drover_rt::{StageError, TaskCx, TaskError, Ticket};
use drover_verbs::Provider;

/// Buckets that are moved at the same time.
const BUCKETS: u32 = 16;
/// Most bytes that are READ of a block whose key is wanted.
const KEY_READ_BYTES: usize = (BLOCK_HEADER_BYTES + KEY_BYTES_MAX).next_multiple_of(BLOCK_UNIT);
/// Locks that are READ at a time.
const LOCKS: usize = 128;
/// Requests of a split that are outstanding at a time.
const REQUESTS: usize = 16;

impl<P: Provider> Operation<'_, P> {
    /// Splits the key's subtable, which is full, or waits while another client does.
    pub(super) async fn split(&mut self, entry: Entry) -> Result<(), RaceError> {
        let division = Division::new(self.location.directory_bits, entry.depth);
        let division = division.filter(|_| entry.depth < self.shard.header.depth_max);
        let division = division.ok_or(RaceError::TableFull)?;
        let mut splitter = self.race.splitter(self.cx, self.shard);
        if !splitter
            .try_lock(Lock::Subtable(division.suffix()), TakeFrom::Nobody)
            .await?
        {
            self.wait().await?;
            return self.refresh(entry).await;
        }
        let split = splitter.run(Split::new(division), TakeFrom::Nobody).await;
        if split.is_err() {
            self.race.0.has_left_locks.set(true);
        }
        match split? {
            Outcome::NoMemory => Err(MemoryError::Full {
                node: self.shard.node,
            }
            .into()),
            Outcome::Busy => self.wait().await,
            Outcome::Split | Outcome::AlreadySplit | Outcome::Nothing => self.refresh(entry).await,
        }
    }
}

impl<P: Provider> Race<P> {
    /// Finishes the splits that the clients `dead` have left.
    pub(super) async fn resume(
        &self,
        cx: &TaskCx<P>,
        shard: &Shard,
        dead: &[ClientId],
    ) -> Result<(), RaceError> {
        let _pin = self.nodes().pin(shard.node);
        let mut splitter = self.splitter(cx, shard);
        for first in (0..1 << shard.header.depth_max).step_by(LOCKS) {
            for (suffix, word) in (first..).zip(splitter.read_locks(first).await?) {
                let lock = Lock::Subtable(suffix);
                if dead.contains(&word.owner()) && splitter.try_lock(lock, TakeFrom::Dead).await? {
                    if self.makes(Mistake::LeavesSplits) {
                        splitter.unlock(lock).await?;
                        continue;
                    }
                    self.0.count(|stats| stats.resumed += 1);
                    let resumed = splitter.run(Split::resume(suffix), TakeFrom::Dead).await;
                    if resumed.is_err() {
                        self.0.has_left_locks.set(true);
                    }
                    resumed?;
                }
            }
        }
        Ok(())
    }

    /// Locks of subtables that are held now, by whomever.
    ///
    /// # Errors
    /// [`RaceError`] if a READ failed.
    pub async fn held_locks(&self, cx: &TaskCx<P>) -> Result<Vec<locks::Lock>, RaceError> {
        let mut held = Vec::new();
        for shard in &self.0.shards {
            self.refresh(cx, shard).await?;
            let depth = shard.directory.borrow().global().depth;
            for first in (0..1 << depth).step_by(LOCKS) {
                let locks = self.splitter(cx, shard).read_locks(first).await?;
                held.extend(locks.into_iter().filter(|lock| !lock.is_free()));
            }
        }
        Ok(held)
    }

    fn splitter<'a>(&'a self, cx: &'a TaskCx<P>, shard: &'a Shard) -> Splitter<'a, P> {
        Splitter {
            race: self,
            cx,
            shard,
            bad: BadRun::default(),
        }
    }
}

/// From whom a split takes locks that are held.
#[derive(Clone, Copy)]
enum TakeFrom {
    Nobody,
    /// From any client that was shut out, also where another one's split is resumed: of two clients that have died one may have the
    /// directory's lock, for which the other one's split waits. Whatever the directory's changes had come to, both can be resumed in
    /// any order.
    Dead,
}

/// A client that splits a subtable, whose lock it has.
struct Splitter<'a, P: Provider> {
    race: &'a Race<P>,
    cx: &'a TaskCx<P>,
    shard: &'a Shard,
    bad: BadRun,
}

/// A request of a bucket's move that has a result.
enum Asked {
    Buckets(Ticket, Ticket),
    Block(u8, Slot, Ticket),
    Slot(u8, Ticket),
    Nothing,
}

impl<P: Provider> Splitter<'_, P> {
    fn addr(&self, offset: u64) -> Addr {
        Addr::new(self.shard.node, offset)
    }

    fn lock_addr(&self, lock: Lock) -> Addr {
        let header = &self.shard.header;
        let offset = match lock {
            Lock::Directory => header.directory_lock(),
            Lock::Subtable(suffix) => header.subtable_lock(suffix),
        };
        self.addr(self.shard.table + offset)
    }

    /// Carries out `split` to its end.
    async fn run(&mut self, mut split: Split, from: TakeFrom) -> Result<Outcome, RaceError> {
        loop {
            match split.step() {
                Step::Acquire(lock) => {
                    while !self.try_lock(lock, from).await? {
                        self.cx.sleep(self.race.0.options.wait).await;
                    }
                    split.done();
                }
                Step::Release(lock) => {
                    self.unlock(lock).await?;
                    split.done();
                }
                Step::ReadDirectory => {
                    self.race.read_directory(self.cx, self.shard).await?;
                    split.directory_read(&self.shard.directory.borrow());
                }
                Step::Allocate => split.allocated(self.allocate().await?),
                Step::Prepare { subtable, header } => {
                    let slots = [Slot::EMPTY; drover_index::race::SLOTS];
                    let line = Bucket { header, slots }.to_bytes();
                    let bytes = self.shard.header.shape.bytes() as usize;
                    fill(self.cx, self.race.nodes(), self.addr(subtable), bytes, &line).await?;
                    split.done();
                }
                Step::WriteDepth(global) => {
                    self.write_depth(global).await?;
                    split.done();
                }
                Step::WriteEntries(entries) => {
                    self.write_entries(&entries).await?;
                    split.done();
                }
                Step::MoveBuckets { old, new } => {
                    self.move_buckets(&split, old, new, BucketMove::new).await?;
                    split.done();
                }
                Step::ClearBuckets { old, new } => {
                    self.move_buckets(&split, old, new, BucketMove::clearing).await?;
                    split.done();
                }
                Step::Finished(outcome) => {
                    let splits = u64::from(outcome == Outcome::Split);
                    self.race.0.count(|stats| stats.splits += splits);
                    return Ok(outcome);
                }
            }
        }
    }

    /// READs subtables' locks from that of suffix `first` on.
    async fn read_locks(&self, first: u32) -> Result<Vec<locks::Lock>, RaceError> {
        let bytes = 8 * LOCKS.min(1 << self.shard.header.depth_max);
        let at = self.lock_addr(Lock::Subtable(first));
        let at = self.race.nodes().locate(at, bytes)?;
        let ticket = self.cx.read(at.peer, self.cx.buffer(bytes)?, at.remote)?;
        let read = self.cx.sync().await?.take(ticket);
        let words = read.as_chunks::<8>().0.iter();
        Ok(words
            .map(|word| locks::Lock::from_bits(u64::from_le_bytes(*word)))
            .collect())
    }

    /// Takes a lock that is free, or that a dead client has left. It is never taken from a client that may be alive.
    async fn try_lock(&self, lock: Lock, from: TakeFrom) -> Result<bool, RaceError> {
        let own = self.race.nodes().pool().new_lock();
        let mut expect = locks::Lock::FREE;
        loop {
            let at = self
                .race
                .nodes()
                .locate_to_write(self.cx, self.lock_addr(lock), 8)?;
            let ticket = self.cx.cas(at.peer, at.remote, expect.bits(), own.bits())?;
            let completed = self.cx.sync().await;
            if completed.is_err() {
                // It may have taken effect.
                self.race.0.has_left_locks.set(true);
            }
            let was = completed?.value(ticket);
            if was == expect.bits() {
                return Ok(true);
            }
            let holder = locks::Lock::from_bits(was);
            let may_take = match from {
                TakeFrom::Dead => self.is_dead(holder).await?,
                TakeFrom::Nobody => self.race.makes(Mistake::StealsLocks) && self.is_old(holder),
            };
            if !may_take {
                return Ok(false);
            }
            expect = holder;
        }
    }

    /// Whether the client that has a lock is dead.
    async fn is_dead(&self, holder: locks::Lock) -> Result<bool, RaceError> {
        let (nodes, node) = (self.race.nodes(), self.shard.node);
        Ok(nodes.owner_is_dead(self.cx, node, holder).await?)
    }

    /// Whether this thread has found `holder` four times in a row: for a client that steals locks.
    fn is_old(&self, holder: locks::Lock) -> bool {
        let (last, count) = self.race.0.met.get();
        let count = if last == holder.bits() { count + 1 } else { 1 };
        self.race.0.met.set((holder.bits(), count));
        count > 4
    }

    async fn unlock(&self, lock: Lock) -> Result<(), RaceError> {
        self.stage_words(self.lock_addr(lock), [locks::Lock::FREE.bits()].into_iter())?;
        self.cx.sync().await?;
        Ok(())
    }

    async fn allocate(&self) -> Result<Option<u64>, RaceError> {
        let bytes = self.shard.header.shape.bytes() as usize;
        let arena = &self.race.0.arena;
        match arena
            .alloc(self.cx, self.shard.node, bytes, Need::Essential)
            .await
        {
            Ok(addr) => Ok(Some(addr.offset())),
            Err(MemoryError::Full { .. } | MemoryError::Quota { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn write_depth(&self, global: GlobalDepth) -> Result<(), RaceError> {
        self.stage_words(self.addr(self.shard.table), [global.word()].into_iter())?;
        self.cx.sync().await?;
        Ok(())
    }

    /// WRITEs entries in order.
    async fn write_entries(&self, entries: &[(u32, Entry)]) -> Result<(), RaceError> {
        let first = self.shard.table + ENTRIES_OFFSET as u64;
        for batch in entries.chunks(REQUESTS) {
            for (index, entry) in batch {
                let addr = self.addr(first + u64::from(*index) * 8);
                self.stage_words(addr, [entry.word()].into_iter())?;
            }
            self.cx.sync().await?;
        }
        Ok(())
    }

    /// Stages a WRITE of some words.
    fn stage_words(&self, addr: Addr, words: impl ExactSizeIterator<Item = u64>) -> Result<(), RaceError> {
        let mut buffer = self.cx.buffer(words.len() * 8)?;
        for (to, word) in buffer.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let at = self.race.nodes().locate_to_write(self.cx, addr, buffer.len())?;
        self.cx.write(at.peer, buffer, at.remote)?;
        Ok(())
    }

    async fn move_buckets(
        &mut self,
        split: &Split,
        old: u64,
        new: u64,
        begin: fn(Division) -> BucketMove,
    ) -> Result<(), RaceError> {
        let division = split.division().expect("known when buckets move");
        let count = self.shard.header.shape.bucket_count();
        let mut next = 0;
        let mut moves: Vec<(u32, BucketMove)> = Vec::new();
        while next < count || !moves.is_empty() {
            while next < count && moves.len() < BUCKETS as usize {
                moves.push((next, begin(division)));
                next += 1;
            }
            self.step(&mut moves, division, old, new).await?;
            moves.retain(|(_, bucket)| !bucket.is_done());
        }
        Ok(())
    }

    /// Carries out the next step of every bucket.
    async fn step(
        &mut self,
        moves: &mut [(u32, BucketMove)],
        division: Division,
        old: u64,
        new: u64,
    ) -> Result<(), RaceError> {
        let mut requests = Vec::new();
        for (at, (_, bucket)) in moves.iter().enumerate() {
            bucket.requests(|request| requests.push((at, request)));
        }
        // A READ must see the CAS before it.
        let batch = if self.race.0.reads.sees_earlier {
            REQUESTS
        } else {
            1
        };
        for batch in requests.chunks(batch) {
            let mut asked = Vec::with_capacity(batch.len());
            for (at, request) in batch {
                let offset = u64::from(moves[*at].0) * BUCKET_BYTES as u64;
                let staged = loop {
                    match self.stage(*request, old + offset, new + offset) {
                        // Other tasks have what it takes, for a while; the lock is held meanwhile.
                        Err(RaceError::Memory(MemoryError::Task(TaskError::Stage(
                            StageError::NoBuffer { .. } | StageError::NoWord,
                        )))) => self.cx.sleep(self.race.0.options.wait).await,
                        staged => break staged?,
                    }
                };
                asked.push((*at, staged));
            }
            let mut completed = self.cx.sync().await?;
            for (at, asked) in asked {
                let bucket = &mut moves[at].1;
                match asked {
                    Asked::Buckets(new, old) => {
                        let (new, old) = (completed.take(new), completed.take(old));
                        let read = bucket.buckets_read(
                            new.first_chunk().expect("a bucket was READ"),
                            old.first_chunk().expect("a bucket was READ"),
                        );
                        if read.is_err() {
                            self.bad.bad(Addr::new(self.shard.node, self.shard.table))?;
                        }
                    }
                    Asked::Block(slot, entry, ticket) => {
                        let block = completed.take(ticket);
                        match self.location_of(entry, &block) {
                            Some(location) => {
                                self.bad.good();
                                bucket.block_read(slot, division.moves(location.directory_bits));
                            }
                            // It is asked for again.
                            None => self.bad.bad(Addr::new(self.shard.node, self.shard.table))?,
                        }
                    }
                    Asked::Slot(slot, ticket) => {
                        bucket.slot_was(slot, Slot::from_word(completed.value(ticket)));
                    }
                    Asked::Nothing => {}
                }
            }
        }
        moves.iter_mut().for_each(|(_, bucket)| bucket.advance());
        Ok(())
    }

    /// Where the key of an entry belongs, by the beginning of its block; `None` if that is broken.
    fn location_of(&self, entry: Slot, bytes: &[u8]) -> Option<Location> {
        let is_whole = entry.block().is_some_and(|block| block.bytes() == bytes.len());
        let key = match is_whole {
            true => decode_block(bytes).ok()?.key,
            // Without a checksum the fingerprint must do.
            false => key_of(bytes)?,
        };
        let location = Location::new(self.race.0.hasher.hash(key), self.shard.header.shape);
        (location.fingerprint == entry.fingerprint()).then_some(location)
    }

    /// Stages a request about the buckets at these offsets.
    fn stage(&self, request: MoveRequest, old: u64, new: u64) -> Result<Asked, RaceError> {
        let cas = |offset, expect, set| {
            let at = self.race.nodes().locate_to_write(self.cx, self.addr(offset), 8)?;
            Ok::<_, RaceError>(self.cx.cas(at.peer, at.remote, expect, set)?)
        };
        let read = |offset, bytes| {
            let at = self.race.nodes().locate(self.addr(offset), bytes)?;
            Ok::<_, RaceError>(self.cx.read(at.peer, self.cx.buffer(bytes)?, at.remote)?)
        };
        let slot_at = |slot: u8| Bucket::slot_offset(slot.into()) as u64;
        Ok(match request {
            MoveRequest::CasHeader { expect, set } => {
                cas(old, expect.word(), set.word())?;
                Asked::Nothing
            }
            MoveRequest::ReadBuckets => Asked::Buckets(read(new, BUCKET_BYTES)?, read(old, BUCKET_BYTES)?),
            MoveRequest::ReadBlock { slot, entry } => match entry.block() {
                Some(block) => {
                    let bytes = block.bytes().min(KEY_READ_BYTES);
                    Asked::Block(slot, entry, read(block.addr, bytes)?)
                }
                None => Asked::Nothing,
            },
            MoveRequest::CasSlot { slot, expect, set } => {
                Asked::Slot(slot, cas(old + slot_at(slot), expect.word(), set.word())?)
            }
            MoveRequest::WriteSlots(slots) => {
                let words = slots.into_iter().map(Slot::word);
                self.stage_words(self.addr(new + slot_at(0)), words)?;
                Asked::Nothing
            }
            MoveRequest::WriteHeader(header) => {
                self.stage_words(self.addr(new), [header.word()].into_iter())?;
                Asked::Nothing
            }
            MoveRequest::ClearSlot { slot } => {
                self.stage_words(self.addr(old + slot_at(slot)), [0].into_iter())?;
                Asked::Nothing
            }
        })
    }
}
