//! [`Variant`]: how a server differs from the one that `drover serve` runs.
//!
//! The variant is a type parameter. The server that is shipped is [`Standard`]: each of the trait's methods returns a
//! constant, so the compiler removes the checks, and no option can switch a mistake on. Variants that make mistakes are
//! types of tests, and of `drover-swarm` for `drover sim --planted`.

/// A mistake that a server can be built to make, so that tests can show that they would notice it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// A retransmitted update is executed again.
    ExecutesTwice,
    /// A restarted worker executes old requests that are still in the slots.
    ExecutesLeftovers,
    /// Checksums of requests are not checked.
    IgnoresCrc,
    /// Workers check only the slot whose turn it is, so they miss requests behind a lost one.
    NeverLooksAround,
    /// A client is served until its slots are empty, however long the others wait.
    NoQuota,
    /// A ruled-out request executes when it arrives late.
    ForgetsResync,
    /// The pipeline executes the newer request's stage before the older one's, as `[H14]` does.
    NewerFirst,
    /// The pipeline moves on only when a new request enters: no no-ops, no draining.
    NoNop,
    /// A client's id is assigned to another client before the workers have dropped the first one.
    ReusesIdsAtOnce,
    /// Clients that send datagrams get windows as large as other clients', possibly more than there are RECVs for.
    AnyDatagramWindow,
    /// Workers panic whenever they start or restart.
    PanicsAlways,
    /// Conditional requests are executed even if they must be refused.
    IgnoresConditions,
    /// After a GET of a long value the window of conditional requests behind the GET is refused, but not the window
    /// behind a request so refused.
    ForgetsRefusals,
    /// Workers do not answer requests for their statistics.
    KeepsSilent,
    /// A restarted worker takes the number of a slot's last request from the slot, which may hold an older one.
    RestartBelievesSlots,
    /// A long reply is built in memory from which an earlier one may still be sent.
    RebuildsReplies,
    /// A worker that received nothing but datagrams to ignore reports that it is idle, although more may have arrived.
    IdlesBehindDatagrams,
}

/// How a server differs from the one that is shipped. The default methods describe the shipped one.
pub trait Variant: Copy + Send + 'static {
    /// Whether the server makes this mistake.
    #[inline(always)]
    fn makes(self, _: Mistake) -> bool {
        false
    }

    /// Whether clients may use the paper's format. Their items have hashes instead of keys: they and clients that send
    /// keys do not see each other's items.
    #[inline(always)]
    fn paper_format(self) -> bool {
        false
    }
}

/// The variant that is shipped: no mistakes, our format only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standard;

impl Variant for Standard {}

/// A variant that also accepts clients with the paper's format, for reproducing the paper. It makes no mistakes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WithPaperFormat;

impl Variant for WithPaperFormat {
    #[inline(always)]
    fn paper_format(self) -> bool {
        true
    }
}
