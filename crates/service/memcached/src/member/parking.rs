//! [`Parking`]: messages that no member serves now, until they are sent again.
//!
//! ```text
//! shard 7   bounced: m1 m2 m3 | waiting: m4 m5     due at ..
//!           `- were answered    `- came while the shard had parked messages
//! ```
//! Messages of a shard keep their order: they are sent again together, the bounced ones first, and only when none of that shard is
//! under way any more.

use drover_base::Ns;
use drover_cluster::ShardId;
use drover_net::PendingReply;
use std::collections::{BTreeMap, VecDeque};

/// First pause before messages of a shard are sent again; each pause is twice the one before.
const PAUSE_FIRST: Ns = Ns::from_ms(1);
const PAUSE_MAX: Ns = Ns::from_ms(64);
/// How long a message waits in all. *(our choice: a planned change takes milliseconds; a crash, the rest of a lease)*
pub(crate) const PATIENCE: Ns = Ns::from_s(2);
/// Pause while messages of the shard are still under way.
const UNDER_WAY: Ns = Ns::from_us(100);

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    /// As the message carries it, with its marks.
    pub(crate) pending: PendingReply,
    pub(crate) message: Vec<u8>,
    attempt: Attempt,
}

/// How often a message has been answered "elsewhere", and how long it may go on.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    deadline: Ns,
    bounces: u32,
}

/// Messages of one shard.
#[derive(Debug, Default)]
struct Queue {
    bounced: VecDeque<Parked>,
    waiting: VecDeque<Parked>,
    due: Ns,
}

/// The parked messages of a core.
#[derive(Debug)]
pub(crate) struct Parking {
    queues: BTreeMap<ShardId, Queue>,
    /// Messages that were sent again and are not answered yet.
    retried: BTreeMap<PendingReply, Attempt>,
    bytes: usize,
    bytes_max: usize,
    /// Not later than any queue is due.
    next_due: Ns,
}

/// There is no space for another message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoSpace;

impl Parking {
    /// Space for messages of `bytes_max` in all.
    pub(crate) fn new(bytes_max: usize) -> Parking {
        Parking {
            queues: BTreeMap::new(),
            retried: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            next_due: Ns::MAX,
        }
    }

    /// Whether messages of the shard are parked.
    #[inline]
    pub(crate) fn has(&self, shard: ShardId) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&shard)
    }

    /// When messages are to be sent again at the earliest; [`Ns::MAX`]: there are none.
    #[inline]
    pub(crate) fn next_due(&self) -> Ns {
        self.next_due
    }

    /// Parks a message that was not sent yet.
    pub(crate) fn park(
        &mut self,
        shard: ShardId,
        pending: PendingReply,
        message: Vec<u8>,
        now: Ns,
    ) -> Result<(), NoSpace> {
        self.take_space(message.len())?;
        let attempt = Attempt {
            deadline: now + PATIENCE,
            bounces: 0,
        };
        let is_new = !self.has(shard);
        let queue = self.queues.entry(shard).or_default();
        if is_new {
            queue.due = now + PAUSE_FIRST;
        }
        self.next_due = self.next_due.min(queue.due);
        queue.waiting.push_back(Parked {
            pending,
            message,
            attempt,
        });
        Ok(())
    }

    /// Parks a message that came back, in the order in which they come back.
    pub(crate) fn bounce(
        &mut self,
        shard: ShardId,
        pending: PendingReply,
        message: Vec<u8>,
        now: Ns,
    ) -> Result<(), NoSpace> {
        let before = self.retried.remove(&pending);
        self.take_space(message.len())?;
        let mut attempt = before.unwrap_or(Attempt {
            deadline: now + PATIENCE,
            bounces: 0,
        });
        attempt.bounces += 1;
        let queue = self.queues.entry(shard).or_default();
        queue.due = queue.due.max(now + pause(attempt.bounces));
        self.next_due = self.next_due.min(queue.due);
        queue.bounced.push_back(Parked {
            pending,
            message,
            attempt,
        });
        Ok(())
    }

    /// A message that may have been parked before was answered.
    #[inline]
    pub(crate) fn answered(&mut self, pending: PendingReply) {
        if !self.retried.is_empty() {
            self.retried.remove(&pending);
        }
    }

    /// The shards whose messages are due at `now`; without any message that has waited too long: those are given to `expired`.
    /// Each shard is to be [put off](Parking::put_off) or its messages [taken](Parking::take), then comes [`settle`](Parking::settle).
    pub(crate) fn due(&mut self, now: Ns, mut expired: impl FnMut(Parked)) -> Vec<ShardId> {
        let mut due = Vec::new();
        if now < self.next_due {
            return due;
        }
        let bytes = &mut self.bytes;
        self.queues.retain(|&shard, queue| {
            if queue.due > now {
                return true;
            }
            for messages in [&mut queue.bounced, &mut queue.waiting] {
                for parked in take_late(messages, now) {
                    *bytes -= parked.message.len();
                    expired(parked);
                }
            }
            let is_left = !queue.bounced.is_empty() || !queue.waiting.is_empty();
            if is_left {
                due.push(shard);
            }
            is_left
        });
        due
    }

    /// Notes when the next messages are due.
    pub(crate) fn settle(&mut self) {
        let due = self.queues.values().map(|queue| queue.due);
        self.next_due = due.min().unwrap_or(Ns::MAX);
    }

    /// The messages of the shard are not sent now: nobody serves it yet, or (`is_under_way`) others of the shard are under way.
    pub(crate) fn put_off(&mut self, shard: ShardId, now: Ns, is_under_way: bool) {
        if let Some(queue) = self.queues.get_mut(&shard) {
            queue.due = match (
                is_under_way,
                queue.bounced.front_mut().or(queue.waiting.front_mut()),
            ) {
                (false, Some(first)) => {
                    first.attempt.bounces += 1;
                    now + pause(first.attempt.bounces)
                }
                _ => now + UNDER_WAY,
            };
        }
    }

    /// Takes the messages of the shard, in order.
    pub(crate) fn take(&mut self, shard: ShardId) -> VecDeque<Parked> {
        let Some(mut queue) = self.queues.remove(&shard) else {
            return VecDeque::new();
        };
        queue.bounced.append(&mut queue.waiting);
        let bytes: usize = queue.bounced.iter().map(|parked| parked.message.len()).sum();
        self.bytes -= bytes;
        queue.bounced
    }

    /// A message that was [taken](Parking::take) has been sent again.
    pub(crate) fn sent_again(&mut self, parked: &Parked) {
        self.retried.insert(parked.pending, parked.attempt);
    }

    /// Puts back messages that were taken and not sent; they are due at once.
    pub(crate) fn put_back(&mut self, shard: ShardId, messages: VecDeque<Parked>, now: Ns) {
        if messages.is_empty() {
            return;
        }
        let bytes: usize = messages.iter().map(|parked| parked.message.len()).sum();
        self.bytes += bytes;
        let queue = self.queues.entry(shard).or_default();
        queue.waiting = messages;
        queue.due = queue.due.max(now);
    }

    fn take_space(&mut self, bytes: usize) -> Result<(), NoSpace> {
        if self.bytes + bytes > self.bytes_max {
            return Err(NoSpace);
        }
        self.bytes += bytes;
        Ok(())
    }
}

fn pause(bounces: u32) -> Ns {
    let doubled = PAUSE_FIRST.0 << bounces.saturating_sub(1).min(16);
    Ns(doubled).min(PAUSE_MAX)
}

/// Takes out the messages that have waited too long.
fn take_late(messages: &mut VecDeque<Parked>, now: Ns) -> Vec<Parked> {
    let is_late = |parked: &Parked| now >= parked.attempt.deadline;
    if !messages.iter().any(is_late) {
        return Vec::new();
    }
    let (late, left): (Vec<Parked>, Vec<Parked>) = messages.drain(..).partition(is_late);
    messages.extend(left);
    late
}
