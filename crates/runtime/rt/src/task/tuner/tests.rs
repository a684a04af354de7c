//! The tuner against cards and loads of all kinds, without I/O.

use super::*;

/// A simulated process: requests end at `rate(limit)` per microsecond.
struct Process {
    tuner: Tuner,
    now: Ns,
    ended: f64,
    limit: u32,
    /// By how much each timer is late.
    late: fn(u32) -> Ns,
}

impl Process {
    fn new(options: TunerOptions) -> Process {
        let mut tuner = Tuner::new(options);
        let limit = tuner.advance(Ns(5), 0);
        let late = |_| Ns::ZERO;
        Process {
            tuner,
            now: Ns(5),
            ended: 0.0,
            limit,
            late,
        }
    }

    /// Runs until the end of the next epoch's samples; returns its result and the limit chosen.
    fn epoch(&mut self, rate: impl Fn(u32) -> f64) -> (Choice, Option<u32>) {
        loop {
            let wake_at = self.tuner.wake_at() + (self.late)(self.limit);
            let time = wake_at.since(self.now).0 as f64;
            self.ended += rate(self.limit) * time / 1e3;
            let samples = matches!(self.tuner.phase, Phase::Sampling(_));
            self.now = wake_at;
            self.limit = self.tuner.advance(self.now, self.ended as u64);
            if samples && self.tuner.phase == Phase::Stable {
                let choice = self.tuner.last_choice().expect("an epoch has ended");
                return (choice, self.tuner.chosen());
            }
        }
    }
}

/// A card that is best with `best` requests per thread.
fn card(best: u32) -> impl Fn(u32) -> f64 {
    move |limit| 100.0 - 5.0 * f64::from(limit.min(20).abs_diff(best))
}

#[test]
fn the_best_candidate_is_chosen() {
    for best in TunerOptions::PAPER.candidates {
        let mut process = Process::new(TunerOptions::PAPER);
        assert_eq!(process.epoch(card(best)), (Choice::Changed, Some(best)));
        assert_eq!(process.limit, best);
        assert_eq!(process.epoch(card(best)), (Choice::Kept, Some(best)));
    }
}

#[test]
fn another_candidate_must_be_better_by_two_percent() {
    let mut process = Process::new(TunerOptions::PAPER);
    process.epoch(card(8));
    let slightly = |limit| match limit {
        8 => 100.0,
        10 => 101.9,
        _ => 50.0,
    };
    assert_eq!(process.epoch(slightly), (Choice::Kept, Some(8)));
    let clearly = |limit| match limit {
        8 => 100.0,
        10 => 102.5,
        _ => 50.0,
    };
    assert_eq!(process.epoch(clearly), (Choice::Changed, Some(10)));
}

#[test]
fn without_a_limit_counts_five_percent_more() {
    let rates = |unlimited: f64| {
        move |limit| match limit {
            UNLIMITED => unlimited,
            12 => 100.0,
            _ => 50.0,
        }
    };
    let mut process = Process::new(TunerOptions::default());
    assert_eq!(process.epoch(rates(96.0)), (Choice::Changed, Some(UNLIMITED)));
    let mut process = Process::new(TunerOptions::default());
    assert_eq!(process.epoch(rates(94.0)), (Choice::Changed, Some(12)));
    let mut process = Process::new(TunerOptions::PAPER);
    assert_eq!(process.epoch(rates(900.0)), (Choice::Changed, Some(12)));
}

#[test]
fn empty_samples_are_skipped_and_an_idle_process_keeps_its_limit() {
    let mut process = Process::new(TunerOptions::PAPER);
    process.epoch(card(6));
    assert_eq!(process.epoch(|_| 0.0), (Choice::Idle, Some(6)));
    // The load stops while the best two are tried, and while the present one is.
    let pausing = |limit| if limit >= 10 { 0.0 } else { card(12)(limit) };
    assert_eq!(process.epoch(pausing), (Choice::Changed, Some(8)));
    let without_present = |limit| if limit == 8 { 0.0 } else { card(12)(limit) };
    assert_eq!(process.epoch(without_present), (Choice::Kept, Some(8)));
}

#[test]
fn nothing_is_held_up_when_load_is_the_limit() {
    let load = |limit: u32| 20.0 + f64::from(limit.min(12)) * 0.02;
    let mut process = Process::new(TunerOptions::PAPER);
    process.epoch(card(4));
    assert_eq!(process.epoch(load), (Choice::LoadBound, Some(12)));
    let mut process = Process::new(TunerOptions::default());
    assert_eq!(process.epoch(load), (Choice::LoadBound, Some(UNLIMITED)));
}

#[test]
fn late_timers_are_corrected() {
    // The worst candidate's timer is late by a multiple of its sample: it has counted most.
    let mut process = Process::new(TunerOptions::PAPER);
    process.late = |limit| if limit == 4 { Ns::from_ms(40) } else { Ns::ZERO };
    assert_eq!(process.epoch(card(10)), (Choice::Changed, Some(10)));
}

#[test]
fn an_epoch_takes_the_time_that_the_options_say() {
    let mut process = Process::new(TunerOptions::PAPER.faster(1000));
    let start = process.now;
    process.epoch(card(4));
    assert_eq!(process.now - start, Ns::from_us(40));
    process.epoch(card(4));
    assert_eq!(process.now - start, Ns::from_us(40 + 480 + 40));
}
