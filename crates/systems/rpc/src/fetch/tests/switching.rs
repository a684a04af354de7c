//! When results stop being fetched and begin to be pushed, and the way back.

use super::pair::{Pair, layout};
use crate::fetch::{CallerOptions, Format, Guarded, Mode, SwitchOptions, Transfer};
use drover_base::Ns;

const REQUEST: &[u8] = b"request";

/// A call that is answered at its `reads`th READ, by a server that took `time` for it.
fn call(pair: &mut Pair, reads: u32, time: Ns) -> Mode {
    pair.begin(0, REQUEST);
    assert_eq!(pair.finish(0, reads, time).as_deref(), Ok(REQUEST));
    pair.caller.mode(0, 1)
}

/// The paper's options, without the least time between two changes.
fn pair() -> Pair {
    Pair::with(SwitchOptions {
        dwell: Ns::ZERO,
        ..SwitchOptions::default()
    })
}

#[test]
fn rfp_one_slow_call_changes_nothing_and_two_in_a_row_do() {
    let mut pair = pair();
    for _ in 0..10 {
        assert_eq!(call(&mut pair, 9, Ns::from_us(9)), Mode::Fetch, "one slow call");
        assert_eq!(
            call(&mut pair, 5, Ns::from_us(9)),
            Mode::Fetch,
            "four failed READs"
        );
    }
    assert_eq!(pair.caller.stats().fails[8], 10);
    assert_eq!(call(&mut pair, 9, Ns::from_us(9)), Mode::Fetch);
    let reads = pair.caller.stats().first_reads;
    assert_eq!(
        call(&mut pair, 9, Ns::from_us(9)),
        Mode::Reply,
        "the second in a row"
    );
    assert_eq!(pair.caller.stats().first_reads - reads, 5, "R READs, then none");
    for _ in 0..10 {
        assert_eq!(call(&mut pair, 1, Ns::from_us(6)), Mode::Reply, "0.8 P is 5.6 us");
        assert_eq!(call(&mut pair, 1, Ns::from_us(1)), Mode::Reply, "one fast call");
    }
    assert_eq!(call(&mut pair, 1, Ns::from_us(6)), Mode::Reply);
    assert_eq!(call(&mut pair, 1, Ns::from_us(1)), Mode::Reply);
    assert_eq!(
        call(&mut pair, 1, Ns::from_us(1)),
        Mode::Fetch,
        "the second in a row"
    );
    let pushed = pair.caller.stats().pushed;
    assert_eq!(call(&mut pair, 1, Ns::from_us(1)), Mode::Fetch);
    assert_eq!(pair.caller.stats().pushed, pushed, "fetched again");
    assert_eq!(pair.caller.stats().switches, [1, 1]);
}

/// Modes belong to a kind of call and a place.
#[test]
fn rfp_other_kinds_and_places_keep_their_modes() {
    let mut pair = pair();
    call(&mut pair, 9, Ns::from_us(9));
    call(&mut pair, 9, Ns::from_us(9));
    let modes = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(place, rpc_id)| pair.caller.mode(place, rpc_id));
    assert_eq!(modes, [Mode::Fetch, Mode::Reply, Mode::Fetch, Mode::Fetch]);
    pair.begin(1, b"other place");
    assert_eq!(pair.finish(1, 1, Ns(0)), Ok(b"other place".to_vec()));
    assert_eq!(pair.caller.stats().pushed, 1);
}

#[test]
fn rfp_forced_modes_do_not_change() {
    for (transfer, mode) in [(Transfer::Fetch, Mode::Fetch), (Transfer::Reply, Mode::Reply)] {
        let options = CallerOptions {
            transfer,
            ..CallerOptions::default()
        };
        let mut pair = Pair::<Guarded>::new(layout(Format::V1), options);
        for time in [0, 100, 0, 100, 0, 0, 0, 100, 100, 100] {
            assert_eq!(call(&mut pair, 20, Ns::from_us(time)), mode);
        }
        assert_eq!(pair.caller.stats().switches, [0, 0]);
        assert_eq!(pair.caller.stats().pushed, [0, 10][mode as usize]);
    }
}

/// A server that reads no clock says 0, whatever the call took.
#[test]
fn rfp_only_pushed_calls_are_timed() {
    let mut pair = pair();
    pair.begin(0, REQUEST);
    pair.execute();
    assert!(!pair.take(0).expect("a request").is_timed);
    let mode = pair.caller.layout().mode_offset(1, 1);
    pair.memory.inbound.copy_in(mode, &[1]);
    pair.begin(1, REQUEST);
    while !pair.wire.is_empty() {
        pair.execute();
    }
    assert!(pair.take(1).expect("a request").is_timed);
}

/// READs that find nothing become rarer, and stay so.
#[test]
fn rfp_a_client_backs_off_after_many_reads() {
    let options = CallerOptions {
        transfer: Transfer::Fetch,
        ..CallerOptions::default()
    };
    let mut pair = Pair::<Guarded>::new(layout(Format::V1), options);
    pair.begin(0, REQUEST);
    let step = Ns(100);
    let mut reads = Vec::new();
    while pair.now < Ns::from_us(200) {
        while !pair.wire.is_empty() {
            pair.execute();
            pair.complete();
        }
        pair.poll(0);
        pair.now += step;
        reads.push(pair.caller.stats().first_reads);
    }
    assert_eq!(reads[0], 32, "without pause");
    let later = pair.caller.stats().first_reads - 32;
    assert!((95..=100).contains(&later), "{later} READs in 200 us");
    assert_eq!(pair.finish(0, 1, Ns(0)).as_deref(), Ok(REQUEST));
}
