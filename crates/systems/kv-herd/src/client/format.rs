//! [`RequestFormat`]: whether a client speaks our format or the paper's. It is a type parameter of the client, so that
//! the client that is shipped, with [`Keyed`], contains no code for the paper's format.

use crate::control::Format;

/// Format of a client's requests, as a type: [`Keyed`] or [`Paper`]. [`Format`] implements it too, for programs that
/// choose the format at run time.
pub trait RequestFormat: Copy + 'static {
    /// The format as a value, as the handshake names it.
    fn format(self) -> Format;

    /// Whether it is the paper's format: 16-byte hashes as keys; no DELETE, TTL, empty value or retransmission.
    #[inline(always)]
    fn is_paper(self) -> bool {
        self.format() == Format::P
    }
}

/// Our format, [`Format::D`]: requests carry their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keyed;

impl RequestFormat for Keyed {
    #[inline(always)]
    fn format(self) -> Format {
        Format::D
    }
}

/// The paper's format, [`Format::P`]: requests carry key hashes only.
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
