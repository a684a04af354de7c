//! Whether a message may be executed on this core, and "elsewhere" if not.

use super::{FIRST_RETRY, MemberCore, Source};
use crate::Executor;
use crate::forward::{HEAD_BYTES, is_handover, key_hash};
use drover_base::{Cpu, KeyHash};
use drover_cluster::Verdict;
use drover_net::Output;
use drover_store::Sharing;

/// First byte of "elsewhere"; no other reply begins with it.
pub(crate) const ELSEWHERE: u8 = 0;
/// Bytes of "elsewhere" before the message.
pub(crate) const ELSEWHERE_BYTES: usize = 9;

impl MemberCore {
    /// Whether a message about the key with this hash may be executed. If not, neither may later ones of its source about the shard.
    fn admits(&mut self, hash: KeyHash, is_own: bool, is_first_retry: bool) -> bool {
        let shard = self.shards.shard_of(hash);
        let hold = (self.source, shard);
        if is_first_retry && !self.holds.is_empty() {
            self.holds.remove(&hold);
        }
        let is_served = matches!(
            self.shards.verdict(hash, self.now),
            Verdict::Serve | Verdict::ServeNoted(_)
        );
        if is_served && is_own && (self.holds.is_empty() || !self.holds.contains(&hold)) {
            return true;
        }
        if self.source != Source::Session {
            self.holds.insert(hold);
        }
        self.counters.elsewhere.add_one();
        false
    }

    /// Notes a key that is about to change, if its shard is being copied.
    #[inline(never)]
    fn note(&self, hash: KeyHash, key: &[u8]) {
        // The shard may have been frozen since it was found to be served: the note is still in time, as this round is not over.
        if self.shards.verdict(hash, self.now) != Verdict::Serve {
            self.shards
                .note(self.index, self.shards.shard_of(hash), hash, key);
        }
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Whether this core may execute a message about a key. Without a cluster, always.
    #[inline]
    pub(crate) fn admits(&mut self, hash: KeyHash, is_first_retry: bool) -> bool {
        match &mut self.core.member {
            None => true,
            Some(member) => {
                let is_own = self.router.core_of(hash) == self.router.own();
                member.admits(hash, is_own, is_first_retry)
            }
        }
    }

    /// In a member: to be called before a key may change.
    #[inline]
    pub(crate) fn will_change(&self, hash: KeyHash, key: &[u8]) {
        if let Some(member) = &self.core.member {
            member.note(hash, key);
        }
    }

    /// In a member: whether this core may execute a message. One that is about no single key it always may.
    #[inline(never)]
    pub(crate) fn admits_message(&mut self, message: &[u8]) -> bool {
        if let Some(member) = &self.core.member
            && matches!(member.source, Source::Link(_))
            && !is_handover(message)
        {
            member.counters.served.add_one();
        }
        key_hash(message).is_none_or(|hash| self.admits(hash, message[16] & FIRST_RETRY != 0))
    }

    /// Appends "elsewhere" as the reply to a message, the concatenation of `pieces`.
    pub(crate) fn answer_elsewhere(&self, pieces: &[&[u8]], output: &mut Output) {
        let epoch = self
            .core
            .member
            .as_ref()
            .map_or(0, |member| member.shards.epoch().0);
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let space = output.space(ELSEWHERE_BYTES + len);
        let (head, mut rest) = space.split_at_mut(ELSEWHERE_BYTES);
        head[0] = ELSEWHERE;
        head[1..].copy_from_slice(&epoch.to_le_bytes());
        for piece in pieces {
            let (place, after) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = after;
        }
    }
}

/// The message in "elsewhere", without the mark of one that is sent again. `None`: the reply is another one.
pub(super) fn bounced(reply: &[u8]) -> Option<Vec<u8>> {
    let mut message = match reply.first() {
        Some(&ELSEWHERE) => reply.get(ELSEWHERE_BYTES..).unwrap_or_default().to_vec(),
        _ => return None,
    };
    if let Some(head) = message.first_chunk_mut::<HEAD_BYTES>() {
        head[16] &= !FIRST_RETRY;
    }
    Some(message)
}
