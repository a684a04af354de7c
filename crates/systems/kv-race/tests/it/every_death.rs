//! Goal: a process may die before and after every single request: recovery ends, what was acknowledged stays, no lock
//! stays held, and no block of its memory is lost.

use crate::audit::{audit, chunks_of};
use crate::bed::{Bed, BedOptions, META, Process, Simulated, simulated};
use drover_base::Ns;
use drover_kv_race::{Race, RaceError};
use drover_memnode::LeaseTimes;
use drover_memnode::recovery::{Recovered, Recovery, RecoveryOptions, recover};
use drover_rt::{Posting, TaskCx, TaskOptions};
use drover_testkit::seeds::Seeds;
use drover_verbs_sim::Sim;
use std::cell::Cell;

/// What the process does when it dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Insert,
    Add,
    Update,
    /// Writes a value of several blocks in place of another one.
    UpdateLong,
    Modify,
    Delete,
    /// Inserts a key whose subtable is full.
    Split,
    /// As `Split`, where the directory is doubled.
    Double,
}

const ACTS: [Act; 8] = [
    Act::Insert,
    Act::Add,
    Act::Update,
    Act::UpdateLong,
    Act::Modify,
    Act::Delete,
    Act::Split,
    Act::Double,
];

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

fn value(number: u32) -> Vec<u8> {
    let times = if number == LONG { 10_000 } else { 1 };
    number.to_be_bytes().repeat(times)
}

/// Keys that are there before, the second with a long value, and one that is not.
const OLD: u32 = 3;
const LONG: u32 = 4;
const NEW: u32 = 10_000;

impl Act {
    /// The key that is changed, if `before` keys are there before.
    fn key(self, before: u32) -> u32 {
        match self {
            Act::Insert | Act::Add => NEW,
            Act::Update | Act::Modify => OLD,
            Act::UpdateLong | Act::Delete => LONG,
            Act::Split | Act::Double => before,
        }
    }

    /// Value of that key once it is done.
    fn after(self) -> Option<Vec<u8>> {
        match self {
            Act::Delete => None,
            Act::UpdateLong => Some(b"done".repeat(9_000)),
            _ => Some(b"done".to_vec()),
        }
    }

    async fn run(self, cx: TaskCx<Sim>, race: Race<Sim>, before: u32) -> Result<(), RaceError> {
        let key = &key(self.key(before));
        let done = match self {
            Act::Insert | Act::Split | Act::Double => race.put(&cx, key, b"done", META).await.map(|()| true),
            Act::Add => race.add(&cx, key, b"done", META).await,
            Act::Update | Act::UpdateLong => {
                let value = self.after().expect("a value");
                race.update(&cx, key, &value, META).await
            }
            Act::Modify => {
                let change = |_: &[u8], new: &mut Vec<u8>| new.extend_from_slice(b"done");
                race.modify(&cx, key, META, change).await
            }
            Act::Delete => race.delete(&cx, key).await,
        };
        done.map(|done| assert!(done, "{self:?}"))
    }
}

/// A bed whose first process posts one request at a time, and has put `before` keys.
fn prepared(seed: u64, before: u32) -> (Bed<Simulated>, Process<Sim>) {
    let mut options = BedOptions::new(2);
    options.node.bytes = 1 << 20;
    (options.node.client_count, options.node.look_every) = (2, Ns::from_us(50));
    options.node.times = LeaseTimes {
        renew_every: Ns::from_us(40),
        stop_after: Ns::from_us(200),
        suspect_after: Ns::from_us(300),
    };
    options.tasks = TaskOptions {
        posting: Posting::PerRequest,
        ..TaskOptions::default()
    };
    let bed = Bed::with(simulated(seed), options);
    let victim = bed.process();
    bed.run(&victim, move |cx, race| async move {
        for number in 0..before {
            race.put(&cx, &key(number), &value(number), META).await?;
        }
        Ok(())
    });
    (bed, victim)
}

/// How many keys to put before the next one splits a subtable, with and without doubling.
fn before_splits() -> [u32; 2] {
    let (bed, process) = prepared(0, 0);
    let (mut split, mut double) = (None, None);
    for number in 0..400 {
        let (splits, depth) = (process.race.stats().splits, audit(&bed.memory(0)).depth);
        bed.run(&process, move |cx, race| async move {
            race.put(&cx, &key(number), &value(number), META).await
        });
        if process.race.stats().splits == splits + 1 {
            let is_doubled = audit(&bed.memory(0)).depth > depth;
            let first = if is_doubled { &mut double } else { &mut split };
            first.get_or_insert(number);
        }
    }
    [split.expect("a split"), double.expect("a split with doubling")]
}

/// Number of requests that `act` takes.
fn requests(act: Act, before: u32) -> u64 {
    let (bed, process) = prepared(1, before);
    let posted = process.stats().requests.posted;
    bed.run(&process, move |cx, race| act.run(cx, race, before));
    process.stats().requests.posted - posted
}

/// Recovers until `dead` is done with.
async fn recovered(cx: &TaskCx<Sim>, race: &Race<Sim>, process: Recoverer) -> Result<Recovered, RaceError> {
    loop {
        let recovery = recover(cx, &process.arena, 0, race, RecoveryOptions::default()).await?;
        match recovery {
            Recovery::Done(done) if done.clients == [process.dead] => return Ok(done),
            _ => cx.sleep(Ns::from_us(40)).await,
        }
    }
}

struct Recoverer {
    arena: drover_memnode::Arena<Sim>,
    dead: drover_memnode::ClientId,
}

/// Lets the process die after it has posted `count` requests of `act`, all of which are executed; or, if `in_flight`, the
/// last ones perhaps not.
fn die(act: Act, before: u32, count: u64, in_flight: bool, seed: u64) {
    let (bed, victim) = prepared(seed, before);
    let survivor = bed.process();
    let posted = victim.stats().requests.posted;
    let acknowledged = victim.spawn(move |cx, race| act.run(cx, race, before));
    bed.pool.until("it has posted so many", || {
        victim.stats().requests.posted >= posted + count
    });
    if !in_flight {
        let frozen = victim.freeze();
        bed.pass(Ns::from_us(10));
        drop(frozen);
    }
    victim.kill();
    // What is on its way arrives.
    bed.pass(Ns::from_us(10));
    let acknowledged = acknowledged.take();
    assert_ne!(
        acknowledged.map(|done| done.is_ok()),
        Some(false),
        "{acknowledged:?}"
    );
    let memory = bed.memory(0);
    let (dead, heir) = (victim.pool.client(), survivor.pool.client());
    let chunks = chunks_of(&memory, dead);
    let arena = survivor.arena.clone();
    let found = bed.run(&survivor, move |cx, race| async move {
        recovered(&cx, &race, Recoverer { arena, dead }).await
    });
    let after = audit(&memory);
    assert_eq!(after.inherited(&chunks, heir), found.blocks_freed, "{found:?}");
    assert_eq!(chunks.len(), found.chunks_swept, "{found:?}");
    after.assert_no_orphans();
    let changed = act.key(before);
    bed.run(&survivor, move |cx, race| async move {
        for number in 0..before {
            let found = race.get(&cx, &key(number)).await?;
            if number != changed {
                assert_eq!(found.expect("acknowledged").value(), value(number), "{number}");
            }
        }
        let found = race.get(&cx, &key(changed)).await?;
        let found = found.map(|found| found.value().to_vec());
        let old = (changed < before).then_some(value(changed));
        let is_done = found == act.after();
        assert!(is_done || acknowledged.is_none() && found == old, "{found:?}");
        // All can be used as before.
        let is_there = found.is_some();
        assert_eq!(race.delete(&cx, &key(changed)).await?, is_there);
        assert!(race.add(&cx, &key(changed), b"again", META).await?);
        assert!(race.update(&cx, &key(changed), b"more", META).await?);
        Ok(())
    });
    audit(&memory);
}

#[test]
fn race_a_process_dies_at_every_request() {
    // More than one: the test repeats everything with other worlds.
    let seeds = Seeds::new(0, 1);
    println!("{seeds}");
    let [split, double] = before_splits();
    println!("splits after {split} keys, doubles after {double}");
    let deaths = Cell::new(0);
    seeds.each(|seed| {
        for act in ACTS {
            let before = match act {
                Act::Split => split,
                Act::Double => double,
                _ => 8,
            };
            let count = requests(act, before);
            for (at, in_flight) in (0..=count).flat_map(|at| [(at, false), (at, true)]) {
                println!("{act:?}: {at} of {count} requests, in flight: {in_flight}");
                die(act, before, at, in_flight, seed);
                deaths.set(deaths.get() + 1);
            }
        }
    });
    println!("{} deaths", deaths.get());
}
