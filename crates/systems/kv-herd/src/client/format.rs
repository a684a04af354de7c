//! [`RequestFormat`]: whether a client speaks our format or the paper's. A type parameter of the client, so that the
//! client that is shipped, [`Keyed`], has nothing of the paper's in it.

use crate::control::Format;

/// Which format a client's requests have. A [`Format`] itself is one that is chosen when the client is made.
pub trait RequestFormat: Copy + 'static {
    /// The format.
    fn format(self) -> Format;

    /// The paper's: 16-byte hashes as keys; no DELETE, TTL, empty value or retransmission.
    #[inline(always)]
    fn is_paper(self) -> bool {
        self.format() == Format::P
    }
}

/// Ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keyed;

impl RequestFormat for Keyed {
    #[inline(always)]
    fn format(self) -> Format {
        Format::D
    }
}

/// The paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paper;

impl RequestFormat for Paper {
    #[inline(always)]
    fn format(self) -> Format {
        Format::P
    }
}

impl RequestFormat for Format {
    #[inline(always)]
    fn format(self) -> Format {
        self
    }
}
