//! Goal: a process may die at any moment: the others finish its splits, and nothing that was acknowledged is lost.

use crate::audit::{audit, hold_directory, splits_under_way};
use crate::bed::{Bed, META, Process, Simulated, simulated};
use drover_base::{Ns, Rng};
use drover_memnode::ClientId;
use drover_memnode::recovery::{Recovery, RecoveryOptions, Repair, recover};
use drover_testkit::seeds::Seeds;
use drover_verbs_sim::Sim;
use std::cell::RefCell;
use std::rc::Rc;

/// Lets `survivor` recover until it is done with all of `dead`.
fn recover_all(bed: &Bed<Simulated>, survivor: &Process<Sim>, mut dead: Vec<ClientId>) {
    // A thread that allocates takes notice of sweeps.
    let arena = survivor.arena.clone();
    drop(survivor.spawn(|cx, _| async move { arena.maintain(&cx, Ns::from_ms(1)).await }));
    let arena = survivor.arena.clone();
    bed.run(survivor, move |cx, race| async move {
        while !dead.is_empty() {
            let recovery = recover(&cx, &arena, 0, &race, RecoveryOptions::default()).await?;
            if let Recovery::Done(done) = recovery {
                dead.retain(|dead| !done.clients.contains(dead));
            }
            cx.sleep(Ns::from_ms(10)).await;
        }
        Ok(())
    });
}

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
    recover_all(&bed, &survivor, vec![victim.pool.client()]);
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

/// Of two processes that have died one held the lock for which a split of the other one waited. Who repairs must not wait for it.
#[test]
fn race_a_dead_split_waits_for_no_dead_process() {
    let seeds = Seeds::new(0, 1);
    println!("{seeds}");
    seeds.each(|seed| {
        let bed = Bed::new(simulated(seed), 2);
        let (splits, holds, survivor) = (bed.process(), bed.process(), bed.process());
        let memory = bed.memory(0);
        hold_directory(&memory, holds.pool.new_lock());
        let ended = splits.spawn(|cx, race| async move {
            for key in 0..400u32 {
                race.put(&cx, &key.to_le_bytes(), b"value", META)
                    .await
                    .expect("space");
            }
        });
        bed.pool
            .until("a split has begun", || splits_under_way(&memory) > 0);
        bed.pass(Ns::from_ms(1));
        assert!(ended.take().is_none(), "it waits for the directory");
        let dead = vec![splits.pool.client(), holds.pool.client()];
        splits.kill();
        holds.kill();
        recover_all(&bed, &survivor, dead);
        audit(&memory);
    });
}

/// Hundreds of clients may have died, and operations wait for the locks of each.
#[test]
fn race_a_repair_takes_one_walk_however_many_have_died() {
    let bed = Bed::new(simulated(1), 2);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        for key in 0..400u32 {
            race.put(&cx, &key.to_le_bytes(), b"value", META).await?;
        }
        Ok(())
    });
    let requests = |count: u16| {
        let before = process.stats().requests.posted;
        let dead: Vec<ClientId> = (1..=count).map(|id| ClientId { id, epoch: 7 }).collect();
        bed.run(&process, move |cx, race| async move {
            let nodes = race.arena().nodes().clone();
            Ok(race.repair(&cx, &nodes, 0, &dead).await?)
        });
        process.stats().requests.posted - before
    };
    assert_eq!(requests(600), requests(1));
}
