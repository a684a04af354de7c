//! Goal: tables grow while clients use them.

use crate::bed::{Bed, Fabric, META};
use drover_kv_race::RaceError;
use drover_testkit::on_pool_fabrics;

on_pool_fabrics! {
    race_tables_grow
    race_tables_grow_under_several_clients
}

/// Twenty times as many keys as the first subtable has slots.
fn race_tables_grow<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 2);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        for key in 0..800u32 {
            race.put(&cx, &key.to_le_bytes(), &key.to_be_bytes(), META)
                .await?;
        }
        for key in 0..800u32 {
            let found = race.get(&cx, &key.to_le_bytes()).await?.expect("put before");
            assert_eq!(found.value(), key.to_be_bytes());
        }
        for key in 0..800u32 {
            assert!(race.delete(&cx, &key.to_le_bytes()).await?, "{key}");
        }
        Ok(())
    });
    assert!(process.race.stats().splits >= 16, "{:?}", process.race.stats());
    // A process that has the directory of now.
    let other = bed.process();
    bed.run(&other, |cx, race| async move {
        for key in 0..800u32 {
            assert!(race.get(&cx, &key.to_le_bytes()).await?.is_none(), "{key}");
        }
        Ok(())
    });
}

/// Clients of three processes insert, each with a directory of its own.
fn race_tables_grow_under_several_clients<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 2);
    let processes = [bed.process(), bed.process(), bed.process()];
    let mut outs = Vec::new();
    for (number, process) in (0u32..).zip(&processes) {
        for task in 0..4u32 {
            outs.push(process.spawn(move |cx, race| async move {
                for at in 0..60u32 {
                    let key = ((at * 4 + task) * 3 + number).to_le_bytes();
                    race.put(&cx, &key, &key, META).await.expect("space");
                    let found = race.get(&cx, &key).await.expect("no failure");
                    assert_eq!(found.expect("put before").value(), key);
                }
            }));
        }
    }
    bed.wait_for(&outs);
    for process in &processes {
        bed.run(process, |cx, race| async move {
            for key in 0..720u32 {
                let found = race.get(&cx, &key.to_le_bytes()).await?;
                assert_eq!(found.expect("put before").value(), key.to_le_bytes());
            }
            Ok::<(), RaceError>(())
        });
    }
}
