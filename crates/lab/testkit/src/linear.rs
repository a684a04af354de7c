//! Checks whether a history of one key is linearizable. Keys are independent, so each is checked alone.
//!
//! Two searches give the same verdicts: `blocks` for histories of PUT, GET and DELETE in which no value is put twice,
//! which are those of key-value systems under test, and `plain` for all others. Tests compare the two.

mod blocks;
mod plain;

use crate::history::{Call, Event};
use std::collections::{BTreeMap, BTreeSet};

/// Semantics to check a key against. A key has no value at the start of its history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// A register: a value stays until it is overwritten or deleted.
    Register,
    /// A cached register: the value may vanish at any moment, but an old value never comes back.
    Cache,
}

/// Maximum number of configurations that [`is_linearizable`] remembers; histories of tests must not need more.
const CONFIGURATIONS_MAX: usize = 1 << 20;

/// Whether the operations of one key, which may be in any order in `events`, are linearizable: some order of them, each
/// between its call and its return, explains every reply. Operations that never returned may take effect at any time
/// after their call, or never. Cost: exponential in the number that overlap at once, linear in the rest.
///
/// # Panics
/// If so many operations overlap that the search would have to remember more than 2^20 configurations (sets of
/// operations done, with the value).
pub fn is_linearizable(events: &[Event], model: Model) -> bool {
    let events = &without_the_unseen(events, model);
    search(events, model, Vec::new(), u64::MAX, CONFIGURATIONS_MAX)
        .unwrap_or_else(|| panic!("more overlap than can be searched: {events:?}"))
}

fn search(
    events: &[Event],
    model: Model,
    before: Vec<Vec<usize>>,
    unknown_until: u64,
    configurations_max: usize,
) -> Option<bool> {
    if blocks::applies(events, unknown_until) {
        return blocks::search(events, model, &before, unknown_until, configurations_max);
    }
    plain::Search::new(events, model, before, unknown_until, configurations_max).run()
}

/// Limits of a stricter check than [`is_linearizable`]: operations of one client take effect in the order of recording,
/// and operations without a reply take effect before a given time or never.
#[derive(Clone, Copy, Debug)]
pub struct Strict {
    /// Operations that never returned take effect before this time, on the clock of the events, or never. `u64::MAX`:
    /// no limit.
    pub unknown_until: u64,
    /// Maximum number of configurations (sets of operations done, with the value) that the search remembers; if it
    /// needs more, it gives up.
    pub configurations_max: usize,
}

impl Strict {
    /// As [`is_linearizable`], but two operations of one client also take effect in the order in which `events` lists
    /// them, unless both are GETs or the first never returned. `None`: the search gave up at
    /// [`configurations_max`](Strict::configurations_max).
    pub fn is_linearizable(&self, events: &[Event], model: Model) -> Option<bool> {
        let events = without_the_unseen(events, model);
        let before = before(&events);
        search(
            &events,
            model,
            before,
            self.unknown_until,
            self.configurations_max,
        )
    }
}

/// Per event, the events that must have happened before it, though they returned later than it was called.
fn before(events: &[Event]) -> Vec<Vec<usize>> {
    let reads = |event: &Event| matches!(event.call, Call::Get(_));
    let mut of_client: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut before = Vec::with_capacity(events.len());
    for (at, this) in events.iter().enumerate() {
        let earlier = of_client.entry(this.client).or_default();
        let precedes = |&&earlier: &&usize| {
            let earlier = &events[earlier];
            !(reads(earlier) && reads(this))
                && earlier
                    .returned_at
                    .is_some_and(|returned_at| returned_at >= this.called_at)
        };
        before.push(earlier.iter().filter(precedes).copied().collect());
        earlier.push(at);
    }
    before
}

/// Leaves out unanswered operations that explain no answer: a GET; a PUT whose value no GET returned, called after the
/// last DELETE that found something had returned; a DELETE from a cache, where the value may vanish without it.
fn without_the_unseen(events: &[Event], model: Model) -> Vec<Event> {
    // Conditional updates and additions also reveal what was there.
    if events
        .iter()
        .any(|event| !matches!(event.call, Call::Put(_) | Call::Delete(_) | Call::Get(_)))
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
        _ => false,
    };
    events.iter().filter(matters).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Swapped;
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

    /// Every DELETE takes one of the unanswered PUTs, every absent GET needs an unanswered DELETE; which one makes no
    /// difference, so few states are needed.
    #[test]
    fn unanswered_operations_are_counted_instead_of_tried_one_by_one() {
        let unanswered = 40;
        let mut history = Vec::new();
        for id in 0..unanswered {
            history.push(event(Call::Put(id), 1, 0));
            history.push(event(Call::Delete(None), 1, 0));
        }
        let mut time = 10;
        for id in 0..unanswered {
            history.push(event(Call::Delete(Some(true)), time, time + 1));
            history.push(event(Call::Put(1000 + id), time + 2, time + 3));
            history.push(event(Call::Get(None), time + 4, time + 5));
            time += 10;
        }
        let strict = Strict {
            unknown_until: u64::MAX,
            configurations_max: 1000,
        };
        let judge = |history: &[Event]| strict.is_linearizable(history, Model::Register);
        assert_eq!(judge(&history), Some(true));
        let mut one_more = history.clone();
        one_more.push(event(Call::Delete(Some(true)), time, time + 1));
        assert_eq!(judge(&one_more), Some(false), "no PUT is left for it");
        history.push(event(Call::Put(2000), time, time + 1));
        history.push(event(Call::Get(None), time + 2, time + 3));
        assert_eq!(judge(&history), Some(false), "no DELETE is left for it");
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
    fn conditional_updates_see_what_was_there() {
        let both = |call, read| {
            let history = [
                event(Call::Put(1), 1, 2),
                event(call, 3, 4),
                event(Call::Get(read), 5, 6),
            ];
            is_linearizable(&history, Model::Register)
        };
        let insert = |done| Call::Insert { to: 2, done };
        assert!(both(insert(false), Some(1)) && !both(insert(true), Some(2)));
        let replace = |done| Call::Replace { to: 2, done };
        assert!(both(replace(true), Some(2)) && !both(replace(false), Some(1)));
        let remove = |from, said| Call::Remove { from, said };
        assert!(both(remove(1, Swapped::Done), None) && both(remove(7, Swapped::Other), Some(1)));
        assert!(!both(remove(7, Swapped::Done), None) && !both(remove(1, Swapped::Missing), Some(1)));
        // Executed twice: the second time it finds what the first one wrote.
        assert!(!both(swap(1, 2, Swapped::Other), Some(2)));
        let absent = [
            event(Call::Replace { to: 3, done: true }, 1, 2),
            event(Call::Insert { to: 2, done: true }, 3, 4),
            event(Call::Get(Some(2)), 5, 6),
        ];
        assert!(!is_linearizable(&absent, Model::Register));
        assert!(is_linearizable(&absent[1..], Model::Register));
        let vanished = [event(Call::Put(1), 1, 2), event(insert(true), 3, 4)];
        assert!(!is_linearizable(&vanished, Model::Register) && is_linearizable(&vanished, Model::Cache));
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

    /// How a random history comes about: `(kind, client, length before, length after, fate)` per operation.
    type Draw = (u8, u32, u64, u64, u8);

    /// Executes operations one at a time and stretches their intervals. A `fate` below 3: the operation never returned
    /// (and did not happen if it is 0); 3 and 4: its answer is changed, so that the history may be wrong.
    fn drawn_history(draws: &[Draw]) -> Vec<Event> {
        let mut value = None;
        let mut history = Vec::new();
        for (i, &(kind, client, before, after, fate)) in draws.iter().enumerate() {
            let (id, time) = (i as u64, 100 + 10 * i as u64);
            let old = value;
            let mut call = match kind {
                0 | 1 => Call::Put(id),
                2 => Call::Delete(Some(value.is_some())),
                3 => Call::Delete(None),
                _ => Call::Get(value),
            };
            value = match call {
                Call::Put(id) => Some(id),
                Call::Delete(_) => None,
                _ => value,
            };
            if fate == 0 {
                value = old;
            }
            if fate == 3 {
                call = match call {
                    Call::Delete(found) => Call::Delete(found.map(|found| !found)),
                    Call::Get(None) => Call::Get(id.checked_sub(1 + before)),
                    Call::Get(Some(_)) => Call::Get((after > 2).then_some(id.saturating_sub(after))),
                    call => call,
                };
            }
            if fate == 4 && matches!(call, Call::Get(_)) {
                call = Call::Get(Some(id + after));
            }
            let returned_at = (fate >= 3).then_some(time + 1 + after * 7);
            history.push(Event {
                client,
                call,
                called_at: time - before * 7,
                returned_at,
            });
        }
        history
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// The search over blocks, the reductions before it and the search over single operations of the unreduced
        /// history agree: both models, with and without a client's order, with any deadline of unanswered operations.
        #[test]
        fn blocks_agree_with_single_operations(
            draws in prop::collection::vec((0u8..7, 0u32..3, 0u64..7, 0u64..7, prop_oneof![0u8..6, 0u8..20]), 1..13),
            unknown_until in prop_oneof![Just(u64::MAX), 90u64..250],
            in_order in any::<bool>(),
        ) {
            let history = drawn_history(&draws);
            for model in [Model::Register, Model::Cache] {
                let before = if in_order { before(&history) } else { Vec::new() };
                let expected = plain::Search::new(&history, model, before.clone(), unknown_until, 1 << 24).run();
                prop_assert!(expected.is_some());
                if blocks::applies(&history, unknown_until) {
                    let found = blocks::search(&history, model, &before, unknown_until, 1 << 24);
                    prop_assert_eq!(found, expected, "{:?} {:?}", model, history);
                }
                let strict = Strict { unknown_until, configurations_max: 1 << 24 };
                if in_order {
                    prop_assert_eq!(strict.is_linearizable(&history, model), expected, "{:?} {:?}", model, history);
                } else if unknown_until == u64::MAX {
                    prop_assert_eq!(Some(is_linearizable(&history, model)), expected, "{:?} {:?}", model, history);
                }
            }
        }
    }
}
