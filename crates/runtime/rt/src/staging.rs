//! [`Staging`]: registered memory for payloads of a send queue that are too long to be sent inline.
//!
//! A card reads such a payload some time after the post: at once, or much later if the network holds it up. The bytes
//! must stay until then, and neither a reply nor a retransmission proves that an *earlier* request has left the queue.
//! Only completions do. So requests are numbered as they are posted, some completions say "this number and all before
//! it have left", and a piece is filled again only when the number it was last posted under has left.
//!
//! Pieces are taken in turn. With as many pieces as the queue has places the oldest is always free in a healthy queue.

use drover_mem::Region;
use drover_verbs::{MemoryRegion, Payload, Provider};

/// Registered memory for one send queue, divided into equal pieces; it owns the memory. Each piece holds one payload
/// until a completion proves that its request has left the queue.
pub struct Staging<P: Provider> {
    mr: P::Mr,
    piece_bytes: usize,
    /// Per piece, the number of the request that was last posted from it; 0: none.
    numbers: Box<[u64]>,
    /// The piece to be taken next.
    next: usize,
}

impl<P: Provider> Staging<P> {
    /// Divides `mr` into `count` pieces (at least one) of `piece_bytes` each, all free.
    ///
    /// # Panics
    /// The memory is shorter than the pieces.
    pub fn new(mr: P::Mr, count: usize, piece_bytes: usize) -> Staging<P> {
        assert!(
            mr.region().len() >= count * piece_bytes,
            "{count} pieces of {piece_bytes}"
        );
        Staging {
            mr,
            piece_bytes,
            numbers: vec![0; count].into_boxed_slice(),
            next: 0,
        }
    }

    /// Takes the next piece for request `number` (counted from 1) and returns its first `len` bytes as the payload.
    /// `fill` writes them; it gets the region and the offset of the piece. `left` is the number of the last request
    /// known to have left the queue: if the next piece was last used by a later one, the device may still read it, so
    /// nothing is taken and the result is `None`, even if other pieces are free. `len` is at most the length of a
    /// piece, which is checked in debug builds only.
    pub fn payload(
        &mut self,
        number: u64,
        left: u64,
        len: usize,
        fill: impl FnOnce(&Region, usize),
    ) -> Option<Payload> {
        debug_assert!(len <= self.piece_bytes);
        if self.numbers[self.next] > left {
            return None;
        }
        let offset = self.next * self.piece_bytes;
        self.numbers[self.next] = number;
        self.next = (self.next + 1) % self.numbers.len();
        fill(self.mr.region(), offset);
        Some(Payload::Region(self.mr.sge(offset, len)))
    }

    /// Frees the piece of a payload whose request was not posted. A payload that is not in registered memory is
    /// ignored.
    pub fn refused(&mut self, payload: Payload) {
        if let Payload::Region(sge) = payload {
            self.numbers[sge.offset as usize / self.piece_bytes] = 0;
        }
    }
}
