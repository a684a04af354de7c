//! [`Variant`]: how a server differs from the one that `drover serve` runs.
//!
//! The variant is a type parameter. The server that is shipped is [`Standard`]: every question is a constant, no check is
//! left in the program, and no option can switch one on. Variants that make mistakes are types of tests, and of
//! `drover-swarm` for `drover sim --planted`.

/// A mistake. Each is asked for at the one place where it would be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mistake {
    /// A retransmitted update is executed again.
    ExecutesTwice,
    /// Leftovers in the slots of a restarted worker are executed.
    ExecutesLeftovers,
    /// The checksum is not looked at.
    IgnoresCrc,
    /// No slot is looked at but the one whose turn it is.
    NeverLooksAround,
    /// A client is served until its slots are empty.
    NoQuota,
    /// A ruled-out request executes when it arrives late.
    ForgetsResync,
    /// The pipeline executes the newer request's stage before the older one's, as `[H14]`.
    NewerFirst,
    /// The pipeline is pushed on by new requests alone.
    NoNop,
    /// A client's id is given out again before the workers have dropped it.
    ReusesIdsAtOnce,
    /// Clients that send datagrams may have as many requests under way as others.
    AnyDatagramWindow,
    /// Workers panic whenever they begin to poll.
    PanicsAlways,
    /// Conditional requests are executed in any case.
    IgnoresConditions,
    /// Only what was posted behind a GET of a long value itself is refused, and not what follows that.
    ForgetsRefusals,
    /// Workers do not say what they did.
    KeepsSilent,
    /// A worker that restarts takes the number of a slot's last request from the slot, where an older one may stand.
    RestartBelievesSlots,
    /// A long reply is built where an earlier one may still be sent from.
    RebuildsReplies,
    /// A worker that received only datagrams to be ignored says that it is idle.
    IdlesBehindDatagrams,
}

/// How a server differs from the one that is shipped.
pub trait Variant: Copy + Send + 'static {
    /// Whether it makes this mistake, so that a test can show that it would notice.
    #[inline(always)]
    fn makes(self, _: Mistake) -> bool {
        false
    }

    /// Whether clients may speak the paper's format. What they store has no key but its hash; clients that send keys do
    /// not see it, nor it theirs.
    #[inline(always)]
    fn paper_format(self) -> bool {
        false
    }
}

/// The server that is shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standard;

impl Variant for Standard {}

/// A server that speaks the paper's format, too: for reproducing the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WithPaperFormat;

impl Variant for WithPaperFormat {
    #[inline(always)]
    fn paper_format(self) -> bool {
        true
    }
}
