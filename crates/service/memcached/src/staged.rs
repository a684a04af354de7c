//! [`StagedReplies`]: replies to another core that must not leave yet.

use crate::member::VOID_REPLY;
use drover_net::Output;
use drover_rt::RingProducer;
use std::io::IoSlice;

/// Bytes of the length before a reply.
const LEN_BYTES: usize = 8;
/// Bytes from which on no further requests are served. *(our choice)*
const BYTES_MAX: usize = 64 << 10;

/// Replies in their order, each behind its length; the memory is kept.
#[derive(Default, Debug)]
pub(crate) struct StagedReplies {
    bytes: Vec<u8>,
    /// Those before this offset have been sent.
    sent: usize,
}

impl StagedReplies {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether requests should wait.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES_MAX
    }

    /// Adds a reply.
    pub(crate) fn push(&mut self, pending_reply: &[u8; 16], reply: &[u8]) {
        let len = (pending_reply.len() + reply.len()) as u64;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(pending_reply);
        self.bytes.extend_from_slice(reply);
    }

    /// Adds a reply, and empties it.
    pub(crate) fn push_output(&mut self, pending_reply: &[u8; 16], reply: &mut Output) {
        let len = (pending_reply.len() + reply.ready_bytes()) as u64;
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(pending_reply);
        while reply.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = reply.slices(&mut slices);
            let before = self.bytes.len();
            slices[..count]
                .iter()
                .for_each(|slice| self.bytes.extend_from_slice(slice));
            let len = self.bytes.len() - before;
            reply.wrote(len);
        }
    }

    /// The first reply that has not been sent.
    fn next(&self) -> Option<&[u8]> {
        let (len, rest) = self.bytes[self.sent..].split_first_chunk::<LEN_BYTES>()?;
        Some(&rest[..u64::from_le_bytes(*len) as usize])
    }

    /// Sends as many as there is space for. Returns whether it sent any.
    pub(crate) fn send(&mut self, ring: &mut RingProducer) -> bool {
        let before = self.sent;
        while let Some(reply) = self.next() {
            if ring.push(&[reply]).is_err() {
                return self.sent > before;
            }
            self.sent += LEN_BYTES + reply.len();
        }
        let any = self.sent > before;
        self.bytes.clear();
        self.sent = 0;
        any
    }

    /// Replaces each reply that has not been sent by one that says that its request may have been executed or not.
    pub(crate) fn make_void(&mut self) {
        let mut void = StagedReplies::default();
        while let Some(reply) = self.next() {
            if let Some(pending_reply) = reply.first_chunk() {
                void.push(pending_reply, VOID_REPLY);
            }
            self.sent += LEN_BYTES + reply.len();
        }
        *self = void;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_rt::ring;
    use drover_verbs::Waker;

    const HOLE: [u8; 16] = [7; 16];

    #[test]
    fn replies_leave_in_order_as_there_is_space() {
        let (mut producer, mut consumer) = ring(512, Waker::new(|| ())).expect("memory");
        let mut staged = StagedReplies::default();
        for number in 0..40u8 {
            staged.push(&HOLE, &[number; 20]);
        }
        let (mut message, mut taken) = (Vec::new(), 0);
        while !staged.is_empty() || taken < 40 {
            staged.send(&mut producer);
            producer.publish();
            while consumer.pop(&mut message) {
                assert_eq!(message, [&HOLE[..], &[taken; 20]].concat());
                taken += 1;
            }
            consumer.release();
        }
        assert!(!staged.send(&mut producer));
    }

    #[test]
    fn void_replies_keep_their_places() {
        let (mut producer, mut consumer) = ring(512, Waker::new(|| ())).expect("memory");
        let mut staged = StagedReplies::default();
        staged.push(&HOLE, b"STORED");
        staged.push(&[8; 16], b"");
        staged.make_void();
        assert!(staged.send(&mut producer));
        producer.publish();
        let mut message = Vec::new();
        for hole in [HOLE, [8; 16]] {
            assert!(consumer.pop(&mut message));
            assert_eq!(message, [&hole[..], VOID_REPLY].concat());
        }
    }
}
