//! Flushing: from some time on no item counts that was written before.

use super::{Race, Shard};
use crate::error::RaceError;
use crate::layout::{FLUSHES_AT, Flushes};
use drover_memnode::Addr;
use drover_memnode::block::BlockMeta;
use drover_rt::TaskCx;
use drover_verbs::Provider;

impl<P: Provider> Race<P> {
    /// Whether an item counts: it has neither expired nor was flushed.
    #[inline]
    pub(super) fn is_live(&self, cx: &TaskCx<P>, shard: &Shard, meta: &BlockMeta) -> bool {
        let now_s = self.nodes().node(shard.node).clock_s(cx.now());
        !meta.is_expired(now_s) && !shard.flushes.get().cover(meta.created_s, now_s)
    }

    /// Makes all items go that are there in `delay_s` seconds. It takes the place of a flush that is still ahead.
    ///
    /// Without a delay, all that was written before the call is gone when it returns: for clients whose threads
    /// [attend](Race::attend), or open the tables later. What is written while it lasts, up to a second and some looks, may be gone, too: the
    /// time at which an item was written is known in seconds.
    ///
    /// # Errors
    /// [`RaceError`] if a node cannot be told; the others are. [`RaceError::Deadline`] if a node's clock stands still.
    pub async fn flush(&self, cx: &TaskCx<P>, delay_s: u32) -> Result<(), RaceError> {
        let mut told = Ok(());
        for shard in &self.0.shards {
            told = told.and(self.flush_shard(cx, shard, delay_s).await);
        }
        if delay_s == 0 {
            let deadline = cx.now() + self.0.options.deadline;
            let is_waiting = |shard: &Shard| {
                let node = self.nodes().node(shard.node);
                let now_s = node.clock_s(cx.now());
                !node.is_lost() && shard.flushes.get().come(now_s) < shard.flushes.get().come(u32::MAX)
            };
            while self.0.shards.iter().any(is_waiting) {
                if cx.now() >= deadline {
                    return told.and(Err(RaceError::Deadline));
                }
                cx.sleep(self.0.options.look_every).await;
            }
            // By then the others have looked, and know the node's second.
            let renewals = self.nodes().pool().nodes().iter();
            let renewal = renewals.map(|node| node.times().renew_every).max();
            let look = self.0.options.look_every;
            cx.sleep(renewal.unwrap_or(look).max(look) * 2).await;
        }
        told
    }

    async fn flush_shard(&self, cx: &TaskCx<P>, shard: &Shard, delay_s: u32) -> Result<(), RaceError> {
        let word = Addr::new(shard.node, shard.table + shard.header.tail() + FLUSHES_AT);
        loop {
            let now_s = self.nodes().node(shard.node).clock_s(cx.now());
            let known = shard.flushes.get();
            let wanted = known.with(now_s.saturating_add(delay_s), now_s);
            let at = self.nodes().locate_to_write(cx, word, 8)?;
            let ticket = cx.cas(at.peer, at.remote, known.word(), wanted.word())?;
            let found = Flushes::from_word(cx.sync().await?.value(ticket));
            if found == known {
                shard.flushes.set(wanted);
                return Ok(());
            }
            shard.flushes.set(found);
        }
    }
}
