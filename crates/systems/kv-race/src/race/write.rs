//! Writing: updates, inserts, deletes.

use super::Race;
use super::operation::{Looker, Operation, View};
use super::pieces::Piece;
use super::read::{Found, Match, Search};
use crate::costs;
use crate::error::RaceError;
use crate::mistake::Mistake;
use drover_base::Condition;
use drover_index::race::{BLOCK_UNIT, BlockRef, Choice, Settled, Slot, SlotId, Verdict, settle};
use drover_memnode::block::{BlockMeta, Chain, Cut, encode_block};
use drover_memnode::{Addr, Class, Need};
use drover_rt::{ConflictGuard, TaskCx};
use drover_verbs::Provider;

/// Times that an insert gives way to another client's tentative entry before it removes that entry, whose client may be
/// gone. *(our choice)*
const PATIENCE: u32 = 16;

/// What belongs to an item besides key and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ItemMeta {
    /// The caller's.
    pub flags: u32,
    /// Seconds of the node's clock when it expires; 0: never.
    pub expire_s: u32,
}

/// What the block that replaces an item's says besides the new value.
pub(super) struct Successor {
    pub(super) meta: ItemMeta,
    /// The item's version; `None`: a new one.
    pub(super) version: Option<u64>,
}

impl Successor {
    /// That of another value.
    pub(super) fn changed(meta: ItemMeta) -> Successor {
        Successor { meta, version: None }
    }
}

/// What came of an update whose outcome is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Updated {
    /// It took effect.
    Done,
    /// It did not: the key has no value, and the condition requires one.
    Missing,
    /// It did not: the key has a value, and the condition requires none, or another version.
    Exists,
}

impl Updated {
    /// Whether the update took effect.
    pub fn is_done(self) -> bool {
        self == Updated::Done
    }
}

/// A block that is about to be published.
struct NewBlock {
    addr: Addr,
    bytes: usize,
    /// What it links, if the value is longer than a block.
    pieces: Vec<Piece>,
    block: BlockRef,
    /// Whether others may have seen a slot that leads to it.
    was_seen: bool,
    /// Whether a slot may lead to it although the operation failed.
    may_stay: bool,
}

/// What an attempt to insert led to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Insert {
    Done,
    /// Begin anew.
    Again,
    /// Begin anew; another client's tentative entry came first.
    GaveWay,
}

impl<P: Provider> Race<P> {
    pub(super) async fn store(
        &self,
        cx: &TaskCx<P>,
        key: &[u8],
        value: &[u8],
        meta: ItemMeta,
        condition: Condition,
    ) -> Result<Updated, RaceError> {
        let mut guard = cx.conflict_guard().await;
        let mut operation = self.begin(cx, key)?;
        // Nothing is changed before there is memory for the item.
        let mut block = loop {
            match operation.stage_new_block(value, &Successor::changed(meta)).await {
                Err(error) if self.can_evict(&error) => operation = operation.make_room(error).await?,
                block => break block?,
            }
        };
        let stored = operation.store(&mut block, condition, &mut guard).await;
        if stored != Ok(Updated::Done) {
            operation.give_back(&block);
        }
        stored
    }
}

impl<P: Provider> Operation<'_, P> {
    /// Allocates a block for the key with `value`, and stages its WRITE.
    async fn stage_new_block(&mut self, value: &[u8], item: &Successor) -> Result<NewBlock, RaceError> {
        self.race.charge(costs::NEW);
        let (node, arena) = (self.shard.node, &self.race.0.arena);
        let cut = Cut::new(self.key.len(), value.len()).ok_or(RaceError::TooLarge)?;
        let units = cut.block_bytes().div_ceil(BLOCK_UNIT);
        let version = match item.version.or_else(|| arena.try_version(node)) {
            Some(version) => version,
            None => arena.version(self.cx, node).await?,
        };
        let bytes = units * BLOCK_UNIT;
        let pool = self.race.nodes().pool();
        let meta = BlockMeta {
            owner: pool.client(),
            flags: item.meta.flags,
            expire_s: item.meta.expire_s,
            created_s: pool.node(node).clock_s(self.cx.now()),
            version,
        };
        let pieces = match cut.piece_count() {
            0 => Vec::new(),
            _ => self.alloc_pieces(&cut).await?,
        };
        self.wanted = Class::of(bytes);
        let addr = match arena.try_alloc(node, bytes) {
            Some(addr) => Ok(addr),
            None => arena.alloc(self.cx, node, bytes, Need::Ordinary).await,
        };
        let addr = addr.inspect_err(|_| self.put_back(&pieces))?;
        let mut new = NewBlock {
            addr,
            bytes,
            pieces,
            block: BlockRef {
                addr: addr.offset(),
                units: units as u8,
            },
            was_seen: false,
            may_stay: false,
        };
        if let Err(error) = self.stage_block_write(&mut new, &meta, &cut, value).await {
            self.give_back(&new);
            return Err(error);
        }
        Ok(new)
    }

    /// WRITEs the pieces of a new block, and stages the WRITE of the block.
    async fn stage_block_write(
        &mut self,
        new: &mut NewBlock,
        meta: &BlockMeta,
        cut: &Cut,
        value: &[u8],
    ) -> Result<(), RaceError> {
        let first = new.pieces.first().map_or(Addr::NULL, |piece| piece.0);
        if !new.pieces.is_empty() {
            // A WRITE that failed may still be executed.
            new.may_stay = true;
            self.write_pieces(&new.pieces, meta, cut, value).await?;
            new.may_stay = false;
        }
        let mut buffer = self.buffer(new.bytes).await?;
        let used = encode_block(&mut buffer, meta, self.key, value, first);
        buffer[used..].fill(0);
        let at = self.race.nodes().locate_to_write(self.cx, new.addr, new.bytes)?;
        self.cx.write(at.peer, buffer, at.remote)?;
        Ok(())
    }

    fn put_back(&self, pieces: &[Piece]) {
        let arena = &self.race.0.arena;
        pieces
            .iter()
            .for_each(|&(addr, bytes)| arena.put_back(addr, bytes));
    }

    /// Frees a block that no slot leads to.
    fn give_back(&self, block: &NewBlock) {
        let arena = &self.race.0.arena;
        let own = (block.addr, block.bytes);
        let all = block.pieces.iter().copied().chain([own]);
        match (block.may_stay, block.was_seen) {
            // The mark pass finds it when this process is gone.
            (true, _) => {}
            (false, true) => all.for_each(|(addr, bytes)| arena.free(&self.pin, addr, bytes)),
            (false, false) => all.for_each(|(addr, bytes)| arena.put_back(addr, bytes)),
        }
    }

    /// Frees what an entry that this operation has replaced or removed leads to.
    async fn free(&self, slot: Slot, chain: Chain) {
        if self.race.makes(Mistake::FreesAtOnce)
            && let Ok((addr, bytes)) = self.block(slot)
        {
            return self.race.0.arena.put_back(addr, bytes);
        }
        if let Some(block) = slot.block() {
            let (cx, shard, pin) = (self.cx, self.shard, &self.pin);
            self.race.free(cx, shard, pin, block, chain).await;
        }
    }

    async fn store(
        &mut self,
        new: &mut NewBlock,
        condition: Condition,
        guard: &mut ConflictGuard<'_, P>,
    ) -> Result<Updated, RaceError> {
        let mut gave_way = 0;
        let needs_one = !condition.holds(None);
        // If the first READs fail, so may have the WRITE in their list: it may still be executed.
        new.may_stay = true;
        self.look(Looker::Writer).await?;
        new.may_stay = false;
        loop {
            match self.find().await? {
                Search::Torn => {}
                Search::Found(found) => {
                    if let Some(refused) = self.refusal(condition, &found) {
                        if found.is_live || self.clear(&found).await? {
                            return Ok(refused);
                        }
                    } else if found.slot.is_frozen() {
                        self.wait().await?;
                    } else {
                        let addr = self.slot_addr(found.id);
                        new.may_stay = true;
                        if self.cas(addr, found.slot, found.slot.replaced(new.block)).await? {
                            self.free(found.slot, found.chain).await;
                            return Ok(Updated::Done);
                        }
                        new.may_stay = false;
                        guard.retry().await;
                    }
                }
                Search::Missing if needs_one => {
                    if self.is_missing().await? {
                        return Ok(Updated::Missing);
                    }
                }
                Search::Missing => match self.view.candidates.choose() {
                    Choice::Wait => self.wait().await?,
                    Choice::Full => match self.split(self.view.entry).await {
                        Err(error) if self.race.can_evict(&error) => self.evict_beside(error).await?,
                        split => split?,
                    },
                    Choice::Slot(id) => {
                        let inserted = self.insert(id, new, gave_way >= PATIENCE).await?;
                        if inserted == Insert::Done {
                            return Ok(Updated::Done);
                        }
                        if inserted == Insert::GaveWay {
                            gave_way += 1;
                            self.race.0.count(|stats| stats.gave_way += 1);
                        }
                        guard.retry().await;
                    }
                },
            }
            self.look(Looker::Writer).await?;
        }
    }

    /// What a condition says about the entry that the key has; `None`: it holds.
    fn refusal(&self, condition: Condition, found: &Match) -> Option<Updated> {
        let present = found.is_live.then_some(found.found.version);
        let refused = match found.is_live {
            true => Updated::Exists,
            false => Updated::Missing,
        };
        let is_refused = !condition.holds(present) && !self.race.makes(Mistake::IgnoresConditions);
        is_refused.then_some(refused)
    }

    /// Inserts a tentative entry into an empty slot, looks whether the key has another one, and confirms it.
    async fn insert(&mut self, id: SlotId, new: &mut NewBlock, impatient: bool) -> Result<Insert, RaceError> {
        let entry = Slot::new(self.location.fingerprint, new.block, 0);
        let tentative = entry.tentative();
        let addr = self.slot_addr(id);
        // Until the slot is known not to lead there.
        (new.was_seen, new.may_stay) = (true, true);
        let Some(mut is_seen) = self.announce(addr, tentative).await? else {
            new.may_stay = false;
            return Ok(Insert::Again);
        };
        loop {
            let settled = match is_seen {
                _ if self.race.makes(Mistake::ConfirmsUnseen) => Settled::Confirm,
                true => self.settle(id, tentative, impatient).await?,
                false => Settled::GiveWay,
            };
            match settled {
                Settled::Confirm => {
                    let confirmed = self.cas(addr, tentative, entry).await?;
                    new.may_stay = false;
                    return Ok(if confirmed { Insert::Done } else { Insert::Again });
                }
                Settled::Remove(rival, word) => {
                    let rival = self.slot_addr(rival);
                    self.cas_away(rival, word).await?;
                    is_seen = self.read_pairs(self.view.entry.subtable).await?;
                }
                Settled::GiveWay | Settled::Exists => {
                    self.cas_away(addr, tentative).await?;
                    new.may_stay = false;
                    return Ok(match settled {
                        Settled::GiveWay => Insert::GaveWay,
                        _ => Insert::Again,
                    });
                }
            }
        }
    }

    /// CASes a tentative entry into an empty slot and READs both pairs behind that. `None`: the slot was not empty.
    async fn announce(&mut self, addr: Addr, tentative: Slot) -> Result<Option<bool>, RaceError> {
        let subtable = self.view.entry.subtable;
        let cas = self.stage_cas(addr, Slot::EMPTY.word(), tentative.word())?;
        if !self.race.0.reads.sees_earlier {
            let was = self.cx.sync().await?.value(cas);
            return match was == Slot::EMPTY.word() {
                true => Ok(Some(self.read_pairs(subtable).await?)),
                false => Ok(None),
            };
        }
        let tickets = self.stage_pairs(subtable)?;
        let mut completed = self.cx.sync().await?;
        if completed.value(cas) != Slot::EMPTY.word() {
            return Ok(None);
        }
        Ok(Some(self.take_pairs(&mut completed, tickets, subtable)?))
    }

    /// What to do about one's own tentative entry in slot `own`, after the READs behind it.
    async fn settle(&mut self, own: SlotId, tentative: Slot, impatient: bool) -> Result<Settled, RaceError> {
        let View {
            candidates, entry, ..
        } = &self.view;
        let is_here = matches!(candidates.verdict(entry.depth), Verdict::Here { .. });
        // A split, or another client, may have removed the entry.
        if !is_here || candidates.slot(own) != Some(tentative) {
            return Ok(Settled::Exists);
        }
        let mut same: Vec<(SlotId, Slot)> = Vec::new();
        let mut rivals = candidates.rivals(own);
        while let Some(rival) = rivals.pop() {
            match self.examine(rival).await? {
                Search::Found(_) => same.push(self.view.candidates.first(rival)),
                Search::Missing => {}
                // Its client has given up and used the block for something else.
                Search::Torn => return Ok(Settled::GiveWay),
            }
        }
        Ok(settle(own, same.iter().copied(), impatient))
    }

    /// CASes a tentative entry away, if it is still there.
    async fn cas_away(&mut self, addr: Addr, tentative: Slot) -> Result<(), RaceError> {
        let cas = self.stage_cas(addr, tentative.word(), Slot::EMPTY.word())?;
        self.cx.sync().await?.value(cas);
        Ok(())
    }

    /// Replaces the value, if there is one and `condition` holds, by what `change` puts into `value`, which is empty before.
    /// The block is written in the list of the CAS.
    pub(super) async fn modify(
        &mut self,
        condition: Condition,
        value: &mut Vec<u8>,
        change: &mut impl FnMut(&Found, &mut Vec<u8>) -> Successor,
        guard: &mut ConflictGuard<'_, P>,
    ) -> Result<Updated, RaceError> {
        loop {
            self.look(Looker::Writer).await?;
            match self.find().await? {
                Search::Torn => {}
                Search::Missing if self.is_missing().await? => return Ok(Updated::Missing),
                Search::Missing => {}
                Search::Found(found) if !found.is_live => {
                    if self.clear(&found).await? {
                        return Ok(Updated::Missing);
                    }
                }
                Search::Found(found) if !condition.holds(Some(found.found.version)) => {
                    return Ok(Updated::Exists);
                }
                Search::Found(found) if found.slot.is_frozen() => self.wait().await?,
                Search::Found(found) => {
                    let Some(found) = self.complete(found).await? else {
                        continue;
                    };
                    value.clear();
                    let item = change(&found.found, value);
                    let (id, slot, chain) = (found.id, found.slot, found.chain);
                    // The old value's buffer goes back before the new one's is waited for.
                    drop(found);
                    let new = self.stage_new_block(value, &item).await?;
                    let addr = self.slot_addr(id);
                    // If it fails, nobody knows whether the block is linked: it stays.
                    if self.cas(addr, slot, slot.replaced(new.block)).await? {
                        self.free(slot, chain).await;
                        return Ok(Updated::Done);
                    }
                    self.give_back(&new);
                    guard.retry().await;
                }
            }
        }
    }

    /// Removes the key's entry. Also one whose item has expired, before anybody is told that the key has no value: clocks
    /// of clients differ, and another client must not find the item afterwards. Returns whether it is gone; if not, begin anew.
    pub(super) async fn clear(&mut self, found: &Match) -> Result<bool, RaceError> {
        if found.slot.is_frozen() {
            self.wait().await?;
            return Ok(false);
        }
        let addr = self.slot_addr(found.id);
        let is_gone = self.cas(addr, found.slot, Slot::EMPTY).await?;
        if is_gone {
            self.free(found.slot, found.chain).await;
        }
        Ok(is_gone)
    }

    pub(super) async fn delete(
        &mut self,
        condition: Condition,
        guard: &mut ConflictGuard<'_, P>,
    ) -> Result<Updated, RaceError> {
        loop {
            self.look(Looker::Writer).await?;
            match self.find().await? {
                Search::Torn => {}
                Search::Missing if self.is_missing().await? => return Ok(Updated::Missing),
                Search::Missing => {}
                Search::Found(found) => {
                    let refused = self.refusal(condition, &found);
                    if let Some(refused) = refused.filter(|_| found.is_live) {
                        return Ok(refused);
                    }
                    if self.clear(&found).await? {
                        return Ok(match found.is_live {
                            true => Updated::Done,
                            false => Updated::Missing,
                        });
                    }
                    if !found.slot.is_frozen() {
                        guard.retry().await;
                    }
                }
            }
        }
    }
}
