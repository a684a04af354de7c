//! [`ShardLogic`]: the system's part of a server.

use crate::control::{Hello, ServerParams};
use crate::error::PeerError;
use crate::server::LastUpdates;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_control::{Field, Frame, Message, PeerCred};
use drover_kv::ShardPlan;
use drover_kv::StartError;
use drover_verbs::Provider;
use std::fmt::Debug;
use std::rc::Rc;

/// Identity of a shard within its service, and the options of [`Server`](super::Server) itself.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// Index of this shard, from 0.
    pub shard: u16,
    /// Number of shards of the service.
    pub shard_count: u16,
    /// Interval between two polls of the control channels. A poll is a system call per client, and keeps an idle core
    /// from sleeping longer.
    pub look_every: Ns,
    /// Hash seed of the keys; `None`: random. All shards of a service must have the same seed.
    pub hash_seed: Option<HashSeed>,
}

impl Membership {
    /// Membership of the only shard of a service, with a random hash seed; it polls its control channels every 20 us.
    pub fn alone() -> Membership {
        Membership {
            shard: 0,
            shard_count: 1,
            look_every: Ns::from_us(20),
            hash_seed: None,
        }
    }

    /// Membership of shard `index` in a service of `plan`.
    pub fn of(plan: &ShardPlan, index: usize, hash_seed: HashSeed) -> Membership {
        Membership {
            shard: index as u16,
            shard_count: plan.shard_count as u16,
            look_every: plan.look_every,
            hash_seed: Some(hash_seed),
        }
    }

    /// As [`alone`](Membership::alone), but with this hash seed.
    pub fn alone_with(hash_seed: HashSeed) -> Membership {
        Membership {
            hash_seed: Some(hash_seed),
            ..Membership::alone()
        }
    }
}

/// A server's clock, which counts seconds since the server started, from 1.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub(super) Ns);

impl Clock {
    /// Seconds since the start at `now`, counted from 1, since 0 means never.
    pub fn now_s(self, now: Ns) -> u32 {
        now.since(self.0).as_s() as u32 + 1
    }

    /// Expiry in seconds of this clock, for an item stored at `now` with a time to live of `ttl_s` seconds; 0 = never.
    pub fn expire_s(self, ttl_s: u32, now: Ns) -> u32 {
        match ttl_s {
            0 => 0,
            ttl_s => self.now_s(now).saturating_add(ttl_s),
        }
    }
}

/// Result of [`ShardLogic::advance`], a slice of background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkDone {
    /// There was nothing to do.
    Idle,
    /// Work was done.
    Busy,
    /// Work was done, and clients must be sent the [notification](ShardLogic::notification).
    Notify,
}

/// A shard's data and how it answers requests: all of a server except its control channels.
pub trait ShardLogic<P: Provider>: Sized {
    /// Options of a shard of this system.
    type Options;
    /// What the shards of a service share: see [`Shard::Common`](drover_kv::Shard::Common).
    type Common: Clone + Default + Send + Sync + 'static;
    /// The system's counters of a shard.
    type Stats;
    /// Queues and buffers of one client.
    type Connection;
    /// The system's parameters in a client's [`Hello`].
    type ClientParams: Field + Clone + Debug;
    /// The server's answer to `Hello`.
    type Welcome: Message;
    /// The client's second message: its queue pair and memory.
    type Attach: Message;
    /// Message to clients about a change at the shard, such as a new table: see [`notification`](ShardLogic::notification).
    type Notification: Message;

    /// Version of the system's messages and layouts; clients with another version are refused.
    const VERSION: u16;

    /// Whether each shard has every key, so that a client needs only one of them, whichever.
    const HAS_EVERY_KEY: bool = false;

    /// Derives the options of shard `index` from the service's plan; all shards hash keys under `seed`.
    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> Self::Options;

    /// Values of the system's counters, in the order of [`Facts::counters`](drover_kv::Facts::counters), without the
    /// last one, [`CLIENTS`](crate::CLIENTS).
    fn counters(&self) -> Vec<u64>;

    /// The server's own options, taken from `options`.
    ///
    /// # Panics
    /// If the options are inconsistent.
    fn membership(options: &Self::Options) -> Membership;

    /// Creates an empty shard and registers its memory.
    ///
    /// # Errors
    /// [`StartError`] if memory cannot be allocated or registered.
    fn new(
        ctx: &Rc<P::Context>,
        options: &Self::Options,
        hasher: KeyHasher,
        clock: Clock,
        common: &Self::Common,
    ) -> Result<Self, StartError>;

    /// Longest item, counted as the system does, and longest request with its header; both in bytes.
    fn limits(&self) -> (usize, usize);

    /// Number of keys, expired ones that were not removed yet included.
    fn len(&self) -> usize;

    /// Whether there are no keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the records or objects in use, without replaced ones that wait for reuse and without values that are
    /// inside the table.
    fn used_bytes(&self) -> usize;

    /// The system's counters of this shard since its start.
    fn stats(&self) -> Self::Stats;

    /// Creates queues and buffers for a client, and the answer that says where the table and the items are.
    /// `hello.slots` is the number of slots that the client gets.
    ///
    /// # Errors
    /// [`PeerError`] if a resource cannot be created or exported: the client is refused.
    fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        hello: &Hello<Self::ClientParams>,
        terms: ServerParams,
    ) -> Result<(Self::Connection, Self::Welcome), PeerError>;

    /// Called after [`open`](ShardLogic::open) with the process at the other end of the control channel, if that is one of
    /// this machine.
    fn opened_by(&mut self, conn: &mut Self::Connection, process: Option<PeerCred>) {
        let _ = (conn, process);
    }

    /// Connects `conn` with the client's end; allowed once.
    ///
    /// # Errors
    /// [`PeerError`] if the client's end cannot be connected, or was connected before: the client is refused.
    fn attach(
        &mut self,
        ctx: &Rc<P::Context>,
        conn: &mut Self::Connection,
        attach: &Self::Attach,
    ) -> Result<(), PeerError>;

    /// Handles a frame of a kind that only this system has.
    ///
    /// # Errors
    /// [`PeerError`] if the frame is malformed or not allowed in this state: the client is refused.
    fn receive(&mut self, conn: &mut Self::Connection, frame: &Frame) -> Result<(), PeerError> {
        let _ = (conn, frame);
        Err(PeerError::OutOfOrder)
    }

    /// Returns the notification that the client of `conn` must be sent now, if there is one; it then counts as sent.
    /// Called for all clients with a connection, attached or not, after an attach and after [`WorkDone::Notify`].
    ///
    /// # Errors
    /// [`PeerError`] if the notification cannot be created: the session ends.
    fn notification(&mut self, conn: &mut Self::Connection) -> Result<Option<Self::Notification>, PeerError> {
        let _ = conn;
        Ok(None)
    }

    /// Answers requests that arrived on `conn`; returns whether there was anything to do.
    ///
    /// # Errors
    /// [`PeerError`] if the session must end.
    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Self::Connection) -> Result<bool, PeerError>;

    /// The last updates of the client of `conn`. The server puts those of the client's previous session there after
    /// [`open`](ShardLogic::open), and takes them before [`close`](ShardLogic::close). The system asks them before it
    /// executes an update, and notes its answer.
    fn last_updates(conn: &mut Self::Connection) -> &mut LastUpdates;

    /// Releases a client's resources when its session ends; its queue pair is destroyed. Requests that were not executed
    /// are dropped: the client sends updates again.
    fn close(&mut self, ctx: &Rc<P::Context>, conn: Self::Connection);

    /// Called after all control channels were polled; `conns` are the connections of the remaining clients that have
    /// sent `Hello`.
    fn control_polled<'a>(&mut self, now: Ns, conns: impl Iterator<Item = &'a Self::Connection> + Clone)
    where
        Self::Connection: 'a,
    {
        let _ = (now, conns);
    }

    /// When the server must step again though nothing has arrived; asked at the end of a step that found nothing to do.
    fn next_timer(&self) -> Ns {
        Ns::MAX
    }

    /// Does a slice of background work; called in every step.
    fn advance(&mut self, now: Ns) -> WorkDone {
        let _ = now;
        WorkDone::Idle
    }
}
