//! [`Output`]: what waits to be written to a connection.

use std::collections::VecDeque;

/// A place in an [`Output`] where a reply is missing. It says where it belongs, so that whoever sends a request to
/// another core needs to remember nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hole {
    /// The connection whose output it is in, as its owner numbers them.
    pub connection: u64,
    /// Counts up from 0 for each output; never given twice.
    pub number: u64,
}

/// Replies in the order of their requests, some of them still to come. What stands before the first hole can be written.
#[derive(Debug)]
pub struct Output {
    connection: u64,
    bytes: Vec<u8>,
    /// Full from so many bytes on.
    limit: usize,
    holes: VecDeque<Missing>,
    next: u64,
}

#[derive(Debug)]
struct Missing {
    hole: Hole,
    /// Where in `bytes` it belongs.
    at: usize,
    filled: Option<Vec<u8>>,
}

impl Output {
    /// Nothing yet; [full](Output::is_full) from `limit` bytes on. `connection` is what its holes will say.
    pub fn new(connection: u64, limit: usize) -> Output {
        Output {
            connection,
            bytes: Vec::new(),
            limit,
            holes: VecDeque::new(),
            next: 0,
        }
    }

    /// Whether no further request should be begun. What belongs to the one at hand may still be added.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Adds bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds `len` bytes, to be written in place.
    #[inline]
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        let at = self.bytes.len();
        self.bytes.resize(at + len, 0);
        &mut self.bytes[at..]
    }

    /// Leaves a place for a reply that comes later.
    pub fn hole(&mut self) -> Hole {
        let hole = Hole {
            connection: self.connection,
            number: self.next,
        };
        self.next += 1;
        self.holes.push_back(Missing {
            hole,
            at: self.bytes.len(),
            filled: None,
        });
        hole
    }

    /// The reply that was missing. Ignored if there is no such hole (any more).
    pub fn fill(&mut self, hole: Hole, bytes: &[u8]) {
        if let Some(missing) = self.holes.iter_mut().find(|missing| missing.hole == hole) {
            missing.filled = Some(bytes.to_vec());
        }
    }

    /// What the next [`hole`](Output::hole) will be: for whoever must know it before there is one.
    #[inline]
    pub fn next_hole(&self) -> Hole {
        Hole {
            connection: self.connection,
            number: self.next,
        }
    }

    /// Whether a reply is missing.
    #[inline]
    pub fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }
}
