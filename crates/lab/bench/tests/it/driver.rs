//! The driver against a toy target that reorders, delays and loses: it counts everything once and notices lies.

use drover_base::{Ns, Rng};
use drover_bench::workload::{KeyText, Mix, Popularity, Tape, TapeOptions, Values};
use drover_bench::{Client, Pace, RunOptions, Target, TargetError};
use drover_kv::{Op, Outcome, SubmitError, Token};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    None,
    /// Finishes an operation twice.
    Repeats,
    /// Damages a byte of every value.
    Corrupts,
}

/// A map whose operations take effect at once and finish later, in any order, a few per poll.
struct Toy {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<(Token, Option<Option<Vec<u8>>>)>,
    space: usize,
    rng: Rng,
    lie: Lie,
    accepted: u64,
    finished: u64,
}

impl Toy {
    fn new(space: usize, lie: Lie) -> Toy {
        Toy {
            map: BTreeMap::new(),
            pending: Vec::new(),
            space,
            rng: Rng::new(1, 2, 3),
            lie,
            accepted: 0,
            finished: 0,
        }
    }
}

impl Target for Toy {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        if self.pending.len() == self.space {
            return Err(SubmitError::WindowFull);
        }
        let result = match *op {
            Op::Put { key, value, .. } => {
                self.map.insert(key.to_vec(), value.to_vec());
                None
            }
            _ => Some(self.map.get(op.key()).cloned()),
        };
        self.accepted += 1;
        self.pending.push((token, result));
        Ok(())
    }

    fn poll(&mut self, _: bool, sink: &mut impl FnMut(Token, Outcome<'_>)) -> Result<(), Box<TargetError>> {
        for _ in 0..self.rng.below(5) {
            if self.pending.is_empty() {
                break;
            }
            let at = self.rng.below(self.pending.len() as u64) as usize;
            let (token, result) = self.pending.swap_remove(at);
            self.finished += 1;
            match result {
                None => sink(token, Outcome::Stored),
                Some(None) => sink(token, Outcome::NotFound),
                Some(Some(mut value)) => {
                    if self.lie == Lie::Corrupts {
                        value[3] ^= 1;
                    }
                    sink(token, Outcome::Value(&value));
                    if self.lie == Lie::Repeats {
                        sink(token, Outcome::Value(&value));
                    }
                }
            }
        }
        Ok(())
    }
}

const KEYS: u32 = 500;

fn client(mix: &str, toy: Toy) -> Client<Toy> {
    let keys = KeyText::new(16, 1 << 20, 5).expect("a size");
    Client::new(toy, tape(mix), keys, Values::new(32, 32), 0)
}

fn tape(mix: &str) -> Tape {
    Tape::new(&TapeOptions {
        mix: Mix::parse(mix).expect("a mix"),
        popularity: Popularity::Uniform,
        key_count: KEYS,
        entry_count: 1 << 12,
        seed: 5,
        client_index: 0,
        client_count: 1,
    })
}

fn closed(window: usize) -> RunOptions {
    RunOptions {
        window,
        pace: Pace::Closed,
        time: Ns::from_ms(1),
        ops_min: 5000,
        other_tape: false,
    }
}

#[test]
fn the_other_tape_is_played_when_asked_for_and_only_then() {
    let mut client = client("c", Toy::new(8, Lie::None)).with_other_tape(tape("a"));
    client.load(0..KEYS, 8, &AtomicU64::new(0)).expect("loading");
    for other_tape in [false, true, false, true] {
        let options = RunOptions {
            other_tape,
            ..closed(8)
        };
        let counts = client.run(&options).expect("a run").counts;
        // An operation drawn and held back may be the other tape's.
        let puts = counts.ops - counts.gets;
        assert_eq!(puts > 1, other_tape, "{counts:?}");
    }
}

#[test]
fn every_operation_is_counted_once() {
    // More window than the target has space, and less; every kind of operation.
    for (mix, window, space) in [
        ("a", 16, 7),
        ("b", 1, 4),
        ("f", 8, 8),
        ("c", 3, 100),
        ("d", 16, 16),
    ] {
        let mut client = client(mix, Toy::new(space, Lie::None));
        let progress = AtomicU64::new(0);
        client.load(0..KEYS, window, &progress).expect("loading");
        assert_eq!(progress.load(Ordering::Relaxed), u64::from(KEYS));
        let measured = client.run(&closed(window)).expect("a run");
        let counts = measured.counts;
        assert!(counts.ops > 0, "{mix}");
        assert_eq!((counts.failed, counts.corrupt), (0, 0), "{mix}: {counts:?}");
        assert_eq!(
            counts.hits, counts.gets,
            "{mix}: everything was loaded: {counts:?}"
        );
        assert!(counts.verified > 0 || counts.hits < 64, "{mix}: {counts:?}");
        let both_halves = counts.gets + counts.puts;
        match mix {
            "f" => assert!(both_halves > counts.ops, "{counts:?}"),
            _ => assert_eq!(both_halves, counts.ops, "{mix}: {counts:?}"),
        }
        let toy = client.into_target();
        assert_eq!(toy.accepted, toy.finished, "{mix}: nothing is left behind");
        assert!(toy.pending.is_empty());
    }
}

#[test]
fn latency_is_sampled_above_window_one_and_whole_at_it() {
    let mut client = client("c", Toy::new(100, Lie::None));
    let all = client.run(&closed(1)).expect("a run");
    assert!(all.latency.count().abs_diff(all.counts.ops) <= 1);
    let some = client.run(&closed(16)).expect("a run");
    let expected = some.counts.ops / drover_bench::SAMPLE_EVERY;
    assert!(
        some.latency.count().abs_diff(expected) <= 17,
        "{} of {}",
        some.latency.count(),
        expected
    );
}

#[test]
fn an_open_loop_asks_at_its_rate() {
    let mut client = client("b", Toy::new(100, Lie::None));
    let options = RunOptions {
        window: 64,
        pace: Pace::Open(10_000.0),
        time: Ns::from_ms(50),
        ops_min: 0,
        other_tape: false,
    };
    let measured = client.run(&options).expect("a run");
    // At most one per interval, however slow this machine is just now.
    let most = measured.elapsed.0 / 100_000 + 2;
    assert!(
        (1..=most).contains(&measured.counts.ops),
        "{} of {most}",
        measured.counts.ops
    );
}

#[test]
fn a_miss_is_not_a_hit() {
    let mut client = client("c", Toy::new(8, Lie::None));
    let counts = client.run(&closed(4)).expect("a run").counts;
    assert_eq!(counts.hits, 0);
    assert!(counts.gets > 0);
    assert_eq!(counts.hit_rate(), 0.0);
}

#[test]
fn an_operation_finished_twice_is_noticed() {
    let mut client = client("c", Toy::new(8, Lie::Repeats));
    client.load(0..KEYS, 4, &AtomicU64::new(0)).expect("loading");
    let error = client.run(&closed(4)).expect_err("a lie");
    assert!(error.to_string().contains("not under way"), "{error}");
}

#[test]
fn damaged_values_are_noticed() {
    let mut client = client("c", Toy::new(8, Lie::Corrupts));
    client.load(0..KEYS, 4, &AtomicU64::new(0)).expect("loading");
    let counts = client.run(&closed(4)).expect("a run").counts;
    assert!(counts.verified > 0);
    assert_eq!(counts.corrupt, counts.verified);
}
