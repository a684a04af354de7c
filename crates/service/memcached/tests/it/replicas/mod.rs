//! Copies of shards under load, in one thread and virtual time: messages are lost and come late, keepers learn maps late, copies begin again,
//! and then an owner is lost while its cores run on. What was acknowledged of a shard with a complete copy must be at its keeper, and all copies
//! are completed once nothing goes wrong any more. A seed repeats
//! everything (`DROVER_SEED`, and `DROVER_SEEDS` says how many).

mod control;
mod network;
mod site;
mod world;

use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_testkit::seeds::Seeds;
use std::cell::Cell;
use std::rc::Rc;
use world::World;

/// Cores of each member: different numbers, so that a core's keys are on several cores of a keeper.
const CORES: [usize; 3] = [2, 3, 1];
const SHARDS: usize = 5;
const KEYS: usize = 24;
const NOW_S: u32 = 100;
const STEPS: usize = 3000;
/// Seeds in an ordinary `cargo test`: the same in every run, and fresh ones.
const SEEDS: (u64, u64) = (10, 30);
/// Number of seeds within which a planted mistake must be found.
const SEEDS_OF_A_FLAW: u64 = 600;

/// A mistake planted in the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// Replies leave though the core is held.
    RepliesAtOnce,
    /// A keeper takes messages that come late.
    TakesLateMessages,
    /// What a keeper has refused counts as taken.
    TrustsRefusals,
    /// A message that was lost counts as taken.
    TrustsLosses,
    /// A copy is filled without a scan.
    ScansNothing,
    /// A copy is complete before everything has been taken.
    DrainsNothing,
}

fn name(key: usize) -> String {
    format!("key{key}")
}

/// The clock of a core, in virtual time.
pub struct Clock {
    cpu: NativeCpu,
    time: Rc<Cell<u64>>,
}

impl Cpu for Clock {
    fn now(&self) -> Ns {
        Ns(self.time.get())
    }

    fn refresh(&self) -> Ns {
        self.now()
    }

    fn prefetch(&self, line: drover_base::Line) {
        self.cpu.prefetch(line);
    }

    fn random(&self) -> u64 {
        self.cpu.random()
    }
}

/// Runs a world until an owner is lost and its keepers serve. An error says what was lost.
fn run(seed: u64, flaw: Option<Flaw>) -> Result<World, String> {
    let mut world = World::new(seed, flaw);
    for _ in 0..STEPS / 3 {
        world.step()?;
    }
    world.calm()?;
    for _ in 0..STEPS {
        world.step()?;
    }
    world.lose_an_owner();
    for _ in 0..STEPS / 4 {
        world.step()?;
    }
    world.settle()?;
    world.calm()?;
    Ok(world)
}

#[test]
fn what_was_acknowledged_is_at_the_keeper() {
    let seeds = Seeds::new(SEEDS.0, SEEDS.1);
    println!("{seeds}");
    let mut sums = [0; 6];
    seeds.each(|seed| {
        let world = run(seed, None).unwrap_or_else(|why| panic!("DROVER_SEED={seed}: {why}"));
        let counts = world.counts();
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    });
    let [operations, held, void, completed, restarted, checked] = sums;
    println!(
        "{operations} operations, {held} batches held, {void} void, {completed} copies completed, {restarted} restarted, {checked} keys checked at keepers"
    );
    let runs = seeds.count();
    assert!(operations > 100 * runs && held > 20 * runs && completed > runs && checked > runs);
}

#[test]
fn a_shard_that_leaves_while_its_copy_is_filled_ends_no_connection() {
    assert_eq!(World::new(0, None).hand_over_while_filling(), 0);
}

#[test]
fn planted_mistakes_are_found() {
    for flaw in [
        Flaw::RepliesAtOnce,
        Flaw::TakesLateMessages,
        Flaw::TrustsRefusals,
        Flaw::TrustsLosses,
        Flaw::ScansNothing,
        Flaw::DrainsNothing,
    ] {
        let found = (0..SEEDS_OF_A_FLAW).find(|&seed| run(seed, Some(flaw)).is_err());
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}");
    }
}
