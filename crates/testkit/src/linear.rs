//! Is a history of one key linearizable? Wing and Gong's search with Lowe's memory of configurations
//! `[Lowe17]`: try every operation that may come next, undo when stuck, never visit the same set of done
//! operations with the same value twice. Keys are independent, so each is checked alone.

use crate::history::{Call, Event, Swapped};
use std::collections::BTreeSet;

/// What a key is supposed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// A register: what was put stays until it is deleted.
    Register,
    /// A cached register: it may vanish at any moment, but an old value never comes back.
    Cache,
}

/// Whether some order of the operations, each between its call and its return, explains every answer.
/// Operations that never returned may be placed anywhere after their call. Cost: exponential in how many
/// overlap at once, linear in the rest.
///
/// # Panics
/// If more overlaps than a test should produce.
pub fn is_linearizable(events: &[Event], model: Model) -> bool {
    let left = without_the_unseen(events, model);
    let search = Search::new(&left, model, CONFIGURATIONS_MAX);
    search
        .run()
        .unwrap_or_else(|| panic!("more overlap than can be searched: {events:?}"))
}

/// What more can be asked of a history.
#[derive(Clone, Copy, Debug)]
pub struct Strict {
    /// Operations that never returned happen before this, or not at all.
    pub unknown_until: u64,
    /// More sets of done operations are not remembered: then there is no answer.
    pub configurations_max: usize,
}

impl Strict {
    /// As [`is_linearizable`], and operations of one client, of which one writes, happen in the order in which `events`
    /// has them. `None` when that takes more than may be remembered.
    pub fn is_linearizable(&self, events: &[Event], model: Model) -> Option<bool> {
        let events = without_the_unseen(events, model);
        let mut search = Search::until(&events, model, self.unknown_until, self.configurations_max);
        search.before = (0..events.len()).map(|at| before(&events, at)).collect();
        search.run()
    }
}

/// Which events must have happened before `events[at]`, though they returned later than it was called.
fn before(events: &[Event], at: usize) -> Vec<usize> {
    let this = &events[at];
    let reads = |event: &Event| matches!(event.call, Call::Get(_));
    let precedes = |&earlier: &usize| {
        let earlier = &events[earlier];
        earlier.client == this.client
            && !(reads(earlier) && reads(this))
            && earlier
                .returned_at
                .is_some_and(|returned_at| returned_at >= this.called_at)
    };
    (0..at).filter(precedes).collect()
}

/// Leaves out operations that never returned and that nobody can have noticed: a PUT whose value no GET
/// returned and no DELETE found may be placed behind everything, and a DELETE explains nothing that vanishing
/// does not. Without this every such operation would double the search.
fn without_the_unseen(events: &[Event], model: Model) -> Vec<Event> {
    // Who swaps or adds has seen what was there, too.
    if events
        .iter()
        .any(|event| matches!(event.call, Call::Swap { .. } | Call::Add { .. }))
    {
        return events.to_vec();
    }
    let seen: BTreeSet<u64> = events
        .iter()
        .filter_map(|event| match event.call {
            Call::Get(id) => id,
            _ => None,
        })
        .collect();
    // What a DELETE found has no name: it may be any value put before the DELETE returned.
    let last_found = events
        .iter()
        .filter(|event| event.call == Call::Delete(Some(true)))
        .filter_map(|event| event.returned_at)
        .max();
    let matters = |event: &&Event| match event.call {
        _ if event.returned_at.is_some() => true,
        Call::Put(id) => seen.contains(&id) || last_found.is_some_and(|at| event.called_at <= at),
        Call::Delete(_) => model == Model::Register,
        Call::Get(_) | Call::Swap { .. } | Call::Add { .. } => false,
    };
    events.iter().filter(matters).copied().collect()
}

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
        Call::Get(_) | Call::Swap { .. } => value,
    }
}

/// Calls and returns in time order as a doubly linked list, so that an operation is lifted out and put back
/// in constant time. Entry 0 is the head.
struct Search<'a> {
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

/// A history that needs more is one that a test should not produce.
const CONFIGURATIONS_MAX: usize = 1 << 20;
const END: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(events: &'a [Event], model: Model, configurations_max: usize) -> Search<'a> {
        Search::until(events, model, u64::MAX, configurations_max)
    }

    fn until(events: &'a [Event], model: Model, unknown_until: u64, configurations_max: usize) -> Search<'a> {
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
            before: Vec::new(),
        }
    }

    fn run(mut self) -> Option<bool> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(call: Call, called_at: u64, returned_at: u64) -> Event {
        let returned_at = (returned_at != 0).then_some(returned_at);
        Event {
            client: 0,
            call,
            called_at,
            returned_at,
        }
    }

    #[test]
    fn a_planted_stale_read_is_rejected() {
        let history = [
            event(Call::Put(1), 1, 2),
            event(Call::Put(2), 3, 4),
            event(Call::Get(Some(1)), 5, 6), // 2 was acknowledged before this began
        ];
        assert!(!is_linearizable(&history, Model::Register));
        assert!(!is_linearizable(&history, Model::Cache));
        assert!(is_linearizable(&history[..2], Model::Register));
    }

    #[test]
    fn a_lost_acknowledged_put_is_rejected_unless_caches_may_forget() {
        let history = [event(Call::Put(1), 1, 2), event(Call::Get(None), 3, 4)];
        assert!(!is_linearizable(&history, Model::Register));
        assert!(is_linearizable(&history, Model::Cache));
        let back = [history[0], history[1], event(Call::Get(Some(1)), 5, 6)];
        assert!(
            !is_linearizable(&back, Model::Cache),
            "an evicted value never comes back"
        );
    }

    #[test]
    fn overlapping_operations_may_take_either_order() {
        let history = [
            event(Call::Put(1), 1, 10),
            event(Call::Put(2), 2, 9),
            event(Call::Get(Some(1)), 11, 12),
        ];
        assert!(is_linearizable(&history, Model::Register));
    }

    /// A GET that was called after the PUT of the same client and came back before it.
    #[test]
    fn the_order_of_a_client_counts_if_asked_for() {
        let history = [event(Call::Put(1), 1, 9), event(Call::Get(None), 2, 5)];
        let strict = Strict {
            unknown_until: u64::MAX,
            configurations_max: 100,
        };
        let in_order = |history: &[Event]| strict.is_linearizable(history, Model::Register);
        assert_eq!(in_order(&history), Some(false));
        assert!(is_linearizable(&history, Model::Register));
        let [put, get] = history;
        assert_eq!(in_order(&[put, Event { client: 1, ..get }]), Some(true));
        let found = Event {
            call: Call::Get(Some(1)),
            ..get
        };
        assert_eq!(in_order(&[put, found]), Some(true));
    }

    #[test]
    fn what_is_unknown_happens_in_time_or_never() {
        let history = [
            event(Call::Put(1), 1, 0),
            event(Call::Get(None), 20, 21),
            event(Call::Get(Some(1)), 22, 23),
        ];
        let until = |unknown_until, history: &[Event]| {
            let strict = Strict {
                unknown_until,
                configurations_max: 100,
            };
            strict.is_linearizable(history, Model::Register)
        };
        assert_eq!(until(u64::MAX, &history), Some(true));
        assert_eq!(until(10, &history), Some(false), "it was not there at 20");
        assert_eq!(until(10, &history[..2]), Some(true), "it never happened");
        let seen = [history[0], history[2]];
        assert_eq!(until(10, &seen), Some(true), "it happened before 10");
    }

    #[test]
    fn two_readers_may_not_see_opposite_orders() {
        let history = [
            event(Call::Put(1), 1, 20),
            event(Call::Put(2), 1, 20),
            event(Call::Get(Some(1)), 2, 3),
            event(Call::Get(Some(2)), 4, 5),
            event(Call::Get(Some(1)), 6, 7),
        ];
        assert!(!is_linearizable(&history, Model::Register));
    }

    #[test]
    fn an_indeterminate_put_may_happen_late_or_never_but_only_once() {
        let put = event(Call::Put(1), 1, 0);
        let base = [put, event(Call::Get(None), 2, 3)];
        assert!(is_linearizable(&base, Model::Register));
        let late = [base[0], base[1], event(Call::Get(Some(1)), 5, 6)];
        assert!(is_linearizable(&late, Model::Register));
        let twice = [
            late[0],
            late[1],
            late[2],
            event(Call::Delete(Some(true)), 7, 8),
            event(Call::Get(Some(1)), 9, 10),
        ];
        assert!(!is_linearizable(&twice, Model::Register));
    }

    #[test]
    fn an_indeterminate_put_may_be_what_a_delete_found() {
        let history = [
            event(Call::Put(1), 1, 0),
            event(Call::Delete(Some(true)), 2, 3),
            event(Call::Get(None), 4, 5),
        ];
        assert!(is_linearizable(&history, Model::Register));
        assert!(is_linearizable(&history, Model::Cache));
        let twice = [history[0], history[1], event(Call::Delete(Some(true)), 4, 5)];
        assert!(
            !is_linearizable(&twice, Model::Register),
            "it can be found but once"
        );
    }

    fn swap(from: u64, to: u64, said: Swapped) -> Call {
        Call::Swap { from, to, said }
    }

    #[test]
    fn a_lost_update_is_rejected() {
        let swaps = |second| {
            let history = [
                event(Call::Put(1), 1, 2),
                event(swap(1, 2, Swapped::Done), 3, 6),
                event(swap(1, 3, second), 3, 6),
                event(Call::Get(Some(2)), 7, 8),
            ];
            is_linearizable(&history, Model::Register)
        };
        assert!(swaps(Swapped::Other));
        assert!(!swaps(Swapped::Done), "both cannot have found 1");
        assert!(!swaps(Swapped::Missing));
        let sums = |second| {
            let add = |sum| Call::Add { by: 1, sum };
            let history = [
                event(Call::Put(5), 1, 2),
                event(add(Some(6)), 3, 6),
                event(add(second), 3, 6),
            ];
            is_linearizable(&history, Model::Register)
        };
        assert!(sums(Some(7)) && !sums(Some(6)) && !sums(None));
    }

    #[test]
    fn what_was_not_answered_may_have_swapped_or_added() {
        let add = Call::Add { by: -2, sum: None };
        for (unknown, seen) in [(swap(9, 3, Swapped::Other), 3), (add, 7)] {
            let read = |id| {
                let history = [
                    event(Call::Put(9), 1, 2),
                    event(unknown, 3, 0),
                    event(Call::Get(Some(id)), 9, 10),
                ];
                is_linearizable(&history, Model::Register)
            };
            assert!(read(9) && read(seen) && !read(4));
        }
    }

    proptest! {
        /// Histories made by really executing operations one at a time, then stretching the intervals, pass;
        /// with one GET's answer replaced by a value never current in its interval, they fail.
        #[test]
        fn agrees_with_how_the_history_was_made(ops in prop::collection::vec((0u8..3, 0u64..6, 0u64..6), 1..40)) {
            let mut value = None;
            let mut history = Vec::new();
            for (i, &(kind, before, after)) in ops.iter().enumerate() {
                let at = 100 + 10 * i as u64;
                let call = match kind {
                    0 => { value = Some(i as u64); Call::Put(i as u64) }
                    1 => { let found = value.take().is_some(); Call::Delete(Some(found)) }
                    _ => Call::Get(value),
                };
                history.push(event(call, at - before * 7, at + 1 + after * 7));
            }
            prop_assert!(is_linearizable(&history, Model::Register));
            if let Some(get) = history.iter_mut().find(|e| matches!(e.call, Call::Get(_))) {
                get.call = Call::Get(Some(u64::MAX));
                prop_assert!(!is_linearizable(&history, Model::Register));
            }
        }
    }
}
