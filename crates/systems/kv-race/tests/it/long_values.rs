//! Goal: values that are longer than a block are written and read whole, and leave nothing behind.

use crate::audit::audit;
use crate::bed::{Bed, BedOptions, Fabric, META, simulated};
use drover_base::{Ns, Rng};
use drover_kv_race::RaceError;
use drover_memnode::MemoryError;
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_testkit::on_pool_fabrics;
use drover_testkit::seeds::Seeds;
use std::cell::Cell;
use std::rc::Rc;

on_pool_fabrics! {
    race_long_values_come_back
    race_a_long_value_is_one_or_another
    race_long_values_are_refused_whole
    race_values_of_a_whole_buffer_wait_for_one
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed, 0, 0);
    (0..len).map(|_| rng.below(256) as u8).collect()
}

/// More operations at once than there are buffers of their length: they wait for each other.
fn race_values_of_a_whole_buffer_wait_for_one<F: Fabric>(fabric: F) {
    const TASKS: usize = 40;
    let mut options = BedOptions::new(4);
    options.node.bytes = 16 << 20;
    let bed = Bed::with(fabric, options);
    let process = bed.process();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            process.spawn(move |cx, race| async move {
                let (key, value) = ((task as u32 / 2).to_le_bytes(), vec![task as u8; 16_000]);
                for _ in 0..5 {
                    race.put(&cx, &key, &value, META).await?;
                    let found = race.get(&cx, &key).await?.expect("put").value().to_vec();
                    assert_eq!(found.len(), 16_000);
                    let same = |old: &[u8], new: &mut Vec<u8>| new.extend_from_slice(old);
                    assert!(race.modify(&cx, &key, META, same).await?);
                }
                Ok::<_, RaceError>(())
            })
        })
        .collect();
    let mut done = 0;
    bed.pool.until("all end", || {
        for task in &tasks {
            if let Some(ended) = task.take() {
                ended.unwrap_or_else(|error| panic!("{error}"));
                done += 1;
            }
        }
        done == TASKS
    });
}

/// Lengths around those of one block, two and three, and the longest.
const LENGTHS: [usize; 9] = [
    16_000,
    16_320 - 48 - 4,
    16_320 - 48 - 3,
    17_000,
    16_268 + 16_352,
    16_268 + 16_353,
    100_000,
    (1 << 20) - 1,
    1 << 20,
];

fn race_long_values_come_back<F: Fabric>(fabric: F) {
    let seed = drover_testkit::seeds::fresh_seed();
    println!("seed {seed}");
    let mut options = BedOptions::new(4);
    options.node.bytes = 16 << 20;
    let bed = Bed::with(fabric, options);
    let process = bed.process();
    bed.run(&process, move |cx, race| async move {
        race.put(&cx, b"key0", b"short", META).await?;
        for len in LENGTHS {
            let value = bytes(seed, len);
            race.put(&cx, b"key0", &value, META).await?;
            let found = race.get(&cx, b"key0").await?.expect("put");
            assert!(found.value() == value, "{len} bytes");
            // As an insert, if absent, and read, modified and written.
            assert!(race.add(&cx, b"key1", &value, META).await?);
            assert!(!race.add(&cx, b"key1", &value, META).await?);
            let reverse = |old: &[u8], new: &mut Vec<u8>| new.extend(old.iter().rev());
            assert!(race.modify(&cx, b"key1", META, reverse).await?);
            let found = race.get(&cx, b"key1").await?.expect("added");
            assert!(found.value().iter().eq(value.iter().rev()), "{len} bytes");
            assert!(race.delete(&cx, b"key1").await?);
        }
        // Everything that was replaced can be used again.
        for round in 0..200 {
            while let Err(error) = race.put(&cx, b"key0", &bytes(round, 400_000), META).await {
                assert!(
                    matches!(error, RaceError::Memory(MemoryError::Full { .. })),
                    "{error}"
                );
                cx.sleep(Ns::from_us(200)).await;
            }
        }
        assert!(race.delete(&cx, b"key0").await?);
        Ok(())
    });
}

/// Tasks of two processes write values of one byte each, and read such ones.
fn race_a_long_value_is_one_or_another<F: Fabric>(fabric: F) {
    let mut options = BedOptions::new(4);
    options.node.bytes = 16 << 20;
    let bed = Bed::with(fabric, options);
    let processes = [bed.process(), bed.process()];
    let lengths = Rc::new(Cell::new(0usize));
    let mut outs = Vec::new();
    for (number, process) in (0u8..).zip(&processes) {
        for task in 0..3u8 {
            let lengths = lengths.clone();
            outs.push(process.spawn(move |cx, race| async move {
                let mut rng = Rng::new(7, number.into(), task.into());
                for round in 0..10u8 {
                    let byte = number * 100 + task * 20 + round;
                    let len = 1 + rng.below(60_000) as usize;
                    match rng.below(4) {
                        0 => drop(race.delete(&cx, b"key").await.expect("no failure")),
                        _ => race
                            .put(&cx, b"key", &vec![byte; len], META)
                            .await
                            .expect("space"),
                    }
                    if let Some(found) = race.get(&cx, b"key").await.expect("no failure") {
                        let value = found.value();
                        assert!(value.iter().all(|byte| *byte == value[0]), "a mixture");
                        lengths.set(lengths.get().max(value.len()));
                    }
                }
            }));
        }
    }
    bed.wait_for(&outs);
    assert!(lengths.get() > 20_000, "{} bytes at most", lengths.get());
}

/// A value for which there is no memory changes nothing, and takes none.
fn race_long_values_are_refused_whole<F: Fabric>(fabric: F) {
    let mut options = BedOptions::new(4);
    options.node.bytes = 1 << 20;
    let bed = Bed::with(fabric, options);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        race.put(&cx, b"key", b"value", META).await?;
        for _ in 0..3 {
            let refused = race.put(&cx, b"key", &vec![1; 1 << 20], META).await;
            assert_eq!(refused, Err(MemoryError::Full { node: 0 }.into()));
            let refused = race.add(&cx, b"other", &vec![1; 1 << 20], META).await;
            assert_eq!(refused, Err(MemoryError::Full { node: 0 }.into()));
        }
        assert_eq!(race.get(&cx, b"key").await?.expect("as before").value(), b"value");
        assert!(race.get(&cx, b"other").await?.is_none());
        // Most of the node's memory is free.
        race.put(&cx, b"key", &vec![2; 600_000], META).await?;
        Ok(())
    });
}

/// A process dies with long values half written, linked, and replaced: what is linked stays, all else is free.
#[test]
fn race_pieces_of_a_dead_process_are_found() {
    let seeds = Seeds::new(2, 4);
    println!("{seeds}");
    seeds.each(|seed| {
        let bed = Bed::new(simulated(seed), 2);
        let (victim, survivor) = (bed.process(), bed.process());
        for task in 0..2u8 {
            drop(victim.spawn(move |cx, race| async move {
                let mut rng = Rng::new(seed, task.into(), 9);
                loop {
                    let key = [task, rng.below(3) as u8];
                    let len = 15_000 + rng.below(60_000) as usize;
                    let _ = race.put(&cx, &key, &bytes(len as u64, len), META).await;
                }
            }));
        }
        bed.pass(Ns::from_us(50 + Rng::new(seed, 3, 3).below(2000)));
        victim.kill();
        bed.pass(Ns::from_us(10));
        let arena = survivor.arena.clone();
        let dead = victim.pool.client();
        let chunks = crate::audit::chunks_of(&bed.memory(0), dead);
        let found = bed.run(&survivor, move |cx, race| async move {
            loop {
                let recovery = recover(&cx, &arena, 0, &race, RecoveryOptions::default()).await?;
                match recovery {
                    Recovery::Done(done) if done.clients == [dead] => return Ok(done),
                    _ => cx.sleep(Ns::from_ms(1)).await,
                }
            }
        });
        let after = audit(&bed.memory(0));
        assert_eq!(
            after.inherited(&chunks, survivor.pool.client()),
            found.blocks_freed
        );
        after.assert_no_orphans();
        bed.run(&survivor, |cx, race| async move {
            for key in 0..6 {
                if let Some(found) = race.get(&cx, &[key / 3, key % 3]).await? {
                    let value = found.value();
                    assert!(value == bytes(value.len() as u64, value.len()));
                }
            }
            Ok(())
        });
    });
}
