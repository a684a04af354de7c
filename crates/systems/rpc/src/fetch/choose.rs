//! [`Selector`]: how many bytes the first READ of a result fetches (F), and how many failed READs make a call slow (R),
//! from the sizes of results and what calls cost on the fabric.
//!
//! A longer first READ costs every call, a second READ only the calls whose results are longer. Which F is best depends
//! on how many those are. The rates must be those of *whole calls*: with the rates of READs alone, the paper's own
//! objective picks an F that is too short. *(Enumerating R and F against sampled sizes: stated in `[RFP]`; the exact
//! objective, decay, 3 % and a second: our choice.)*

use drover_base::Ns;

/// Bytes of a bin of result sizes. F is best a multiple of it.
const BIN_BYTES: usize = 64;

/// Number of bins; the last one has all longer results, too.
const BIN_COUNT: usize = 128;

/// Samples before the first choice, and the number from which on old ones count half.
const SAMPLES: u32 = 10_000;

/// A change must bring so much.
const GAIN: f64 = 1.03;

/// Least time between two changes.
const PAUSE: Ns = Ns::from_s(1);

/// What calls cost with one R and F, as measured on a fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// R: failed READs that make a call slow.
    pub slow_reads: u32,
    /// F: payload bytes of the first READ.
    pub first_bytes: usize,
    /// Sizes of results, ascending, and the rate of whole calls with such results, in any unit. At least one point.
    pub rates: Vec<(usize, f64)>,
}

impl Curve {
    /// The rate for results of `size` bytes: that of the points around it, by distance.
    fn rate(&self, size: usize) -> f64 {
        let above = self.rates.partition_point(|(at, _)| *at < size);
        match (
            above.checked_sub(1).map(|below| self.rates[below]),
            self.rates.get(above),
        ) {
            (Some((from, low)), Some(&(to, high))) => {
                low + (high - low) * (size - from) as f64 / (to - from) as f64
            }
            (Some((_, rate)), None) | (None, Some(&(_, rate))) => rate,
            (None, None) => 0.0,
        }
    }
}

/// What is best.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Objective {
    /// The most calls per second for the mix of sizes: the inverse of the mean time per call.
    #[default]
    Exact,
    /// The paper's: the sum of the rates of all samples, where a result that does not fit halves the rate of the
    /// shortest result.
    Paper,
}

impl Objective {
    /// The value of a curve for the sizes in `bins`: higher is better. Values of one objective can be compared.
    fn value(self, curve: &Curve, bins: &[u32; BIN_COUNT]) -> f64 {
        let sizes = bins.iter().enumerate().filter(|(_, count)| **count > 0);
        let sizes = sizes.map(|(bin, count)| (bin * BIN_BYTES, f64::from(*count)));
        let total: f64 = bins.iter().map(|count| f64::from(*count)).sum();
        match self {
            Objective::Exact => total / sizes.map(|(size, count)| count / curve.rate(size)).sum::<f64>(),
            Objective::Paper => {
                let rate = curve.rate(0);
                let of = |size| {
                    if size <= curve.first_bytes {
                        rate
                    } else {
                        rate / 2.0
                    }
                };
                sizes.map(|(size, count)| count * of(size)).sum::<f64>() / total
            }
        }
    }
}

/// R and F of a curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// R.
    pub slow_reads: u32,
    /// F.
    pub first_bytes: usize,
}

/// Chooses R and F for one kind of call. It counts the sizes of results; newer ones count more.
#[derive(Clone, Debug)]
pub struct Selector {
    objective: Objective,
    curves: Vec<Curve>,
    /// Index of the curve in use.
    current: usize,
    bins: [u32; BIN_COUNT],
    count: u32,
    is_full: bool,
    not_before: Ns,
}

impl Selector {
    /// Creates a selector that begins with the first of `curves`.
    ///
    /// # Panics
    /// If there are no curves.
    pub fn new(objective: Objective, curves: Vec<Curve>) -> Selector {
        assert!(!curves.is_empty(), "a selector without curves");
        Selector {
            objective,
            curves,
            current: 0,
            bins: [0; BIN_COUNT],
            count: 0,
            is_full: false,
            not_before: Ns::ZERO,
        }
    }

    /// Notes that a result had `size` bytes.
    #[inline]
    pub fn observe(&mut self, size: usize) {
        self.bins[size.div_ceil(BIN_BYTES).min(BIN_COUNT - 1)] += 1;
        self.count += 1;
        if self.count >= 2 * SAMPLES {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        self.bins.iter_mut().for_each(|count| *count /= 2);
        self.count = self.bins.iter().sum();
        self.is_full = true;
    }

    /// R and F in use.
    pub fn current(&self) -> Choice {
        let curve = &self.curves[self.current];
        Choice {
            slow_reads: curve.slow_reads,
            first_bytes: curve.first_bytes,
        }
    }

    /// Chooses anew at `now`, if there are enough samples and the last change is long enough ago; `Some`: another choice
    /// is better by more than 3 %, and is in use from now on. Costs some microseconds; now and then is often enough.
    pub fn choose(&mut self, now: Ns) -> Option<Choice> {
        if now < self.not_before || !(self.is_full || self.count >= SAMPLES) {
            return None;
        }
        let value = |curve: &Curve| self.objective.value(curve, &self.bins);
        let here = value(&self.curves[self.current]);
        let values = self.curves.iter().map(value).enumerate();
        let (best, there) = values.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        if there <= here * GAIN {
            return None;
        }
        self.current = best;
        self.not_before = now + PAUSE;
        Some(self.current())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SIZES: [usize; 10] = [32, 64, 128, 256, 384, 512, 640, 768, 1024, 2048];

    fn curve(first_bytes: usize, rates: &[(usize, f64)]) -> Curve {
        Curve {
            slow_reads: 5,
            first_bytes,
            rates: rates.to_vec(),
        }
    }

    /// Calls with F = 256, 512 and 640, MOPS by size. *(stated in `[RFP]`, Figs 17 and 18; 384 and 768 bytes with F = 640
    /// lie between their neighbours)*
    fn calls() -> Vec<Curve> {
        let f256 = [
            (32, 5.56),
            (256, 5.56),
            (384, 3.81),
            (512, 3.77),
            (640, 3.79),
            (768, 3.72),
            (1024, 3.36),
            (2048, 1.90),
        ];
        let f512 = [
            (32, 5.49),
            (256, 5.47),
            (384, 5.45),
            (512, 5.43),
            (640, 3.80),
            (768, 3.72),
            (1024, 3.39),
            (2048, 1.90),
        ];
        let f640 = [
            (32, 5.16),
            (256, 5.16),
            (512, 5.12),
            (640, 5.10),
            (768, 3.72),
            (1024, 3.38),
            (2048, 1.90),
        ];
        vec![curve(256, &f256), curve(512, &f512), curve(640, &f640)]
    }

    /// READs alone: the rate depends on F only. *(stated in `[RFP]`, Fig 5)*
    fn reads() -> Vec<Curve> {
        let rate = curve(
            0,
            &[(32, 11.29), (128, 11.08), (256, 10.61), (512, 7.36), (1024, 3.79)],
        );
        let of = |first_bytes| curve(first_bytes, &[(0, rate.rate(first_bytes))]);
        [256, 320, 384, 448, 512, 576, 640, 768, 1024].map(of).to_vec()
    }

    fn after_sizes(objective: Objective, curves: Vec<Curve>) -> Selector {
        let mut selector = Selector::new(objective, curves);
        (0..SAMPLES as usize).for_each(|sample| selector.observe(SIZES[sample % SIZES.len()]));
        selector
    }

    /// The values of all curves for equally many results of each size.
    fn values(objective: Objective, curves: Vec<Curve>) -> Vec<f64> {
        let selector = after_sizes(objective, curves);
        let value = |curve: &Curve| objective.value(curve, &selector.bins);
        selector.curves.iter().map(value).collect()
    }

    #[test]
    fn rfp_the_papers_objective_puts_512_and_640_level() {
        let [f256, f512, f640] = values(Objective::Paper, calls())[..] else {
            panic!("three curves");
        };
        assert!((f512 / f640 - 1.0).abs() < 0.02, "{f512} and {f640}");
        assert!(f512 > f256 && f640 > f256, "{f256}");
    }

    #[test]
    fn rfp_the_exact_objective_is_the_throughput_of_the_mix() {
        let [f256, f512, f640] = values(Objective::Exact, calls())[..] else {
            panic!("three curves");
        };
        assert!((4.05..=4.10).contains(&f512), "{f512}");
        assert!((4.05..=4.10).contains(&f640), "{f640}");
        assert!(f256 < f512, "{f256}");
    }

    /// The trap: rates of READs alone make the shortest F look best.
    #[test]
    fn rfp_rates_of_reads_alone_pick_256() {
        let mut selector = after_sizes(Objective::Paper, reads());
        assert_eq!(selector.choose(Ns(0)), None, "it begins with the best");
        assert_eq!(selector.current().first_bytes, 256);
        let mut curves = reads();
        curves.rotate_left(4);
        let mut selector = after_sizes(Objective::Paper, curves);
        assert_eq!(selector.choose(Ns(0)).map(|choice| choice.first_bytes), Some(256));
    }

    #[test]
    fn f_changes_when_that_is_worth_it_and_not_too_often() {
        let mut selector = Selector::new(Objective::Exact, calls());
        for _ in 1..SAMPLES {
            selector.observe(500);
        }
        assert_eq!(selector.choose(Ns(0)), None, "too few samples");
        selector.observe(500);
        let choice = selector.choose(Ns(0));
        assert_eq!(choice.map(|choice| choice.first_bytes), Some(512));
        assert_eq!(selector.current().first_bytes, 512);
        // Results get shorter: old ones are forgotten, and 256 would be better, but by 2 % only.
        for _ in 0..20 * SAMPLES {
            selector.observe(32);
        }
        assert_eq!(selector.choose(Ns::from_s(10)), None);
        // Longer: another change, at the earliest a second after the first.
        for _ in 0..20 * SAMPLES {
            selector.observe(600);
        }
        assert_eq!(selector.choose(Ns::from_ms(999)), None);
        let choice = selector.choose(Ns::from_s(1));
        assert_eq!(choice.map(|choice| choice.first_bytes), Some(640));
    }

    #[test]
    fn results_of_any_size_are_counted() {
        let mut selector = Selector::new(Objective::Exact, calls());
        for size in [0, 1, 64, 65, usize::MAX - 64].repeat(SAMPLES as usize) {
            selector.observe(size);
        }
        assert!(selector.count < 2 * SAMPLES && selector.bins[BIN_COUNT - 1] > 0);
        let _ = selector.choose(Ns(0));
    }
}
