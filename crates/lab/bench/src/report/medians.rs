//! Medians over the samples of a run.

use super::{ModeRatio, RivalResult, Sample};
use crate::bound::Bound;
use crate::latency::LatencyUs;
use crate::rivals::Kind;

/// The median; for an even number the mean of the two middle values; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (n, half) if n % 2 == 0 => (sorted[half - 1] + sorted[half]) / 2.0,
        (_, half) => sorted[half],
    }
}

pub(super) fn range(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    [least.min(most), most]
}

pub(super) fn median_latency(all: impl Iterator<Item = LatencyUs>) -> LatencyUs {
    let all: Vec<LatencyUs> = all.collect();
    let of = |get: fn(&LatencyUs) -> f64| median(&all.iter().map(get).collect::<Vec<_>>());
    LatencyUs {
        mean: of(|l| l.mean),
        p50: of(|l| l.p50),
        p95: of(|l| l.p95),
        p99: of(|l| l.p99),
        p999: of(|l| l.p999),
    }
}

pub(super) fn median_bound(samples: &[&Sample]) -> Option<Bound> {
    let all: Vec<Bound> = samples.iter().filter_map(|s| s.bound).collect();
    let of = |get: fn(&Bound) -> f64| median(&all.iter().map(get).collect::<Vec<_>>());
    (!all.is_empty()).then(|| Bound {
        ring_ops: of(|b| b.ring_ops),
        reply_ring_ops: of(|b| b.reply_ring_ops),
        reply_bytes: all[0].reply_bytes,
        dram_pair_ops: of(|b| b.dram_pair_ops),
        ring_rtt_ns: of(|b| b.ring_rtt_ns),
        dram_pair_ns: of(|b| b.dram_pair_ns),
        socket_rtt_us: of(|b| b.socket_rtt_us),
    })
}

impl RivalResult {
    pub(super) fn is_foreign(&self) -> bool {
        Kind::named(&self.name).is_none_or(Kind::is_foreign)
    }
}

pub(super) fn mode_ratios(samples: &[&Sample]) -> Vec<ModeRatio> {
    let ours = samples.first().into_iter().flat_map(|s| &s.rivals);
    let modes = ours.filter(|r| !r.is_foreign()).map(|r| r.mode.clone());
    let three = |all: &[f64]| {
        let [least, most] = range(all);
        [median(all), least, most]
    };
    let of = |mode: String| {
        let (mut throughput, mut p99) = (Vec::new(), Vec::new());
        for sample in samples {
            let (theirs, ours): (Vec<_>, Vec<_>) = sample
                .rivals
                .iter()
                .filter(|r| r.mode == mode)
                .partition(|r| r.is_foreign());
            let best = theirs.iter().map(|r| r.throughput_ops).fold(0.0, f64::max);
            let least = theirs
                .iter()
                .map(|r| r.latency_us.p99)
                .fold(f64::INFINITY, f64::min);
            throughput.extend(ours.first().map(|r| r.throughput_ops / best));
            p99.extend(ours.first().map(|r| r.latency_us.p99 / least));
        }
        ModeRatio {
            mode,
            throughput: three(&throughput),
            p99: three(&p99),
        }
    };
    let against_others = samples
        .iter()
        .flat_map(|s| &s.rivals)
        .any(RivalResult::is_foreign);
    modes.filter(|_| against_others).map(of).collect()
}

pub(super) fn median_rivals(samples: &[&Sample]) -> Vec<RivalResult> {
    let Some(first) = samples.first() else {
        return Vec::new();
    };
    let same = |a: &RivalResult, b: &RivalResult| (&a.name, &a.mode) == (&b.name, &b.mode);
    let of = |rival: &RivalResult| {
        let all: Vec<&RivalResult> = samples
            .iter()
            .flat_map(|s| &s.rivals)
            .filter(|r| same(r, rival))
            .collect();
        RivalResult {
            name: rival.name.clone(),
            mode: rival.mode.clone(),
            throughput_ops: median(&all.iter().map(|r| r.throughput_ops).collect::<Vec<_>>()),
            hit_rate: median(&all.iter().map(|r| r.hit_rate).collect::<Vec<_>>()),
            latency_us: median_latency(all.iter().map(|r| r.latency_us)),
            server_ns: median_pair(all.iter().filter_map(|r| r.server_ns)),
        }
    };
    first.rivals.iter().map(of).collect()
}

pub(super) fn median_pair(known: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    let known: Vec<[f64; 2]> = known.collect();
    let of = |nth: usize| median(&known.iter().map(|ns| ns[nth]).collect::<Vec<_>>());
    (!known.is_empty()).then(|| [of(0), of(1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
    }
}
