//! Goal: a process that does not renew its lease stops writing by itself, then is shut out; only then is its lock anybody
//! else's.

use crate::bed::{Bed, Fabric, KIND, Process, Thread, loopback, short_times, small};
use drover_base::Ns;
use drover_memnode::locks::Lock;
use drover_memnode::node::NodeOptions;
use drover_memnode::{ClientState, MemoryError, PoolMembership, PoolOptions};
use drover_testkit::on_pool_fabrics;
use drover_verbs::Provider;

on_pool_fabrics! {
    a_silent_process_stops_then_is_fenced
    a_dead_process_is_fenced_at_once
    a_live_process_keeps_its_lease
}

fn short() -> NodeOptions {
    NodeOptions {
        times: short_times(),
        ..small()
    }
}

/// State of client `id` at node 0, as `thread` READs it.
fn state<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>, id: u16) -> ClientState {
    let line = bed.run(thread, move |cx, nodes, _| async move {
        nodes.client_line(&cx, 0, id).await.expect("a READ")
    });
    line.expect("a line").state
}

/// Takes the lock in root 3 of node 0.
fn take_lock<F: Fabric>(bed: &Bed<F>, process: &Process<F::P>, thread: &Thread<F::P>) -> Lock {
    let lock = process.pool.new_lock();
    bed.run(thread, move |cx, nodes, _| async move {
        let root = nodes.root(0, 3);
        let ticket = cx.cas(root.peer, root.remote, 0, lock.bits()).expect("staged");
        assert_eq!(cx.sync().await.expect("a CAS").value(ticket), 0);
    });
    lock
}

fn is_dead<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>, lock: Lock) -> bool {
    bed.run(thread, move |cx, nodes, _| async move {
        nodes.owner_is_dead(&cx, 0, lock).await.expect("a READ")
    })
}

fn a_silent_process_stops_then_is_fenced<F: Fabric>(fabric: F) {
    let bed = Bed::with(fabric, 1, &short());
    let (silent, other) = (bed.process(), bed.process());
    let (thread, watcher) = (bed.thread(&silent), bed.thread(&other));
    let id = silent.pool.client().id;
    let lock = take_lock(&bed, &silent, &thread);
    assert!(lock.is_mine(silent.pool.client()) && !lock.is_mine(other.pool.client()));
    assert!(!is_dead(&bed, &watcher, lock));
    let epoch = other.pool.node(0).epoch();

    // The process is there, its channel too; only its lease is not renewed.
    let lease = silent.lease.0.take();
    let out = thread.spawn(|cx, nodes, _| async move {
        while nodes.check_lease(&cx, 0).is_ok() {
            cx.sleep(Ns::from_us(100)).await;
        }
        nodes.check_lease(&cx, 0)
    });
    let mut stopped = None;
    bed.until("it stops by itself", || {
        stopped = out.take();
        stopped.is_some()
    });
    assert_eq!(stopped, Some(Err(MemoryError::LeaseOver { node: 0 })));
    assert_eq!(
        state(&bed, &watcher, id),
        ClientState::Live,
        "stopped before it was suspected"
    );
    assert!(!is_dead(&bed, &watcher, lock), "time alone makes nobody dead");

    let watch = watcher.spawn(move |cx, nodes, _| async move {
        while !nodes.owner_is_dead(&cx, 0, lock).await.expect("a READ") {
            cx.sleep(Ns::from_us(100)).await;
        }
    });
    bed.until("it is fenced", || watch.take().is_some());
    assert_eq!(state(&bed, &watcher, id), ClientState::Fenced);
    // What it still posts does not land.
    let written = bed.run(&thread, |cx, nodes, _| async move {
        let root = nodes.root(0, 3);
        cx.write_inline(root.peer, &[0xff; 8], root.remote)
            .expect("staged");
        cx.sync().await.map(|_| ())
    });
    assert!(written.is_err());
    let word = bed.run(&watcher, |cx, nodes, _| async move {
        let root = nodes.root(0, 3);
        let buffer = cx.buffer(8).expect("a buffer");
        let ticket = cx.read(root.peer, buffer, root.remote).expect("staged");
        let bytes = cx.sync().await.expect("a READ").take(ticket);
        u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
    });
    assert_eq!(word, lock.bits());
    bed.until("the epoch is known", || other.pool.node(0).epoch() != epoch);
    drop(lease);
}

fn a_dead_process_is_fenced_at_once<F: Fabric>(fabric: F) {
    // With the usual times: nobody waits for the lease.
    let bed = Bed::new(fabric, 1);
    let (dying, other) = (bed.process(), bed.process());
    let (thread, watcher) = (bed.thread(&dying), bed.thread(&other));
    let lock = take_lock(&bed, &dying, &thread);
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    let watch = watcher.spawn(move |cx, nodes, _| async move {
        while !nodes.owner_is_dead(&cx, 0, lock).await.expect("a READ") {
            cx.sleep(Ns::from_us(20)).await;
        }
        cx.now()
    });
    bed.until("it is fenced", || watch.take().is_some());
}

fn a_live_process_keeps_its_lease<F: Fabric>(fabric: F) {
    let bed = Bed::with(fabric, 1, &short());
    let process = bed.process();
    let thread = bed.thread(&process);
    for _ in 0..5 {
        bed.pass(Ns::from_ms(60));
        assert_eq!(state(&bed, &thread, process.pool.client().id), ClientState::Live);
        let checked = bed.run(&thread, |cx, nodes, _| async move { nodes.check_lease(&cx, 0) });
        assert_eq!(checked, Ok(()));
    }
}

#[test]
fn a_node_that_was_stopped_itself_suspects_nobody() {
    let bed = Bed::with(loopback(), 1, &short());
    let process = bed.process();
    let thread = bed.thread(&process);
    bed.pass(Ns::from_ms(10));
    let served = bed.nodes[0].0.take();
    bed.pass(Ns::from_s(2));
    *bed.nodes[0].0.borrow_mut() = served;
    bed.pass(Ns::from_ms(30));
    assert_eq!(state(&bed, &thread, process.pool.client().id), ClientState::Live);
}

#[test]
fn a_process_that_leaves_in_order_is_forgotten() {
    let bed = Bed::new(loopback(), 1);
    let (leaving, other) = (bed.process(), bed.process());
    let watcher = bed.thread(&other);
    let client = leaving.pool.client();
    leaving.pool.leave();
    bed.pass(Ns::from_ms(50));
    assert_eq!(state(&bed, &watcher, client.id), ClientState::Free);
    let next = bed.process();
    assert_eq!(next.pool.client().id, client.id);
    assert_ne!(next.pool.client(), client);
    assert!(leaving.pool.node(0).is_lost());
}

/// A task on node 0 goes on while node 1 is away.
#[test]
fn a_lost_node_stalls_no_other_and_comes_back_as_another() {
    let mut bed = Bed::new(loopback(), 2);
    let process = bed.process();
    let thread = bed.thread(&process);
    let incarnation = process.pool.node(1).header().incarnation;
    *bed.nodes[1].0.borrow_mut() = None;
    bed.until("the loss is noticed", || process.pool.node(1).is_lost());
    let (lost, alive) = bed.run(&thread, |cx, nodes, arena| async move {
        let lost = nodes.check_lease(&cx, 1);
        let alive = arena.alloc(&cx, 0, 64, drover_memnode::Need::Ordinary).await;
        (lost, alive.is_ok())
    });
    assert_eq!((lost, alive), (Err(MemoryError::NodeLost { node: 1 }), true));
    assert!(!process.pool.node(0).is_lost());

    bed.add_node(&NodeOptions {
        place: Some(PoolMembership {
            pool: 77,
            index: 1,
            count: 2,
            kind: KIND,
        }),
        ..small()
    });
    let mut dials = bed.dials();
    dials.remove(1);
    let (pool, _lease) = bed
        .try_open(dials, PoolOptions::new(KIND))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(pool.node(1).header().incarnation, incarnation);
    assert_eq!(
        pool.node(0).header().incarnation,
        process.pool.node(0).header().incarnation
    );
}

#[test]
fn a_node_of_a_file_comes_back_with_its_memory() {
    let path = std::env::temp_dir().join(format!("drover-memnode-{}", std::process::id()));
    let options = NodeOptions {
        file: Some(path.clone()),
        place: Some(PoolMembership {
            pool: 77,
            index: 0,
            count: 1,
            kind: KIND,
        }),
        ..small()
    };
    let mut bed = Bed::with(loopback(), 0, &small());
    bed.add_node(&options);
    let process = bed.process();
    let thread = bed.thread(&process);
    let lock = take_lock(&bed, &process, &thread);
    let header = bed.nodes[0].with(|served| served.node.stats());
    *bed.nodes[0].0.borrow_mut() = None;
    bed.until("the loss is noticed", || process.pool.node(0).is_lost());

    // The file says what the place is.
    bed.add_node(&NodeOptions {
        place: None,
        ..options.clone()
    });
    let again = bed.nodes[1].with(|served| served.node.stats());
    assert_ne!(again.incarnation, header.incarnation);
    assert!(again.epoch > header.epoch);
    assert_eq!((again.place, again.roots[3]), (header.place, lock.bits()));
    let mut dials = bed.dials();
    let (pool, lease) = bed
        .try_open(vec![dials.remove(1)], PoolOptions::new(KIND))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(
        pool.client().id,
        process.pool.client().id,
        "that one waits for recovery"
    );
    let ctx = lease.context().clone();
    let lease = crate::bed::Removable::new(lease);
    bed.fabric.host(&ctx, Box::new(lease.clone()));
    let watcher = bed.thread(&Process { pool, lease });
    assert!(is_dead(&bed, &watcher, lock));

    let other_size = NodeOptions {
        bytes: 8 << 20,
        ..options
    };
    let device = bed.fabric.device(0);
    let refused = drover_memnode::node::Node::<
        <crate::bed::Stepped<drover_verbs_suite::loopback::Loopback> as Fabric>::P,
    >::new(&device, &other_size);
    let error = refused.err().expect("a file of another size").to_string();
    assert_eq!(error, "memory: the file holds a node of another size");
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn short_times_are_consistent() {
    assert!(short_times().are_consistent());
    let name = <<crate::bed::Simulated as Fabric>::P as Provider>::NAME;
    assert_eq!(name, "sim");
}
