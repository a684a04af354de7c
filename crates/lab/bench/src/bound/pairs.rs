//! [`Pairs`]: dependent random reads, as in any store with an index and a log.

use drover_base::{Cpu as _, Ns, Rng, mix};
use drover_mem::{AllocError, LINE_BYTES, NativeCpu, PageKind, PageWish, Region, timestamp};
use std::sync::atomic::Ordering;

/// Pairs per stage of a batch.
const BATCH: usize = 16;

/// Error of [`Pairs::new`]: the memory could not be allocated.
pub type PairsError = AllocError;

/// Measures pairs of dependent random reads in two memory regions that it owns: a line of the index, then the line of
/// the log that it points to.
pub struct Pairs {
    index: Region,
    log: Region,
    index_lines: u64,
    cpu: NativeCpu,
    state: u64,
}

impl Pairs {
    /// Allocates and fills an index of `index_bytes` and a log of `log_bytes` (at least a cache line each), on reserved
    /// huge pages if enough are free, as a store does. Takes about 0.3 s per GiB.
    ///
    /// # Errors
    /// The memory could not be allocated.
    pub fn new(index_bytes: usize, log_bytes: usize, seed: u64) -> Result<Pairs, PairsError> {
        let index = Region::private(index_bytes.max(LINE_BYTES), PageWish::HugeIfAny)?;
        let log = Region::private(log_bytes.max(LINE_BYTES), PageWish::HugeIfAny)?;
        let index_lines = (index_bytes / LINE_BYTES).max(1) as u64;
        let log_lines = (log_bytes / LINE_BYTES).max(1) as u64;
        let mut rng = Rng::new(seed, 0, 0xb0bd);
        for line in 0..index_lines as usize {
            let item = rng.below(log_lines) * LINE_BYTES as u64;
            index.store_u64(line * LINE_BYTES, item, Ordering::Relaxed);
        }
        for line in 0..log_lines as usize {
            log.store_u64(line * LINE_BYTES, mix(line as u64), Ordering::Relaxed);
        }
        Ok(Pairs {
            index,
            log,
            index_lines,
            cpu: NativeCpu::new(seed),
            state: seed,
        })
    }

    /// Kind of pages that index and log got. If they differ, the worse of the two: small pages are worse than
    /// transparent huge pages, and these than reserved huge pages.
    pub fn page_kind(&self) -> PageKind {
        match (self.index.page_kind(), self.log.page_kind()) {
            (PageKind::Small, _) | (_, PageKind::Small) => PageKind::Small,
            (PageKind::Transparent, _) | (_, PageKind::Transparent) => PageKind::Transparent,
            _ => PageKind::Huge,
        }
    }

    /// Reads pairs, prefetched in batches of 16, for about `time` on the calling thread. Returns pairs per second.
    pub fn batched_ops(&mut self, time: Ns) -> f64 {
        rate(time, BATCH as u64 * 64, || {
            for _ in 0..64 {
                self.batch();
            }
        })
    }

    /// Reads pairs without prefetching, each after the previous one, for about `time` on the calling thread. Returns
    /// the mean nanoseconds per pair.
    pub fn dependent_ns(&mut self, time: Ns) -> f64 {
        1e9 / rate(time, 256, || {
            for _ in 0..256 {
                let item = self
                    .index
                    .load_u64(self.index_line(self.state), Ordering::Relaxed);
                let word = self.log.load_u64(item as usize, Ordering::Relaxed);
                self.state = mix(self.state.wrapping_add(word));
            }
        })
    }

    #[inline(always)]
    fn index_line(&self, random: u64) -> usize {
        let line = (u128::from(random) * u128::from(self.index_lines)) >> 64;
        line as usize * LINE_BYTES
    }

    #[inline(always)]
    fn batch(&mut self) {
        let mut at = [0usize; BATCH];
        for place in &mut at {
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *place = self.index_line(mix(self.state));
            self.index.prefetch(&self.cpu, *place);
        }
        for place in &mut at {
            *place = self.index.load_u64(*place, Ordering::Relaxed) as usize;
            self.log.prefetch(&self.cpu, *place);
        }
        let sum = at.iter().fold(0u64, |sum, &place| {
            sum ^ self.log.load_u64(place, Ordering::Relaxed)
        });
        std::hint::black_box(sum);
    }
}

/// Rate per second of `work`, each call of which counts `count`, measured for about `time`.
fn rate(time: Ns, count: u64, mut work: impl FnMut()) -> f64 {
    let cpu = NativeCpu::new(0);
    let (began, ticks) = (cpu.now(), timestamp());
    let mut done = 0u64;
    loop {
        work();
        done += count;
        if cpu.refresh().since(began) >= time {
            let ns = NativeCpu::ticks_to_ns(timestamp() - ticks);
            return done as f64 * 1e9 / ns as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_sane_on_a_small_footprint() {
        let mut pairs = Pairs::new(1 << 20, 4 << 20, 3).expect("memory");
        let (ops, ns) = (
            pairs.batched_ops(Ns::from_ms(5)),
            pairs.dependent_ns(Ns::from_ms(5)),
        );
        assert!(ops > 1e4 && ops.is_finite(), "{ops}");
        assert!(ns > 0.5 && ns < 1e7, "{ns}");
    }

    #[test]
    fn every_index_line_points_into_the_log() {
        let pairs = Pairs::new(64 * 100, 64 * 7, 1).expect("memory");
        let mut seen = [false; 7];
        for line in 0..100 {
            let item = pairs.index.load_u64(line * 64, Ordering::Relaxed);
            assert!(item.is_multiple_of(64) && item < 64 * 7, "{item}");
            seen[item as usize / 64] = true;
        }
        assert!(seen.iter().all(|&s| s));
    }
}
