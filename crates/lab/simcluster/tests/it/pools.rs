//! Memory nodes and compute processes on simulated machines.

use drover_base::Ns;
use drover_memnode::node::NodeOptions;
use drover_memnode::{LeaseTimes, PoolKind, PoolMembership};
use drover_rt::TaskOptions;
use drover_simcluster::pools::{PoolCluster, PoolSetup};
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{Doorbells, WorldOptions};
use std::cell::Cell;
use std::rc::Rc;

const ROOT: usize = 3;

/// Two nodes and two processes of two threads. The nodes' roots are loaded.
fn open() -> PoolCluster {
    let setup = PoolSetup {
        world: WorldOptions::new(Profile::named("cx6").expect("a profile")),
        seed: 1,
        node: NodeOptions {
            look_every: Ns::from_us(20),
            times: LeaseTimes {
                renew_every: Ns::from_us(100),
                stop_after: Ns::from_us(700),
                suspect_after: Ns::from_ms(1),
            },
            ..NodeOptions::new(1 << 20)
        },
        membership: PoolMembership {
            pool: 1,
            index: 0,
            count: 2,
            kind: PoolKind::new("test"),
        },
        processes: 2,
        threads: 2,
        tasks: TaskOptions::default(),
        doorbells: Doorbells::Driver,
        tuner: None,
    };
    setup.open(|index, loader| loader.set_root(ROOT, 50 + index as u64))
}

#[test]
fn every_thread_reads_what_was_loaded_at_every_node() {
    let cluster = open();
    let threads = cluster.processes.iter().flat_map(|process| &process.threads);
    let sum = Rc::new(Cell::new(0));
    for thread in threads {
        let (nodes, sum) = (thread.nodes.clone(), sum.clone());
        let spawned = thread.with(|tasks| {
            tasks.spawn(|cx| async move {
                for node in 0..2 {
                    let at = nodes.root(node, ROOT);
                    let buffer = cx.buffer(8).expect("a buffer");
                    let ticket = cx.read(at.peer, buffer, at.remote).expect("a READ");
                    let word = cx.sync().await.expect("it succeeds").take(ticket);
                    let word = u64::from_le_bytes(word[..].try_into().expect("8 bytes"));
                    sum.set(sum.get() + word);
                }
            })
        });
        spawned.expect("space");
    }
    cluster.run_until("all have read", || sum.get() == 4 * (50 + 51));
}

#[test]
fn a_process_that_ends_is_shut_out_while_others_go_on() {
    let mut cluster = open();
    let live = |cluster: &PoolCluster| {
        let left = Rc::new(Cell::new(None));
        let put = left.clone();
        let thread = &cluster.processes[0].threads[0];
        let nodes = thread.nodes.clone();
        let spawned = thread.with(|tasks| {
            tasks.spawn(|cx| async move {
                let line = nodes.client_line(&cx, 0, 2).await.expect("it succeeds");
                put.set(line.map(|line| format!("{line:?}")));
            })
        });
        spawned.expect("space");
        cluster.run_until("the line is read", || {
            let found = left.take();
            left.set(found.clone());
            found.is_some()
        });
        left.take().expect("set")
    };
    let before = live(&cluster);
    cluster.processes[1].end();
    cluster.world.run_for(Ns::from_ms(3));
    assert!(
        cluster.processes[0]
            .pool
            .nodes()
            .iter()
            .all(|node| !node.is_lost())
    );
    let after = live(&cluster);
    assert_ne!(before, after, "the node has fenced the process");
}
