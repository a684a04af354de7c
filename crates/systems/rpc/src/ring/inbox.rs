//! [`Inbox`]: one client's ring, polled by the server.

use super::{BadRecord, Header, Next, RECORD_HEADER_BYTES, Receiver, is_whole, record_bytes, trailer};
use drover_base::Ns;
use drover_mem::Region;
use std::sync::atomic::Ordering;

/// Maximum interval between checks of a torn record; the interval doubles from [`DOUBT_MIN`]. A record that never
/// becomes complete must not take time from other clients. *(our choice)*
const DOUBT_MAX: Ns = Ns::from_ms(1);
const DOUBT_MIN: Ns = Ns::from_us(1);

/// Records that a client has WRITTEN and the server has not consumed.
pub struct Inbox {
    ring: Region,
    receiver: Receiver,
    sums: bool,
    /// The record at the head had a wrong checksum: time of the next check, and the interval before it.
    doubt: Option<(Ns, Ns)>,
}

impl Inbox {
    /// Creates the inbox for the records in `ring`, whose positions `receiver` knows. `sums` says whether they carry
    /// checksums.
    pub fn new(ring: Region, receiver: Receiver, sums: bool) -> Inbox {
        Inbox {
            ring,
            receiver,
            sums,
            doubt: None,
        }
    }

    /// Whether a complete record has arrived; if so, `payload` gets its payload. Consumes fillers. `now` is used only
    /// while a record's checksum is wrong.
    ///
    /// # Errors
    /// [`BadRecord`]: no correct client wrote this; the session must end.
    #[inline]
    pub fn peek(&mut self, now: Ns, payload: &mut Vec<u8>) -> Result<bool, BadRecord> {
        loop {
            let at = self.receiver.offset();
            // Acquire: pairs with the store that made the first word visible; trailer and checksum verify the rest.
            let word = self.ring.load_u64(at, Ordering::Acquire);
            match self.receiver.next(word)? {
                Next::Nothing => return Ok(false),
                Next::Filler(size) => {
                    self.ring.store_u64(at, 0, Ordering::Relaxed);
                    self.receiver.consume(size);
                }
                Next::Record(size) => return Ok(self.take(at, size, word, now, payload)),
            }
        }
    }

    fn take(&mut self, at: usize, size: usize, word: u64, now: Ns, payload: &mut Vec<u8>) -> bool {
        if self.doubt.is_some_and(|(until, _)| now < until) {
            return false;
        }
        let header = Header::decode(word).expect("the receiver saw a record");
        // Acquire: where the fabric orders WRITEs, the trailer becomes visible last, so everything before it is
        // visible.
        let last = self.ring.load_u64(at + size - 8, Ordering::Acquire);
        if (last >> 32) as u32 != trailer(header.sequence) {
            return false;
        }
        payload.resize(size, 0);
        self.ring.copy_out(at, payload);
        if !is_whole(payload, header, self.sums) {
            let wait = self
                .doubt
                .map_or(DOUBT_MIN, |(_, wait)| (wait * 2).min(DOUBT_MAX));
            self.doubt = Some((now + wait, wait));
            return false;
        }
        self.doubt = None;
        payload.truncate(RECORD_HEADER_BYTES + header.len as usize);
        payload.drain(..RECORD_HEADER_BYTES);
        true
    }

    /// Consumes the record that [`peek`](Inbox::peek) returned, with a payload of `bytes` bytes, and zeroes its memory.
    pub fn consume(&mut self, bytes: usize) {
        let size = record_bytes(bytes);
        self.ring.zero(self.receiver.offset(), size);
        self.receiver.consume(size);
    }

    /// The head, if it must be reported to the client.
    pub fn head_to_report(&mut self) -> Option<u64> {
        self.receiver.head_to_report()
    }
}

/// Polls arbitrary bytes as a client's ring; payloads go to `taken`. Input: whether records carry checksums; then for
/// each record a byte that says whether it is made complete, its length, and its bytes. For `cargo fuzz`.
#[doc(hidden)]
pub fn fuzz_ring(input: &[u8], mut taken: impl FnMut(&[u8])) {
    const BYTES: usize = 4096;
    const PAYLOAD_MAX: usize = 900;
    let (Some((how, mut input)), Ok(ring)) = (
        input.split_first(),
        Region::private(BYTES, drover_mem::PageWish::Small),
    ) else {
        return;
    };
    let sums = how & 1 != 0;
    let mut inbox = Inbox::new(ring.clone(), Receiver::new(BYTES, PAYLOAD_MAX), sums);
    let (mut record, mut payload, mut sequence) = (Vec::new(), Vec::new(), 0);
    while let [how, len, rest @ ..] = input {
        let (bytes, rest) = rest.split_at((usize::from(*len) * 4).min(rest.len()));
        input = rest;
        let at = inbox.receiver.offset();
        if how & 1 != 0 {
            sequence += 1;
            super::encode_record(&mut record, sequence, &[bytes], sums);
        } else {
            record = bytes.to_vec();
        }
        // Whole words: a WRITE's bytes come in no smaller pieces.
        let count = record.len().min(BYTES - at) / 8 * 8;
        ring.copy_in(at, &record[..count]);
        match inbox.peek(Ns::ZERO, &mut payload) {
            Ok(true) => {
                assert!(payload.len() <= PAYLOAD_MAX, "{} bytes", payload.len());
                taken(&payload);
                inbox.consume(payload.len());
                let _ = inbox.head_to_report();
            }
            Ok(false) => {}
            // The session ends.
            Err(BadRecord) => return,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{encode_record, filler_word};
    use drover_mem::PageWish;
    use proptest::prelude::*;

    fn inbox(sums: bool) -> (Inbox, Region) {
        let ring = Region::private(4096, PageWish::Small).expect("memory");
        (Inbox::new(ring.clone(), Receiver::new(4096, 900), sums), ring)
    }

    #[test]
    fn a_record_is_taken_once_and_its_place_is_zero() {
        let (mut inbox, ring) = inbox(false);
        let (mut record, mut payload) = (Vec::new(), Vec::new());
        assert_eq!(inbox.peek(Ns(0), &mut payload), Ok(false));
        encode_record(&mut record, 1, &[b"request"], false);
        ring.copy_in(0, &record);
        assert_eq!(inbox.peek(Ns(0), &mut payload), Ok(true));
        assert_eq!(payload, b"request");
        inbox.consume(payload.len());
        assert_eq!(inbox.peek(Ns(0), &mut payload), Ok(false));
        let mut left = [1; 64];
        ring.copy_out(0, &mut left);
        assert_eq!(left, [0; 64]);
    }

    /// The end of a record never arrives, or its checksum never matches: nothing happens, and the checksum is computed
    /// less and less often.
    #[test]
    fn farm_a_record_that_is_never_finished_costs_little() {
        let (mut inbox, ring) = inbox(true);
        let (mut record, mut payload) = (Vec::new(), Vec::new());
        encode_record(&mut record, 1, &[&[7; 800]], true);
        ring.copy_in(0, &record[..record.len() - 64]);
        assert_eq!(inbox.peek(Ns(0), &mut payload), Ok(false));
        assert!(inbox.doubt.is_none() && payload.is_empty(), "no trailer, no sum");
        ring.copy_in(0, &record);
        ring.copy_in(64, &[8; 64]);
        let mut sums = 0;
        for now in 0..10_000 {
            payload.clear();
            assert_eq!(inbox.peek(Ns::from_us(now), &mut payload), Ok(false));
            sums += u32::from(!payload.is_empty());
        }
        assert!((10..40).contains(&sums), "{sums} sums in 10 ms");
        ring.copy_in(0, &record);
        assert_eq!(
            inbox.peek(Ns::from_ms(20), &mut payload),
            Ok(true),
            "in the end it came"
        );
    }

    #[test]
    fn farm_fillers_alone_do_not_turn_the_ring_for_ever() {
        let (mut inbox, ring) = inbox(false);
        let mut payload = Vec::new();
        ring.store_u64(0, filler_word(1), Ordering::Relaxed);
        assert_eq!(inbox.peek(Ns(0), &mut payload), Err(BadRecord));
    }

    proptest! {
        /// Arbitrary bytes in the ring give an answer, in bounded time, and no panic.
        #[test]
        fn farm_noise_in_the_ring_is_judged(bytes in proptest::collection::vec(any::<u8>(), 4096), heads in proptest::collection::vec((0usize..64, 0u32..5, 0u32..1000), 0..20), sums in any::<bool>()) {
            let (mut inbox, ring) = inbox(sums);
            ring.copy_in(0, &bytes);
            for (line, sequence, len) in heads {
                let len = if len > 950 { u32::MAX } else { len };
                ring.store_u64(line * 64, u64::from(len) | u64::from(sequence) << 32, Ordering::Relaxed);
            }
            let mut payload = Vec::new();
            for now in 0..100 {
                match inbox.peek(Ns(now), &mut payload) {
                    Ok(true) => inbox.consume(payload.len()),
                    Ok(false) => {}
                    Err(BadRecord) => break,
                }
                let _ = inbox.head_to_report();
            }
        }
    }
}
