//! [`Probe`]: measures what WRITEs and READs take, at the first connection over a device; [`Measured`]: what follows from that for R, P and F.
//!
//! One verb at a time, a few rounds; the least time of each kind counts, since others may use queue pair and core
//! meanwhile. A probe that is not done in time ends with what it has; without a measurement the paper's values stay.
//!
//! **P.** A push takes a server about as long as a WRITE takes. It is worth it once that is less than a quarter of the time
//! per call (the `switch_loss` of a call that is fetched: 7 us in the paper, whose WRITEs take 1.56 us).
//!
//! **R.** So many READs, one after the other, take P. Where calls take turns it is 32: then READs cost nobody anything.
//!
//! **Turns.** Where a READ takes less than half a microsecond, calls take turns with their READs ([`turns`](super::turns)).
//!
//! **F.** A call costs its WRITE and its READs, whose time is known for some lengths; in between it grows evenly.
//! *(That R, P and F depend on the fabric and are measured: stated in `[RFP]`; how: our choice.)*

use super::choose::{Choice, Curve};
use super::header::HEADER_BYTES;
use super::switch::SwitchOptions;
use drover_base::Ns;

/// Numbers of payload bytes of the READs that are measured.
const LENGTHS: [usize; 4] = [64, 256, 512, 1024];

/// READs of each length, and WRITEs.
const ROUNDS: usize = 8;

/// Kinds of verbs: a WRITE, and the READs.
const KINDS: usize = LENGTHS.len() + 1;

/// A probe that takes longer ends.
const PATIENCE: Ns = Ns::from_ms(20);

/// READs below it are copies by the client's core: no network is as fast. *(our choice)*
const SHORT_READ: Ns = Ns(500);

/// Loss of a call's rate at which pushing begins to be worth it, as its inverse.
const SWITCH_LOSS_INVERSE: u64 = 4;

/// Bounds of R. *(5: stated in `[RFP]`; 2: one READ may come too early on any fabric)*
const SLOW_READS: (u64, u64) = (2, 5);

/// R where calls take turns. The READs of one call serve all, and their client has nothing else to do; so only calls that
/// are worth sleeping for are pushed. *(our choice)*
const SLOW_READS_IN_TURN: u32 = 32;

/// F is a multiple of it, up to the longest READ that was measured.
const STEP_BYTES: usize = 64;

/// A verb to be posted next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeVerb {
    /// A WRITE of a byte that changes nothing.
    Write,
    /// A READ of a result slot's header and so many bytes.
    Read {
        /// Length, bytes.
        len: usize,
    },
}

/// A measurement under way.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Longest payload that a slot holds.
    bytes_max: usize,
    /// Number of verbs that have completed.
    step: usize,
    begun: Option<Ns>,
    /// When the verb under way was posted.
    posted: Option<Ns>,
    least: [Ns; KINDS],
}

impl Probe {
    /// For result slots of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Probe {
        Probe {
            bytes_max,
            step: 0,
            begun: None,
            posted: None,
            least: [Ns::MAX; KINDS],
        }
    }

    /// The next verb, to be posted at `now`; `None` while one is under way, or if there is none left.
    pub fn next(&mut self, now: Ns) -> Option<ProbeVerb> {
        if self.posted.is_some() || self.is_over(now) {
            return None;
        }
        self.posted = Some(now);
        Some(match (self.step % KINDS).checked_sub(1) {
            None => ProbeVerb::Write,
            Some(length) => ProbeVerb::Read {
                len: HEADER_BYTES + LENGTHS[length].min(self.bytes_max),
            },
        })
    }

    /// The verb under way has completed at `now`.
    pub fn completed(&mut self, now: Ns) {
        if let Some(posted) = self.posted.take() {
            let least = &mut self.least[self.step % KINDS];
            // A clock that stood still says nothing.
            *least = (*least).min(now.since(posted).max(Ns(1)));
            self.step += 1;
        }
    }

    fn is_over(&mut self, now: Ns) -> bool {
        let begun = *self.begun.get_or_insert(now);
        self.step >= ROUNDS * KINDS || now.since(begun) > PATIENCE
    }

    /// What came of it, once it is over and no verb is under way.
    pub fn result(&mut self, now: Ns) -> Option<Measured> {
        let is_over = self.posted.is_none() && self.is_over(now);
        is_over.then(|| Measured::of(self.least))
    }
}

/// Times of verbs on a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Shortest times of a WRITE and of READs of each of [`LENGTHS`]; `None` if the measurement is incomplete.
    times: Option<[Ns; KINDS]>,
}

impl Measured {
    fn of(mut least: [Ns; KINDS]) -> Measured {
        let is_whole = least.iter().all(|time| *time < Ns::MAX);
        // Noise: a longer READ is not faster.
        for length in 1..KINDS - 1 {
            least[length + 1] = least[length + 1].max(least[length]);
        }
        Measured {
            times: is_whole.then_some(least),
        }
    }

    /// As if every verb took so long.
    #[cfg(test)]
    pub(super) fn all_take(time: Ns) -> Measured {
        Measured::of([time; KINDS])
    }

    /// Whether anything was measured: if not, all that follows are the paper's values.
    pub fn is_known(&self) -> bool {
        self.times.is_some()
    }

    /// Whether a READ takes so little time that calls [take turns](super::Caller::take_turns).
    pub fn has_short_reads(&self) -> bool {
        self.times.is_some_and(|[_, short, ..]| short < SHORT_READ)
    }

    /// R and P, with everything else as usual.
    pub fn switch(&self) -> SwitchOptions {
        let usual = SwitchOptions::default();
        let Some([write, short, ..]) = self.times else {
            return usual;
        };
        let push_time = write * SWITCH_LOSS_INVERSE;
        let reads = push_time.0.div_ceil(short.0.max(1));
        let (least, most) = SLOW_READS;
        SwitchOptions {
            slow_reads: match self.has_short_reads() {
                true => SLOW_READS_IN_TURN,
                false => reads.clamp(least, most) as u32,
            },
            push_time,
            ..usual
        }
    }

    /// Rates of calls for each F, that of `first` first; nothing but that if nothing was measured.
    pub fn curves(&self, first: Choice, bytes_max: usize) -> Vec<Curve> {
        let longest = LENGTHS[LENGTHS.len() - 1].min(bytes_max);
        let others = (1..=longest / STEP_BYTES).map(|step| step * STEP_BYTES);
        let others = others.filter(|bytes| *bytes != first.first_bytes && self.is_known());
        let all = std::iter::once(first.first_bytes).chain(others);
        all.map(|first_bytes| self.curve(first.slow_reads, first_bytes, bytes_max))
            .collect()
    }

    fn curve(&self, slow_reads: u32, first_bytes: usize, bytes_max: usize) -> Curve {
        let write = self.times.map_or(Ns(1), |times| times[0]);
        let rate = |reads: f64| 1e9 / (write.0 as f64 + reads);
        let first = self.read_ns(first_bytes);
        let beyond = |bytes: usize| rate(first + self.read_ns(bytes - first_bytes));
        let mut rates = vec![(first_bytes, rate(first))];
        if first_bytes < bytes_max {
            rates.push((first_bytes + 1, beyond(first_bytes + 1)));
            rates.push((bytes_max.max(first_bytes + 2), beyond(bytes_max)));
        }
        Curve {
            slow_reads,
            first_bytes,
            rates,
        }
    }

    /// Time of a READ of so many bytes of payload, as those of the lengths around it.
    fn read_ns(&self, bytes: usize) -> f64 {
        let Some(times) = self.times else { return 1.0 };
        let at = |point: usize| (LENGTHS[point] as f64, times[point + 1].0 as f64);
        let above = LENGTHS.partition_point(|length| *length < bytes);
        let above = above.clamp(1, LENGTHS.len() - 1);
        let ((from, low), (to, high)) = (at(above - 1), at(above));
        (low + (high - low) * (bytes as f64 - from) / (to - from)).max(low.min(high) / 2.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fetch::{Objective, Selector};

    /// Runs a probe on a fabric whose verbs take `time`; every third one takes ten times as long.
    fn probe(time: impl Fn(ProbeVerb) -> Ns) -> (Measured, usize) {
        let (mut probe, mut now, mut verbs) = (Probe::new(2048), Ns(5), 0);
        loop {
            if let Some(measured) = probe.result(now) {
                return (measured, verbs);
            }
            let verb = probe.next(now).expect("one at a time");
            assert_eq!((probe.next(now), probe.result(now)), (None, None));
            verbs += 1;
            now += time(verb) * if verbs % 3 == 0 { 10 } else { 1 };
            probe.completed(now);
        }
    }

    /// The published times: a WRITE takes 1.56 us, a READ 2.11 us, and 31 Gb/s go over the link.
    fn published(verb: ProbeVerb) -> Ns {
        match verb {
            ProbeVerb::Write => Ns(1_560),
            ProbeVerb::Read { len } => Ns(2_110 + (len as u64).saturating_sub(256) / 4),
        }
    }

    #[test]
    fn rfp_r_and_p_follow_from_the_times_of_verbs() {
        let (measured, verbs) = probe(published);
        assert_eq!(verbs, ROUNDS * KINDS);
        let switch = measured.switch();
        assert_eq!((switch.slow_reads, switch.push_time), (3, Ns(6_240)));
        // Memory that a READ copies by the client's own core.
        let (measured, _) = probe(|_| Ns(100));
        let switch = measured.switch();
        assert_eq!((switch.slow_reads, switch.push_time), (32, Ns(400)));
        assert!(Measured::default().switch() == SwitchOptions::default());
    }

    #[test]
    fn rfp_a_measurement_ends_in_time() {
        let (measured, verbs) = probe(|_| Ns::from_ms(7));
        assert!(verbs < 5 && !measured.is_known(), "{verbs} verbs");
        assert_eq!(measured.switch(), SwitchOptions::default());
        let first = Choice {
            slow_reads: 5,
            first_bytes: 256,
        };
        assert_eq!(measured.curves(first, 2048).len(), 1);
    }

    /// On what was measured, the selector picks what fits the results.
    #[test]
    fn rfp_f_follows_the_sizes_of_results() {
        let (measured, _) = probe(published);
        let first = Choice {
            slow_reads: 3,
            first_bytes: 256,
        };
        let chosen = |sizes: &[usize]| {
            let mut selector = Selector::new(Objective::Exact, measured.curves(first, 2048));
            for sample in 0..20_000 {
                selector.observe(sizes[sample % sizes.len()]);
            }
            selector.choose(Ns::from_s(2));
            selector.current().first_bytes
        };
        assert_eq!(chosen(&[40]), 256, "a shorter READ takes as long");
        assert_eq!(chosen(&[500]), 512);
        assert_eq!(chosen(&[40, 40, 40, 40, 40, 40, 40, 40, 40, 700]), 256);
        assert_eq!(chosen(&[700, 700, 40]), 704);
    }
}
