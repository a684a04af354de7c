//! A look at every slot keeps the order of turns.

use drover_slots::layout::{Commit, SlotOp, Status};
use drover_slots::server::{LookAround, SlotState, Turn};
use proptest::prelude::*;
use std::cell::Cell;

const WINDOW: u32 = 8;

/// Requests 0, 1, 2 ... arrive in order, so many before each look at a slot as `arrivals` says; those taken.
fn taken(arrivals: &[u8], mut around: LookAround) -> Vec<u64> {
    let mut states = vec![SlotState::UNUSED; WINDOW as usize];
    let mut turn = Turn::FIRST;
    let (looks, here) = (Cell::new(0), Cell::new(0u64));
    let load = |slot: u32| {
        let more = arrivals.get(looks.get()).copied().unwrap_or(0);
        looks.set(looks.get() + 1);
        here.set((here.get() + u64::from(more)).min(u64::from(WINDOW)));
        let turn = Turn::of(u64::from(slot), WINDOW.trailing_zeros());
        match u64::from(slot) < here.get() {
            true => Commit::new(SlotOp::Put, turn.seq, 3, 0, false).0,
            false => 0,
        }
    };
    let mut found = Vec::new();
    while let Some((slot, commit)) = around.next(turn, &states, load) {
        let state = &mut states[slot as usize];
        state.take(commit);
        state.finish(Status::Ok);
        turn = turn.skip_done(&states);
        found.push(u64::from(slot));
    }
    found
}

/// The first is not there yet, then both come, then the second is there.
const RACE: &[u8] = &[0, 2];

#[test]
fn one_that_came_meanwhile_is_not_overtaken() {
    assert_eq!(taken(RACE, LookAround::from(Turn::FIRST)), [0, 1]);
}

#[test]
fn without_a_second_look_it_would_be() {
    let mut hasty = LookAround::from(Turn::FIRST);
    hasty.go_on();
    assert_eq!(taken(RACE, hasty), [1]);
}

#[test]
fn what_is_behind_a_lost_one_is_found() {
    let states = vec![SlotState::UNUSED; WINDOW as usize];
    let load = |slot: u32| Commit::new(SlotOp::Put, 1, 3, 0, false).0 * u64::from(slot == 5);
    let mut around = LookAround::from(Turn::FIRST);
    let found = around.next(Turn::FIRST, &states, load).expect("there");
    assert_eq!(found.0, 5);
    assert!(around.next(Turn::FIRST, &states, |_| 0).is_none());
}

proptest! {
    #[test]
    fn nothing_is_taken_out_of_turn_where_nothing_is_lost(arrivals in prop::collection::vec(0u8..3, 0..40)) {
        let found = taken(&arrivals, LookAround::from(Turn::FIRST));
        prop_assert!(found.iter().copied().eq(0..found.len() as u64), "{found:?}");
    }
}
