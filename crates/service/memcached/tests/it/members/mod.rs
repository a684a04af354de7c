//! Members of a service under load while shards change hands, leases run out and links break: what all clients were told must be explainable key by
//! key as if it had happened one operation at a time, and in the order of each connection. One thread, virtual time: a seed repeats everything
//! (`DROVER_SEED`, and `DROVER_SEEDS` says how many).

mod client;
mod control;
mod network;
mod replies;
mod world;

use control::Control;
use drover_base::{Cpu, Line, Ns};
use drover_mem::NativeCpu;
use drover_store::{Exclusive, SharedReads, Sharing};
use drover_testkit::history::History;
use drover_testkit::linear::{Model, Strict};
use drover_testkit::seeds::Seeds;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use world::World;

const MEMBERS: usize = 3;
/// Cores of each member.
const CORES: usize = 2;
/// Few, so that each has keys, and some lie on both cores.
const SHARDS: usize = 5;
const KEYS: u64 = 16;
const NOW_S: u32 = 100;
const START_NS: u64 = 1_000_000_000;

/// Seeds in an ordinary `cargo test`: the same in every run, and fresh ones. Miri reads no `/dev/urandom`.
const SEEDS: (u64, u64) = if cfg!(miri) { (1, 0) } else { (10, 40) };
/// Number of seeds within which a planted mistake must be found.
const SEEDS_OF_A_FLAW: u64 = 60;
const STEPS: usize = if cfg!(miri) { 500 } else { 8000 };

const STRICT: Strict = Strict {
    unknown_until: u64::MAX,
    configurations_max: 1 << 20,
};

/// A mistake planted in the members, which the checker must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A core executes whatever another core of its member sends.
    NoVerdict,
    /// A core that has answered "elsewhere" forgets that at once.
    NoHold,
}

fn name(key: u64) -> String {
    format!("key{key}")
}

/// The clock of a core, in virtual time. While it touches memory, control threads go on.
pub struct Clock {
    cpu: NativeCpu,
    time: Rc<Cell<u64>>,
    read: Cell<u64>,
    control: Rc<RefCell<Control>>,
    random: Cell<u64>,
}

impl Clock {
    fn new(time: Rc<Cell<u64>>, control: Rc<RefCell<Control>>, seed: u64) -> Clock {
        Clock {
            cpu: NativeCpu::new(1),
            read: Cell::new(time.get()),
            time,
            control,
            random: Cell::new(seed | 1),
        }
    }
}

impl Cpu for Clock {
    fn now(&self) -> Ns {
        Ns(self.read.get())
    }

    fn refresh(&self) -> Ns {
        self.read.set(self.time.get());
        self.now()
    }

    fn touch(&self, _line: Line) {
        if self.random().is_multiple_of(4)
            && let Ok(mut control) = self.control.try_borrow_mut()
        {
            control.step(Ns(self.time.get()));
        }
    }

    fn prefetch(&self, line: Line) {
        self.cpu.prefetch(line);
    }

    fn random(&self) -> u64 {
        // xorshift64*
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }
}

fn run<S: Sharing + 'static>(seed: u64, flaw: Option<Flaw>, breaks_links: bool) -> (History, World<S>) {
    let mut world = World::<S>::new(seed, flaw, breaks_links);
    (0..STEPS).for_each(|_| world.step());
    (world.finish(), world)
}

fn is_explainable<S: Sharing + 'static>(breaks_links: bool) {
    let seeds = Seeds::new(SEEDS.0, SEEDS.1);
    println!("{seeds}");
    let mut operations = 0;
    let mut sums = [0; 6];
    seeds.each(|seed| {
        let (history, world) = run::<S>(seed, None, breaks_links);
        operations += history.len();
        sums[0] += world.control.borrow().moved;
        for site in &world.sites {
            let counters = &site.counters;
            let counts = [
                &counters.forwarded,
                &counters.served,
                &counters.elsewhere,
                &counters.parked,
                &counters.lost,
            ];
            for (sum, count) in sums[1..].iter_mut().zip(counts) {
                *sum += count.get();
            }
            assert_eq!(counters.gave_up.get(), 0, "DROVER_SEED={seed}");
        }
        if let Err(why) = history.check_in_order(STRICT, Model::Register) {
            panic!("DROVER_SEED={seed}: {why}");
        }
    });
    let [moved, forwarded, served, elsewhere, parked, lost] = sums;
    println!(
        "{operations} operations, {moved} shards moved, {forwarded} messages forwarded, {served} served, {elsewhere} elsewhere, {parked} parked, {lost} lost"
    );
    let runs = seeds.count();
    assert!(operations as u64 > 300 * runs && moved > 3 * runs && elsewhere > 3 * runs);
    assert_eq!(lost > 0, breaks_links);
}

#[test]
fn whatever_changes_hands_it_is_explainable() {
    is_explainable::<Exclusive>(false);
}

#[test]
fn with_reads_in_place_it_is_explainable() {
    is_explainable::<SharedReads>(false);
}

#[test]
fn when_links_break_it_is_explainable() {
    is_explainable::<Exclusive>(true);
}

#[test]
fn planted_mistakes_are_found() {
    for flaw in [Flaw::NoVerdict, Flaw::NoHold] {
        let found = (0..SEEDS_OF_A_FLAW).find(|&seed| {
            let (history, _) = run::<Exclusive>(seed, Some(flaw), false);
            history.check_in_order(STRICT, Model::Register).is_err()
        });
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}");
    }
}
