//! Selection of the samples that count: virtual cores move, and share real cores with others.

use crate::bound::Placement;
use crate::report::{Report, Sample};

/// A core below this fraction of the highest speed in the run shares its real core *(our choice: cores with busy
/// siblings are at 0.6 to 0.9)*.
const FULL_SPEED: f64 = 0.9;

impl Sample {
    /// Lowest of the speeds of the two cores before and after the throughput run, as a fraction of the speed at which
    /// the same work takes `quickest_ns`: 0.5 is half as fast. `None` if it was not measured or `quickest_ns` is 0.
    pub fn core_speed(&self, quickest_ns: f64) -> Option<f64> {
        let slowest = self
            .cores
            .core_ns?
            .as_flattened()
            .iter()
            .copied()
            .fold(0.0, f64::max);
        (quickest_ns > 0.0 && slowest > 0.0).then(|| quickest_ns / slowest)
    }
}

impl Report {
    /// Takes note of a measurement of cores: `core_ns` are the nanoseconds of the same work on each. Returns whether
    /// all of them are at full speed, that is at 0.9 or more of the highest speed in the run up to and including now.
    pub fn note_core_speed(&mut self, core_ns: &[f64]) -> bool {
        let known = self.counted.quickest_core_ns.unwrap_or(f64::INFINITY);
        let quickest = core_ns.iter().copied().fold(known, f64::min);
        self.counted.quickest_core_ns = Some(quickest);
        core_ns.iter().all(|&ns| quickest / ns >= FULL_SPEED)
    }

    /// Number of samples so far that have the requested placement and speed; all samples if nothing was requested. A
    /// sample without a measured speed passes as full speed.
    pub fn wanted_count(&self) -> usize {
        let wanted = |s: &&Sample| {
            self.counted.wanted_placement.is_none() || s.cores.placement == self.counted.wanted_placement
        };
        let all = self.samples.iter().filter(wanted);
        all.filter(|s| self.is_quick_enough(s)).count()
    }

    /// Whether the cores were fast enough for the sample to count.
    fn is_quick_enough(&self, sample: &Sample) -> bool {
        let quickest = self.counted.quickest_core_ns.unwrap_or(0.0);
        !self.counted.wants_full_speed
            || sample
                .core_speed(quickest)
                .is_none_or(|speed| speed >= FULL_SPEED)
    }

    /// Whether `sample` counts, that is, enters the report's medians and ratios: its placement is
    /// [`Counted::placement`](crate::report::Counted::placement), which [`summarize`](Report::summarize) sets, and its
    /// cores were at full speed if that was requested. If no sample in that placement was at full speed, all samples in
    /// it count.
    pub fn counts(&self, sample: &Sample) -> bool {
        let in_place = |s: &Sample| s.cores.placement == self.counted.placement;
        let any_quick = || {
            self.samples
                .iter()
                .any(|s| in_place(s) && self.is_quick_enough(s))
        };
        in_place(sample) && (self.is_quick_enough(sample) || !any_quick())
    }

    /// What a reader should know of the distance between the cores, which virtual machines change; `None` if the samples
    /// had the placement that was requested, or the machine's cores are its own and stayed where they were.
    pub fn placement_note(&self) -> Option<String> {
        if self.counted.wanted_placement.is_some() {
            return None;
        }
        let counted = self.counted_placement()?;
        let others = self
            .samples
            .iter()
            .filter(|sample| sample.cores.placement != Some(counted));
        let others = others.count();
        // Cores that share a cache are what a measurement of a server is mostly about.
        let wanted = match counted {
            Placement::Smt => Placement::Smt,
            _ => Placement::Near,
        };
        let advice = format!(
            "virtual cores move; --placement {wanted}, with one system, waits until they are {wanted}"
        );
        match (others, self.run.machine.hypervisor) {
            (0, _) if counted == Placement::Moved => {
                Some(format!("the cores moved during every sample: {advice}"))
            }
            (0, false) => None,
            (0, true) => Some(format!(
                "all samples were {counted}; `drover doctor` or another run may find these cores elsewhere: {advice}"
            )),
            (others, _) => Some(format!(
                "{others} of {} samples were not {counted}, as most were, and do not count: {advice}",
                self.samples.len()
            )),
        }
    }

    /// Placement of the samples that count: the requested one if it occurred, else the most common one.
    pub(crate) fn counted_placement(&self) -> Option<Placement> {
        let places: Vec<Placement> = self.samples.iter().filter_map(|s| s.cores.placement).collect();
        match self.counted.wanted_placement {
            Some(wanted) if places.contains(&wanted) => Some(wanted),
            _ => Placement::most_common(&places),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Counted;
    use crate::report::tests::sample;

    fn at(core_ns: f64, ops: f64) -> Sample {
        let mut sample = sample(ops, Placement::Near);
        sample.cores.core_ns = Some([[10e3, 10e3], [10e3, core_ns]]);
        sample
    }

    #[test]
    fn samples_of_slowed_cores_count_unless_full_speed_is_asked_for() {
        let mut report = Report {
            counted: Counted {
                quickest_core_ns: Some(10e3),
                ..Counted::default()
            },
            samples: vec![at(10.5e3, 10e6), at(17e3, 6e6), at(16e3, 7e6)],
            ..Report::default()
        };
        report.summarize();
        assert_eq!(
            (report.counted.samples_counted, report.performance.throughput_ops),
            (3, 7e6)
        );
        report.counted.wants_full_speed = true;
        report.summarize();
        assert_eq!(
            (report.counted.samples_counted, report.performance.throughput_ops),
            (1, 10e6)
        );
        assert_eq!(report.wanted_count(), 1);
    }

    #[test]
    fn readers_are_told_that_virtual_cores_move() {
        let note = |samples: &[Placement], is_virtual: bool| {
            let mut report = Report {
                samples: samples.iter().map(|placement| sample(1e6, *placement)).collect(),
                ..Report::default()
            };
            report.run.machine.hypervisor = is_virtual;
            report.placement_note()
        };
        let (near, far, moved) = (Placement::Near, Placement::Far, Placement::Moved);
        assert_eq!(note(&[near, near], false), None);
        let still = note(&[far, far], true).expect("a note");
        assert!(
            still.contains("doctor") && still.contains("--placement near"),
            "{still}"
        );
        let apart = note(&[near, far, near], false).expect("a note");
        assert!(
            apart.contains("1 of 3 samples") && apart.contains("--placement near"),
            "{apart}"
        );
        let all = note(&[moved, moved], true).expect("a note");
        assert!(
            all.contains("every sample") && all.contains("--placement near"),
            "{all}"
        );
    }

    #[test]
    fn a_requested_placement_needs_no_note() {
        let report = Report {
            counted: Counted {
                wanted_placement: Some(Placement::Near),
                ..Counted::default()
            },
            samples: vec![sample(1e6, Placement::Far)],
            ..Report::default()
        };
        assert_eq!(report.placement_note(), None);
    }

    #[test]
    fn without_full_speed_all_of_the_placement_count() {
        let mut report = Report {
            counted: Counted {
                quickest_core_ns: Some(10e3),
                wants_full_speed: true,
                ..Counted::default()
            },
            samples: vec![at(17e3, 6e6), at(16e3, 7e6), sample(1e6, Placement::Far)],
            ..Report::default()
        };
        report.summarize();
        assert_eq!((report.counted.samples_counted, report.wanted_count()), (2, 1));
    }

    #[test]
    fn the_quickest_look_is_what_others_are_held_against() {
        let mut report = Report::default();
        assert!(report.note_core_speed(&[16e3, 16e3]), "the first is all we know");
        assert!(!report.note_core_speed(&[10e3, 16e3]));
        assert!(report.note_core_speed(&[10e3, 11e3]));
        assert_eq!(report.counted.quickest_core_ns, Some(10e3));
        assert_eq!(at(20e3, 1.0).core_speed(10e3), Some(0.5));
    }
}
