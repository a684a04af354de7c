//! Goal: what a dead process left is repaired: its locks, its half-done work, its memory, its number.

use crate::bed::{Bed, Fabric, KIND, Thread, loopback, small};
use drover_base::Ns;
use drover_memnode::locks::Lock;
use drover_memnode::node::NodeOptions;
use drover_memnode::recovery::{Recovered, Recovery, RecoveryOptions, Repair, recover};
use drover_memnode::{Addr, ClientId, MemoryError, Need, Nodes, PoolOptions};
use drover_rt::TaskCx;
use drover_testkit::on_pool_fabrics;
use drover_verbs::Provider;
use std::collections::BTreeSet;

on_pool_fabrics! { a_dead_process_leaves_nothing_behind a_node_is_repaired_by_who_entered_it_alone }

/// A structure: a lock in root 0, blocks of 64 bytes linked by roots 16 to 47, a long one by root 48.
pub struct Roots;
const LOCK: usize = 0;
const FIRST: usize = 16;
const COUNT: usize = 32;
pub const LONG: usize = 48;
pub const LONG_BYTES: usize = 40_000;

pub async fn root<P: Provider>(cx: &TaskCx<P>, nodes: &Nodes<P>, index: usize) -> Result<u64, MemoryError> {
    let at = nodes.root(0, index);
    let ticket = cx.read(at.peer, cx.buffer(8)?, at.remote)?;
    let bytes = cx.sync().await?.take(ticket);
    Ok(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")))
}

pub async fn set_root<P: Provider>(
    cx: &TaskCx<P>,
    nodes: &Nodes<P>,
    index: usize,
    from: u64,
    to: u64,
) -> Result<(), MemoryError> {
    let at = nodes.root(0, index);
    let ticket = cx.cas(at.peer, at.remote, from, to)?;
    assert_eq!(cx.sync().await?.value(ticket), from);
    Ok(())
}

impl<P: Provider> Repair<P> for Roots {
    async fn repair(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        _: usize,
        dead: &[ClientId],
    ) -> Result<(), MemoryError> {
        let word = root(cx, nodes, LOCK).await?;
        match dead.contains(&Lock::from_bits(word).owner()) {
            true => set_root(cx, nodes, LOCK, word, 0).await,
            false => Ok(()),
        }
    }

    async fn visit(
        &self,
        cx: &TaskCx<P>,
        nodes: &Nodes<P>,
        _: usize,
        mark: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        for index in FIRST..FIRST + COUNT {
            mark(Addr::from_bits(root(cx, nodes, index).await?), 64);
        }
        mark(Addr::from_bits(root(cx, nodes, LONG).await?), LONG_BYTES);
        Ok(())
    }
}

/// Takes the lock, links every root's block and the long one, and holds some blocks that it never links.
fn build<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>) -> Lock {
    let lock = thread.nodes.pool().new_lock();
    bed.run(thread, move |cx, nodes, arena| async move {
        set_root(&cx, &nodes, LOCK, 0, lock.bits()).await.expect("free");
        let _pin = nodes.pin(0);
        for index in FIRST..FIRST + COUNT {
            // Chunks that are in use, and some that are not.
            for _ in 0..20 {
                arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
            }
            arena.alloc(&cx, 0, 8192, Need::Ordinary).await.expect("memory");
            let addr = arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
            set_root(&cx, &nodes, index, 0, addr.bits()).await.expect("empty");
        }
        let long = arena
            .alloc(&cx, 0, LONG_BYTES, Need::Ordinary)
            .await
            .expect("memory");
        set_root(&cx, &nodes, LONG, 0, long.bits()).await.expect("empty");
        arena
            .alloc(&cx, 0, LONG_BYTES, Need::Ordinary)
            .await
            .expect("memory");
    });
    lock
}

fn maintain<P: Provider>(thread: &Thread<P>) {
    let _ = thread.spawn(|cx, _, arena| async move { arena.maintain(&cx, Ns::from_ms(1)).await });
}

fn recovered<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>, options: RecoveryOptions) -> Recovery {
    bed.run(thread, move |cx, _, arena| async move {
        recover(&cx, &arena, 0, &Roots, options)
            .await
            .expect("a recovery")
    })
}

pub fn wait_until_dead<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>, lock: Lock) {
    bed.run(thread, move |cx, nodes, _| async move {
        while !nodes.owner_is_dead(&cx, 0, lock).await.expect("a READ") {
            cx.sleep(Ns::from_us(50)).await;
        }
    });
}

fn linked<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>) -> BTreeSet<Addr> {
    bed.run(thread, |cx, nodes, _| async move {
        let mut linked = BTreeSet::new();
        for index in FIRST..FIRST + COUNT {
            linked.insert(Addr::from_bits(root(&cx, &nodes, index).await.expect("a READ")));
        }
        linked
    })
}

/// All blocks of 64 bytes that `thread` gets before the node is full.
fn fill<F: Fabric>(bed: &Bed<F>, thread: &Thread<F::P>) -> Vec<Addr> {
    bed.run(thread, |cx, _, arena| async move {
        let mut got = Vec::new();
        while let Ok(addr) = arena.alloc(&cx, 0, 64, Need::Ordinary).await {
            got.push(addr);
        }
        got
    })
}

fn a_dead_process_leaves_nothing_behind<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 1);
    let (dying, first, second) = (bed.process(), bed.process(), bed.process());
    let threads = [bed.thread(&first), bed.thread(&second)];
    threads.iter().for_each(maintain);
    let thread = bed.thread(&dying);
    let lock = build(&bed, &thread);
    // Another process unlinks one of its blocks, and keeps it as free memory of its own.
    bed.run(&threads[1], |cx, nodes, arena| async move {
        let pin = nodes.pin(0);
        let word = root(&cx, &nodes, FIRST).await.expect("a READ");
        let new = arena.alloc(&cx, 0, 64, Need::Ordinary).await.expect("memory");
        set_root(&cx, &nodes, FIRST, word, new.bits())
            .await
            .expect("as read");
        arena.free(&pin, Addr::from_bits(word), 64);
    });
    let nobody = recovered(&bed, &threads[0], RecoveryOptions::default());
    assert_eq!(nobody, Recovery::Done(Recovered::default()), "nobody is dead");
    let client = dying.pool.client();
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    wait_until_dead(&bed, &threads[0], lock);

    let Recovery::Done(done) = recovered(&bed, &threads[0], RecoveryOptions::default()) else {
        panic!("it was not completed");
    };
    assert_eq!(done.clients, [client]);
    // 3 chunks of 64 bytes, 16 of 8 KiB, two runs of 3 chunks.
    assert_eq!(done.chunks_swept, 3 + 16 + 2);
    assert_eq!(done.chunks_returned, 16 + 3);
    assert_eq!(done.blocks_freed, 3 * 256 - (COUNT - 1));

    // The lock is free; nobody gets a block that is linked, or one that another got.
    let word = bed.run(&threads[1], |cx, nodes, _| async move {
        root(&cx, &nodes, LOCK).await.expect("a READ")
    });
    assert_eq!(word, 0);
    let linked = linked(&bed, &threads[0]);
    assert_eq!(linked.len(), COUNT);
    let mut got = fill(&bed, &threads[0]);
    got.extend(fill(&bed, &threads[1]));
    let different: BTreeSet<Addr> = got.iter().copied().collect();
    assert_eq!(different.len(), got.len(), "a block was given twice");
    assert!(different.is_disjoint(&linked), "a block in use was given");
    // All but header and tables, the reserve, and the long block.
    let chunks = 256 - 3 - 6 - 3;
    assert!(
        got.len() + COUNT > (chunks - 1) * 256,
        "{} blocks leaked",
        chunks * 256 - got.len()
    );
    // Its number is free again.
    let next = bed.process();
    assert_eq!(next.pool.client().id, client.id);
    assert_ne!(next.pool.client(), client);
}

#[test]
fn another_goes_on_when_a_repairer_dies_too() {
    let bed = Bed::new(loopback(), 1);
    let (dying, first, second) = (bed.process(), bed.process(), bed.process());
    let (thread, repairing, other) = (bed.thread(&dying), bed.thread(&first), bed.thread(&second));
    let lock = build(&bed, &thread);
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    wait_until_dead(&bed, &other, lock);
    // It waits for the other process's thread, which does not take notice of the sweep.
    let lock = repairing.nodes.pool().new_lock();
    let _ = repairing.spawn(|cx, _, arena| async move {
        let _ = recover(&cx, &arena, 0, &Roots, RecoveryOptions::default()).await;
    });
    bed.pass(Ns::from_ms(100));
    let busy = recovered(&bed, &other, RecoveryOptions::default());
    assert_eq!(
        busy,
        Recovery::Busy {
            owner: first.pool.client()
        }
    );
    let dead = first.pool.client();
    first.lease.0.take();
    repairing.tasks.0.take();
    drop((first, repairing));
    wait_until_dead(&bed, &other, lock);
    let Recovery::Done(done) = recovered(&bed, &other, RecoveryOptions::default()) else {
        panic!("it was not completed");
    };
    assert!(done.clients.len() == 2 && done.clients.contains(&dead));
    assert_eq!((done.chunks_swept, done.chunks_returned), (3 + 16 + 2, 16 + 3));
}

#[test]
fn a_thread_that_takes_no_notice_is_waited_for_and_named() {
    let bed = Bed::new(loopback(), 1);
    let (dying, first, second) = (bed.process(), bed.process(), bed.process());
    let (thread, repairing, _deaf) = (bed.thread(&dying), bed.thread(&first), bed.thread(&second));
    let lock = build(&bed, &thread);
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    wait_until_dead(&bed, &repairing, lock);
    let options = RecoveryOptions {
        patience: Ns::from_ms(100),
        ..RecoveryOptions::default()
    };
    assert_eq!(recovered(&bed, &repairing, options), Recovery::Unready);
    let word = bed.run(&repairing, |cx, nodes, _| async move {
        root(&cx, &nodes, LOCK).await.expect("a READ")
    });
    assert_eq!(word, 0, "the lock was released all the same");
}

/// The number of a dead client that one node has repaired, and another has not, is nobody's.
#[test]
fn a_number_that_a_node_still_knows_is_not_given_away() {
    let bed = Bed::new(loopback(), 2);
    let helper = bed.process();
    let thread = bed.thread(&helper);
    let dying = bed.process();
    assert_eq!(dying.pool.client().id, 2);
    dying.lease.0.take();
    drop(dying);
    bed.pass(Ns::from_ms(50));
    let done = bed.run(&thread, |cx, _, arena| async move {
        recover(&cx, &arena, 0, &Roots, RecoveryOptions::default()).await
    });
    assert!(
        matches!(&done, Ok(Recovery::Done(done)) if done.clients.len() == 1),
        "{done:?}"
    );
    let next = bed.process();
    assert_eq!(next.pool.client().id, 3, "2 is still known to node 1");
    assert!(next.pool.nodes().iter().all(|node| !node.is_lost()));
}

/// A structure that nobody has.
struct Nothing;

impl<P: Provider> Repair<P> for Nothing {
    async fn repair(&self, _: &TaskCx<P>, _: &Nodes<P>, _: usize, _: &[ClientId]) -> Result<(), MemoryError> {
        Ok(())
    }

    async fn visit(
        &self,
        _: &TaskCx<P>,
        _: &Nodes<P>,
        _: usize,
        _: &mut dyn FnMut(Addr, usize),
    ) -> Result<(), MemoryError> {
        Ok(())
    }
}

/// No client is left: one that enters at a node alone, as the node itself does, finds what the dead one left there. Twice, since
/// it may be interrupted.
fn a_node_is_repaired_by_who_entered_it_alone<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 3);
    let dying = bed.process();
    let thread = bed.thread(&dying);
    bed.run(&thread, |cx, nodes, arena| async move {
        for node in 0..3 {
            let _pin = nodes.pin(node);
            arena.alloc(&cx, node, 64, Need::Ordinary).await.expect("memory");
        }
    });
    let client = dying.pool.client();
    dying.lease.0.take();
    thread.tasks.0.take();
    drop((dying, thread));
    for node in [2, 0, 1] {
        let options = PoolOptions {
            alone: true,
            ..PoolOptions::new(KIND)
        };
        let opened = bed.try_open(vec![bed.dials().swap_remove(node)], options);
        let process = bed.host(opened.unwrap_or_else(|error| panic!("{error}")));
        let thread = bed.thread(&process);
        maintain(&thread);
        for attempt in 0..2 {
            let done = bed.run(&thread, move |cx, _, arena| async move {
                loop {
                    let done = recover(&cx, &arena, node, &Nothing, RecoveryOptions::default()).await;
                    match done.expect("a recovery") {
                        // The node has not noticed yet that it died.
                        Recovery::Done(done) if attempt == 0 && done.clients.is_empty() => {
                            cx.sleep(Ns::from_us(50)).await;
                        }
                        done => return done,
                    }
                }
            });
            let Recovery::Done(done) = done else {
                panic!("node {node}: {done:?}");
            };
            assert_eq!(
                (done.chunks_swept, done.chunks_returned),
                (1 - attempt, 1 - attempt)
            );
            // The node may have heard of the first one by then.
            assert!(attempt == 1 || done.clients == [client], "node {node}: {done:?}");
        }
    }
}

/// Where dead clients have all places, one that comes gets in, and repairs what they left, the one whose place it got included.
#[test]
fn a_node_full_of_dead_clients_lets_one_in() {
    let options = NodeOptions {
        client_count: 2,
        ..small()
    };
    let bed = Bed::with(loopback(), 2, &options);
    let dying = [bed.process(), bed.process()];
    let clients = dying.each_ref().map(|process| process.pool.client());
    let thread = bed.thread(&dying[0]);
    build(&bed, &thread);
    thread.tasks.0.take();
    for process in dying {
        process.lease.0.take();
    }
    drop(thread);
    bed.pass(Ns::from_ms(50));

    let helper = bed.process();
    assert_eq!(
        helper.pool.client().id,
        clients[0].id,
        "the place of a dead client"
    );
    assert_ne!(helper.pool.client(), clients[0]);
    let refused = bed.try_open(bed.dials(), PoolOptions::new(KIND));
    let why = refused
        .map(|_| ())
        .expect_err("somebody lives who repairs")
        .to_string();
    assert!(why.contains("in use, or wait for recovery"), "{why}");
    let thread = bed.thread(&helper);
    maintain(&thread);
    let Recovery::Done(done) = recovered(&bed, &thread, RecoveryOptions::default()) else {
        panic!("it was not completed");
    };
    assert_eq!(done.clients, clients);
    assert_eq!((done.chunks_swept, done.chunks_returned), (3 + 16 + 2, 16 + 3));
    let word = bed.run(&thread, |cx, nodes, _| async move {
        root(&cx, &nodes, LOCK).await.expect("a READ")
    });
    assert_eq!(word, 0, "its predecessor's lock");
    // The node is told by a message.
    bed.pass(Ns::from_ms(5));
    let again = recovered(&bed, &thread, RecoveryOptions::default());
    assert_eq!(again, Recovery::Done(Recovered::default()), "nobody is left");
}
