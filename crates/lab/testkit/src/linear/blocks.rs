//! The search over *blocks*, for histories of PUT, GET and DELETE in which no value is put twice.
//!
//! A **block** is a PUT together with all GETs that returned its value, or a single DELETE, or a single GET that found
//! nothing. The search places whole blocks `[Gibbons97]`; between two blocks it only needs to know whether there is a value.
//!
//! # Why this gives the same verdict as the search over single operations
//!
//! **A PUT and its GETs are consecutive.** Values are unique, so once another operation changes the value, no later GET
//! can return it. An operation between the PUT and its last GET would have to leave the value in place, and only GETs
//! of the same value do. After the last GET no operation asks for this value by name, so "a value" or "no value" is
//! the whole state. The GETs of one block commute. Therefore block M must precede block N exactly if some operation
//! of M must precede some operation of N: M's first return is before N's last call, or the order of a client says so.
//!
//! **An unanswered PUT whose value was read happened**, before the first GET of it and before its own deadline: it is
//! the PUT of an ordinary block that returned at its deadline.
//!
//! **Other unanswered operations are spares.** A spare PUT is an unanswered PUT whose value no GET returned; a spare
//! DELETE is an unanswered DELETE. Take an explanation with as few of them as possible, and the operation after a spare.
//! If the spare is a PUT, then without it the explanation could only fail at a DELETE that found something: a PUT
//! overwrites the spare value, and a DELETE without an answer, an answer "nothing found" (possible after a PUT in a cache
//! only, where the value may vanish) or the end need no value. If the spare is a DELETE, it can only be needed by an
//! answer "nothing found" of a register; in a cache the value may vanish without it. So a spare PUT stands directly
//! before a DELETE that found something where there was no value, a spare DELETE directly before a "nothing found"
//! of a register where there was a value, and all others never happened. No operation has to wait for a spare.
//!
//! **Spares are interchangeable.** All spares have the same deadline ([`applies`] excludes histories where they do not).
//! Once a spare may happen (it was called, the operations that must precede it are done) it stays possible until the
//! deadline, when all become impossible at once. So the search counts the spares used, and compares the count with
//! how many may happen now. If the same blocks were done with the same state and no more spares used, the search has
//! been here before.
//!
//! **Forced move.** A "nothing found" that may come next where there is no value is taken at once. It changes nothing,
//! and an explanation that has it later stays valid with it first: a register was empty at the later point as well, or
//! was emptied by a spare DELETE, which does not need the GET; in a cache any continuation from "no value" is possible
//! from "a value". The one exception is an operation called after the deadline of spares, because spares may have to
//! come before it.
//!
//! **End of the state.** If no block is left whose answer depends on the state (in a cache: DELETEs that found
//! something; in a register "nothing found" as well), any order that respects precedence will do.

use super::Model;
use crate::history::{Call, Event};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the blocks of this history can be searched: no conditional updates, no additions, every value is put once, and all
/// operations without an answer have the same deadline.
pub(super) fn applies(events: &[Event], unknown_until: u64) -> bool {
    let mut values = BTreeSet::new();
    events.iter().all(|event| {
        let in_time = event.returned_at.is_some() || event.called_at <= unknown_until;
        match event.call {
            Call::Put(id) => in_time && values.insert(id),
            Call::Delete(_) => in_time,
            Call::Get(_) => true,
            Call::Swap { .. }
            | Call::Insert { .. }
            | Call::Replace { .. }
            | Call::Remove { .. }
            | Call::Add { .. } => false,
        }
    })
}

/// Whether some order explains every answer; `None` if that takes more than `configurations_max` remembered states.
/// `before`: per event, the events that must be done first; empty if there is no such order.
///
/// Cost: O(n log n) plus, per block, the blocks that are open at the same time; exponential in these only where
/// DELETEs and absent keys leave a choice.
pub(super) fn search(
    events: &[Event],
    model: Model,
    before: &[Vec<usize>],
    unknown_until: u64,
    configurations_max: usize,
) -> Option<bool> {
    let Some(history) = History::new(events, model, before, unknown_until) else {
        return Some(false);
    };
    let mut search = Search::new(&history);
    // Cheap, and finds most wrong histories: blocks that must precede each other.
    if !search.take_rest() {
        return Some(false);
    }
    search.undo(0, State::new(&history));
    search.run(configurations_max)
}

/// What a block asks of the state, and what it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// PUT and its GETs: leaves a value.
    Write,
    /// DELETE that did not say what it found: leaves none.
    Erase,
    /// DELETE that found a value: needs one, leaves none.
    Take,
    /// GET or DELETE that found nothing: needs that there is no value.
    Absent,
}

/// Operations that are consecutive in every explanation.
#[derive(Debug)]
struct Block {
    kind: Kind,
    /// The earliest return of an operation in it.
    first_return: u64,
    /// The latest call.
    last_call: u64,
    /// Blocks that a client's order puts first, by index.
    needs: Vec<usize>,
}

/// An unanswered PUT that no GET returned, or an unanswered DELETE.
#[derive(Debug)]
struct Spare {
    called_at: u64,
    /// As in [`Block`].
    needs: Vec<usize>,
}

/// A history as blocks.
#[derive(Debug)]
struct History {
    model: Model,
    /// Deadline of spares.
    unknown_until: u64,
    /// By first return.
    blocks: Vec<Block>,
    spare_puts: Vec<Spare>,
    spare_deletes: Vec<Spare>,
    /// Per block, those with a later first return that are open when it returns. One after the other.
    open: Vec<usize>,
    /// Per block, where its part of `open` begins; one more for the end.
    open_at: Vec<usize>,
}

impl History {
    /// `None` if a GET returned a value before its PUT was called, or one that has no PUT.
    fn new(events: &[Event], model: Model, before: &[Vec<usize>], unknown_until: u64) -> Option<History> {
        let mut history = History {
            model,
            unknown_until,
            blocks: Vec::new(),
            spare_puts: Vec::new(),
            spare_deletes: Vec::new(),
            open: Vec::new(),
            open_at: Vec::new(),
        };
        let mut block_of = history.form_blocks(events)?;
        history.sort_blocks(&mut block_of);
        history.order(events, before, &block_of)?;
        history.find_open();
        Some(history)
    }

    /// Makes the blocks; returns the block of each event, if it has one.
    fn form_blocks(&mut self, events: &[Event]) -> Option<Vec<Option<usize>>> {
        let mut block_of: Vec<Option<usize>> = vec![None; events.len()];
        // The PUT of each value.
        let mut puts: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            if let Call::Put(id) = event.call {
                puts.insert(id, at);
            }
            if let (Some(kind), Some(returned_at)) = (kind(event), event.returned_at) {
                block_of[at] = Some(self.blocks.len());
                self.blocks.push(Block {
                    kind,
                    first_return: returned_at,
                    last_call: event.called_at,
                    needs: Vec::new(),
                });
            }
        }
        for (at, event) in events.iter().enumerate() {
            let (Call::Get(Some(id)), Some(returned_at)) = (event.call, event.returned_at) else {
                continue;
            };
            let &put = puts.get(&id)?;
            if returned_at < events[put].called_at {
                return None;
            }
            let block = *block_of[put].get_or_insert_with(|| {
                // Its PUT was not answered, but happened.
                self.blocks.push(Block {
                    kind: Kind::Write,
                    first_return: self.unknown_until,
                    last_call: events[put].called_at,
                    needs: Vec::new(),
                });
                self.blocks.len() - 1
            });
            block_of[at] = Some(block);
            let block = &mut self.blocks[block];
            block.first_return = block.first_return.min(returned_at);
            block.last_call = block.last_call.max(event.called_at);
        }
        Some(block_of)
    }

    /// Sorts the blocks by first return.
    fn sort_blocks(&mut self, block_of: &mut [Option<usize>]) {
        let mut order: Vec<usize> = (0..self.blocks.len()).collect();
        order.sort_by_key(|&block| self.blocks[block].first_return);
        let mut place = vec![0; order.len()];
        for (at, &block) in order.iter().enumerate() {
            place[block] = at;
        }
        self.blocks.sort_by_key(|block| block.first_return);
        for block in block_of.iter_mut().flatten() {
            *block = place[*block];
        }
    }

    /// Writes down what a client's order puts before each block and spare. `None` if it puts a GET before the PUT of its
    /// value.
    fn order(&mut self, events: &[Event], before: &[Vec<usize>], block_of: &[Option<usize>]) -> Option<()> {
        for (at, event) in events.iter().enumerate() {
            let before = before.get(at).map_or(&[][..], Vec::as_slice);
            let needs = before.iter().filter_map(|&earlier| block_of[earlier]);
            match (block_of[at], event.call) {
                (Some(block), call) => {
                    let is_put = matches!(call, Call::Put(_));
                    for need in needs {
                        if need != block {
                            self.blocks[block].needs.push(need);
                        } else if is_put {
                            return None;
                        }
                    }
                }
                (None, Call::Put(_)) => self.spare_puts.push(Spare {
                    called_at: event.called_at,
                    needs: needs.collect(),
                }),
                (None, Call::Delete(_)) if self.model == Model::Register => {
                    self.spare_deletes.push(Spare {
                        called_at: event.called_at,
                        needs: needs.collect(),
                    });
                }
                (None, _) => {}
            }
        }
        Some(())
    }

    fn find_open(&mut self) {
        let mut by_call: Vec<usize> = (0..self.blocks.len()).collect();
        by_call.sort_by_key(|&block| self.blocks[block].last_call);
        let mut next_calls = by_call.into_iter().peekable();
        let mut open: Vec<usize> = Vec::new();
        self.open_at.push(0);
        for at in 0..self.blocks.len() {
            let now = self.blocks[at].first_return;
            while let Some(block) = next_calls.next_if(|&block| self.blocks[block].last_call <= now) {
                open.push(block);
            }
            open.retain(|&block| block > at);
            open.sort_unstable();
            self.open.extend_from_slice(&open);
            self.open_at.push(self.open.len());
        }
    }

    /// Blocks after `block` that are open when it returns.
    fn open(&self, block: usize) -> &[usize] {
        &self.open[self.open_at[block]..self.open_at[block + 1]]
    }

    /// Whether the answer of such a block depends on the state.
    fn depends(&self, kind: Kind) -> bool {
        kind == Kind::Take || (kind == Kind::Absent && self.model == Model::Register)
    }
}

/// The kind of an event that has a block of its own if it was answered.
fn kind(event: &Event) -> Option<Kind> {
    match event.call {
        Call::Put(_) => Some(Kind::Write),
        Call::Delete(None) => Some(Kind::Erase),
        Call::Delete(Some(true)) => Some(Kind::Take),
        Call::Delete(Some(false)) | Call::Get(None) => Some(Kind::Absent),
        Call::Get(Some(_))
        | Call::Swap { .. }
        | Call::Insert { .. }
        | Call::Replace { .. }
        | Call::Remove { .. }
        | Call::Add { .. } => None,
    }
}

/// How many spares have happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Used {
    puts: usize,
    deletes: usize,
}

/// Where the search is, besides the set of done blocks.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The first block that is not done.
    low: usize,
    /// There is a value.
    present: bool,
    used: Used,
    /// Blocks not done whose answer depends on the state.
    depending: usize,
    /// Blocks done that were called after the deadline of spares.
    late: usize,
}

impl State {
    fn new(history: &History) -> State {
        let blocks = history.blocks.iter();
        State {
            low: 0,
            present: false,
            used: Used { puts: 0, deletes: 0 },
            depending: blocks.filter(|block| history.depends(block.kind)).count(),
            late: 0,
        }
    }
}

/// A choice, and how to come back to it.
struct Choice {
    state: State,
    /// How many blocks were done.
    done_count: usize,
    /// What has not been tried, best last.
    left: Vec<usize>,
}

struct Search<'a> {
    history: &'a History,
    state: State,
    /// By block.
    done: Vec<bool>,
    /// Blocks done, in order.
    trail: Vec<usize>,
    /// By state and done blocks: spares used when the search was there.
    seen: BTreeMap<Box<[u64]>, Vec<Used>>,
    seen_count: usize,
}

impl<'a> Search<'a> {
    fn new(history: &'a History) -> Search<'a> {
        Search {
            history,
            state: State::new(history),
            done: vec![false; history.blocks.len()],
            trail: Vec::with_capacity(history.blocks.len()),
            seen: BTreeMap::new(),
            seen_count: 0,
        }
    }

    fn run(mut self, configurations_max: usize) -> Option<bool> {
        let mut choices: Vec<Choice> = Vec::new();
        loop {
            self.take_forced();
            if self.state.depending == 0 {
                // The blocks can be ordered: this was tried at the start.
                return Some(true);
            }
            if !self.seen_before() {
                if self.seen_count > configurations_max {
                    return None;
                }
                choices.push(Choice {
                    state: self.state,
                    done_count: self.trail.len(),
                    left: self.moves(),
                });
            }
            let block = loop {
                let Some(choice) = choices.last_mut() else {
                    return Some(false);
                };
                if let Some(block) = choice.left.pop() {
                    let (done_count, state) = (choice.done_count, choice.state);
                    self.undo(done_count, state);
                    break block;
                }
                choices.pop();
            };
            self.take(block);
        }
    }

    /// Back to when `done_count` blocks were done.
    fn undo(&mut self, done_count: usize, state: State) {
        for block in self.trail.drain(done_count..) {
            self.done[block] = false;
        }
        self.state = state;
    }

    /// Does every block that may come next, whatever the state. False if some must precede each other.
    fn take_rest(&mut self) -> bool {
        while self.state.low < self.done.len() {
            let low = self.state.low;
            let mut next = std::iter::once(&low).chain(self.history.open(low));
            let Some(&block) = next.find(|&&block| self.may_come_next(block)) else {
                return false;
            };
            self.mark_done(block);
        }
        true
    }

    /// Does what nothing can be gained by doing later.
    fn take_forced(&mut self) {
        while !self.state.present && self.state.low < self.done.len() {
            let low = self.state.low;
            let mut next = std::iter::once(&low).chain(self.history.open(low));
            let Some(&block) = next.find(|&&block| self.is_forced(block) && self.may_come_next(block)) else {
                return;
            };
            self.take(block);
        }
    }

    fn is_forced(&self, block: usize) -> bool {
        let History {
            blocks,
            unknown_until,
            spare_puts,
            spare_deletes,
            ..
        } = self.history;
        let in_time = blocks[block].last_call <= *unknown_until;
        let no_spare = self.state.late > 0 || (spare_puts.is_empty() && spare_deletes.is_empty());
        blocks[block].kind == Kind::Absent && (in_time || no_spare)
    }

    /// Everything that must precede this block is done, and it is not.
    fn may_come_next(&self, block: usize) -> bool {
        let History { blocks, .. } = self.history;
        let low = self.state.low;
        // The first return among the other blocks that are not done.
        let bound = match block == low {
            false => blocks[low].first_return,
            true => {
                let after = (low + 1..blocks.len()).find(|&other| !self.done[other]);
                after.map_or(u64::MAX, |other| blocks[other].first_return)
            }
        };
        !self.done[block]
            && blocks[block].last_call <= bound
            && blocks[block].needs.iter().all(|&need| self.done[need])
    }

    /// A spare is left that may happen now.
    fn has_spare(&self, spares: &[Spare], used: usize) -> bool {
        let first_return = self.history.blocks[self.state.low].first_return;
        let may_happen = |spare: &&Spare| {
            spare.called_at <= first_return && spare.needs.iter().all(|&need| self.done[need])
        };
        self.state.late == 0 && spares.iter().filter(may_happen).nth(used).is_some()
    }

    /// Blocks that can come next, best last.
    fn moves(&self) -> Vec<usize> {
        let low = self.state.low;
        let next = std::iter::once(&low).chain(self.history.open(low));
        let mut moves: Vec<(u8, usize)> = next
            .filter(|&&block| self.may_come_next(block))
            .filter_map(|&block| Some((self.rank(block)?, block)))
            .collect();
        moves.sort_unstable_by(|one, other| other.cmp(one));
        moves.into_iter().map(|(_, block)| block).collect()
    }

    /// Smaller: to be tried earlier. `None`: its answer is wrong now. The order matters for speed only: what returns
    /// first comes first, a value is used before it is overwritten, and spares are used last.
    fn rank(&self, block: usize) -> Option<u8> {
        let History {
            model,
            blocks,
            spare_puts,
            spare_deletes,
            ..
        } = self.history;
        let is_low = block == self.state.low;
        let used = self.state.used;
        match (blocks[block].kind, self.state.present) {
            (Kind::Take, true) => Some(0),
            (Kind::Write | Kind::Erase, _) if is_low => Some(1),
            (Kind::Write | Kind::Erase, _) => Some(3),
            (Kind::Absent, false) => Some(0),
            (Kind::Absent, true) if *model == Model::Cache => Some(if is_low { 2 } else { 4 }),
            (Kind::Absent, true) => {
                self.has_spare(spare_deletes, used.deletes)
                    .then_some(if is_low { 2 } else { 5 })
            }
            (Kind::Take, false) => self.has_spare(spare_puts, used.puts).then_some(6),
        }
    }

    /// Does a block, with the spare that it needs.
    fn take(&mut self, block: usize) {
        let kind = self.history.blocks[block].kind;
        match (kind, self.state.present) {
            (Kind::Take, false) => self.state.used.puts += 1,
            (Kind::Absent, true) if self.history.model == Model::Register => self.state.used.deletes += 1,
            _ => {}
        }
        self.state.present = kind == Kind::Write;
        self.mark_done(block);
    }

    fn mark_done(&mut self, block: usize) {
        let Block { kind, last_call, .. } = self.history.blocks[block];
        self.done[block] = true;
        self.trail.push(block);
        self.state.depending -= usize::from(self.history.depends(kind));
        self.state.late += usize::from(last_call > self.history.unknown_until);
        while self.done.get(self.state.low) == Some(&true) {
            self.state.low += 1;
        }
    }

    /// Whether the search was here with no more spares used; if not, remembers that it is.
    fn seen_before(&mut self) -> bool {
        let used = self.state.used;
        let key = self.key();
        let seen = self.seen.entry(key).or_default();
        let no_worse = |seen: &Used| seen.puts <= used.puts && seen.deletes <= used.deletes;
        if seen.iter().any(no_worse) {
            return true;
        }
        seen.push(used);
        self.seen_count += 1;
        false
    }

    /// The state and the set of done blocks. Blocks before the first that is not done are done; of those after it, only
    /// blocks that are open when it returns can be.
    fn key(&self) -> Box<[u64]> {
        let State { low, present, .. } = self.state;
        let open = self.history.open(low);
        let mut key = vec![0u64; 1 + open.len().div_ceil(64)];
        key[0] = (low as u64) << 1 | u64::from(present);
        for (at, &block) in open.iter().enumerate() {
            key[1 + at / 64] |= u64::from(self.done[block]) << (at % 64);
        }
        key.into_boxed_slice()
    }
}
