//! [`ShardLogic`]: a system's own half of a server.

use crate::control::{ClientParams, Hello, ServerParams};
use crate::error::PeerError;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_kv::ShardPlan;
use drover_kv::StartError;
use drover_rt::control::{Frame, Message};
use drover_verbs::Provider;
use std::rc::Rc;

/// Which shard a server is, and what [`Server`](super::Server) itself is told.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// Index of this shard.
    pub shard: u16,
    /// Of how many.
    pub shard_count: u16,
    /// How often control channels are looked at: a system call for every client, which costs a core that sleeps its
    /// sleep.
    pub look_every: Ns,
    /// Keys the hash of keys; `None`: random. All shards of a service have one.
    pub hash_seed: Option<HashSeed>,
}

/// Seconds since a server's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub(super) Ns);

impl Clock {
    /// Seconds at `now`; from 1 on, since 0 means never.
    pub fn now_s(self, now: Ns) -> u32 {
        now.since(self.0).as_s() as u32 + 1
    }

    /// When what is stored at `now` expires, if it is to live `ttl_s` seconds, 0 = for ever.
    pub fn expire_s(self, ttl_s: u32, now: Ns) -> u32 {
        match ttl_s {
            0 => 0,
            ttl_s => self.now_s(now).saturating_add(ttl_s),
        }
    }
}

/// What came of a host's own work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkDone {
    /// There was nothing to do.
    Idle,
    /// Something.
    Busy,
    /// Something that clients are to [hear of](ShardLogic::news).
    Notify,
}

/// A shard and how it answers: all of a server but its control channels.
pub trait ShardLogic<P: Provider>: Sized {
    /// How it is set up.
    type Options;
    /// Its counters.
    type Stats;
    /// Queues and buffers of one client.
    type Connection;
    /// What a client says with its [`Hello`].
    type ClientParams: ClientParams;
    /// What it is told then.
    type Welcome: Message;
    /// What it says of its end.
    type Attach: Message;
    /// What it is told when there is [news](ShardLogic::news).
    type Notification: Message;

    /// Of messages and layouts.
    const VERSION: u16;

    /// How shard `index` of a service of `plan` is set up; all shards hash under `seed`.
    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> Self::Options;

    /// Values of the system's counters, in the order of its facts, but for the last, [`CLIENTS`](crate::CLIENTS).
    fn counters(&self) -> Vec<u64>;

    /// What the options say to the server.
    ///
    /// # Panics
    /// If they contradict themselves.
    fn membership(options: &Self::Options) -> Membership;

    /// An empty shard, its memory registered.
    ///
    /// # Errors
    /// No memory.
    fn new(
        ctx: &Rc<P::Context>,
        options: &Self::Options,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<Self, StartError>;

    /// Longest item and longest request, bytes.
    fn limits(&self) -> (usize, usize);

    /// Keys.
    fn len(&self) -> usize;

    /// No keys.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of what is stored for them.
    fn used_bytes(&self) -> usize;

    /// Counters since the start.
    fn stats(&self) -> Self::Stats;

    /// Queues and buffers for a client, and where it finds everything. `hello` asks for as many slots as it gets.
    ///
    /// # Errors
    /// Why there are none.
    fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        hello: &Hello<Self::ClientParams>,
        terms: ServerParams,
    ) -> Result<(Self::Connection, Self::Welcome), PeerError>;

    /// Connects a conn with the client's end, once.
    ///
    /// # Errors
    /// Why that is not possible.
    fn attach(
        &mut self,
        ctx: &Rc<P::Context>,
        conn: &mut Self::Connection,
        attach: &Self::Attach,
    ) -> Result<(), PeerError>;

    /// A frame of a kind that only this system knows.
    ///
    /// # Errors
    /// It is none, or has no place here: the client is refused.
    fn receive(&mut self, conn: &mut Self::Connection, frame: &Frame) -> Result<(), PeerError> {
        let _ = (conn, frame);
        Err(PeerError::OutOfOrder)
    }

    /// What a client that is attached has to be told, and has not been.
    ///
    /// # Errors
    /// It cannot be told: its session ends.
    fn news(&mut self, conn: &mut Self::Connection) -> Result<Option<Self::Notification>, PeerError> {
        let _ = conn;
        Ok(None)
    }

    /// Answers what has come on a conn. Whether there was something.
    ///
    /// # Errors
    /// The client is given up.
    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Self::Connection) -> Result<bool, PeerError>;

    /// Takes back what a client held.
    fn close(&mut self, ctx: &Rc<P::Context>, conn: Self::Connection);

    /// All channels have been looked at; `conns` are those of the clients that there are.
    fn looked<'a>(&mut self, now: Ns, conns: impl Iterator<Item = &'a Self::Connection> + Clone)
    where
        Self::Connection: 'a,
    {
        let _ = (now, conns);
    }

    /// Does a slice of what it does beside answering.
    fn advance(&mut self, now: Ns) -> WorkDone {
        let _ = now;
        WorkDone::Idle
    }
}
