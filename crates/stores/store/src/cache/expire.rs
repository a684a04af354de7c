//! [`Expiry`]: finds expired items before the tail of their log does, so that their memory is used again soon.
//!
//! A cache that is full looks at some slots for each PUT of a new key. A lap through the index begins when the first item is
//! due that the last lap has seen, or that was stored since. So a cache whose items do not expire, or not yet, looks at
//! nothing *(our choice; memcached has a thread for it)*.

use super::Cache;
use crate::item::Head;
use crate::sharing::Sharing;
use drover_base::Cpu;

/// Buckets that each PUT of a new key looks at during a lap.
const BUCKETS_PER_PUT: u64 = 1;

/// State of the search for expired items. All times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    /// Not after the time at which the first item expires; [`NEVER`] if none does.
    due_s: u32,
    /// The same for the items that this lap has seen, and for those stored during it.
    next_s: u32,
    /// The next bucket to look at.
    at: u64,
}

const NEVER: u32 = u32::MAX;

impl Default for Expiry {
    fn default() -> Expiry {
        Expiry {
            due_s: NEVER,
            next_s: NEVER,
            at: 0,
        }
    }
}

impl Expiry {
    /// Items may be there that this does not know of: after a warm start.
    pub(super) fn unknown() -> Expiry {
        Expiry {
            due_s: 0,
            ..Expiry::default()
        }
    }

    /// Notes that an item expires at `expire_s`; 0: never.
    #[inline]
    pub(super) fn note(&mut self, expire_s: u32) {
        if expire_s > 0 {
            self.due_s = self.due_s.min(expire_s);
            self.next_s = self.next_s.min(expire_s);
        }
    }

    /// Whether expired items may be there.
    #[inline]
    pub(super) fn is_due(&self, now_s: u32) -> bool {
        self.due_s <= now_s
    }

    /// Ends the lap.
    fn end_lap(&mut self) {
        *self = Expiry {
            due_s: self.next_s,
            ..Expiry::default()
        };
    }
}

impl<S: Sharing> Cache<S> {
    /// Removes the expired items of the next buckets.
    #[cold]
    pub(super) fn remove_expired<C: Cpu>(&mut self, cpu: &C, now_s: u32) {
        if self.table.is_resizing() {
            // Buckets are moved from one side of the lap to the other.
            self.expiry.at = 0;
            return;
        }
        for _ in 0..BUCKETS_PER_PUT {
            self.remove_expired_of(cpu, self.expiry.at, now_s);
            self.expiry.at += 1;
            if self.expiry.at >= self.table.bucket_count() {
                return self.expiry.end_lap();
            }
        }
    }

    fn remove_expired_of<C: Cpu>(&mut self, cpu: &C, bucket_index: u64, now_s: u32) {
        let bucket = self.table.bucket_at(bucket_index);
        cpu.touch(bucket.line());
        for (i, slot) in bucket.slots().into_iter().enumerate() {
            if !slot.is_item() || !slot.expires() {
                continue;
            }
            let place = self.memory.place(slot.offset());
            cpu.touch(place.line(0));
            let head = Head::load(place);
            if !head.is_expired(place, now_s) {
                self.expiry.note(head.expire_s(place));
                continue;
            }
            self.counters.reclaimed += 1;
            self.counters.expired_unread += u64::from(!slot.is_read());
            self.remove(bucket_index, i);
        }
    }
}
