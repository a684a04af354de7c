//! Caches, windows and locks: the loads at which rates collapse.

use crate::model::bench::{Plan, Verb, run};
use drover_base::Ns;
use drover_verbs::QpKind::{Rc, Uc};
use drover_verbs_sim::Ablations;
use drover_verbs_sim::profile::Profile;

/// With more requests outstanding than their cache holds, each is fetched again: throughput falls, and each moves twice
/// the bytes over the bus.
#[test]
fn outstanding_requests_past_their_cache_thrash() {
    let at = |threads: usize, window: usize| {
        let outcome = run(&Plan {
            queue_pairs: 4,
            signal_every: 1,
            one_process: false,
            ..Plan::new("cx6", Verb::Read, Rc, 8)
                .outbound(threads)
                .window(window)
        });
        let machine = &outcome.total.machines[0];
        let bytes = machine.bus_bytes.1 as f64 / outcome.posted as f64;
        println!(
            "{threads} x {window}: {:.1} Mops, {bytes:.0} bytes per request",
            outcome.mops
        );
        (outcome.mops, bytes)
    };
    let (fits, thrashes) = (at(48, 12), at(48, 64));
    assert!(thrashes.0 < 0.95 * fits.0, "{fits:?} to {thrashes:?}");
    assert!((85.0..100.0).contains(&fits.1), "{} bytes per request", fits.1);
    assert!(
        (160.0..270.0).contains(&thrashes.1),
        "{} bytes per request",
        thrashes.1
    );
}

/// 256 inbound UC queue pairs keep the card's full rate; 256 outbound ones fall below a third of it.
#[test]
fn contexts_inbound_fit_and_outbound_do_not() {
    let write = |plan: Plan| {
        let inbound = plan.targets == [0];
        let outcome = run(&Plan {
            warm_up: Ns::from_us(200),
            signal_every: 1,
            ..plan.inlined()
        });
        if inbound {
            outcome.served_mops
        } else {
            outcome.mops
        }
    };
    let plan = || Plan::new("apt", Verb::Write, Uc, 32);
    let inbound = write(Plan {
        queue_pairs: 16,
        ..plan().inbound(4).window(64)
    });
    assert!(inbound > 33.0, "256 inbound: {inbound}");
    let outbound = |queue_pairs| {
        write(Plan {
            queue_pairs,
            ..plan().outbound(8).window(128)
        })
    };
    let (few, many) = (outbound(4), outbound(32));
    println!("inbound {inbound:.1}; outbound 32: {few:.1}, 256: {many:.1}");
    assert!(many < 0.3 * few, "256 outbound: {many} of {few}");
    let mut ablated = plan().outbound(8).window(128);
    ablated.queue_pairs = 32;
    ablated.options.ablations = Ablations {
        caches: true,
        ..Ablations::default()
    };
    let ablated = write(ablated);
    assert!(ablated > 0.95 * few, "without caches {ablated}");
}

/// One queue pair has at most 16 READs in flight, however many are posted.
#[test]
fn sixteen_reads_per_queue_pair() {
    let read = |window| {
        run(&Plan {
            signal_every: 1,
            ..Plan::new("apt", Verb::Read, Rc, 16).window(window)
        })
    };
    let (alone, full) = (read(1), read(64));
    // A slot is taken when the card begins and released when the result is on its way to the host.
    let p = Profile::named("apt").expect("a profile").parameters().clone();
    let outside = p.cpu.post_ns + p.latency.mmio_ns + p.pio.line_ns + p.cpu.detect_ns + p.cpu.poll_ns;
    let limit = 16.0 / (alone.latency_us - outside / 1e3);
    println!("{:.2} of at most {limit:.2}", full.mops);
    assert!(full.mops <= limit * 1.02, "{} with a limit of {limit}", full.mops);
    assert!(full.mops > 0.8 * limit, "{}", full.mops);
    assert!(full.total.machines[0].counters.read_slot_stalls > 0);
}

/// With the doorbell's lock more threads are slower than fewer; without it they are not.
#[test]
fn without_the_lock_there_is_no_collapse() {
    let at = |threads: usize, locks_off: bool| {
        let mut plan = Plan::new("cx6", Verb::Read, Rc, 8).window(8);
        plan.issuers = vec![0; threads];
        (plan.one_process, plan.signal_every) = (true, 1);
        plan.options.ablations.locks = locks_off;
        // 768 requests also overflow the cache of work requests, which is not tested here.
        plan.options.ablations.caches = true;
        run(&plan).mops
    };
    let (some, many) = (at(32, false), at(96, false));
    let (some_free, many_free) = (at(32, true), at(96, true));
    println!("locks: {some:.1} and {many:.1}; none: {some_free:.1} and {many_free:.1}");
    assert!(many < 0.8 * some, "32 threads {some}, 96 threads {many}");
    assert!(
        many_free > 0.9 * some_free,
        "32 threads {some_free}, 96 threads {many_free}"
    );
}
