//! [`Sweep`]: cleans dead slots before their offsets are reused.
//!
//! A slot whose item was overwritten stays in its bucket until a lookup finds it. After 2^BITS more bytes its offset
//! would look live again and refer to bytes of another item. So the log's advance drives a sweep: the buckets are
//! mapped onto half the offset space, and an append that crosses from one stretch into the next cleans the bucket
//! there. Each bucket is visited once per 2^(BITS-1) appended bytes, so at least once between a slot's death and the
//! reuse of its offset *(stated in `[MICA §4.3.2]`; the arithmetic is ours)*. The visit may come late by one append,
//! which moves the head by up to twice the log's size: the rest of a lap that is skipped, and an item as long as the
//! log. So the offsets must span the log, one half of themselves and two logs more.

/// Computes which buckets to clean as the log advances, so that slots whose items are overwritten are emptied before
/// they would look live again. It only computes; [`CacheBucket::clean`](crate::CacheBucket::clean) cleans.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    shift: u32,
    bucket_count: u64,
}

impl Sweep {
    /// Creates a sweep over `bucket_count` buckets whose slots hold offsets of `bits` bits into a log of `log_bytes`.
    ///
    /// # Panics
    /// If `bucket_count` is not a power of two, or `log_bytes` is more than an eighth of the 2^`bits` offsets: then a
    /// slot would not be cleaned in time.
    pub fn new(bits: u32, bucket_count: u64, log_bytes: u64) -> Sweep {
        assert!(bucket_count.is_power_of_two());
        assert!(
            log_bytes <= 1 << (bits - 3),
            "a log of {log_bytes} bytes needs offsets of more than {bits} bits"
        );
        let shift = (bits - 1).saturating_sub(bucket_count.ilog2());
        Sweep { shift, bucket_count }
    }

    /// Buckets to clean (numbers, to be taken modulo the bucket count) when the log's head, in bytes ever appended, has
    /// moved from `before` to `after`. Almost always an empty range.
    #[inline(always)]
    pub fn due(&self, before: u64, after: u64) -> std::ops::Range<u64> {
        let (from, to) = ((before >> self.shift) + 1, (after >> self.shift) + 1);
        if from == to {
            return 0..0;
        }
        from.max(to.saturating_sub(self.bucket_count))..to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_once_per_half_of_the_offset_space() {
        for buckets in [1u64, 4, 64, 1 << 14] {
            let sweep = Sweep::new(12, buckets, 1 << 9);
            let mut head = 12_345u64 * 8;
            let mut visits = vec![0; buckets as usize];
            let mut step = 8;
            let end = head + (1 << 11);
            while head < end {
                let next = (head + step).min(end);
                for bucket in sweep.due(head, next) {
                    visits[(bucket & (buckets - 1)) as usize] += 1;
                }
                head = next;
                step = (step * 3) % 200 + 8;
            }
            // With more buckets than bytes in a half, the sweep is faster than needed, never slower.
            let low = if buckets <= 1 << 11 { 1 } else { 0 };
            assert!(
                visits.iter().all(|&v| v >= low && v <= 1),
                "{buckets}: {visits:?}"
            );
        }
    }

    const LOG: u64 = 1 << 9;

    /// Number of times that an entry looks live again after its death, while the head advances by `step` bytes at a
    /// time over three times the offset space.
    fn resurrections(swept: bool, step: u64) -> u32 {
        let table = crate::CacheTable::<12>::private(4, drover_mem::PageWish::Small).expect("memory");
        let sweep = Sweep::new(12, 4, LOG);
        table.bucket_at(2).set(5, crate::Slot::new(7, 0));
        let mut seen = 0;
        for head in (step..3 << 12).step_by(step as usize) {
            if swept {
                sweep
                    .due(head - step, head)
                    .for_each(|b| _ = table.bucket_at(b).clean(head, LOG));
            }
            let slot = table.bucket_at(2).slot(5);
            seen += u32::from(head > LOG && !slot.is_empty() && slot.is_live(head, LOG));
        }
        seen
    }

    #[test]
    fn the_dead_stay_dead_because_of_the_sweep() {
        for step in (8..=2 * LOG).step_by(8) {
            assert_eq!(resurrections(true, step), 0, "{step}");
        }
        assert!(resurrections(false, 64) > 0, "a missing sweep must be caught");
    }

    #[test]
    fn a_jump_over_everything_cleans_each_bucket_once() {
        let due = Sweep::new(12, 4, LOG).due(0, 1 << 20);
        assert_eq!(due.end - due.start, 4);
    }

    #[test]
    #[should_panic(expected = "needs offsets of more")]
    fn a_log_too_long_for_its_offsets_is_refused() {
        Sweep::new(12, 4, 2 * LOG);
    }
}
