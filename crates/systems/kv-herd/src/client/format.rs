//! [`RequestFormat`]: whether a client speaks our format or the paper's. It is a type parameter of the client, so that
//! the client that is shipped, with [`Keyed`], contains no code for the paper's format.

use crate::control::Format;

/// Format of a client's requests, as a type: [`Keyed`] or [`Paper`]. [`Format`] implements it too, for programs that
/// choose the format at run time.
pub trait RequestFormat: Copy + 'static {
    /// The format as a value, for the handshake.
    fn format(self) -> Format;

    /// Whether it is the format of HERD's paper, [`Format::P`]: hashes of 16 bytes as keys; no DELETE, time to live,
    /// empty value, value longer than a slot, checksum or retransmission.
    #[inline(always)]
    fn is_paper(self) -> bool {
        self.format() == Format::P
    }
}

/// Our own format, [`Format::D`]: requests carry keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keyed;

impl RequestFormat for Keyed {
    #[inline(always)]
    fn format(self) -> Format {
        Format::D
    }
}

/// The format of HERD's paper, [`Format::P`]: requests carry key hashes instead of keys.
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
