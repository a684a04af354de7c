//! Positions in the ring: [`Sender`] at the client, [`Receiver`] at the server.
//!
//! ```text
//!   0                         head            tail            bytes
//!   | consumed, zero           | record | rec. |   free        |
//! ```
//! A position counts bytes since the session began; modulo the ring's length it is an offset into the ring. A record
//! is never divided: one that does not fit before the end starts at offset 0, after a filler. The receiver reports its
//! head whenever half the ring has been consumed, and a record takes at most a quarter of the ring. So a sender that
//! waits for space always gets some: less than half the ring is consumed but not reported. *(Circular buffer, lazy
//! return of the head: from the literature on `[FaRM]`; the numbers: our choice.)*

use super::{FILLER, Header, record_bytes};
use drover_mem::LINE_BYTES;

/// Default length of a ring, bytes. *(our choice)*
pub const RING_BYTES: usize = 64 << 10;

/// The sequence number after `sequence`. Numbers have 31 bits; 0 is not used.
fn next_sequence(sequence: u32) -> u32 {
    match sequence & (u32::MAX >> 1) {
        0x7fff_ffff => 1,
        sequence => sequence + 1,
    }
}

/// Position of a record in the ring, reserved by [`Sender::place`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Offset (in bytes from the ring's start) and sequence number of the filler to write first, if one is needed.
    pub filler: Option<(usize, u32)>,
    /// Offset of the record from the ring's start, bytes.
    pub offset: usize,
    /// Sequence number of the record.
    pub sequence: u32,
    /// End of the record, in bytes since the session began, for [`Sender::landed`].
    pub tail: u64,
}

/// The server reported a head beyond the tail, or a lower one than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("impossible position in the ring: head={head}, tail={tail}")]
pub struct BadHead {
    /// The head that was reported, in bytes since the session began.
    pub head: u64,
    /// The tail, in bytes since the session began.
    pub tail: u64,
}

/// The client's end of the ring, as positions only: where the next record goes, and how much space is free. The caller
/// writes the records.
#[derive(Clone, Debug)]
pub struct Sender {
    bytes: u64,
    tail: u64,
    /// The last head that the receiver reported.
    head: u64,
    /// Position up to which WRITEs have completed; the card may still send the bytes after it.
    landed: u64,
    sequence: u32,
}

impl Sender {
    /// Creates the sender for a ring of `bytes` bytes that has not been written.
    pub fn new(bytes: usize) -> Sender {
        Sender {
            bytes: bytes as u64,
            tail: 0,
            head: 0,
            landed: 0,
            sequence: 0,
        }
    }

    /// Reserves space for a record with a payload of `payload` bytes, and for a filler if the record must start at
    /// offset 0; `None` if there is no space now.
    pub fn place(&mut self, payload: usize) -> Option<Placed> {
        let size = record_bytes(payload) as u64;
        let left = self.bytes - self.tail % self.bytes;
        let skipped = if size > left { left } else { 0 };
        let free = self.bytes - (self.tail - self.head.min(self.landed));
        if size + skipped > free {
            return None;
        }
        let filler = (skipped > 0).then(|| (self.offset(), self.next()));
        self.tail += skipped;
        let offset = self.offset();
        self.tail += size;
        Some(Placed {
            filler,
            offset,
            sequence: self.next(),
            tail: self.tail,
        })
    }

    /// Length of the ring, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Takes note of the head, in bytes since the session began, that the receiver reported: the space before it is
    /// free. Returns whether it has advanced.
    ///
    /// # Errors
    /// [`BadHead`] if no correct receiver reports this head.
    pub fn acknowledge(&mut self, head: u64) -> Result<bool, BadHead> {
        if head > self.tail || head < self.head {
            let tail = self.tail;
            return Err(BadHead { head, tail });
        }
        let is_news = head > self.head;
        self.head = head;
        Ok(is_news)
    }

    /// Takes note that the WRITE of the record that ends at `tail` ([`Placed::tail`]) has completed: the client's copy
    /// of it may be overwritten.
    pub fn landed(&mut self, tail: u64) {
        self.landed = self.landed.max(tail);
    }

    fn offset(&self) -> usize {
        (self.tail % self.bytes) as usize
    }

    fn next(&mut self) -> u32 {
        self.sequence = next_sequence(self.sequence);
        self.sequence
    }
}

/// A record that no correct client writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed record")]
pub struct BadRecord;

/// What the receiver finds at the head of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// No record yet.
    Nothing,
    /// A filler; it covers this many bytes, up to the end of the ring.
    Filler(usize),
    /// A record of this many bytes, complete or not.
    Record(usize),
}

/// The server's end of the ring, as positions only: where the next record arrives. The caller reads and zeroes the
/// records.
#[derive(Clone, Debug)]
pub struct Receiver {
    bytes: u64,
    payload_max: usize,
    head: u64,
    told: u64,
    sequence: u32,
}

impl Receiver {
    /// Creates the receiver for an empty ring of `bytes` bytes, whose records have payloads of at most `payload_max`
    /// bytes.
    ///
    /// # Panics
    /// If such a record is longer than a quarter of the ring, or `bytes` is not a multiple of 64.
    pub fn new(bytes: usize, payload_max: usize) -> Receiver {
        assert!(
            bytes.is_multiple_of(LINE_BYTES) && record_bytes(payload_max) <= bytes / 4,
            "records of {payload_max} bytes in a ring of {bytes}"
        );
        Receiver {
            bytes: bytes as u64,
            payload_max,
            head: 0,
            told: 0,
            sequence: 0,
        }
    }

    /// Offset of the next record from the ring's start, bytes.
    pub fn offset(&self) -> usize {
        (self.head % self.bytes) as usize
    }

    /// Interprets the word at [`offset`](Receiver::offset).
    ///
    /// # Errors
    /// [`BadRecord`] if the sequence number is wrong, or the record exceeds the ring or the agreed length.
    pub fn next(&self, word: u64) -> Result<Next, BadRecord> {
        let Some(header) = Header::decode(word) else {
            return Ok(Next::Nothing);
        };
        let left = self.bytes as usize - self.offset();
        if header.sequence != next_sequence(self.sequence) {
            return Err(BadRecord);
        }
        match header.len {
            FILLER if self.offset() > 0 => Ok(Next::Filler(left)),
            len if len as usize <= self.payload_max && record_bytes(len as usize) <= left => {
                Ok(Next::Record(record_bytes(len as usize)))
            }
            _ => Err(BadRecord),
        }
    }

    /// Advances the head by `size` bytes: the record or filler there has been executed and zeroed.
    pub fn consume(&mut self, size: usize) {
        self.head += size as u64;
        self.sequence = next_sequence(self.sequence);
    }

    /// Returns the head, in bytes since the session began, if it must be reported now, because half the ring has been
    /// consumed since the last report; it then counts as reported.
    pub fn head_to_report(&mut self) -> Option<u64> {
        if self.head - self.told < self.bytes / 2 {
            return None;
        }
        self.told = self.head;
        Some(self.head)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{encode_record, filler_word, is_whole};
    use proptest::prelude::*;

    /// A ring with both its ends.
    struct Ring {
        bytes: Vec<u8>,
        sender: Sender,
        receiver: Receiver,
        fillers: u32,
    }

    const PAYLOAD_MAX: usize = 200;

    impl Ring {
        fn new(bytes: usize) -> Ring {
            Ring {
                bytes: vec![0; bytes],
                sender: Sender::new(bytes),
                receiver: Receiver::new(bytes, PAYLOAD_MAX),
                fillers: 0,
            }
        }

        fn send(&mut self, payload: &[u8]) -> bool {
            let Some(placed) = self.sender.place(payload.len()) else {
                return false;
            };
            if let Some((at, sequence)) = placed.filler {
                self.fillers += 1;
                self.put(at, &filler_word(sequence).to_le_bytes());
            }
            let mut record = Vec::new();
            encode_record(&mut record, placed.sequence, &[payload], true);
            self.put(placed.offset, &record);
            self.sender.landed(placed.tail);
            true
        }

        /// Checks that only consumed bytes are overwritten.
        fn put(&mut self, at: usize, bytes: &[u8]) {
            let there = &mut self.bytes[at..at + bytes.len()];
            assert!(there.iter().all(|byte| *byte == 0), "written over at {at}");
            there.copy_from_slice(bytes);
        }

        fn word(&self) -> u64 {
            let at = self.receiver.offset();
            u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("8 bytes"))
        }

        fn receive(&mut self) -> Option<Vec<u8>> {
            loop {
                let at = self.receiver.offset();
                let (size, payload) = match self.receiver.next(self.word()).expect("ours") {
                    Next::Nothing => return None,
                    Next::Filler(size) => (size, None),
                    Next::Record(size) => {
                        let header = Header::decode(self.word()).expect("a record");
                        let record = &self.bytes[at..at + size];
                        assert!(is_whole(record, header, true));
                        (size, Some(record[16..16 + header.len as usize].to_vec()))
                    }
                };
                self.bytes[at..at + size].fill(0);
                self.receiver.consume(size);
                if payload.is_some() {
                    return payload;
                }
            }
        }

        fn head_to_report(&mut self) {
            if let Some(head) = self.receiver.head_to_report() {
                self.sender.acknowledge(head).expect("an honest head");
            }
        }
    }

    proptest! {
        /// For any lengths and times, all records arrive, in order, once, and a waiting sender gets space.
        #[test]
        fn farm_records_arrive_in_order_through_any_number_of_laps(steps in proptest::collection::vec((0usize..=PAYLOAD_MAX, 0u8..3), 1..400)) {
            let mut ring = Ring::new(1024);
            let (mut sent, mut got) = (0u64, 0u64);
            for (len, receives) in steps {
                let payload = vec![sent as u8; len];
                if ring.send(&payload) {
                    sent += 1;
                }
                for _ in 0..receives {
                    if let Some(payload) = ring.receive() {
                        prop_assert!(payload.iter().all(|byte| *byte == got as u8));
                        got += 1;
                    }
                    ring.head_to_report();
                }
            }
            while ring.receive().is_some() {
                got += 1;
            }
            prop_assert_eq!(sent, got);
            ring.head_to_report();
            prop_assert!(ring.send(&[1; PAYLOAD_MAX]), "an empty ring has space, however much was told");
        }

        /// Any word is nothing, the next record, or an error, and stays within the ring.
        #[test]
        fn farm_any_word_at_the_head_is_judged(word in any::<u64>(), records in 0usize..40, sequence in any::<bool>()) {
            let mut ring = Ring::new(1024);
            for at in 0..records {
                ring.send(&[at as u8; 70]);
                ring.receive();
                ring.head_to_report();
            }
            let right = u64::from(next_sequence(ring.receiver.sequence)) << 32;
            let word = if sequence { word & 0xffff_ffff | right } else { word };
            if let Ok(Next::Filler(size) | Next::Record(size)) = ring.receiver.next(word) {
                prop_assert!(ring.receiver.offset() + size <= 1024 && size > 0);
            }
        }
    }

    #[test]
    fn farm_a_full_ring_holds_the_sender_back_until_half_is_consumed() {
        let mut ring = Ring::new(1024);
        let mut sent = 0;
        while ring.send(&[1; 100]) {
            sent += 1;
        }
        assert_eq!(sent, 1024 / record_bytes(100));
        for consumed in 1..=sent {
            ring.receive().expect("it was sent");
            ring.head_to_report();
            let may_send = ring.sender.clone().place(100).is_some();
            assert_eq!(
                may_send,
                consumed * record_bytes(100) >= 512,
                "{consumed} consumed"
            );
        }
    }

    #[test]
    fn farm_what_does_not_fit_the_end_begins_at_the_start() {
        let mut ring = Ring::new(1024);
        for lap in 0..50 {
            assert!(ring.send(&[lap; 170]));
            assert_eq!(ring.receive(), Some(vec![lap; 170]));
            ring.head_to_report();
        }
        assert!(ring.fillers >= 8, "{} fillers", ring.fillers);
    }

    /// The card may retransmit a WRITE that has not completed, so its bytes must not change before.
    #[test]
    fn farm_bytes_that_are_the_cards_are_left_alone() {
        let mut sender = Sender::new(1024);
        let first = sender.place(100).expect("space");
        while sender.place(100).is_some() {}
        sender.acknowledge(1024).expect("an honest head");
        assert_eq!(sender.place(100), None, "all consumed, nothing completed");
        sender.landed(first.tail);
        assert!(sender.place(100).is_some());
    }

    #[test]
    fn farm_a_record_that_comes_twice_is_not_taken_twice() {
        let mut ring = Ring::new(1024);
        assert!(ring.send(b"once"));
        let copy = ring.bytes[..64].to_vec();
        assert!(ring.receive().is_some());
        let at = ring.receiver.offset();
        ring.bytes[at..at + 64].copy_from_slice(&copy);
        assert_eq!(ring.receiver.next(ring.word()), Err(BadRecord));
    }

    #[test]
    fn farm_a_head_that_cannot_be_is_refused() {
        let mut sender = Sender::new(1024);
        sender.place(100).expect("space");
        assert!(sender.acknowledge(1 << 40).is_err());
        sender.acknowledge(128).expect("what was sent");
        let (head, tail) = (64, 128);
        assert_eq!(
            sender.acknowledge(64),
            Err(BadHead { head, tail }),
            "heads do not go back"
        );
    }

    #[test]
    fn sequences_skip_nothing_but_zero() {
        assert_eq!(
            (next_sequence(0), next_sequence(1), next_sequence(0x7fff_ffff)),
            (1, 2, 1)
        );
    }
}
