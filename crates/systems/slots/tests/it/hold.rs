//! Which conditional requests are held.

use drover_slots::server::{Hold, Turn};
use proptest::prelude::*;

const WINDOW: u32 = 8;

fn position(r: u32) -> u32 {
    Turn::of(u64::from(r), WINDOW.trailing_zeros()).position(WINDOW)
}

#[test]
fn at_first_nothing_is_held() {
    assert!((0..3 * WINDOW).all(|r| !Hold::NONE.holds(position(r), WINDOW)));
}

#[test]
fn a_window_is_held() {
    let mut hold = Hold::NONE;
    hold.note(position(5));
    assert!((5..5 + WINDOW).all(|r| hold.holds(position(r), WINDOW)));
    assert!(!hold.holds(position(5 + WINDOW), WINDOW));
    hold.note(position(3));
    assert!(
        hold.holds(position(4 + WINDOW), WINDOW),
        "an older one changes nothing"
    );
}

#[test]
fn numbers_wrap() {
    let mut hold = Hold::NONE;
    for position in [u32::MAX / 2, u32::MAX - 2] {
        hold.note(position);
    }
    assert!(hold.holds(1, WINDOW) && !hold.holds(6, WINDOW));
    hold.note(3);
    assert!(hold.holds(3 + WINDOW - 1, WINDOW));
}

proptest! {
    /// A client that knows the answers up to some position, and posts within a window of that: whatever it posts
    /// behind a request that is held is held, too.
    #[test]
    fn what_stands_behind_a_held_one_is_held(bulk in 0u32..40, steps in prop::collection::vec(1u32..WINDOW, 1..20)) {
        let mut hold = Hold::NONE;
        hold.note(position(bulk));
        let mut r = bulk;
        for step in steps {
            r += step;
            prop_assert!(hold.holds(position(r), WINDOW));
            hold.note(position(r));
        }
    }
}
