//! Tests of the streams.

use super::*;
use drover_base::Zipf;
use std::collections::{BTreeMap, BTreeSet};

/// The stream of this name, shortened.
fn stream(name: &str) -> Stream {
    let found = STREAMS.iter().find(|stream| stream.name == name);
    found.expect("the stream is in the table").shortened(10)
}

#[test]
fn the_same_seed_gives_the_same_requests() {
    let seed = crate::seed::fresh();
    for stream in STREAMS {
        let stream = stream.shortened(100);
        let all: Vec<Request> = stream.requests(seed).collect();
        assert_eq!(all.len() as u64, stream.request_count(), "{}", stream.name);
        assert!(
            stream.requests(seed).eq(all.iter().copied()),
            "{} seed {seed}",
            stream.name
        );
        assert!(!stream.requests(seed + 1).eq(all), "{} seed {seed}", stream.name);
    }
}

#[test]
fn keys_are_as_popular_as_zipf_says() {
    for (name, exponent) in [("zipf1.2", 1.2), ("zipf0.99", 0.99), ("zipf0.8", 0.8)] {
        let (seed, stream) = (crate::seed::fresh(), stream(name));
        let mut counts = BTreeMap::<u64, u64>::new();
        for request in stream.requests(seed) {
            *counts.entry(request.key).or_default() += 1;
        }
        let (zipf, total) = (Zipf::new(stream.key_count, exponent), stream.request_count as f64);
        for rank in 1..=10 {
            let count = counts
                .get(&stream.request(seed, rank - 1).key)
                .copied()
                .unwrap_or(0);
            let p = zipf.probability(rank);
            let sigma = (p * (1.0 - p) * total).sqrt();
            let deviation = (count as f64 - p * total) / sigma;
            assert!(
                deviation.abs() < 6.0,
                "{name} seed {seed}: rank {rank} by {deviation} sigma"
            );
        }
    }
}

#[test]
fn one_request_in_five_is_for_a_key_that_is_not_requested_again() {
    let (seed, stream) = (crate::seed::fresh(), stream("onetime"));
    let ordinary: BTreeSet<u64> = (0..stream.key_count)
        .map(|id| stream.request(seed, id).key)
        .collect();
    let others: Vec<u64> = stream
        .requests(seed)
        .map(|r| r.key)
        .filter(|key| !ordinary.contains(key))
        .collect();
    assert_eq!(others.len() as u64, stream.request_count / 5, "seed {seed}");
    assert_eq!(BTreeSet::from_iter(&others).len(), others.len(), "seed {seed}");
}

#[test]
fn a_read_back_knows_every_request() {
    for stream in STREAMS {
        let (seed, stream) = (crate::seed::fresh(), stream.shortened(100));
        let known: BTreeMap<u64, Request> = stream
            .universe(seed)
            .map(|request| (request.key, request))
            .collect();
        assert_eq!(
            known.len(),
            stream.universe(seed).count(),
            "{}: no key twice",
            stream.name
        );
        let agree = |request: Request| known.get(&request.key) == Some(&request);
        assert!(stream.requests(seed).all(agree), "{} seed {seed}", stream.name);
    }
}

#[test]
fn popularity_moves_only_in_drift() {
    let seed = crate::seed::fresh();
    let shares = |name: &str| {
        let stream = stream(name);
        let counted = |from: u64| {
            let part = stream
                .requests(seed)
                .skip(from as usize)
                .take(stream.request_count as usize / 10);
            let mut counts = BTreeMap::<u64, u64>::new();
            part.for_each(|request| *counts.entry(request.key).or_default() += 1);
            counts
        };
        let (early, late) = (counted(0), counted(stream.request_count / 10 * 9));
        // Share of the late requests for keys that were popular early.
        let popular = |count: &u64| *count >= 10;
        let asked = late.iter().filter(|(key, _)| early.get(key).is_some_and(popular));
        asked.map(|(_, count)| count).sum::<u64>() as f64 / (stream.request_count / 10) as f64
    };
    let (still, moving) = (shares("zipf0.99"), shares("drift"));
    assert!(moving < still - 0.1, "seed {seed}: {moving} and {still}");
}

#[test]
fn half_of_the_keys_expire_after_one_to_five_seconds() {
    let (seed, stream) = (crate::seed::fresh(), stream("ttl"));
    let mut counts = [0_u64; 6];
    stream
        .universe(seed)
        .for_each(|request| counts[request.ttl_s as usize] += 1);
    let share = |count: u64| count as f64 / stream.key_count as f64;
    assert!((share(counts[0]) - 0.5).abs() < 0.02, "seed {seed}: {counts:?}");
    assert!(
        counts[1..].iter().all(|count| (share(*count) - 0.1).abs() < 0.02),
        "seed {seed}: {counts:?}"
    );
}
