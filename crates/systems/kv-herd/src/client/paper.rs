//! Requests of the paper's format, as a client builds them. The server's half is in `server/paper.rs`.

use super::RequestFormat;
use super::session::Session;
use crate::layout::{Commit, paper};
use drover_kv::Op;
use drover_slots::client::request::{Body, prepend};
use drover_verbs::Provider;

/// Bytes before the slot image in blocks of format P. They hold a copy of the key, which the request does not contain.
pub(super) const LEAD_BYTES: usize = 256;

/// Writes a request of format P; returns its length. An empty value means GET.
pub(super) fn build(block: &mut [u8], body: &Body<'_>) -> usize {
    block[..body.key.len()].copy_from_slice(body.key);
    let block_bytes = block.len();
    let at = prepend(block, block_bytes, &paper::wire_hash(body.hash));
    if body.value.is_empty() {
        return block_bytes - at;
    }
    let at = prepend(block, at, &(body.value.len() as u16).to_le_bytes());
    block_bytes - prepend(block, at, body.value)
}

/// The key and value of a request of format P.
pub(super) fn parse(block: &[u8], commit: Commit) -> (&[u8], &[u8], u32) {
    let value_end = block.len() - paper::put_bytes(0);
    (
        &block[..commit.key_len()],
        &block[value_end - commit.value_len()..value_end],
        0,
    )
}

impl<P: Provider, F: RequestFormat> Session<P, F> {
    /// Whether the session's format has no request for this operation.
    #[inline(always)]
    pub(super) fn cannot_say(&self, op: &Op<'_>) -> bool {
        self.params.format.is_paper() && self.is_unpaperly(op)
    }

    fn is_unpaperly(&self, op: &Op<'_>) -> bool {
        match *op {
            Op::Get { .. } => false,
            Op::Delete { .. } => true,
            Op::Put { value, ttl_s, .. } => {
                let longest = paper::VALUE_BYTES_MAX.min(self.window.map().slot_bytes - paper::put_bytes(0));
                ttl_s != 0 || !(1..=longest).contains(&value.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::SlotOp;
    use drover_base::KeyHash;

    #[test]
    fn the_papers_requests_have_the_papers_lengths() {
        let mut block = vec![0; LEAD_BYTES + 1024];
        let body = |value| Body {
            commit: Commit::new(SlotOp::Put, 1, 3, <[u8]>::len(value), false),
            hash: KeyHash { low: 5, high: 0 },
            key: b"key",
            value,
            ttl_s: 0,
        };
        assert_eq!(build(&mut block, &body(b"")), paper::GET_BYTES);
        assert_eq!(
            block.last(),
            Some(&1),
            "the last byte says that a request is here"
        );
        let value = [7; 32];
        assert_eq!(build(&mut block, &body(&value)), paper::put_bytes(32));
        let end = block.len();
        assert_eq!(&block[end - 18..end - 16], &32u16.to_le_bytes());
        assert_eq!(&block[end - 50..end - 18], &value);
        assert_eq!(parse(&block, body(&value).commit), (&b"key"[..], &value[..], 0));
    }
}
