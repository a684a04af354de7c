//! Wing and Gong's search with Lowe's memory of configurations `[Lowe17]`: try every operation that may come next, undo
//! when stuck, never visit the same set of done operations with the same value twice.

use super::Model;
use crate::history::{Call, Event, Swapped};
use std::collections::BTreeSet;

/// The value after `event`, or `None` if it cannot have happened at `value`.
fn step(value: Option<u64>, event: &Event, model: Model) -> Option<Option<u64>> {
    let may_vanish = model == Model::Cache;
    let absent = (value.is_none() || may_vanish).then_some(None);
    match event.call {
        _ if event.returned_at.is_none() => Some(unanswered(value, event.call)),
        Call::Put(id) => Some(Some(id)),
        Call::Delete(None) => Some(None),
        Call::Delete(Some(true)) => value.is_some().then_some(None),
        Call::Delete(Some(false)) | Call::Get(None) => absent,
        Call::Get(Some(id)) => (value == Some(id)).then_some(value),
        Call::Swap { from, to, said } => match said {
            Swapped::Done => (value == Some(from)).then_some(Some(to)),
            Swapped::Other => value.is_some_and(|value| value != from).then_some(value),
            Swapped::Missing => absent,
        },
        Call::Insert { to, done: true } => absent.map(|_| Some(to)),
        Call::Insert { done: false, .. } => value.is_some().then_some(value),
        Call::Replace { to, done: true } => value.is_some().then_some(Some(to)),
        Call::Replace { done: false, .. } => absent,
        Call::Remove { from, said } => match said {
            Swapped::Done => (value == Some(from)).then_some(None),
            Swapped::Other => value.is_some_and(|value| value != from).then_some(value),
            Swapped::Missing => absent,
        },
        Call::Add { by, sum: Some(sum) } => {
            (value.map(|value| value.wrapping_add_signed(by)) == Some(sum)).then_some(Some(sum))
        }
        Call::Add { sum: None, .. } => absent,
    }
}

/// What an operation without an answer does, if it happens.
fn unanswered(value: Option<u64>, call: Call) -> Option<u64> {
    match call {
        Call::Put(id) => Some(id),
        Call::Delete(_) => None,
        Call::Swap { from, to, .. } if value == Some(from) => Some(to),
        Call::Add { by, .. } => value.map(|value| value.wrapping_add_signed(by)),
        Call::Insert { to, .. } if value.is_none() => Some(to),
        Call::Replace { to, .. } if value.is_some() => Some(to),
        Call::Remove { from, .. } if value == Some(from) => None,
        Call::Get(_)
        | Call::Swap { .. }
        | Call::Insert { .. }
        | Call::Replace { .. }
        | Call::Remove { .. } => value,
    }
}

/// Calls and returns in time order as a doubly linked list, so that an operation is lifted out and put back
/// in constant time. Entry 0 is the head.
pub(super) struct Search<'a> {
    events: &'a [Event],
    model: Model,
    entries: Vec<Entry>,
    /// By event.
    call_entry: Vec<usize>,
    configurations_max: usize,
    /// Per event, those that must be done before; empty: no such order.
    before: Vec<Vec<usize>>,
}

#[derive(Clone, Copy)]
struct Entry {
    event_index: usize,
    /// Entry of the return, for calls.
    return_entry: Option<usize>,
    prev: usize,
    next: usize,
}

const END: usize = usize::MAX;

impl<'a> Search<'a> {
    /// Operations that never returned happen before `unknown_until`, or not at all. `before`: per event, the events
    /// that must be done first; empty if there is no such order.
    pub(super) fn new(
        events: &'a [Event],
        model: Model,
        before: Vec<Vec<usize>>,
        unknown_until: u64,
        configurations_max: usize,
    ) -> Search<'a> {
        // (time, returns after calls of the same instant, event, is_return)
        let mut points: Vec<(u64, bool, usize)> = Vec::with_capacity(events.len() * 2);
        for (i, event) in events.iter().enumerate() {
            points.push((event.called_at, false, i));
            points.push((
                event.returned_at.unwrap_or(unknown_until.max(event.called_at)),
                true,
                i,
            ));
        }
        points.sort_unstable();
        let mut entries = vec![Entry {
            event_index: END,
            return_entry: None,
            prev: END,
            next: END,
        }];
        let mut call_entry = vec![0; events.len()];
        for (_, is_return, event_index) in points {
            let this = entries.len();
            entries[this - 1].next = this;
            entries.push(Entry {
                event_index,
                return_entry: None,
                prev: this - 1,
                next: END,
            });
            if is_return {
                let call: usize = call_entry[event_index];
                entries[call].return_entry = Some(this);
            } else {
                call_entry[event_index] = this;
            }
        }
        Search {
            events,
            model,
            entries,
            call_entry,
            configurations_max,
            before,
        }
    }

    /// Whether some order explains every answer; `None` if that takes more configurations than may be remembered.
    pub(super) fn run(mut self) -> Option<bool> {
        let mut done = vec![0u64; self.events.len().div_ceil(64)];
        let mut value: Option<u64> = None;
        let mut seen: BTreeSet<(Vec<u64>, Option<u64>)> = BTreeSet::new();
        let mut stack: Vec<(usize, Option<u64>)> = Vec::new();
        let mut at = self.entries[0].next;
        while self.entries[0].next != END {
            let entry = self.entries[at];
            if let Some(return_entry) = entry.return_entry {
                if let Some(after) = step(value, &self.events[entry.event_index], self.model)
                    && self.may_follow(entry.event_index, &done)
                {
                    set(&mut done, entry.event_index, true);
                    if seen.len() >= self.configurations_max {
                        return None;
                    }
                    if seen.insert((done.clone(), after)) {
                        stack.push((at, value));
                        value = after;
                        self.unlink(at);
                        self.unlink(return_entry);
                        at = self.entries[0].next;
                        continue;
                    }
                    set(&mut done, entry.event_index, false);
                }
                at = entry.next;
            } else {
                // One that never returned may never have happened.
                if self.events[entry.event_index].returned_at.is_none() {
                    set(&mut done, entry.event_index, true);
                    if seen.insert((done.clone(), value)) {
                        let call = self.call_entry[entry.event_index];
                        stack.push((call, value));
                        self.unlink(call);
                        self.unlink(at);
                        at = self.entries[0].next;
                        continue;
                    }
                    set(&mut done, entry.event_index, false);
                }
                // An operation returned before it could be placed: undo the last choice.
                let Some((call, before)) = stack.pop() else {
                    return Some(false);
                };
                let event_index = self.entries[call].event_index;
                set(&mut done, event_index, false);
                value = before;
                let return_entry = self.entries[call]
                    .return_entry
                    .expect("only calls are on the stack");
                self.relink(return_entry);
                self.relink(call);
                at = self.entries[call].next;
            }
        }
        Some(true)
    }

    /// Everything that must be done before this event is.
    fn may_follow(&self, event_index: usize, done: &[u64]) -> bool {
        let Some(before) = self.before.get(event_index) else {
            return true;
        };
        before.iter().all(|&at| done[at / 64] >> (at % 64) & 1 == 1)
    }

    fn unlink(&mut self, entry: usize) {
        let Entry { prev, next, .. } = self.entries[entry];
        self.entries[prev].next = next;
        if next != END {
            self.entries[next].prev = prev;
        }
    }

    fn relink(&mut self, entry: usize) {
        let Entry { prev, next, .. } = self.entries[entry];
        self.entries[prev].next = entry;
        if next != END {
            self.entries[next].prev = entry;
        }
    }
}

fn set(bits: &mut [u64], index: usize, on: bool) {
    let bit = 1u64 << (index % 64);
    if on {
        bits[index / 64] |= bit;
    } else {
        bits[index / 64] &= !bit;
    }
}
