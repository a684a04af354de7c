//! [`Variant`]: how a server differs from the one that `drover serve` runs.
//!
//! The variant is a type parameter. The server that is shipped is [`Standard`], or [`ReadByAll`]: each of the trait's methods
//! returns a constant, so the compiler removes the checks, and no option can switch a mistake on. Variants that make mistakes are
//! types of tests, and of `drover-swarm` for `drover sim --planted`.

use drover_store::{Exclusive, Partition, SharedReads, Sharing};

/// A mistake that a server can be built to make, so that tests can show that they would notice it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// A retransmitted update is executed again, instead of being answered with its first result.
    ExecutesTwice,
    /// A worker that restarts after a panic executes requests that are in the slots, executed before or not.
    ExecutesLeftovers,
    /// Wrong checksums of requests are ignored; those of long values are still checked.
    IgnoresCrc,
    /// Workers check only the slot whose turn it is, so they miss retransmissions, and requests behind a lost one.
    NeverLooksAround,
    /// A client is served until its slots have no new request or the batch is full, however long the others wait.
    NoQuota,
    /// A request that a client's `Resync` has ruled out executes when it arrives late.
    ForgetsResync,
    /// The pipeline executes a PUT at stage 1, before the older request at stage 2, as `[H14]` does.
    NewerFirst,
    /// The pipeline moves on only when a new request enters or a command of the control thread arrives: no no-ops, no
    /// draining.
    NoNop,
    /// A client's id is assigned to another client before the workers have dropped the first one.
    ReusesIdsAtOnce,
    /// Clients that send datagrams get windows as large as clients with slots, for which there may be too few RECVs.
    AnyDatagramWindow,
    /// Workers in threads, if they have no co-actors, panic whenever they start or restart.
    PanicsAlways,
    /// Conditional requests are executed even if they must be refused.
    IgnoresConditions,
    /// Conditional requests are refused if they are less than a window behind a GET of a long value, but not if they
    /// are less than a window behind another request that was refused.
    ForgetsRefusals,
    /// Workers do not answer requests for their statistics.
    KeepsSilent,
    /// A restarted worker takes the seq of a slot's last request from the commit word in the slot, which may be that of
    /// an older request.
    RestartBelievesSlots,
    /// A reply that is too long to be inline is built in memory from which an earlier one may still be sent.
    RebuildsReplies,
    /// A worker that has received only datagrams to be ignored reports that it is idle, although more may have arrived.
    IdlesBehindDatagrams,
    /// Slots and bulk memory of all clients are in one protection domain.
    SharesDomain,
    /// The number that a datagram carries is believed, though its sender writes it.
    TrustsSenders,
    /// A member of a service executes retransmissions without asking whether it serves the key.
    TrustsRetransmissions,
    /// A member of a service executes requests whose value is in bulk memory without asking whether it serves the key.
    TrustsBulk,
    /// A member's worker posts replies while its core is held.
    PostsWhileHeld,
    /// A member's worker drops the replies that it held.
    ForgetsHeld,
    /// A member's worker says what became of a request while the reply to it is held.
    ResyncsWhileHeld,
    /// A member's worker posts replies that have become void.
    PostsVoid,
    /// A member's worker drops void replies, but not the clients, which learn their results by asking again.
    KeepsVoidClients,
    /// The caches of workers make this mistake.
    InCache(drover_store::Mistake),
}

/// How a server differs from the one that is shipped. Methods that a type does not define describe the shipped one.
pub trait Variant: Copy + Send + 'static {
    /// Access to the workers' partitions by other threads.
    type Sharing: Sharing + 'static;

    /// Plants a mistake in a new partition; by default none.
    #[inline(always)]
    fn plant(self, _: &mut Partition<Self::Sharing>) {}

    /// Whether the server makes this mistake; by default none.
    #[inline(always)]
    fn makes(self, _: Mistake) -> bool {
        false
    }

    /// Whether clients may use the format of HERD's paper, [`Format::P`](crate::control::Format::P); by default not.
    /// Their items have hashes instead of keys: they and clients that send keys do not see each other's items.
    #[inline(always)]
    fn paper_format(self) -> bool {
        false
    }
}

/// The variant that is shipped: no mistakes, our format only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standard;

impl Variant for Standard {
    type Sharing = Exclusive;
}

/// The variant that is shipped where co-actors read the partitions of other workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadByAll;

impl Variant for ReadByAll {
    type Sharing = SharedReads;
}

/// A variant that also accepts clients with the format of HERD's paper, to reproduce the paper's measurements. It makes
/// no mistakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WithPaperFormat;

impl Variant for WithPaperFormat {
    type Sharing = Exclusive;

    #[inline(always)]
    fn paper_format(self) -> bool {
        true
    }
}
