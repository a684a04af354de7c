//! Systems whose results are fetched or pushed: what a set-up prescribes about that, and what outcomes say.

use drover_base::Ns;
use drover_kv::{Calls, FetchChoice, HANDLER, Trial};
use drover_simcluster::{Load, Outcome, Prescribed, Servers, Setup, run};
use drover_systems::System;

/// A fetched result is never given up on.
const NEVER: u32 = u32::MAX;

fn setup(slow_reads: u32, first_bytes: usize, handler: Ns) -> Setup {
    let mut setup = Setup {
        servers: Servers {
            shard_count: 2,
            ..Servers::new()
        },
        clients: 8,
        machines: 4,
        depth: 1,
        window: 1,
        load: Load {
            put_percent: 0,
            keys: 500,
            ..Load::new()
        },
        prescribed: Prescribed {
            threads: 1,
            fetch: Some(FetchChoice {
                slow_reads,
                first_bytes,
                takes_turns: false,
            }),
            trial: Trial {
                slot_value_bytes: 0,
                evicts: false,
                has_handler: handler > Ns::ZERO,
            },
        },
        warm_up: Ns::from_us(100),
        measured: Ns::from_us(200),
        ..Setup::new()
    };
    let price = (HANDLER.name.to_owned(), handler.0 as f64);
    setup.world.costs.push(price);
    setup
}

fn play(system: &str, setup: &Setup) -> (Outcome, Calls) {
    let outcome = run(setup, System::named(system).expect("in the table"), None);
    println!("{system}: {:?}, {} done", outcome.calls, outcome.done);
    assert_eq!((outcome.failed, outcome.hit_share), (0, 1.0));
    let calls = outcome.calls.expect("a system with calls");
    assert_eq!(calls.ended(), outcome.done);
    (outcome, calls)
}

#[test]
fn a_second_read_fetches_what_the_first_left_out_and_only_that() {
    let (_, all) = play("jakiro", &setup(NEVER, 32, Ns::ZERO));
    assert_eq!(all.second_reads, 0);
    let (_, part) = play("jakiro", &setup(NEVER, 31, Ns::ZERO));
    // Some calls have only begun, or only begun to be counted.
    assert!(part.second_reads.abs_diff(part.ended()) <= 8, "{part:?}");
}

#[test]
fn no_result_is_there_before_the_handler_has_ended() {
    let handler = Ns::from_us(10);
    for system in ["jakiro", "server-reply", "server-reply-faithful"] {
        let (outcome, _) = play(system, &setup(NEVER, 32, handler));
        assert!(outcome.latency.at[0] > 10.0, "{system}: {:?}", outcome.latency);
        // Two cores execute one at a time.
        let most = 2.0 * 1e3 / handler.0 as f64;
        assert!(outcome.mops < 1.05 * most, "{system}: {} Mops", outcome.mops);
    }
}

#[test]
fn slow_calls_are_pushed_unless_none_is_slow() {
    let handler = Ns::from_us(20);
    let (fetching, calls) = play("jakiro", &setup(NEVER, 32, handler));
    assert_eq!((calls.pushed, fetching.client_cpu), (0, Some(1.0)));
    assert!(calls.failed_reads[0] < calls.ended() / 2, "{calls:?}");
    let long = Setup {
        // Each client changes the mode of its calls to each shard after two slow ones in a row.
        warm_up: Ns::from_ms(2),
        ..setup(5, 32, handler)
    };
    let (pushing, calls) = play("jakiro", &long);
    assert_eq!(calls.pushed, calls.ended());
    assert!(
        pushing.client_cpu.is_some_and(|share| share < 0.5),
        "{:?}",
        pushing.client_cpu
    );
}

#[test]
fn a_server_that_waits_for_its_writes_answers_fewer_requests() {
    let setup = setup(NEVER, 32, Ns::ZERO);
    let (tuned, calls) = play("server-reply", &setup);
    assert_eq!(calls.pushed, calls.ended());
    let (waits, _) = play("server-reply-faithful", &setup);
    assert!(
        waits.mops < 0.9 * tuned.mops,
        "{} against {}",
        waits.mops,
        tuned.mops
    );
}

/// A client with one operation at a time has one slot at each shard, however many shards there are.
#[test]
fn a_client_has_no_more_slots_than_operations() {
    let mut setup = setup(NEVER, 32, Ns::ZERO);
    for shard_count in [2, 8] {
        setup.servers.shard_count = shard_count;
        let (outcome, _) = play("jakiro", &setup);
        let cores = outcome.report.machines[0].cores.iter();
        let lines: Vec<_> = cores.flat_map(|core| &core.lines).collect();
        let count = |name| {
            let of_name = lines.iter().filter(|line| line.name == name);
            of_name.map(|line| line.count).sum::<u64>()
        };
        assert_eq!(count("rfp.place"), count("rfp.look"), "{shard_count} shards");
        assert!(count("rfp.look") > 0);
    }
}
