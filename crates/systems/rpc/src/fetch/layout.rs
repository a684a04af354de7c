//! [`Layout`]: where the slots of a connection are in the memory of both ends.
//!
//! ```text
//! server, per client   inbound:  | request of place 0 | of place 1 | ... | modes of place 0 | of place 1 | ...   client WRITEs
//!                      results:  | result of place 0 | of place 1 | ...                                         client READs
//! client, per server   landing:  | result of place 0 | of place 1 | ...                                         READs land here
//!                      pushed:   | result of place 0 | of place 1 | ...                                         server WRITEs
//! ```
//! A *place* is one call at a time: a client with a window of 16 has 16 places. Each has slots and modes of its own, so
//! that calls of different places have nothing in common but the queue pair. The modes of a place are one byte for each
//! rpc id. *(One place and 256 modes per client: stated in `[RFP]`; several places: our choice.)*

use super::header::{Format, TAIL};
use super::switch::Mode;
use drover_base::sync::Ordering;
use drover_mem::{LINE_BYTES, Region};

/// Most kinds of calls of a connection.
pub const RPC_COUNT_MAX: usize = 256;

/// Sizes of a connection's slots. Both ends must agree on them: the server says them at the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Format of the headers.
    pub format: Format,
    /// Number of places: most calls at a time.
    pub place_count: usize,
    /// Number of kinds of calls: rpc ids are below it. 1 to [`RPC_COUNT_MAX`].
    pub rpc_count: usize,
    /// Longest payload of a request, bytes.
    pub request_bytes: usize,
    /// Longest payload of a result, bytes.
    pub result_bytes: usize,
}

impl Layout {
    /// Whether the sizes can be used: for a client that got them from a server.
    pub fn is_sound(&self) -> bool {
        let sizes = [self.request_bytes, self.result_bytes];
        (1..=1 << 12).contains(&self.place_count)
            && (1..=RPC_COUNT_MAX).contains(&self.rpc_count)
            && sizes.iter().all(|size| (1..=1 << 24).contains(size))
    }

    /// Bytes from one request slot to the next: header, payload and tail, in whole lines.
    #[inline]
    pub fn request_stride(&self) -> usize {
        (self.format.request_header_bytes() + self.request_bytes + 1).next_multiple_of(LINE_BYTES)
    }

    /// Bytes from one result slot to the next, at either end: header, payload and tail, in whole lines.
    #[inline]
    pub fn result_stride(&self) -> usize {
        (self.format.result_header_bytes() + self.result_bytes + 1).next_multiple_of(LINE_BYTES)
    }

    /// Bytes of the requests of all places.
    pub fn requests_bytes(&self) -> usize {
        self.place_count * self.request_stride()
    }

    /// Bytes that the server registers for the client's WRITEs: requests and modes.
    pub fn inbound_bytes(&self) -> usize {
        self.requests_bytes() + self.modes_bytes()
    }

    /// Bytes of the results of all places, at either end.
    pub fn results_bytes(&self) -> usize {
        self.place_count * self.result_stride()
    }

    /// Bytes of the modes of all places, at the end of the inbound memory.
    pub(super) fn modes_bytes(&self) -> usize {
        self.place_count * self.modes_stride()
    }

    fn modes_stride(&self) -> usize {
        self.rpc_count.next_multiple_of(8)
    }

    /// Offset of a mode's byte in the inbound memory.
    #[inline]
    pub(super) fn mode_offset(&self, place: usize, rpc_id: u16) -> usize {
        self.modes().offset(place, rpc_id)
    }

    /// Where the modes are, computed once.
    pub(super) fn modes(&self) -> Modes {
        Modes {
            start: self.requests_bytes(),
            stride: self.modes_stride(),
        }
    }
}

/// Where the modes are in the inbound memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Modes {
    start: usize,
    /// Bytes of a place.
    stride: usize,
}

impl Modes {
    /// Offset of a mode's byte.
    #[inline]
    fn offset(self, place: usize, rpc_id: u16) -> usize {
        self.start + place * self.stride + usize::from(rpc_id)
    }

    /// What the client has WRITTEN there.
    #[inline]
    pub(super) fn mode(self, inbound: &Region, place: usize, rpc_id: u16) -> Mode {
        match byte_at(inbound, self.offset(place, rpc_id)) {
            0 => Mode::Fetch,
            _ => Mode::Reply,
        }
    }
}

/// The byte at `offset`.
#[inline]
fn byte_at(memory: &Region, offset: usize) -> u8 {
    // Acquire: what was WRITTEN before this byte is visible.
    let word = memory.load_u64(offset & !7, Ordering::Acquire);
    (word >> (offset % 8 * 8)) as u8
}

/// Whether the byte behind the payload says that everything before it has arrived, where WRITEs are ordered.
#[inline]
pub(super) fn has_tail(memory: &Region, offset: usize) -> bool {
    byte_at(memory, offset) == TAIL
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    #[test]
    fn slots_and_modes_do_not_overlap() {
        for format in [Format::V1, Format::Paper] {
            let layout = Layout {
                format,
                place_count: 3,
                rpc_count: 9,
                request_bytes: 47,
                result_bytes: 48,
            };
            assert!(layout.is_sound());
            assert_eq!(layout.request_stride(), 64);
            let result = [64, 128][usize::from(format == Format::V1)];
            assert_eq!(layout.result_stride(), result);
            assert_eq!(layout.mode_offset(1, 8), 3 * 64 + 16 + 8);
            assert_eq!(layout.inbound_bytes(), 3 * 64 + 3 * 16);
        }
    }

    #[test]
    fn a_mode_is_one_byte_of_its_word() {
        let inbound = Region::private(4096, PageWish::Small).expect("memory");
        let layout = Layout {
            format: Format::V1,
            place_count: 2,
            rpc_count: 3,
            request_bytes: 32,
            result_bytes: 32,
        };
        inbound.copy_in(layout.mode_offset(1, 2), &[1]);
        let modes = |place: usize| [0, 1, 2].map(|rpc_id| layout.modes().mode(&inbound, place, rpc_id));
        assert_eq!(modes(0), [Mode::Fetch; 3]);
        assert_eq!(modes(1), [Mode::Fetch, Mode::Fetch, Mode::Reply]);
    }
}
