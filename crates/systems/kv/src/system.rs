//! [`System`]: a key-value system as commands, benchmarks, simulations and tests see it. The table of all systems
//! is crate `systems`; a row of it is a type that implements this.

use crate::{Counter, ServiceClient, ShardedJob, TableKind};
use drover_mem::NativeCpu;
use drover_rt::Idle;
use drover_rt::control::ControlListener;
use drover_verbs::{Caps, Provider};
use std::fmt::{Debug, Display};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What is known of a system without running it.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// As `--system` has it, and as its services announce themselves.
    pub name: &'static str,
    /// One line for `--help`.
    pub about: &'static str,
    /// What it needs of a fabric, in words.
    pub needs: &'static str,
    /// Whether a fabric has that.
    pub fits: fn(&Caps) -> bool,
    /// The table that its clients READ; `None`: they READ nothing.
    pub table: Option<TableKind>,
    /// How its clients connect.
    pub channels: Channels,
    /// What its services offer beside native clients.
    pub offers: Offers,
    /// What a service counts, in the order of [`Service::counters`].
    pub counters: &'static [Counter],
}

/// What services of a system offer beside native clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offers {
    /// memcached's protocol over sockets.
    pub memcached: bool,
    /// Request slots that an operator can share out.
    pub request_slots: bool,
    /// A memory file, so that items outlive the process; if not, why.
    pub memory_file: Result<(), &'static str>,
}

impl Offers {
    /// Native clients only, and no memory file for the reason given.
    pub const fn native_only(no_memory_file: &'static str) -> Offers {
        Offers {
            memcached: false,
            request_slots: false,
            memory_file: Err(no_memory_file),
        }
    }
}

/// How many control channels a client opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// One to the service.
    One,
    /// One to each shard.
    PerShard,
}

/// What a service is for, from which a system computes the sizes of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Shards (partitions), each with a core.
    pub shard_count: usize,
    /// Of the whole service.
    pub capacity: Capacity,
    /// Longest value, bytes.
    pub value_bytes_max: usize,
    /// Operations that a client has under way at each shard.
    pub window: usize,
}

/// How large a service is to be.
#[derive(Clone, Copy, Debug)]
pub enum Capacity {
    /// Bytes for items and the tables that find them.
    Memory {
        /// In all.
        bytes: usize,
    },
    /// Space for so many items.
    Items {
        /// In all.
        count: u64,
        /// Of each key.
        key_bytes: usize,
    },
}

/// What an operator decides of a service, whatever its sizes.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Forgets old items instead of refusing new ones.
    pub evicts: bool,
    /// Most clients.
    pub clients_max: usize,
    /// Large pages, or nothing.
    pub large_pages: bool,
    /// What a core with nothing to do does.
    pub idle: Idle,
}

/// Runs first in the thread of each core of a service, with its number: for pinning.
pub type OnCore = Box<dyn Fn(usize) + Send + Sync>;

/// A key-value system: one row of the table of systems.
pub trait System: Send + Sync + 'static {
    /// What is known without running it.
    const FACTS: Facts;
    /// The sizes of a service's parts.
    type Plan: Clone + Debug + Send + Sync + 'static;
    /// A client of a service.
    type Client<P: Provider>: ServiceClient<P>;

    /// A service of these sizes.
    ///
    /// # Errors
    /// Why there can be none, for people.
    fn plan(sizes: &Sizes) -> Result<Self::Plan, String>;

    /// Puts an operator's decisions into a plan.
    fn set_policy(plan: &mut Self::Plan, policy: &Policy);

    /// The longest item that fits into a service of this plan, and the longest that it accepts, both in bytes.
    fn item_bytes_max(plan: &mut Self::Plan) -> (usize, &mut usize);

    /// Bytes of tables and of items that requests touch, all shards together.
    fn footprint(plan: &Self::Plan) -> [usize; 2];

    /// Entries of all tables at the start.
    fn entry_count(plan: &Self::Plan) -> usize;

    /// What was planned, a line each, for the log.
    fn describe(plan: &Self::Plan) -> Vec<String>;

    /// Starts a service that lets clients in at `listeners`.
    ///
    /// # Errors
    /// Why it could not be started, for people.
    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &Self::Plan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, String>;

    /// Does `job` with this system if it is a [`ShardedSystem`](crate::ShardedSystem), and gives it back if it is not.
    /// A system of shards overrides it by `Ok(job.run::<Self>())`: nothing else tells a table that it is one.
    fn sharded<J: ShardedJob>(job: J) -> Result<J::Answer, J> {
        Err(job)
    }
}

/// A service that runs in threads of this process. Stops when dropped.
pub trait Service: Send + Sync {
    /// Becomes readable when a thread of it has ended by itself.
    fn ended(&self) -> BorrowedFd<'_>;

    /// Why it has ended by itself.
    fn why(&self) -> String;

    /// Values of the system's [counters](Facts::counters), shard by shard. Waits for each answer, at most `patience`.
    ///
    /// # Errors
    /// Which shards do not answer.
    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String>;

    /// Ends all threads. Clients find their channels closed.
    fn stop(self: Box<Self>);
}

/// Something to do with a system, whichever it is: what a table of systems calls with the row that was chosen.
pub trait SystemJob {
    /// What comes of it.
    type Answer;

    /// Does it with system `S`.
    fn run<S: System>(self) -> Self::Answer;
}

/// A table of systems: what `systems!` of crate `systems` makes. What serves, measures or simulates the systems of a table
/// takes the table as its parameter, so a test can have one of its own.
pub trait SystemTable: Copy + Eq + Debug + Display + Send + Sync + 'static {
    /// All rows, in the order of the table. The first is what commands take unless they are told another one.
    const ALL: &'static [Self];

    /// What is known of a system without running it.
    fn facts(self) -> &'static Facts;

    /// Does `job` with it.
    fn run<J: SystemJob>(self, job: J) -> J::Answer;

    /// Does `job` with it if it is a [`ShardedSystem`](crate::ShardedSystem), and gives the job back if it is not.
    fn sharded<J: ShardedJob>(self, job: J) -> Result<J::Answer, J> {
        self.run(IfSharded(job))
    }

    /// The system called `name`.
    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|system| system.facts().name == name)
    }

    /// Names of all systems, with `between` between them.
    fn names(between: &str) -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|system| system.facts().name).collect();
        names.join(between)
    }
}

struct IfSharded<J>(J);

impl<J: ShardedJob> SystemJob for IfSharded<J> {
    type Answer = Result<J::Answer, J>;

    fn run<S: System>(self) -> Self::Answer {
        S::sharded(self.0)
    }
}
