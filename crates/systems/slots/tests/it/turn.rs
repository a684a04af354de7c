//! Which slot comes next.

use drover_slots::server::{SlotState, Turn};
fn fresh(window: usize) -> Vec<SlotState> {
    vec![SlotState::UNUSED; window]
}

#[test]
fn turns_go_round() {
    let mut turn = Turn::FIRST;
    for r in 0..20u64 {
        assert_eq!(turn, Turn::of(r, 2));
        turn = turn.next(4);
    }
    assert_eq!(
        Turn {
            slot: 3,
            seq: u32::MAX
        }
        .next(4),
        Turn { slot: 0, seq: 0 }
    );
    assert_eq!(Turn::FIRST.next(1), Turn { slot: 0, seq: 2 });
}

#[test]
fn done_positions_are_passed_over() {
    let mut states = fresh(4);
    states[1].rule_out(1);
    states[2].rule_out(1);
    let turn = Turn::FIRST.skip_done(&states);
    assert_eq!(turn, Turn::FIRST, "slot 0 is still awaited");
    states[0].rule_out(1);
    assert_eq!(turn.skip_done(&states), Turn { slot: 3, seq: 1 });
}

#[test]
fn a_wild_seq_does_not_make_it_run_for_ever() {
    let mut states = fresh(4);
    for state in &mut states {
        state.rule_out(1 << 30);
    }
    Turn::FIRST.skip_done(&states);
}
