//! Clients that are threads of one process, and clients that are processes.

use drover_base::Ns;
use drover_simcluster::{Load, Outcome, Prescribed, Servers, Setup, run};
use drover_systems::System;
use drover_verbs_sim::profile::Profile;

/// Ten clients on two machines whose driver has one doorbell register per process, `threads` clients to a process.
fn play(threads: usize) -> Outcome {
    let setup = Setup {
        servers: Servers {
            shard_count: 1,
            ..Servers::new()
        },
        clients: 10,
        machines: 2,
        prescribed: Prescribed {
            threads,
            ..Prescribed::default()
        },
        depth: 1,
        window: 1,
        load: Load {
            put_percent: 0,
            keys: 1_000,
            ..Load::new()
        },
        warm_up: Ns::from_us(50),
        measured: Ns::from_us(200),
        ..Setup::on(Profile::named("rfp").expect("a profile"))
    };
    let outcome = run(&setup, System::named("farm").expect("in the table"), None);
    let waits: Vec<_> = outcome
        .report
        .machines
        .iter()
        .map(|m| m.counters.lock_wait)
        .collect();
    println!(
        "{threads} threads: {:.2} Mops, waits for locks {waits:?}",
        outcome.mops
    );
    assert_eq!(outcome.failed, 0);
    outcome
}

#[test]
fn threads_of_a_process_wait_for_each_others_doorbell() {
    let (alone, together) = (play(1), play(5));
    assert!(
        together.mops < 0.9 * alone.mops,
        "{} against {}",
        together.mops,
        alone.mops
    );
    assert!(together.report.doorbell > alone.report.doorbell);
    assert_eq!(play(0).trace_hash, alone.trace_hash);
}
