//! [`System`]: the interface of a key-value system for commands, benchmarks, simulations and tests. The table of all
//! systems is crate `systems`; each of its rows is a type that implements this trait.

use crate::{
    Counter, HostingJob, KEY_BYTES_MAX, ResultTransfer, ServiceClient, ShardedJob, StartError, SteppedJob,
    TableKind,
};
use drover_base::{HashKind, Work};
use drover_control::ControlListener;
use drover_mem::NativeCpu;
use drover_rt::Idle;
use drover_store::{Eviction, VALUE_BYTES_MAX};
use drover_verbs::{Caps, Provider};
use std::fmt::{Debug, Display};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Maximum number of shards (partitions) of a service, whatever its system.
pub const SHARDS_MAX: usize = 240;

/// Static properties of a system.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Name for `--system`, and in the [`ServiceInfo`](crate::ServiceInfo) of its services.
    pub name: &'static str,
    /// One line about the system, for `--help`.
    pub about: &'static str,
    /// What the system requires of a fabric, in words.
    pub needs: &'static str,
    /// Whether clients are right also where a READ may see the words of a cache line as of different times; the others need lines
    /// that are READ whole.
    pub reads_words: bool,
    /// Whether a fabric with these capabilities meets the system's requirements.
    pub fits: fn(&Caps) -> bool,
    /// Kind of the table that clients READ; `None`: clients READ no table, as in HERD and Jakiro.
    pub table: Option<TableKind>,
    /// Number of control channels that a client opens: one, one per shard, or one to any shard.
    pub channels: Channels,
    /// What services offer in addition to native clients.
    pub offers: Offers,
    /// `Ok` if a service can span several members, of which each serves some shards at a time; the error says why not.
    pub cluster: Result<(), &'static str>,
    /// Counters of each shard of the system's services, in the order of the values of [`Service::counters`].
    pub counters: &'static [Counter],
    /// Work that the system's own code charges on simulated cores, verbs and memory accesses excluded. Empty if its
    /// instructions have not been counted.
    pub work: &'static [Work],
}

/// What services of a system offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offers {
    /// Whether `drover serve` has the system. One that it has not exists to be measured beside others.
    pub service: bool,
    /// Whether a service can also speak memcached's protocol over sockets.
    pub memcached: bool,
    /// Whether a service is a pool of memory nodes, so that a gateway beside it speaks memcached's protocol, as one of the pool's
    /// clients.
    pub gateway: bool,
    /// Whether a service has request slots whose number and size an operator can set ([`SlotPolicy`]).
    pub request_slots: bool,
    /// Whether results come to clients in several ways, of which an operator can name the usual one
    /// ([`Policy::transfer`]).
    pub transfer: bool,
    /// `Ok` if a service can keep its items in a memory file, so that they outlive the process; the error says why not.
    pub memory_file: Result<(), &'static str>,
    /// `Ok` if a service sees GETs, so that it can keep items that are used ([`Policy::eviction`]); the error says why
    /// not.
    pub eviction: Result<(), &'static str>,
    /// Whether a full service makes space for whatever is to be stored by evicting items; if not, it may refuse new ones, whatever
    /// [`Policy::evicts`] says.
    pub evicts: bool,
    /// Whether an update whose answer was lost with a connection is sent again, and executed once, so that it is
    /// indeterminate at its deadline only.
    pub sends_again: bool,
    /// Longest time after its expiry at which an item may still be read, seconds, where clients judge by a clock that they
    /// learn from time to time; 0 where a server reads its own.
    pub expiry_lag_s: u32,
    /// Whether a client that guesses another one's keys, over RDMA, reaches nothing with them. If not, clients must trust each
    /// other.
    pub isolates: bool,
    /// What operations of native clients may say.
    pub operations: OperationOffers,
}

/// What operations of native clients may say, besides a GET, PUT or DELETE of a key alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationOffers {
    /// Whether PUTs and DELETEs may have a [`Condition`](crate::Condition).
    pub conditions: bool,
    /// Whether items have versions, which [`GetItem`](crate::Op::GetItem) returns and
    /// [`IfVersion`](crate::Condition::IfVersion) compares.
    pub versions: bool,
    /// Whether a PUT may have a time to live.
    pub ttl: bool,
    /// Whether a PUT may have flags, which [`GetItem`](crate::Op::GetItem) returns.
    pub flags: bool,
    /// Whether there is [`Touch`](crate::Op::Touch).
    pub touch: bool,
    /// Whether there is [`flush`](crate::KvClient::flush).
    pub flush: bool,
    /// Whether ranges of keys can be read in their order.
    pub scan: bool,
    /// Whether several keys can be changed together.
    pub transactions: bool,
    /// Longest value that a service can be told to accept, bytes.
    pub value_bytes_max: usize,
    /// Length of the shortest key and of the longest one, bytes.
    pub key_bytes: [usize; 2],
}

impl Offers {
    /// Returns the value for a system that serves native clients only, which have all operations. `no_memory_file` says why
    /// it has no memory file.
    pub const fn native_only(no_memory_file: &'static str) -> Offers {
        Offers {
            operations: OperationOffers::POINT,
            isolates: true,
            service: true,
            memcached: false,
            gateway: false,
            request_slots: false,
            transfer: false,
            memory_file: Err(no_memory_file),
            evicts: true,
            sends_again: true,
            expiry_lag_s: 0,
            eviction: Err(
                "its server does not see GETs, so it evicts the items that were stored longest ago",
            ),
        }
    }
}

impl OperationOffers {
    /// All that operations on one key may say, for values of any length that the store can have.
    pub const POINT: OperationOffers = OperationOffers {
        conditions: true,
        versions: true,
        ttl: true,
        flags: true,
        touch: true,
        flush: false,
        scan: false,
        transactions: false,
        value_bytes_max: VALUE_BYTES_MAX,
        key_bytes: [1, KEY_BYTES_MAX],
    };

    /// What can be offered, by the names that people use, and whether it is.
    pub fn named(&self) -> [(&'static str, bool); 8] {
        [
            ("conditions", self.conditions),
            ("versions", self.versions),
            ("ttl", self.ttl),
            ("flags", self.flags),
            ("touch", self.touch),
            ("flush", self.flush),
            ("scan", self.scan),
            ("transactions", self.transactions),
        ]
    }
}

/// Number of control channels that a client opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// One channel for the whole service.
    One,
    /// One channel to each shard, which has its own keys.
    PerShard,
    /// One channel to one of the shards: each serves every key, and clients are spread over them.
    OneShard,
}

impl Channels {
    /// Of ways to all shards, those that the client numbered `client` takes. Clients of one process should have numbers in
    /// succession.
    pub fn of_client<T>(self, mut ways: Vec<T>, client: usize) -> Vec<T> {
        if self == Channels::OneShard && !ways.is_empty() {
            let own = ways.swap_remove(client % ways.len());
            ways.clear();
            ways.push(own);
        }
        ways
    }
}

/// Size requirements of a service, from which a system computes its plan.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of shards (partitions); each has its own core.
    pub shard_count: usize,
    /// Capacity of the whole service.
    pub capacity: Capacity,
    /// Longest value to be stored, bytes; with [`Capacity::Items`] the length of every value.
    pub value_bytes_max: usize,
    /// Maximum number of operations that a client may have in flight per shard. Only HERD, which reserves request
    /// slots, uses it.
    pub window: usize,
}

/// Capacity of a service.
#[derive(Clone, Copy, Debug)]
pub enum Capacity {
    /// A given amount of memory, for items and, in Pilaf and FaRM-KV, for the tables that index them; HERD's index
    /// comes on top.
    Memory {
        /// Bytes in total, all shards together.
        bytes: usize,
    },
    /// Space for a number of items.
    Items {
        /// Number of items in total, all shards together.
        count: u64,
        /// Length of each key, bytes.
        key_bytes: usize,
    },
}

/// An operator's decisions that do not depend on the sizes of a service.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Whether items are evicted when the memory is full, instead of refusing new ones.
    pub evicts: bool,
    /// Which items are evicted, by systems that [offer](Offers::eviction) a choice.
    pub eviction: Eviction,
    /// Maximum number of native clients of the service.
    pub clients_max: usize,
    /// Whether huge pages are required: then the service does not start without them.
    pub large_pages: bool,
    /// Behaviour of an idle core.
    pub idle: Idle,
    /// Request slots, for systems that [have some](Offers::request_slots).
    pub slots: SlotPolicy,
    /// How results come to clients that leave it open, in systems that [know several ways](Offers::transfer).
    pub transfer: ResultTransfer,
}

/// An operator's decisions about request slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotPolicy {
    /// Maximum number of clients with request slots. Others send their requests as datagrams.
    pub clients_max: usize,
    /// Maximum length of a slot, bytes; the value of a longer request is moved separately, through bulk memory.
    pub bytes_max: usize,
}

/// Hook that runs first in the thread of each core of a service, for pinning. Its argument is the index of the core
/// within the service.
pub type OnCore = Box<dyn Fn(usize) + Send + Sync>;

/// A key-value system: one row of the table of systems.
pub trait System: Send + Sync + 'static {
    /// Static properties of the system.
    const FACTS: Facts;
    /// Sizes and options of a service, computed from [`Sizes`] and a [`Policy`].
    type Plan: Clone + Debug + Send + Sync + 'static;
    /// A client of a service.
    type Client<P: Provider>: ServiceClient<P>;

    /// Computes a plan for a service of these sizes.
    ///
    /// # Errors
    /// The sizes are impossible; the text is for people.
    fn plan(sizes: &Sizes) -> Result<Self::Plan, String>;

    /// Applies an operator's policy to a plan.
    fn set_policy(plan: &mut Self::Plan, policy: &Policy);

    /// The longest item that a service of this plan may accept (half of a shard's memory for items), and a reference to
    /// the plan's current limit on accepted items, which the caller may lower; both in bytes. HERD's limit applies to
    /// the value alone, without key and header.
    fn item_bytes_max(plan: &mut Self::Plan) -> (usize, &mut usize);

    /// The plan's hash of keys, which the caller may change. At first it is the default one.
    fn hash(plan: &mut Self::Plan) -> &mut HashKind;

    /// Bytes of the tables, and bytes of the memory for items, that requests may touch; all shards together. The
    /// benchmarks compute bounds from them; they are not limits.
    fn footprint(plan: &Self::Plan) -> [usize; 2];

    /// Number of entries (slots) of all tables together at the start; overflow blocks are not counted.
    fn entry_count(plan: &Self::Plan) -> usize;

    /// Describes the plan in lines for the log.
    fn describe(plan: &Self::Plan) -> Vec<String>;

    /// Starts a service that accepts clients at `listeners`, and returns when it is ready. `on_core` runs first in the
    /// thread of each core.
    ///
    /// # Errors
    /// [`StartError`] if the service could not be started; then none of its threads is left.
    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &Self::Plan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, StartError>;

    /// Runs `job` with this system if it is a [`ShardedSystem`](crate::ShardedSystem), and returns the job if it is
    /// not. A sharded system overrides this method with `Ok(job.run::<Self>())`.
    ///
    /// # Errors
    /// `job` itself, if this system is not sharded.
    fn sharded<J: ShardedJob>(job: J) -> Result<J::Answer, J> {
        Err(job)
    }

    /// Runs `job` with this system if it is a [`HostingSystem`](crate::HostingSystem), and returns the job if it is
    /// not. A hosting system overrides this method with `Ok(job.run::<Self>())`.
    ///
    /// # Errors
    /// `job` itself, if this system is not a hosting one.
    fn hosting<J: HostingJob>(job: J) -> Result<J::Answer, J> {
        Err(job)
    }
}

/// A service that runs in threads of this process. Stops when dropped.
pub trait Service: Send + Sync {
    /// A descriptor that becomes readable when a thread of the service ends without [`stop`](Service::stop).
    fn ended(&self) -> BorrowedFd<'_>;

    /// Text that says why the first thread that ended without [`stop`](Service::stop) did so; if none has, that the
    /// service was stopped.
    fn why(&self) -> String;

    /// Values of the system's [counters](Facts::counters), per shard. Blocks until all shards have answered, at most
    /// `patience` for each answer.
    ///
    /// # Errors
    /// A text that names the shards that did not answer.
    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String>;

    /// Stops all threads and waits until they have ended. The clients' channels are closed.
    fn stop(self: Box<Self>);
}

/// A job that is generic over systems; the table of systems runs it with the selected system.
pub trait SystemJob {
    /// Result of the job.
    type Answer;

    /// Runs the job with system `S`.
    fn run<S: System>(self) -> Self::Answer;
}

/// A table of systems, as the macro `systems!` of crate `systems` defines it. Code that serves, measures or simulates
/// the systems of a table takes the table as a type parameter, so a test can bring its own.
pub trait SystemTable: Copy + Eq + Debug + Display + Send + Sync + 'static {
    /// All systems, in the order of the table. The first is the default of commands.
    const ALL: &'static [Self];

    /// Static properties of the system.
    fn facts(self) -> &'static Facts;

    /// Runs `job` with the system.
    fn run<J: SystemJob>(self, job: J) -> J::Answer;

    /// Runs `job` with the system as a [`SteppedSystem`](crate::SteppedSystem).
    fn stepped<J: SteppedJob>(self, job: J) -> J::Answer;

    /// Runs `job` with the system if it is a [`ShardedSystem`](crate::ShardedSystem).
    ///
    /// # Errors
    /// `job` itself, if the system is not sharded.
    fn sharded<J: ShardedJob>(self, job: J) -> Result<J::Answer, J> {
        self.run(IfSharded(job))
    }

    /// Runs `job` with the system if it is a [`HostingSystem`](crate::HostingSystem).
    ///
    /// # Errors
    /// `job` itself, if the system is not a hosting one.
    fn hosting<J: HostingJob>(self, job: J) -> Result<J::Answer, J> {
        self.run(IfHosting(job))
    }

    /// The system called `name`; `None` if the table has none.
    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|system| system.facts().name == name)
    }

    /// Names of all systems, separated by `separator`.
    fn names(separator: &str) -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|system| system.facts().name).collect();
        names.join(separator)
    }
}

struct IfSharded<J>(J);

impl<J: ShardedJob> SystemJob for IfSharded<J> {
    type Answer = Result<J::Answer, J>;

    fn run<S: System>(self) -> Self::Answer {
        S::sharded(self.0)
    }
}

struct IfHosting<J>(J);

impl<J: HostingJob> SystemJob for IfHosting<J> {
    type Answer = Result<J::Answer, J>;

    fn run<S: System>(self) -> Self::Answer {
        S::hosting(self.0)
    }
}
