//! Calls that take turns with their READs: all end with their own results, whatever the server answers first, and nobody
//! READs while the scout finds nothing.

use super::pair::{NERVOUS, Pair, Verb};
use crate::fetch::{CallerOptions, Format, Layout, SwitchOptions, Transfer};
use drover_base::{Ns, Rng};
use proptest::prelude::*;

const PLACES: usize = 6;

fn pair(transfer: Transfer, switch: SwitchOptions) -> Pair {
    let layout = Layout {
        format: Format::V1,
        place_count: PLACES,
        rpc_count: 2,
        request_bytes: 40,
        result_bytes: 40,
    };
    let options = CallerOptions {
        transfer,
        switch,
        first_bytes: 16,
        ..CallerOptions::default()
    };
    let mut pair = Pair::new(layout, options);
    pair.caller.take_turns();
    pair
}

/// The client's side of a step: what was posted is executed and polled, and calls whose turn it is READ.
fn run(pair: &mut Pair) {
    while !pair.wire.is_empty() {
        pair.execute();
    }
    while !pair.completions.is_empty() {
        pair.complete();
    }
    for place in 0..PLACES {
        pair.poll(place);
    }
    pair.take_turns();
}

fn reads(pair: &Pair) -> Vec<usize> {
    let read = |verb: &Verb| match verb {
        Verb::Read { place, .. } => Some(*place),
        _ => None,
    };
    pair.wire.iter().filter_map(read).collect()
}

#[test]
fn rfp_one_call_reads_until_its_result_is_there() {
    let mut pair = pair(Transfer::Fetch, SwitchOptions::default());
    (0..4).for_each(|place| pair.begin(place, &[place as u8]));
    run(&mut pair);
    for _ in 0..3 {
        assert_eq!(reads(&pair), [0]);
        run(&mut pair);
    }
    // All but the last are answered.
    (0..3).for_each(|place| assert!(pair.echo(place, Ns(0))));
    run(&mut pair);
    assert_eq!(pair.ended, [(0, Ok(vec![0]))]);
    assert_eq!(reads(&pair), [1, 2, 3]);
    run(&mut pair);
    assert_eq!(reads(&pair), [3], "the scout");
    assert_eq!(pair.ended.len(), 3);
    assert!(pair.echo(3, Ns(0)));
    run(&mut pair);
    assert_eq!(pair.ended.len(), 4);
    assert_eq!(pair.caller.stats().first_reads, 3 + 1 + 3 + 1);
}

/// A call that is slow does not keep the others from results that are there.
#[test]
fn rfp_a_slow_scout_gives_way() {
    let mut pair = pair(Transfer::Fetch, SwitchOptions::default());
    (0..3).for_each(|place| pair.begin(place, &[place as u8]));
    run(&mut pair);
    (1..3).for_each(|place| assert!(pair.echo(place, Ns(0))));
    for _ in 0..8 {
        run(&mut pair);
    }
    assert_eq!(pair.ended.len(), 2, "the first is still being executed");
    assert!(pair.echo(0, Ns(0)));
    run(&mut pair);
    assert_eq!(pair.ended[2], (0, Ok(vec![0])));
}

proptest! {
    /// Whatever happens in whatever order.
    #[test]
    fn rfp_calls_that_take_turns_all_end(seed in any::<u64>(), is_auto in any::<bool>()) {
        let transfer = if is_auto { Transfer::Auto } else { Transfer::Fetch };
        let mut pair = pair(transfer, NERVOUS);
        let mut rng = Rng::new(seed, 0, 0);
        let (mut begun, mut expected) = (0u32, [0u32; PLACES]);
        let mut ended = 0;
        for step in 0..4_000 {
            let place = rng.below(PLACES as u64) as usize;
            match rng.below(8) {
                0 | 1 if step < 3_000 && pair.caller.is_free(place) => {
                    begun += 1;
                    expected[place] = begun;
                    // Some results are longer than F.
                    let request = begun.to_le_bytes().repeat(1 + begun as usize % 8);
                    pair.begin(place, &request);
                }
                2 | 3 => {
                    pair.echo(place, Ns(rng.below(8_000)));
                }
                4 => pair.look_again(),
                5 if !pair.pushes.is_empty() => {
                    pair.land();
                },
                6 if !pair.wire.is_empty() => pair.execute(),
                7 if !pair.completions.is_empty() => pair.complete(),
                _ => run(&mut pair),
            }
            pair.now += Ns(300);
            for (place, result) in pair.ended.drain(..) {
                let result = result.expect("an answer");
                prop_assert_eq!(&result[..4], &expected[place].to_le_bytes());
                ended += 1;
            }
        }
        prop_assert_eq!(ended, begun);
        prop_assert!(!pair.caller.has_turn());
    }
}
