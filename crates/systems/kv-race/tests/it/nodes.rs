//! Goal: a pool may have several nodes, and a node several tables; a node that dies is no matter of the others.

use crate::bed::{Bed, BedOptions, Fabric, META, sim, simulated};
use drover_base::{HashSeed, Ns};
use drover_kv_race::{Race, RaceError};
use drover_memnode::header::{HEADER_BYTES, Header};
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_rt::{TaskCx, TaskOptions};
use drover_testkit::on_pool_fabrics;
use drover_verbs::Provider;
use std::cell::RefCell;
use std::rc::Rc;

on_pool_fabrics! {
    race_tables_of_two_nodes_grow
    race_tables_of_three_nodes_grow
}

fn options(node_count: usize, tables: u32) -> BedOptions {
    let mut options = BedOptions::new(2);
    options.node_count = node_count;
    options.race.create.as_mut().expect("a table").tables = tables;
    options
}

async fn fill<P: Provider>(cx: &TaskCx<P>, race: &Race<P>, keys: std::ops::Range<u32>) {
    for key in keys {
        let put = race.put(cx, &key.to_le_bytes(), &key.to_be_bytes(), META).await;
        put.expect("space");
    }
}

async fn assert_there<P: Provider>(cx: &TaskCx<P>, race: &Race<P>, keys: impl Iterator<Item = u32>) {
    for key in keys {
        let found = race.get(cx, &key.to_le_bytes()).await.expect("no failure");
        assert_eq!(found.expect("put before").value(), key.to_be_bytes(), "{key}");
    }
}

fn race_tables_of_two_nodes_grow<F: Fabric>(fabric: F) {
    tables_grow(fabric, 2, 3);
}

fn race_tables_of_three_nodes_grow<F: Fabric>(fabric: F) {
    tables_grow(fabric, 3, 1);
}

/// Clients whose directories are out of date fill the tables.
fn tables_grow<F: Fabric>(fabric: F, nodes: usize, tables: u32) {
    let bed = Bed::with(fabric, options(nodes, tables));
    let processes = [bed.process(), bed.process()];
    let outs: Vec<_> = (0u32..)
        .zip(&processes)
        .map(|(number, process)| {
            process.spawn(move |cx, race| async move {
                fill(&cx, &race, number * 400..number * 400 + 400).await;
                assert_there(&cx, &race, number * 400..number * 400 + 400).await;
            })
        })
        .collect();
    bed.wait_for(&outs);
    // Who comes later finds the same tables, whatever it would create.
    let other = bed.process_with(|options| options.race.create = None);
    bed.run(&other, |cx, race| async move {
        assert_there(&cx, &race, 0..800).await;
        Ok(())
    });
    for node in 0..nodes {
        let mut bytes = vec![0; HEADER_BYTES];
        bed.memory(node).copy_out(0, &mut bytes);
        let header = Header::decode(&bytes, u64::MAX).expect("a header");
        let roots = header.roots.iter().filter(|root| **root != 0).count();
        assert_eq!(roots, tables as usize, "tables of node {node}");
    }
}

/// What a process leaves is repaired at all nodes and in all tables.
#[test]
fn race_a_dead_process_is_repaired_at_every_node() {
    let bed = Bed::with(simulated(11), options(2, 3));
    let (victim, survivor) = (bed.process(), bed.process());
    let stored = Rc::new(RefCell::new(Vec::new()));
    for task in 0..6u32 {
        let stored = stored.clone();
        drop(victim.spawn(move |cx, race| async move {
            for key in (0..300).map(|at| at * 6 + task) {
                fill(&cx, &race, key..key + 1).await;
                stored.borrow_mut().push(key);
            }
        }));
    }
    bed.pass(Ns::from_us(700));
    victim.kill();
    let stored = stored.take();
    let dead = victim.pool.client();
    for node in 0..2 {
        let arena = survivor.arena.clone();
        bed.run(&survivor, move |cx, race| async move {
            loop {
                let recovery = recover(&cx, &arena, node, &race, RecoveryOptions::default()).await?;
                match recovery {
                    Recovery::Done(done) if done.clients == [dead] => return Ok(()),
                    _ => cx.sleep(Ns::from_ms(10)).await,
                }
            }
        });
    }
    assert!(stored.len() > 100, "{} keys", stored.len());
    bed.run(&survivor, |cx, race| async move {
        assert_there(&cx, &race, stored.into_iter()).await;
        // Locks that are held still would end this.
        fill(&cx, &race, 10_000..11_000).await;
        Ok(())
    });
}

/// Operations on a dead node fail. Those on the other nodes go on meanwhile, of the same process and of others.
#[test]
fn race_a_dead_node_stalls_no_other() {
    let mut options = options(3, 1);
    options.tasks = TaskOptions {
        patience: Ns::from_ms(50),
        ..TaskOptions::default()
    };
    let bed = Bed::with(sim(), options);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        fill(&cx, &race, 0..90).await;
        Ok(())
    });
    let node_of = |key: u32| HashSeed::new(1, 2).hash(&key.to_le_bytes()).partition_index(3);
    drop(bed.pool.nodes[1].0.take());
    let lost: Vec<_> = (0..90)
        .filter(|key| node_of(*key) == 1)
        .map(|key| {
            process.spawn(move |cx, race| async move {
                let got = race
                    .get(&cx, &key.to_le_bytes())
                    .await
                    .map(|found| found.is_some());
                let put = race.put(&cx, &key.to_le_bytes(), &[1; 4], META).await;
                (got, put)
            })
        })
        .take(30)
        .collect();
    bed.pass(Ns::from_us(50));
    let before = bed.pool.fabric.0.now();
    bed.run(&process, move |cx, race| async move {
        for _ in 0..20 {
            assert_there(&cx, &race, (0..90).filter(|key| node_of(*key) != 1)).await;
        }
        for key in (0..300).filter(|key| node_of(*key) != 1) {
            fill(&cx, &race, key..key + 1).await;
        }
        Ok(())
    });
    // Of simulated time: no operation has waited for the dead node's.
    let time = bed.pool.fabric.0.now() - before;
    assert!(time < Ns::from_ms(20), "{time}");
    bed.pass(Ns::from_s(1));
    assert!(!lost.is_empty());
    for out in lost {
        let (got, put) = out.take().expect("it has ended");
        assert!(got.is_err() && put.is_err(), "{got:?} {put:?}");
        assert!(!matches!(put, Err(RaceError::TableFull | RaceError::TooLarge)));
    }
}
