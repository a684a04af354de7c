//! Goal: mistakes that public code makes are not made here.

use crate::bed::{Bed, Fabric, META};
use drover_base::HashSeed;
use drover_index::race::{Location, Shape};
use drover_kv_race::RaceError;
use drover_memnode::MemoryError;
use drover_testkit::on_pool_fabrics;
use std::cell::Cell;
use std::rc::Rc;

on_pool_fabrics! {
    race_defect_prefix_match
    race_defect_endless_crc_retry
    race_adds_succeed_once
}

/// RACE's public code compared as many bytes as the stored key has, so that a key matched those that it begins.
fn race_defect_prefix_match<F: Fabric>(fabric: F) {
    let shape = Shape::new(2).expect("two groups");
    let place = |key: &[u8]| Location::new(HashSeed::new(1, 2).hash(key), shape);
    let short = place(b"key");
    // A longer key with the same fingerprint and buckets.
    let long = (0u32..).map(|number| [b"key", &number.to_le_bytes()[..]].concat());
    let mut long = long.filter(|key| {
        let long = place(key);
        (long.fingerprint, long.pairs) == (short.fingerprint, short.pairs)
    });
    let long = long.next().expect("one of thousands");
    let bed = Bed::new(fabric, 2);
    let process = bed.process();
    bed.run(&process, move |cx, race| async move {
        race.put(&cx, b"key", b"short", META).await?;
        assert!(race.get(&cx, &long).await?.is_none());
        assert!(race.add(&cx, &long, b"long", META).await?);
        assert_eq!(race.get(&cx, b"key").await?.expect("put").value(), b"short");
        assert_eq!(race.get(&cx, &long).await?.expect("put").value(), b"long");
        assert!(race.delete(&cx, b"key").await?);
        assert_eq!(race.get(&cx, &long).await?.expect("put").value(), b"long");
        Ok(())
    });
    assert!(process.race.stats().collisions > 0);
}

/// RACE's public code READ a block with a wrong checksum again and again.
fn race_defect_endless_crc_retry<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 2);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        race.put(&cx, b"a rare key", b"value", META).await
    });
    let region = bed.memory(0);
    let mut bytes = vec![0; region.len()];
    region.copy_out(0, &mut bytes);
    let at = bytes.windows(10).position(|bytes| bytes == b"a rare key");
    region.copy_in(at.expect("the block"), b"A");
    bed.run(&process, |cx, race| async move {
        let found = race.get(&cx, b"a rare key").await.map(|found| found.is_some());
        let Err(RaceError::Memory(MemoryError::Corrupt { addrs })) = found else {
            panic!("{found:?}");
        };
        assert!(addrs.iter().all(|addr| *addr == addrs[0] && !addr.is_null()));
        // Other keys are as they were.
        race.put(&cx, b"key", b"value", META).await?;
        assert_eq!(race.get(&cx, b"key").await?.expect("put").value(), b"value");
        Ok(())
    });
}

/// Tasks of three processes add the same keys, while entries beside them come and go.
fn race_adds_succeed_once<F: Fabric>(fabric: F) {
    const KEYS: u32 = 60;
    let bed = Bed::new(fabric, 2);
    let processes = [bed.process(), bed.process(), bed.process()];
    let added = Rc::new(Cell::new(0));
    let mut outs = Vec::new();
    for (number, process) in (0u32..).zip(&processes) {
        for task in 0..3u32 {
            let added = added.clone();
            outs.push(process.spawn(move |cx, race| async move {
                for key in 0..KEYS {
                    let other = [number as u8, task as u8, key as u8, 1, 1];
                    race.put(&cx, &other, &other, META).await.expect("space");
                    let add = race.add(&cx, &key.to_le_bytes(), &[number as u8], META).await;
                    added.set(added.get() + u32::from(add.expect("space")));
                    let deleted = race.delete(&cx, &other).await;
                    assert_eq!(deleted, Ok(true), "nobody else's key");
                }
            }));
        }
    }
    bed.wait_for(&outs);
    assert_eq!(added.get(), KEYS);
}
