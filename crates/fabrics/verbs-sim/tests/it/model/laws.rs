//! Laws that hold for any numbers: Little's, conservation, determinism.

use crate::model::bench::{Plan, Verb, run};
use crate::model::pair::{Pair, send, write};
use drover_verbs::MemoryRegion;
use drover_verbs::QpKind::{Rc, Uc, Ud};
use drover_verbs_sim::World;
use drover_verbs_sim::profile::Profile;

fn some_runs() -> Vec<Plan> {
    let signaled = |plan: Plan| Plan {
        signal_every: 1,
        ..plan
    };
    vec![
        signaled(Plan::new("apt", Verb::Write, Uc, 32).inlined().inbound(2)),
        signaled(Plan::new("apt", Verb::Read, Rc, 64).inbound(2).window(4)),
        signaled(Plan::new("rfp", Verb::Write, Rc, 256).outbound(3)),
        signaled(Plan::new("cx6", Verb::Read, Rc, 8).outbound(4).window(32)),
        signaled(Plan::new("apt", Verb::FetchAdd, Rc, 8).inbound(1).window(8)),
        signaled(Plan::new("apt", Verb::Send, Ud, 100).inlined().outbound(3)),
    ]
}

/// The mean number outstanding equals rate times latency.
#[test]
fn littles_law() {
    for plan in some_runs() {
        let outcome = run(&plan);
        let predicted = outcome.mops * outcome.latency_us;
        let off = predicted / outcome.outstanding - 1.0;
        assert!(
            off.abs() < 0.02,
            "{:?} {} B: {:.2} outstanding, Little says {predicted:.2}",
            plan.verb,
            plan.bytes,
            outcome.outstanding
        );
        let window = (plan.window * plan.issuers.len()) as f64;
        assert!(outcome.outstanding <= 1.01 * window);
    }
}

/// No request is lost or duplicated.
#[test]
fn posted_is_completed_and_in_flight_and_links_keep_bytes() {
    for plan in some_runs() {
        let outcome = run(&plan);
        assert_eq!(outcome.posted, outcome.completed + outcome.in_flight);
        let most = (plan.window * plan.issuers.len()) as u64;
        assert!(outcome.in_flight <= most);
        let bytes = |of: fn(&drover_verbs_sim::Counters) -> u64| -> u64 {
            outcome.total.machines.iter().map(|m| of(&m.counters)).sum()
        };
        let (sent, taken) = (bytes(|c| c.tx_bytes), bytes(|c| c.rx_bytes));
        // On the wire now: at most one message each way per request in flight.
        let on_the_wire = most * (plan.bytes as u64 + 100);
        assert!(
            taken <= sent && sent - taken <= on_the_wire,
            "{sent} sent, {taken} taken"
        );
        assert_eq!(bytes(|c| c.lost), 0);
    }
}

/// Equal seeds give equal traces; other seeds give other traces and about the same rate.
#[test]
fn trace_hash_follows_the_seed() {
    for mut plan in some_runs() {
        plan.words = 64;
        plan.options.noise = drover_sim::Noise {
            skew_max: drover_base::Ns(200),
            stall_every: drover_base::Ns::from_ms(1),
            stall_min: drover_base::Ns(100),
            stall_max: drover_base::Ns(1000),
        };
        let (once, again) = (run(&plan), run(&plan));
        assert_eq!(once.trace_hash, again.trace_hash);
        // Nothing but the seed differs.
        plan.seed += 1;
        let other = run(&plan);
        assert_ne!(once.trace_hash, other.trace_hash);
        let off = other.mops / once.mops - 1.0;
        assert!(off.abs() < 0.03, "{:.2} and {:.2} Mops", once.mops, other.mops);
    }
}

#[test]
fn requests_to_the_own_machine_use_no_link() {
    const BYTES: u64 = 8192;
    let report = |there: usize| {
        let world = World::new(Profile::named("cx6").expect("a profile"), 2, 1);
        let mut pair = Pair::to_machine(there, &world, Rc, 64);
        pair.post(&[write(&pair, 1, &[7; BYTES as usize])]);
        let mut done_at = 0;
        while pair.completions().is_empty() {
            done_at += 10;
            assert!(done_at < 100_000, "it never completes");
            world.run_until(drover_base::Ns(done_at));
        }
        let mut last = [0];
        pair.there_mr.region().copy_out(BYTES as usize - 1, &mut last);
        assert_eq!(last, [7]);
        (done_at, world.report().machines[0].clone())
    };
    let ((own_ns, own), (other_ns, other)) = (report(0), report(1));
    assert_eq!(own.link_bytes, (0, 0));
    assert_eq!((own.counters.tx_bytes, own.counters.rx_bytes), (0, 0));
    assert!(other.link_bytes.0 > BYTES && other.link_bytes.1 > 0);
    assert!(
        own.bus_bytes.0 > BYTES && own.bus_bytes.1 > BYTES,
        "both halves on one bus"
    );
    assert!(other.bus_bytes.0 < BYTES && other.bus_bytes.1 > BYTES);
    assert!(own_ns < other_ns, "{own_ns} and {other_ns} ns");
}

/// A single request enters the card faster than a list, but not before a list posted earlier.
#[test]
fn a_single_request_does_not_overtake_a_list() {
    for kind in [Rc, Uc] {
        let world = World::new(Profile::named("apt").expect("a profile"), 2, 1);
        let mut pair = Pair::new(&world, kind, 64);
        pair.post(&[0, 1, 2].map(|n| write(&pair, n, b"in a list")));
        pair.post(&[write(&pair, 3, b"on its own")]);
        world.run_for(drover_base::Ns::from_us(20));
        assert!(pair.completions().iter().map(|wc| wc.wr_id.0).eq(0..4));
        let mut now = [0; 10];
        pair.there_mr.region().copy_out(0, &mut now);
        assert_eq!(&now, b"on its own");
    }
}

/// A second single request does not overtake one that waits for the list either, whenever it is posted.
#[test]
fn single_requests_behind_a_list_keep_their_order() {
    for kind in [Rc, Uc, Ud] {
        for gap_ns in (0..1_500).step_by(3) {
            let world = World::new(Profile::named("apt").expect("a profile"), 2, 1);
            let mut pair = Pair::new(&world, kind, 64);
            (0..6).for_each(|id| pair.post_recv(id));
            pair.post(&[0, 1, 2].map(|n| send(&pair, n, &[0; 200])));
            pair.post(&[send(&pair, 3, b"waits for the list")]);
            world.run_for(drover_base::Ns(gap_ns));
            pair.post(&[send(&pair, 4, b"posted later")]);
            pair.post(&[send(&pair, 5, b"last")]);
            world.run_for(drover_base::Ns::from_us(20));
            let order: Vec<u64> = pair.completions().iter().map(|wc| wc.wr_id.0).collect();
            assert_eq!(order, [0, 1, 2, 3, 4, 5], "{kind:?}, {gap_ns} ns later");
        }
    }
}
