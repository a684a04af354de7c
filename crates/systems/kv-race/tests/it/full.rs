//! Goal: a full node refuses writes and nothing else, or removes old items where it may; and memory does not leak.

use crate::bed::{Bed, BedOptions, Fabric, META, sim};
use drover_base::Ns;
use drover_kv_race::{Race, RaceError};
use drover_memnode::MemoryError;
use drover_rt::TaskCx;
use drover_testkit::on_pool_fabrics;
use drover_verbs::Provider;

on_pool_fabrics! {
    race_a_full_node_refuses_writes_only
    race_a_cache_removes_old_items
    race_a_table_may_say_that_it_is_a_cache
}

const VALUE: [u8; 900] = [7; 900];

fn options() -> BedOptions {
    let mut options = BedOptions::new(16);
    options.node.bytes = 1 << 20;
    options
}

/// Puts keys until one is refused; returns that one.
async fn fill<P: Provider>(cx: &TaskCx<P>, race: &Race<P>) -> (u32, RaceError) {
    for key in 0u32.. {
        if let Err(error) = race.put(cx, &key.to_le_bytes(), &VALUE, META).await {
            return (key, error);
        }
    }
    unreachable!("a node is full some time")
}

fn race_a_full_node_refuses_writes_only<F: Fabric>(fabric: F) {
    let bed = Bed::with(fabric, options());
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        let (full, error) = fill(&cx, &race).await;
        assert!(full > 300, "{full} keys");
        assert_eq!(error, MemoryError::Full { node: 0 }.into());
        let key = |key: u32| key.to_le_bytes();
        let refused = race.update(&cx, &key(5), &VALUE, META).await;
        assert_eq!(refused, Err(error), "an update needs a block, too");
        for number in 0..full {
            assert_eq!(
                race.get(&cx, &key(number)).await?.expect("put before").value(),
                VALUE
            );
        }
        assert!(race.get(&cx, &key(full)).await?.is_none(), "it was refused");
        for number in 0..full / 2 {
            assert!(race.delete(&cx, &key(number)).await?);
        }
        // When no operation is left that may look at them, their blocks are used again.
        for number in 0..full / 2 {
            let mut waits = 0;
            while let Err(error) = race.put(&cx, &key(number), &VALUE, META).await {
                assert!(error == MemoryError::Full { node: 0 }.into() && waits < 10_000);
                cx.sleep(Ns::from_ms(1)).await;
                waits += 1;
            }
        }
        Ok(())
    });
}

/// A cache takes eight times as much as the node has.
fn race_a_cache_removes_old_items<F: Fabric>(fabric: F) {
    let bed = Bed::with(fabric, options());
    let process = bed.process_with(|options| options.race.evicts = true);
    bed.run(&process, |cx, race| async move {
        for key in 0..6000u32 {
            let value = if key % 4 == 0 { &VALUE[..] } else { &VALUE[..600] };
            race.put(&cx, &key.to_le_bytes(), value, META).await?;
            if key % 7 == 0 {
                let found = race.get(&cx, &key.to_le_bytes()).await?;
                assert_eq!(found.expect("put just now").value(), value);
            }
        }
        let mut there = 0;
        for key in 0..6000u32 {
            there += u32::from(race.get(&cx, &key.to_le_bytes()).await?.is_some());
        }
        assert!(there > 300, "{there} items are left");
        Ok(())
    });
    assert!(process.race.stats().evicted > 4000, "{:?}", process.race.stats());
}

/// Whether a pool is a cache may be said by its tables: then all processes agree, whatever their options say.
fn race_a_table_may_say_that_it_is_a_cache<F: Fabric>(fabric: F) {
    let mut options = options();
    options.race.create.as_mut().expect("a table").evicts = true;
    let bed = Bed::with(fabric, options);
    let (first, second) = (
        bed.process(),
        bed.process_with(|options| options.race.create = None),
    );
    for process in [&first, &second] {
        bed.run(process, |cx, race| async move {
            for key in 0..1500u32 {
                race.put(&cx, &key.to_le_bytes(), &VALUE, META).await?;
            }
            Ok(())
        });
        assert!(process.race.stats().evicted > 0);
    }
}

/// Few long items in a table with place for many: no draw meets one.
#[test]
fn race_a_cache_finds_its_few_items() {
    let mut options = BedOptions::new(1024);
    options.node.bytes = 1 << 20;
    options.race.evicts = true;
    let bed = Bed::with(sim(), options);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        for key in 0..200u32 {
            race.put(&cx, &key.to_le_bytes(), &[7; 10_000], META).await?;
        }
        Ok(())
    });
    assert!(process.race.stats().evicted > 100, "{:?}", process.race.stats());
}

/// Neither do tables that cannot be split any further refuse anything, if they may remove items.
#[test]
fn race_a_cache_removes_items_of_full_buckets() {
    let mut options = BedOptions::new(2);
    options.race.create.as_mut().expect("a table").depth_max = 1;
    let bed = Bed::with(sim(), options);
    let (strict, cache) = (
        bed.process(),
        bed.process_with(|options| options.race.evicts = true),
    );
    bed.run(&strict, |cx, race| async move {
        let (key, error) = fill(&cx, &race).await;
        assert_eq!(error, RaceError::TableFull);
        assert!(key > 40, "{key} keys");
        Ok(())
    });
    bed.run(&cache, |cx, race| async move {
        for key in 0..500u32 {
            race.put(&cx, &key.to_le_bytes(), b"new", META).await?;
            let found = race.get(&cx, &key.to_le_bytes()).await?;
            assert_eq!(found.expect("put just now").value(), b"new");
        }
        Ok(())
    });
}

/// At nine tenths of a subtable's slots, where it is split at the latest, a lookup READs at most 0.11 blocks of other keys with
/// the same fingerprint: the share of 28 slots' 256 fingerprints.
#[test]
fn race_lookups_read_few_blocks_of_others() {
    let mut options = BedOptions::new(64);
    options.node.bytes = 8 << 20;
    let bed = Bed::with(sim(), options);
    let process = bed.process();
    // 64 groups of 21 slots.
    let keys = 64 * 21 * 9 / 10u64;
    bed.run(&process, move |cx, race| async move {
        for key in 0..keys {
            race.put(&cx, &key.to_le_bytes(), b"8 bytes.", META).await?;
        }
        Ok(())
    });
    let stats = || (process.race.stats(), process.stats().requests);
    let (before, posted) = stats();
    bed.run(&process, move |cx, race| async move {
        for key in 0..keys {
            assert!(race.get(&cx, &key.to_le_bytes()).await?.is_some());
            assert!(race.get(&cx, &(keys + key).to_le_bytes()).await?.is_none());
        }
        Ok(())
    });
    let (after, now_posted) = stats();
    let others = (after.collisions - before.collisions) as f64 / (2 * keys) as f64;
    let twice = if process.reads_are_torn() { 2 } else { 1 };
    let own = keys * 3 + keys * 2 * twice;
    let extra = (now_posted.posted - posted.posted - own) as f64 / (2 * keys) as f64;
    println!(
        "{} splits; {others} blocks of others, {extra} READs more per lookup",
        after.splits
    );
    assert!(extra <= 0.11 && others <= 0.11, "{extra} READs, {others} blocks");
}

/// Updates of the same keys, over and over, 100 per key. 10^7 of 10^5 keys by
/// `DROVER_RACE_UPDATES=10000000 DROVER_RACE_KEYS=100000`.
#[test]
fn race_updates_leak_nothing() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let updates = number("DROVER_RACE_UPDATES", 40_000);
    let keys = number("DROVER_RACE_KEYS", 400);
    let mut options = BedOptions::new(64);
    options.node.bytes = (64 << 20).max(keys as usize * 512);
    options.race.create.as_mut().expect("a table").depth_max = 16;
    let bed = Bed::with(sim(), options);
    let process = bed.process();
    let used = || bed.pool.nodes[0].with(|served| served.node.stats().supply.used());
    let run = |from: u64, to: u64| {
        let outs: Vec<_> = (0..8u64)
            .map(|task| {
                process.spawn(move |cx, race| async move {
                    for at in (from..to).filter(|at| at % 8 == task) {
                        let key = (at % keys).to_le_bytes();
                        race.put(&cx, &key, &at.to_le_bytes(), META).await.expect("space");
                    }
                })
            })
            .collect();
        bed.wait_for(&outs);
    };
    run(0, updates / 10);
    let first = used();
    run(updates / 10, updates);
    let last = used();
    println!("{first} chunks after {} updates, {last} after all", updates / 10);
    // A chunk or two are as many as a class of blocks that is new.
    assert!(
        last <= first + first / 10 + 2,
        "{first} chunks have become {last}"
    );
}
