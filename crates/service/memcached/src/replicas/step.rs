//! What a step of the core does for its keepers: sorts what has changed, sends it, and says whether the core is held.

use super::Replicator;
use super::changes::names;
use super::message::{CopyMessage, ListedShard};
use super::replicator::{Judged, LOOK_EVERY, MessageParts};
use crate::handover::{PAGE_BYTES, put_state};
use crate::{Executor, PeerLinks};
use drover_base::{Cpu, Ns};
use drover_net::PendingReply;
use drover_store::{Partition, Sharing};

/// Whether the core may execute requests, and its replies leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Both.
    Free,
    /// Neither: keepers do not have yet what has changed.
    Held,
    /// A shard that was changed is not this member's any more: the replies that have not left never may. Their clients cannot know what has become of
    /// their requests. The core may still be [held](drover_cluster::ServedShards::is_held) for other shards.
    Void,
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// In a member with replicas: sends what has changed, and holds or releases the core. To be called at the beginning of a step, after the links for
    /// copies have been stepped, and when requests have been executed, before any reply leaves. Cost without replicas: a comparison.
    pub fn step_copies(&mut self, links: &mut impl PeerLinks) -> Hold {
        let now = self.cpu.now();
        let Some(replicas) = self.core.replicas_mut() else {
            return Hold::Free;
        };
        let replicator = &mut replicas.replicator;
        let mut is_void = std::mem::take(&mut replicator.is_void);
        is_void |= replicator.sort(links);
        is_void |= replicator.look(now);
        replicator.channels.drop_idle();
        for nth in 0..replicator.channels.busy_count() {
            let route = replicator.channels.busy_route(nth);
            if replicator.channels[route].may_send(now) {
                is_void |= replicator.build(route, self.partition, self.cpu, self.now_s);
                replicator.post(route, self.partition.last_version(), links, now);
            }
        }
        replicator.bound();
        replicator.settle(is_void, now)
    }

    /// The end of a message that [`step_copies`](Executor::step_copies) has sent: its reply, or `None` if it was lost or never sent.
    pub fn take_copy_reply(&mut self, pending: PendingReply, reply: Option<&[u8]>) {
        let now = self.cpu.now();
        if let Some(replicas) = self.core.replicas_mut() {
            let route = pending.connection as usize;
            replicas.replicator.ended(route, pending.number, reply, now);
        }
    }
}

impl Replicator {
    /// While the core is held: looks now and then at what became of the shards. Returns whether one was lost.
    fn look(&mut self, now: Ns) -> bool {
        let Some(since) = self.held_since else {
            return false;
        };
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_EVERY;
        let is_lost = self.look_again();
        let waiting = self.held_for().map(|peer| (peer, since));
        self.shards.set_waiting(self.core, waiting);
        is_lost
    }

    /// Looks up what is to be sent on a route: as much as a message takes. Returns whether a shard of it was lost.
    fn build<C: Cpu, S: Sharing>(
        &mut self,
        route: usize,
        partition: &mut Partition<S>,
        cpu: &C,
        now_s: u32,
    ) -> bool {
        let MessageParts { listed, entries, .. } = &mut self.parts;
        let shards = &self.shards;
        let channel = &mut self.channels[route];
        channel.set_aside(Replicator::shard_of(shards));
        listed.clear();
        entries.clear();
        let (peer, mut is_lost, mut taken) = (channel.peer, false, [0; 2]);
        for shard in channel.pending.flushed.drain(..) {
            match Replicator::judge(shards, shard, Some(peer)) {
                Judged::Send(copy) => {
                    channel.sent.flushed.push(shard);
                    list(
                        listed,
                        ListedShard {
                            shard,
                            tenure: copy.tenure,
                            is_flushed: true,
                        },
                    );
                }
                Judged::Drop => {}
                Judged::Lost => is_lost = true,
            }
        }
        // Replies about free names wait for no keeper: a copy that is not complete is never promoted.
        let lists = [
            (&mut channel.pending.gated, &mut channel.sent.gated, true),
            (&mut channel.pending.free, &mut channel.sent.free, false),
        ];
        for ((pending, sent, is_gated), used) in lists.into_iter().zip(&mut taken) {
            for name in names(pending) {
                let shard = shards.shard_of(name.name.hash);
                match Replicator::judge(shards, shard, Some(peer)) {
                    _ if entries.len() >= PAGE_BYTES => break,
                    Judged::Send(copy) => {
                        if !put_state(partition, cpu, now_s, name.name, entries) {
                            break;
                        }
                        sent.extend_from_slice(name.bytes());
                        list(
                            listed,
                            ListedShard {
                                shard,
                                tenure: copy.tenure,
                                is_flushed: false,
                            },
                        );
                    }
                    Judged::Drop => {}
                    Judged::Lost => is_lost |= is_gated,
                }
                *used += name.bytes().len();
            }
            pending.drain(..*used);
        }
        channel.taken_from_pending(taken[0], taken[1]);
        is_lost
    }

    /// Sends what has been looked up, if anything has.
    fn post(&mut self, route: usize, version: u64, links: &mut impl PeerLinks, now: Ns) {
        let channel = &mut self.channels[route];
        if channel.sent.is_empty() {
            return;
        }
        let MessageParts {
            listed,
            head,
            entries,
            number,
        } = &mut self.parts;
        listed.sort_unstable();
        listed.dedup_by(|next, first| {
            let is_same = (next.shard, next.tenure) == (first.shard, first.tenure);
            first.is_flushed |= is_same && next.is_flushed;
            is_same
        });
        *number += 1;
        head.clear();
        CopyMessage::put_head(self.source, *number, version, listed, head);
        let pending = PendingReply {
            connection: route as u64,
            number: *number,
        };
        match links.send(route, pending, &[head, entries]) {
            Ok(()) => channel.begun(*number),
            Err(_) => channel.put_back(now),
        }
    }

    /// Holds or releases the core.
    fn settle(&mut self, is_void: bool, now: Ns) -> Hold {
        let (shards, core) = (&self.shards, self.core);
        if is_void {
            shards.release_void(core);
        }
        let holds = self.holds();
        if holds && self.held_since.is_none() || self.has_unsorted() && now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
        }
        if holds {
            self.held_since.get_or_insert(now);
        } else if let Some(since) = self.held_since.take() {
            self.counters.held_ns.add(now.since(since).0);
            shards.set_waiting(core, None);
        }
        match (holds, shards.is_held(core)) {
            (true, false) => shards.hold(core),
            (false, true) => shards.release(core),
            _ => {}
        }
        match (is_void, holds) {
            (true, _) => Hold::Void,
            (false, true) => Hold::Held,
            (false, false) => Hold::Free,
        }
    }
}

/// Adds a shard to those of a message, unless it is the last one.
fn list(listed: &mut Vec<ListedShard>, shard: ListedShard) {
    if listed.last() != Some(&shard) {
        listed.push(shard);
    }
}
