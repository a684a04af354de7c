//! [`CoActor`]: an actor that shares a worker's core and items, such as the sockets of another protocol.

use drover_base::{Ns, Progress};
use drover_store::{Exclusive, Partition, SharedReads, Sharing};
use drover_verbs::{Provider, Waker};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An actor that shares the core and the items of a worker, for example one that serves memcached's sockets. It lives
/// in the worker's thread, which interleaves their steps; a busy worker may step several times between two steps of the
/// co-actor. `S` is the access of other threads to the partition.
pub trait CoActor<C, S: Sharing = Exclusive> {
    /// Does the work that is available, at most one batch; never blocks. `now` is the start of the round, `now_s` the
    /// same in seconds of the clock by which items expire ([`Hosting::start_s`](crate::Hosting::start_s) plus the whole
    /// seconds since the server started).
    fn step(&mut self, cpu: &C, partition: &mut Partition<S>, now: Ns, now_s: u32) -> Progress;

    /// A descriptor that becomes readable when there is work, which ends the sleep of the core. Every call returns the
    /// same one.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Called after a step of the worker or of this co-actor has panicked: the partition is empty now. Steps of this
    /// co-actor follow as before.
    fn restarted(&mut self);

    /// Called when the server stops: the co-actor starts nothing new. Its steps continue until it
    /// [has left](CoActor::has_left), but only for a limited time.
    fn leave(&mut self) {}

    /// After [`leave`](CoActor::leave): whether all work in progress is finished, including work that other cores need
    /// this core for.
    fn has_left(&self) -> bool {
        true
    }
}

/// What a new co-actor is told about its core and the server.
#[derive(Debug)]
pub struct CoreInfo {
    /// Index of the core's partition.
    pub index: usize,
    /// Number of partitions.
    pub count: usize,
    /// Wakes the core.
    pub waker: Waker,
    /// Time of the server's start, on the clock of this core; the `now_s` of steps was
    /// [`start_s`](crate::Hosting::start_s) at that time.
    pub started: Ns,
}

/// Function that makes the co-actor of a worker; called once in each worker's thread. Its error is the reason why the
/// server does not start.
pub type MakeCoActor<P, S = Exclusive> =
    Arc<dyn Fn(CoreInfo) -> Result<Box<dyn CoActor<<P as Provider>::Cpu, S>>, String> + Send + Sync>;

/// The co-actors of a server, and how they use the partitions of its workers.
#[derive(Clone)]
pub enum CoActors<P: Provider> {
    /// Each uses that of its own worker only.
    Own(MakeCoActor<P>),
    /// Each also reads those of the others, by their [readers](drover_store::Reader). That costs every write a few
    /// instructions.
    ReadAll(MakeCoActor<P, SharedReads>),
}
