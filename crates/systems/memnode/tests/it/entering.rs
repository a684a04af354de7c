//! Goal: a process enters a pool, or learns in one sentence why not.

use crate::bed::{Bed, Fabric, KIND, loopback, small};
use drover_base::{Cpu, Ns};
use drover_control::{ControlStream, Frame};
use drover_memnode::node::NodeOptions;
use drover_memnode::{
    Addr, Inquiry, Need, NodeStatus, Order, PoolError, PoolKind, PoolMembership, PoolOptions,
};
use drover_testkit::on_pool_fabrics;
use drover_verbs::Context;

on_pool_fabrics! { a_process_enters_and_reads_roots a_task_reads_and_writes }

fn a_process_enters_and_reads_roots<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 3);
    for (index, node) in bed.nodes.iter().enumerate() {
        node.with(|served| {
            served
                .node
                .change(|state| state.loader().set_root(5, 50 + index as u64));
        });
    }
    // In any order of the addresses.
    let mut dials = bed.dials();
    dials.reverse();
    let (pool, _lease) = bed
        .try_open(dials, PoolOptions::new(KIND))
        .unwrap_or_else(|error| panic!("{error}"));
    let roots: Vec<u64> = pool.nodes().iter().map(|node| node.header().roots[5]).collect();
    assert_eq!(roots, [50, 51, 52]);
    assert_eq!(pool.node(1).server(), "node1");
    let incarnations: Vec<u64> = pool
        .nodes()
        .iter()
        .map(|node| node.header().incarnation)
        .collect();
    assert_ne!(incarnations[0], incarnations[1]);
    let other = bed.process();
    assert_eq!((pool.client().id, other.pool.client().id), (1, 2));
}

fn a_task_reads_and_writes<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 2);
    let process = bed.process();
    let thread = bed.thread(&process);
    let found = bed.run(&thread, |cx, nodes, arena| async move {
        let addr = arena.alloc(&cx, 1, 100, Need::Ordinary).await.expect("a block");
        let at = nodes.locate_to_write(&cx, addr, 100).expect("inside");
        let mut buffer = cx.buffer(100).expect("a buffer");
        buffer.fill(7);
        cx.write(at.peer, buffer, at.remote).expect("staged");
        let root = nodes.root(1, 9);
        let swapped = cx.cas(root.peer, root.remote, 0, addr.bits()).expect("staged");
        assert_eq!(cx.sync().await.expect("requests").value(swapped), 0);
        let ticket = cx
            .read(root.peer, cx.buffer(8).expect("a buffer"), root.remote)
            .expect("staged");
        let word = cx.sync().await.expect("a READ").take(ticket);
        let addr = Addr::from_bits(u64::from_le_bytes(word[..8].try_into().expect("8 bytes")));
        let at = nodes.locate(addr, 100).expect("inside");
        let ticket = cx
            .read(at.peer, cx.buffer(100).expect("a buffer"), at.remote)
            .expect("staged");
        cx.sync().await.expect("a READ").take(ticket).to_vec()
    });
    assert_eq!(found, [7; 100]);
}

#[test]
fn pointers_are_checked_before_anything_is_posted() {
    let bed = Bed::new(loopback(), 2);
    let thread = bed.thread(&bed.process());
    let end = thread.nodes.node(1).header().geometry.capacity;
    for (addr, bytes, is_inside) in [
        (Addr::NULL, 8, false),
        (Addr::new(0, 100), 8, false),
        (Addr::new(1, 16 << 10), 8, true),
        (Addr::new(1, end - 8), 8, true),
        (Addr::new(1, end - 8), 9, false),
        (Addr::new(1, end - 8), usize::MAX, false),
        (Addr::new(2, 16 << 10), 8, false),
        (Addr::from_bits(1 << 48 | 1 << 20), 8, false),
        (Addr::from_bits(u64::MAX), 1, false),
    ] {
        assert_eq!(
            thread.nodes.locate(addr, bytes).is_ok(),
            is_inside,
            "{bytes} at {addr}"
        );
    }
}

fn refused<F: Fabric>(bed: &Bed<F>, nodes: &[usize], options: PoolOptions) -> String {
    let mut dials: Vec<_> = bed.dials().into_iter().map(Some).collect();
    let again: Vec<_> = bed.dials();
    let mut chosen = Vec::new();
    let mut again = again.into_iter().map(Some).collect::<Vec<_>>();
    for &node in nodes {
        let dial = dials[node].take().or_else(|| again[node].take());
        chosen.push(dial.expect("at most twice"));
    }
    match bed.try_open(chosen, options) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    }
}

fn elsewhere(index: u32, count: u32, pool: u64, kind: PoolKind) -> NodeOptions {
    NodeOptions {
        place: Some(PoolMembership {
            pool,
            index,
            count,
            kind,
        }),
        ..small()
    }
}

#[test]
fn each_mistake_has_one_clear_error() {
    let mut bed = Bed::new(loopback(), 2);
    bed.add_node(&elsewhere(1, 2, 78, KIND));
    bed.add_node(&NodeOptions { ..small() });
    bed.nodes[1].with(|served| served.node.require_secret(b"open sesame"));
    let open = |secret: &[u8]| PoolOptions {
        secret: secret.to_vec(),
        ..PoolOptions::new(KIND)
    };
    assert_eq!(refused(&bed, &[0, 1], open(b"")), "node1 requires another secret");
    assert_eq!(
        refused(&bed, &[0, 1], open(b"open barley")),
        "node1 requires another secret"
    );
    let open = || open(b"open sesame");
    assert_eq!(refused(&bed, &[1], open()), "node 0 of the pool's 2 is missing");
    assert_eq!(refused(&bed, &[0], open()), "node 1 of the pool's 2 is missing");
    assert_eq!(
        refused(&bed, &[0, 0], open()),
        "node0 and node0 are both node 0 of the pool"
    );
    assert_eq!(
        refused(&bed, &[0, 2], open()),
        "node2 and node0 belong to different pools"
    );
    assert_eq!(
        refused(&bed, &[0, 3], open()),
        "node3 is part of no pool: create one first"
    );
    assert_eq!(refused(&bed, &[], open()), "a pool has at least one node");
    let race = PoolOptions {
        kind: PoolKind::new("race"),
        ..open()
    };
    assert_eq!(
        refused(&bed, &[0, 1], race),
        "node0 belongs to a pool of kind test, not race"
    );
    assert!(
        bed.try_open(bed.dials().into_iter().take(2).collect(), open())
            .is_ok()
    );
}

#[test]
fn a_node_that_is_away_is_named() {
    let bed = Bed::new(loopback(), 2);
    *bed.nodes[1].0.borrow_mut() = None;
    let options = PoolOptions {
        timeout: Ns::from_ms(500),
        ..PoolOptions::new(KIND)
    };
    let error = refused(&bed, &[0, 1], options);
    assert_eq!(error, "node1 did not answer in time");
}

#[test]
fn a_full_client_table_refuses() {
    let bed = Bed::new(loopback(), 1);
    let processes: Vec<_> = (0..8).map(|_| bed.process()).collect();
    let error = refused(&bed, &[0], PoolOptions::new(KIND));
    assert_eq!(
        error,
        "node0 refused: all its places for clients are in use, or wait for recovery"
    );
    drop(processes);
}

#[test]
fn another_version_is_refused_by_name() {
    let bed = Bed::new(loopback(), 1);
    let (mut here, there) = ControlStream::pair();
    bed.nodes[0].with(|served| served.node.adopt(there));
    let body: &[u8] = &[99, 0, 1, 2, 3];
    here.send(drover_control::kind::APPLICATION, body, &[])
        .expect("sent");
    let mut said: Option<Result<Option<Frame>, String>> = None;
    bed.until("an answer", || {
        said = Some(here.recv(Ns::ZERO).map_err(|error| error.to_string()));
        !matches!(said, Some(Ok(None)))
    });
    let said = said.expect("an answer").expect_err("a refusal");
    assert!(said.contains("the server speaks version 4"), "{said}");
}

fn ask<F: Fabric>(bed: &Bed<F>, order: Order) -> Result<Vec<NodeStatus>, PoolError> {
    let mut inquiry = Inquiry::new(bed.dials(), PoolOptions::new(KIND), order);
    let mut answer = None;
    let mut now = Ns::ZERO;
    bed.until("an answer", || {
        now += Ns::from_us(1);
        answer = inquiry.poll(now);
        answer.is_some()
    });
    answer.expect("an answer")?.into_iter().collect()
}

#[test]
fn a_pool_is_made_once() {
    let mut bed = Bed::with(loopback(), 0, &small());
    bed.add_node(&small());
    bed.add_node(&small());
    let before = ask(&bed, Order::Status).expect("headers");
    assert!(before.iter().all(|node| node.header.place.is_none()));
    let text = |node: &NodeStatus| node.to_string();
    assert!(
        text(&before[0]).starts_with("server node0\npool none\n"),
        "{}",
        text(&before[0])
    );
    ask(&bed, Order::Create { pool: 5 }).expect("it is made");
    let _processes = [bed.process(), bed.process()];
    let after = ask(&bed, Order::Status).expect("headers");
    let text = text(&after[1]);
    for line in [
        "pool 0000000000000005",
        "kind test",
        "node 1 of 2",
        "chunks 256",
        "fill ok",
        "clients 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let error = ask(&bed, Order::Create { pool: 6 }).expect_err("it was made");
    assert_eq!(error.to_string(), "node0 is part of a pool already");
    // One of them only: nothing happens to the others.
    bed.add_node(&small());
    ask(&bed, Order::Create { pool: 6 }).expect_err("some are part of a pool");
    assert_eq!(ask(&bed, Order::Status).expect("headers")[2].header.place, None);
}

#[test]
fn an_operator_shuts_a_client_out() {
    let bed = Bed::new(loopback(), 2);
    let (out, other) = (bed.process(), bed.process());
    let client = out.pool.client();
    ask(&bed, Order::Fence { client }).expect("they do it");
    bed.until("it learns of it", || {
        out.pool.nodes().iter().all(|node| node.is_lost())
    });
    bed.pass(Ns::from_ms(50));
    let after = ask(&bed, Order::Status).expect("headers");
    assert!(after.iter().all(|node| node.header.clients == 1));
    assert!(other.pool.nodes().iter().all(|node| !node.is_lost()));
}

/// A node has place for 1,024 connections of a client.
#[test]
fn connections_that_are_mended_take_the_place_of_the_old_ones() {
    let bed = Bed::new(loopback(), 1);
    let process = bed.process();
    let thread = bed.thread(&process);
    let mut connections = thread.nodes.connections();
    for mended in 0..1_100 {
        let joining = thread.tasks.with(|tasks| {
            process
                .pool
                .join_again(&thread.ctx, tasks, &connections, Ns::from_s(1_000))
        });
        let mut joining = joining.expect("asked");
        let mut nodes = None;
        bed.until("an answer", || {
            nodes = thread
                .tasks
                .with(|tasks| joining.poll(tasks, thread.ctx.cpu().refresh()));
            nodes.is_some()
        });
        let nodes = nodes.expect("an answer");
        connections = nodes
            .unwrap_or_else(|error| panic!("after {mended}: {error}"))
            .connections();
    }
    let addr = bed.run(&thread, |cx, _, arena| async move {
        arena.alloc(&cx, 0, 100, Need::Ordinary).await
    });
    assert!(addr.is_ok(), "over the last connection: {addr:?}");
}

/// One node knows a hundred clients that the others do not have. To ask for one number after another took seconds, and clients
/// that came together were in each other's way for ever.
#[test]
fn a_number_that_is_free_everywhere_is_asked_for_at_once() {
    let options = NodeOptions {
        client_count: 128,
        ..small()
    };
    let bed = Bed::with(loopback(), 2, &options);
    let alone = || PoolOptions {
        alone: true,
        ..PoolOptions::new(KIND)
    };
    let others: Vec<_> = (0..100)
        .map(|_| bed.try_open(vec![bed.dials().swap_remove(1)], alone()))
        .collect();
    assert!(others.iter().all(|other| other.is_ok()));
    let (pool, _lease) = bed
        .try_open(bed.dials(), PoolOptions::new(KIND))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(pool.client().id, 101);
    let entered = bed.nodes[0].with(|served| served.node.host().client_counters().entered);
    assert_eq!(entered, 1, "attempts at the first node");
}

#[test]
fn a_process_enters_at_one_node_alone() {
    let bed = Bed::new(loopback(), 3);
    let alone = || PoolOptions {
        alone: true,
        ..PoolOptions::new(KIND)
    };
    for index in 0..3 {
        let dial = bed.dials().swap_remove(index);
        let (pool, _lease) = bed
            .try_open(vec![dial], alone())
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pool.node_count(), 3);
        for other in 0..3 {
            let node = pool.node(other);
            assert_eq!(
                (node.is_absent(), node.is_lost()),
                (other != index, other != index)
            );
            assert_eq!(node.place().index as usize, other);
        }
        assert_eq!(pool.node(index).server(), format!("node{index}"));
    }
    let options = PoolOptions {
        kind: PoolKind::new("other"),
        ..alone()
    };
    let dial = bed.dials().swap_remove(1);
    let error = bed.try_open(vec![dial], options).err().expect("another kind");
    assert_eq!(
        error.to_string(),
        "node1 belongs to a pool of kind test, not other"
    );
    let error = bed.try_open(bed.dials(), alone()).err().expect("three nodes");
    assert_eq!(error.to_string(), "a pool has at least one node");
}
