//! [`Replicator`]: what a core has to send to the keepers of its shards.

use super::changes::{Changes, names, retain};
use super::channel::Channel;
use super::channels::Channels;
use super::message::{CopyReply, CopySource, ListedShard};
use crate::handover::{Entry, Name, ShardSet};
use crate::{MemberCounters, PeerLinks};
use drover_base::Ns;
use drover_cluster::{SentCopy, ServedShards, ShardId};
use std::sync::Arc;

/// Bytes of names from which on a channel takes no more found by a scan.
const FOUND_BYTES_MAX: usize = 64 << 10;
/// Bytes of names of free changes from which on they are made unique; twice what was left is waited for after that.
const COMPACT_BYTES: usize = 256 << 10;
/// Bytes of names of free changes that a channel may have: a keeper that is so far behind begins again. *(our choice)*
const FREE_BYTES_MAX: usize = 16 << 20;
/// Time between two looks at what became of the shards whose changes hold the core.
pub(super) const LOOK_EVERY: Ns = Ns::from_ms(1);

/// What becomes of a change, by what the table says now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    /// It is to be sent.
    Send(SentCopy),
    /// The shard has no copy any more, or one elsewhere that begins.
    Drop,
    /// The shard is not this member's any more.
    Lost,
}

/// A question whether all of some shards has been taken.
#[derive(Debug)]
struct Drain {
    mark: u64,
    shards: ShardSet,
    /// What was known of the shards when the question came is in the channels now.
    is_begun: bool,
}

/// Parts of a message in the making; the memory is kept.
#[derive(Default)]
pub(super) struct MessageParts {
    /// Number of the last message.
    pub(super) number: u64,
    pub(super) listed: Vec<ListedShard>,
    pub(super) head: Vec<u8>,
    pub(super) entries: Vec<u8>,
}

/// Sends what the core changes to the members that keep copies.
pub(crate) struct Replicator {
    pub(super) shards: Arc<ServedShards>,
    pub(super) core: usize,
    pub(super) source: CopySource,
    pub(super) counters: Arc<MemberCounters>,
    /// By their routes.
    pub(super) channels: Channels,
    /// Shards that were flushed, and names, that are not in channels yet; found by scans; and without a route to their keeper.
    pub(super) flushed: Vec<ShardId>,
    changed: Vec<u8>,
    pub(super) found: Vec<u8>,
    stranded: Vec<u8>,
    pub(super) parts: MessageParts,
    /// The core has been held since then.
    pub(super) held_since: Option<Ns>,
    /// When to look next at what is held, or has no way to its keeper.
    pub(super) look_at: Ns,
    /// Replies that wait are void: the core was restarted.
    pub(super) is_void: bool,
    drain: Option<Drain>,
    /// Free changes of these copies were dropped.
    given_up: Vec<ListedShard>,
}

impl Replicator {
    pub(super) fn new(
        shards: Arc<ServedShards>,
        core: usize,
        life: u64,
        counters: Arc<MemberCounters>,
    ) -> Replicator {
        let source = CopySource {
            life,
            core: core as u16,
            core_count: shards.core_count() as u16,
        };
        Replicator {
            shards,
            core,
            source,
            counters,
            channels: Channels::default(),
            flushed: Vec::new(),
            changed: Vec::new(),
            found: Vec::new(),
            stranded: Vec::new(),
            parts: MessageParts::default(),
            held_since: None,
            look_at: Ns::ZERO,
            is_void: false,
            drain: None,
            given_up: Vec::new(),
        }
    }

    pub(super) fn shard_of(shards: &ServedShards) -> impl Fn(&Entry<'_>) -> ShardId {
        |name| shards.shard_of(name.name.hash)
    }

    /// What the table says of a change that was meant for `peer`.
    pub(super) fn judge(shards: &ServedShards, shard: ShardId, peer: Option<u16>) -> Judged {
        match shards.sent_copy(shard) {
            Some(copy) if peer.is_none_or(|peer| peer == copy.peer) => Judged::Send(copy),
            Some(_) => Judged::Drop,
            None => match shards.holds(shard) {
                true => Judged::Drop,
                false => Judged::Lost,
            },
        }
    }

    /// Takes the names that the core has noted since the last call.
    fn take_changed(&mut self) {
        match self.changed.is_empty() {
            true => self.shards.take_changed(self.core, &mut self.changed),
            false => {
                let mut more = Vec::new();
                self.shards.take_changed(self.core, &mut more);
                self.changed.append(&mut more);
            }
        }
    }

    /// Sorts what is new into the channels. Returns whether a shard that was changed is not this member's any more.
    pub(super) fn sort(&mut self, links: &mut impl PeerLinks) -> bool {
        self.take_changed();
        let mut is_void = false;
        for shard in std::mem::take(&mut self.flushed) {
            is_void |= self.sort_flush(shard, links);
        }
        let stranded = std::mem::take(&mut self.stranded);
        let (changed, found) = (std::mem::take(&mut self.changed), std::mem::take(&mut self.found));
        for (mut list, is_change) in [(stranded, true), (changed, true), (found, false)] {
            for name in names(&list) {
                is_void |= self.sort_name(name.name, is_change, links);
            }
            list.clear();
            // The memory is used again.
            match is_change {
                true => self.changed = list,
                false => self.found = list,
            }
        }
        self.begin_drain();
        is_void
    }

    fn sort_flush(&mut self, shard: ShardId, links: &mut impl PeerLinks) -> bool {
        match Replicator::judge(&self.shards, shard, None) {
            Judged::Drop => false,
            Judged::Lost => true,
            Judged::Send(copy) => {
                let routes = links.routes(copy.peer);
                if routes.is_empty() {
                    self.flushed.push(shard);
                }
                for route in routes {
                    let flushed = &mut self.channels.reach(route, copy.peer).pending.flushed;
                    if !flushed.contains(&shard) {
                        flushed.push(shard);
                    }
                }
                false
            }
        }
    }

    fn sort_name(&mut self, name: Name<'_>, is_change: bool, links: &mut impl PeerLinks) -> bool {
        match Replicator::judge(&self.shards, self.shards.shard_of(name.hash), None) {
            Judged::Drop => false,
            Judged::Lost => is_change,
            Judged::Send(copy) => {
                match links.route(copy.peer, name.hash) {
                    None => name.put(&mut self.stranded),
                    Some(route) => {
                        let pending = &mut self.channels.reach(route, copy.peer).pending;
                        let is_gated = copy.is_gated && is_change;
                        name.put(if is_gated {
                            &mut pending.gated
                        } else {
                            &mut pending.free
                        });
                    }
                }
                false
            }
        }
    }

    /// The end of a message; `None`: it was lost, or never sent.
    pub(super) fn ended(&mut self, route: usize, number: u64, reply: Option<&[u8]>, now: Ns) {
        let shard_of = Replicator::shard_of(&self.shards);
        let Some(channel) = self.channels.get_mut(route) else {
            return;
        };
        channel.ended(number, reply.and_then(CopyReply::of), shard_of, now);
    }

    /// Whether anything that holds the core has not been taken.
    pub(super) fn holds(&self) -> bool {
        let is_gated = |shard: &ShardId| self.shards.sent_copy(*shard).is_some_and(|copy| copy.is_gated);
        // A shard that is lost holds the core until that has been seen: the replies are void then.
        let flush_holds = |shard: &ShardId| is_gated(shard) || !self.shards.holds(*shard);
        let channel_holds = |channel: &Channel| {
            let mut all = channel.all().into_iter();
            channel.has_gated() || all.any(|changes| changes.flushed.iter().any(flush_holds))
        };
        self.channels.busy().any(channel_holds)
            || self.flushed.iter().any(is_gated)
            || names(&self.stranded).any(|name| is_gated(&self.shards.shard_of(name.name.hash)))
    }

    /// The keeper that the core is held for.
    pub(super) fn held_for(&self) -> Option<u16> {
        let gated = self.channels.busy().find(|channel| channel.has_gated());
        gated
            .or_else(|| self.channels.busy().find(|channel| channel.has_any()))
            .map(|channel| channel.peer)
    }

    /// Looks at what became of the shards whose changes hold the core. Returns whether one of them is not this member's any more.
    #[cold]
    pub(super) fn look_again(&mut self) -> bool {
        let (shards, mut is_lost) = (&self.shards, false);
        for nth in 0..self.channels.busy_count() {
            let route = self.channels.busy_route(nth);
            let channel = &mut self.channels[route];
            let peer = channel.peer;
            for Changes { flushed, gated, free } in channel.all_mut() {
                flushed.retain(|shard| {
                    let judged = Replicator::judge(shards, *shard, Some(peer));
                    is_lost |= judged == Judged::Lost;
                    matches!(judged, Judged::Send(_))
                });
                retain(gated, |name| {
                    let judged = Replicator::judge(shards, shards.shard_of(name.name.hash), Some(peer));
                    is_lost |= judged == Judged::Lost;
                    match judged {
                        Judged::Send(copy) if !copy.is_gated => {
                            free.extend_from_slice(name.bytes());
                            false
                        }
                        Judged::Send(_) => true,
                        Judged::Drop | Judged::Lost => false,
                    }
                });
            }
            channel.pending_changed();
        }
        is_lost
    }

    /// Whether the way to a keeper is not known yet.
    pub(super) fn has_unsorted(&self) -> bool {
        !self.stranded.is_empty() || !self.flushed.is_empty()
    }

    /// When the core must be stepped again for what it could not send so far.
    pub(super) fn due_at(&self) -> Ns {
        let due = self.channels.busy().map(Channel::due_at).min().unwrap_or(Ns::MAX);
        match self.held_since.is_some() || self.has_unsorted() {
            true => due.min(self.look_at),
            false => due,
        }
    }

    /// Whether so much waits to be sent that a scan is to pause.
    pub(super) fn is_behind(&self) -> bool {
        self.found.len() >= FOUND_BYTES_MAX
            || self
                .channels
                .busy()
                .any(|channel| channel.all().iter().map(|it| it.bytes()).sum::<usize>() >= FOUND_BYTES_MAX)
    }

    /// Whether all that was known of `shards` when `mark` came first has been taken, as the number of a reply.
    pub(super) fn drained(&mut self, shards: ShardSet, mark: u64) -> u64 {
        if self.drain.as_ref().is_none_or(|drain| drain.mark != mark) {
            self.take_changed();
            self.drain = Some(Drain {
                mark,
                shards,
                is_begun: false,
            });
            return 0;
        }
        let Some(drain) = &self.drain else { return 0 };
        let is_current = |it: &ListedShard| {
            let tenure = self.shards.sent_copy(it.shard).map(|copy| copy.tenure);
            tenure == Some(it.tenure) && drain.shards.has(it.shard)
        };
        if self.given_up.iter().any(is_current) {
            return 2;
        }
        let is_drained = |channel: &Channel| channel.is_drained(&drain.shards);
        u64::from(drain.is_begun && self.channels.iter().all(is_drained))
    }

    /// What the last question is about is in the channels now, all of it unless it has no route.
    fn begin_drain(&mut self) {
        let Some(drain) = self.drain.as_mut().filter(|drain| !drain.is_begun) else {
            return;
        };
        let is_stranded = names(&self.stranded).any(|name| drain.shards.contains(name.name.hash));
        if is_stranded || self.flushed.iter().any(|shard| drain.shards.has(*shard)) {
            return;
        }
        drain.is_begun = true;
        self.channels.iter_mut().for_each(Channel::begin_drain);
    }

    /// Bounds the memory of a channel whose keeper is behind: names once, and if that does not help, none.
    pub(super) fn bound(&mut self) {
        for nth in 0..self.channels.busy_count() {
            let route = self.channels.busy_route(nth);
            if self.channels[route].pending.free.len() >= COMPACT_BYTES {
                self.bound_channel(route);
            }
        }
    }

    #[cold]
    fn bound_channel(&mut self, route: usize) {
        let channel = &mut self.channels[route];
        if channel.pending.free.len() < channel.compact_at {
            return;
        }
        channel.compact();
        let free = &mut channel.pending.free;
        if free.len() < FREE_BYTES_MAX {
            return;
        }
        for name in names(free) {
            let shard = self.shards.shard_of(name.name.hash);
            let Some(copy) = self.shards.sent_copy(shard) else {
                continue;
            };
            self.given_up.push(ListedShard {
                shard,
                tenure: copy.tenure,
                is_flushed: false,
            });
        }
        self.given_up.sort_unstable();
        self.given_up.dedup();
        let shards = &self.shards;
        let is_current =
            |it: &ListedShard| shards.sent_copy(it.shard).map(|copy| copy.tenure) == Some(it.tenure);
        self.given_up.retain(is_current);
        *free = Vec::new();
        channel.pending_changed();
    }

    /// The core's partition is another one. What was under way counts as lost, and what waits for acknowledgements is void.
    pub(super) fn restarted(&mut self) {
        self.is_void = self.held_since.is_some() || self.shards.is_held(self.core);
        for channel in self.channels.iter_mut() {
            channel.put_back(Ns::ZERO);
        }
    }
}
