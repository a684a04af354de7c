//! Goal: a process may die at any moment: the others finish its splits, and nothing that was acknowledged is lost.

use crate::bed::{Bed, META, simulated};
use drover_base::{Ns, Rng};
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_testkit::seeds::Seeds;
use std::cell::RefCell;
use std::rc::Rc;

/// Lets a process that inserts and splits die after a random time; returns how many splits another one had to finish.
fn die(seed: u64) -> u64 {
    let bed = Bed::new(simulated(seed), 2);
    let (victim, survivor) = (bed.process(), bed.process());
    let stored = Rc::new(RefCell::new(Vec::new()));
    for task in 0..4u32 {
        let stored = stored.clone();
        drop(victim.spawn(move |cx, race| async move {
            for at in 0..200u32 {
                let key = at * 4 + task;
                let put = race.put(&cx, &key.to_le_bytes(), &key.to_be_bytes(), META).await;
                put.expect("space");
                stored.borrow_mut().push(key);
            }
        }));
    }
    let lived = Ns::from_us(Rng::new(seed, 5, 5).below(1500));
    bed.pass(lived);
    victim.kill();
    let stored = stored.take();
    // A thread that allocates takes notice of sweeps.
    let arena = survivor.arena.clone();
    drop(survivor.spawn(|cx, _| async move { arena.maintain(&cx, Ns::from_ms(1)).await }));
    let (arena, dead) = (survivor.arena.clone(), victim.pool.client());
    bed.run(&survivor, move |cx, race| async move {
        loop {
            let recovery = recover(&cx, &arena, 0, &race, RecoveryOptions::default()).await?;
            if matches!(recovery, Recovery::Done(done) if done.clients == [dead]) {
                return Ok(());
            }
            cx.sleep(Ns::from_ms(10)).await;
        }
    });
    let resumed = survivor.race.stats().splits;
    let count = stored.len();
    bed.run(&survivor, move |cx, race| async move {
        for key in &stored {
            let found = race.get(&cx, &key.to_le_bytes()).await?;
            assert_eq!(found.expect("acknowledged").value(), key.to_be_bytes(), "{key}");
        }
        // All locks are free, or this would not end.
        for key in 1000..1400u32 {
            race.put(&cx, &key.to_le_bytes(), &key.to_be_bytes(), META)
                .await?;
        }
        for key in stored.into_iter().chain(1000..1400u32) {
            let found = race.get(&cx, &key.to_le_bytes()).await?;
            assert_eq!(found.expect("put before").value(), key.to_be_bytes(), "{key}");
            assert!(race.delete(&cx, &key.to_le_bytes()).await?, "{key}");
            assert!(race.get(&cx, &key.to_le_bytes()).await?.is_none(), "{key}");
        }
        Ok(())
    });
    println!("seed {seed}: died after {lived} and {count} keys, {resumed} splits resumed");
    resumed
}

#[test]
fn race_dead_processes_splits_are_finished() {
    let seeds = Seeds::new(6, 4);
    println!("{seeds}");
    let mut resumed = 0;
    seeds.each(|seed| resumed += die(seed));
    println!("{resumed} splits were resumed");
    assert!(
        resumed > 0 || seeds.is_repetition(),
        "nobody died in the middle of a split"
    );
}
