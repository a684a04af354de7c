//! Goal: items that have expired or were flushed are absent at once, and their memory comes back by itself.

use crate::audit::audit;
use crate::bed::{Bed, BedOptions, META, Process, Simulated, simulated};
use drover_base::Ns;
use drover_kv_race::ItemMeta;
use drover_memnode::LeaseTimes;
use drover_verbs_sim::Sim;

fn bed(seed: u64) -> Bed<Simulated> {
    let mut options = BedOptions::new(2);
    options.node.look_every = Ns::from_ms(1);
    options.node.times = LeaseTimes {
        renew_every: Ns::from_ms(1),
        stop_after: Ns::from_ms(10),
        suspect_after: Ns::from_ms(20),
    };
    (options.race.sweep_every_s, options.race.look_every) = (2, Ns::from_ms(2));
    Bed::with(simulated(seed), options)
}

fn attend(process: &Process<Sim>) {
    drop(process.spawn(|cx, race| async move { race.attend(&cx).await }));
}

fn expires(expire_s: u32) -> ItemMeta {
    ItemMeta { flags: 0, expire_s }
}

fn now_s(process: &Process<Sim>) -> u32 {
    process.node_clock_s()
}

/// Puts keys from 0 to `count`, of which every other one expires in a second; some are longer than a block.
fn fill(bed: &Bed<Simulated>, process: &Process<Sim>, count: u32) {
    let soon = now_s(process) + 1;
    bed.run(process, move |cx, race| async move {
        for key in 0..count {
            let meta = if key % 2 == 0 { expires(soon) } else { META };
            let len = if key % 16 == 0 { 20_000 } else { 8 };
            race.put(&cx, &key.to_le_bytes(), &vec![key as u8; len], meta)
                .await?;
        }
        Ok(())
    });
}

fn assert_there(bed: &Bed<Simulated>, process: &Process<Sim>, count: u32, is_there: fn(u32) -> bool) {
    bed.run(process, move |cx, race| async move {
        for key in 0..count {
            let found = race.get(&cx, &key.to_le_bytes()).await?;
            assert_eq!(found.is_some(), is_there(key), "{key}");
        }
        Ok(())
    });
}

fn is_odd(key: u32) -> bool {
    key % 2 == 1
}

#[test]
fn race_expired_items_are_absent() {
    let bed = bed(1);
    let process = bed.process();
    fill(&bed, &process, 4);
    assert_there(&bed, &process, 4, |_| true);
    bed.pass(Ns::from_ms(1100));
    assert_there(&bed, &process, 4, is_odd);
    bed.run(&process, |cx, race| async move {
        let key = 0u32.to_le_bytes();
        assert!(!race.update(&cx, &key, b"no", META).await?);
        assert!(!race.delete(&cx, &key).await?);
        assert!(race.add(&cx, &key, b"yes", META).await?);
        assert_eq!(race.get(&cx, &key).await?.expect("added").value(), b"yes");
        Ok(())
    });
}

/// Each expired item is removed once, by one of the processes that attend, while others insert and split.
#[test]
fn race_expired_items_are_removed_by_one_client() {
    let bed = bed(2);
    let processes = [bed.process(), bed.process(), bed.process()];
    fill(&bed, &processes[0], 200);
    processes.iter().for_each(attend);
    let before = audit(&bed.memory(0)).item_pieces();
    drop(processes[2].spawn(|cx, race| async move {
        for key in 1000..1300u32 {
            race.put(&cx, &key.to_le_bytes(), b"other", META)
                .await
                .expect("space");
            cx.sleep(Ns::from_ms(12)).await;
        }
    }));
    bed.pass(Ns::from_ms(3600));
    let expired: u64 = processes.iter().map(|process| process.race.stats().expired).sum();
    assert_eq!(expired, 100);
    // Of the expired ones, 13 had two pieces.
    assert_eq!(audit(&bed.memory(0)).item_pieces(), before - 113 + 300);
    assert_there(&bed, &processes[1], 200, is_odd);
}

/// A process dies while it searches: another one searches in its place, and its lock is released by a recovery, too.
#[test]
fn race_a_dead_searchers_lock_is_taken_over() {
    let bed = bed(3);
    let processes = [bed.process(), bed.process()];
    fill(&bed, &processes[0], 200);
    attend(&processes[0]);
    let stats = || processes[0].race.stats().expired;
    bed.pool.until("the search is under way", || stats() > 5);
    processes[0].kill();
    assert!(stats() < 100, "it died in the middle");
    attend(&processes[1]);
    bed.pass(Ns::from_ms(4500));
    assert!(
        processes[1].race.stats().expired > 0,
        "{:?}",
        processes[1].race.stats()
    );
    assert_there(&bed, &processes[1], 200, is_odd);
    audit(&bed.memory(0));
}

#[test]
fn race_flushed_items_are_absent_for_all() {
    let bed = bed(4);
    let processes = [bed.process(), bed.process()];
    processes.iter().for_each(attend);
    fill(&bed, &processes[0], 50);
    bed.run(&processes[1], |cx, race| async move { race.flush(&cx, 0).await });
    for process in &processes {
        assert_there(&bed, process, 50, |_| false);
    }
    // What is written now stays.
    bed.run(&processes[0], |cx, race| async move {
        for key in 0..50u32 {
            assert!(
                race.add(&cx, &key.to_le_bytes(), b"new", META).await?,
                "it was flushed"
            );
        }
        Ok(())
    });
    bed.pass(Ns::from_ms(2500));
    let late = bed.process();
    for process in processes.iter().chain([&late]) {
        assert_there(&bed, process, 50, |_| true);
    }
    // One that is ahead: first nothing happens; another one takes its place.
    bed.run(&processes[0], |cx, race| async move {
        race.flush(&cx, 60).await?;
        race.flush(&cx, 2).await
    });
    assert_there(&bed, &processes[1], 50, |_| true);
    bed.pass(Ns::from_ms(3200));
    for process in processes.iter().chain([&bed.process()]) {
        assert_there(&bed, process, 50, |_| false);
    }
    // And their memory comes back.
    bed.pass(Ns::from_ms(2500));
    assert_eq!(audit(&bed.memory(0)).item_pieces(), 0);
}
