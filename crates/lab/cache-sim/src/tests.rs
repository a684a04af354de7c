//! Simulations of whole traces.

use crate::trace::{Trace, TraceError, ZipfSpec};
use crate::{Options, OptionsError, Policy, Rate, Report, SimError};
use proptest::prelude::*;
use std::sync::atomic::AtomicU64;

/// Simulates without a progress bar.
fn simulate(trace: Trace, options: &Options) -> Result<Report, SimError> {
    crate::simulate(trace, options, &AtomicU64::new(0))
}

/// A trace from a text.
fn trace(text: impl AsRef<[u8]>) -> Result<Trace, TraceError> {
    Trace::read(
        "trace.csv",
        Box::new(std::io::Cursor::new(text.as_ref().to_vec())),
        None,
        false,
    )
}

/// All policies with one cache that is large enough for anything here; all requests count.
fn ample() -> Options {
    Options {
        sizes: vec![1 << 20],
        warmup: 0.0,
        ..Options::default()
    }
}

fn play(text: &str, options: &Options) -> Report {
    simulate(trace(text).expect("a header"), options).expect("a result")
}

fn zipf(spec: &str, options: &Options) -> Report {
    let spec: ZipfSpec = spec.parse().expect("a specification");
    simulate(Trace::zipf(&spec), options).expect("a result")
}

/// Hit rate and byte hit rate, the same for every policy.
fn rates(report: &Report) -> (f64, f64) {
    let all: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.hit_rate, row.byte_hit_rate))
        .collect();
    assert!(all.iter().all(|rates| *rates == all[0]), "{report}");
    (all[0].0.expect("gets"), all[0].1.expect("bytes"))
}

fn rate(report: &Report, policy: Policy) -> f64 {
    let row = report.of(policy).next_back().expect("a row");
    row.hit_rate.expect("gets")
}

#[test]
fn a_get_that_misses_stores_the_item() {
    // Hits: the second and third a, the second b.
    let text = "key,size\na,100\nb,300\na,100\na,100\nb,300\nc,100\n";
    assert_eq!(rates(&play(text, &ample())), (0.5, 0.5));
    let without = Options {
        fill: false,
        ..ample()
    };
    assert_eq!(rates(&play(text, &without)), (0.0, 0.0));
}

#[test]
fn stores_and_deletes_do_what_they_say() {
    let text = "\
key,op
a,replace
a,append
a,get
a,add
a,get
a,append
a,delete
a,add
a,set
a,get
a,decr
a,get
";
    let without = Options {
        fill: false,
        ..ample()
    };
    let report = play(text, &without);
    assert_eq!((report.requests, report.rows[0].gets), (12, 4));
    assert_eq!(rates(&report), (0.75, 0.75), "only the first get misses");
    assert!(report.rows.iter().all(|row| row.items == 1), "{report}");
}

#[test]
fn items_expire_by_the_time_of_the_trace() {
    let text = "\
time,key,ttl,op
1000,a,10,get
1009,a,10,get
1010,a,10,get
1015,a,3,touch
1017,a,10,get
1018,a,0,get
5000,a,0,get
4000,a,0,get
";
    let report = play(text, &ample());
    assert_eq!(rates(&report).0, 4.0 / 7.0, "misses: 1000, 1010, 1018");
    let want = ["Requests that go back in time: 1. For them it is as late as for those before."];
    assert_eq!(report.notes, want);
    let timeless = play("key,ttl\na,1\na,1\n", &ample());
    assert_eq!(
        timeless.notes,
        ["The trace has no column `time`: nothing expires."]
    );
}

#[test]
fn a_get_without_a_time_to_live_gets_the_default() {
    let text = "0,a,1,9,1,get,0\n5,a,1,9,1,get,0\n10,a,1,9,1,get,0\n0,b,1,9,1,set,0\n99,b,1,9,1,get,0\n";
    let options = Options { ttl_s: 10, ..ample() };
    assert_eq!(rates(&play(text, &options)).0, 0.5, "misses: a at 0 and 10");
}

#[test]
fn keys_of_other_lengths_than_their_texts_stay_different() {
    let mut text = String::new();
    for key in 0..500 {
        text.push_str(&format!(
            "0,key-{key},{},100,1,get,0\n",
            [0, 3, 20, 250, 999][key % 5]
        ));
    }
    let report = play(&text.repeat(2), &ample());
    assert_eq!(rates(&report).0, 0.5);
    assert!(report.rows.iter().all(|row| row.items == 500), "{report}");
    assert!(
        report.notes[0].starts_with("Requests with keys of more than 250 bytes: 200."),
        "{report}"
    );
}

/// A cache of 64 KiB holds about 62 items of 1,016 bytes. So FIFO loses the popular key once for each 61 others that are
/// stored: 17 times. LRU never loses it; S3-FIFO may lose it once in a cache this small.
#[test]
fn a_key_in_use_outlives_a_scan_except_with_fifo() {
    let mut text = "key,size\n".to_string();
    for scanned in 0..1000 {
        text.push_str(&format!("popular,1000\nscan{scanned:04},1000\n"));
    }
    let options = Options {
        sizes: vec![64 << 10],
        warmup: 0.0,
        ..Options::default()
    };
    let report = play(&text, &options);
    let hits = |policy| (rate(&report, policy) * 2000.0).round() as u64;
    assert_eq!(hits(Policy::Lru), 999, "{report}");
    assert!((998..=999).contains(&hits(Policy::S3Fifo)), "{report}");
    assert!((981..=984).contains(&hits(Policy::Fifo)), "{report}");
    // 65,536 bytes of memory for items of 1,000 + 8 + 56 bytes; one of 7 + 1,000 + 56.
    let lru = report.row(64 << 10, Policy::Lru).expect("a row");
    assert_eq!((lru.items, lru.evicted), (61, 1001 - 61));
    for row in &report.rows {
        assert!((55..=64).contains(&row.items), "{report}");
    }
}

/// What is popular is read most: the order that published results have, too.
#[test]
fn s3fifo_is_above_lru_and_lru_above_fifo() {
    let options = Options {
        sizes: vec![4 << 20],
        ..Options::default()
    };
    let report = zipf("0.99,keys=100000,requests=400000,value=400", &options);
    let [s3fifo, lru, fifo] = Policy::ALL.map(|policy| rate(&report, policy));
    assert!(s3fifo > lru + 0.01 && lru > fifo + 0.01, "{report}");
    assert!((0.6..0.8).contains(&lru), "{report}");
    let again = zipf(
        "0.99,keys=100000,requests=400000,value=400",
        &Options { jobs: 2, ..options },
    );
    assert_eq!(again, report, "threads change nothing, and the seed is the same");
}

#[test]
fn an_eighth_of_the_keys_tells_what_all_tell() {
    let options = Options {
        sizes: vec![4 << 20, 16 << 20],
        ..Options::default()
    };
    let sampled = Options {
        sample: Rate::new(0.125),
        ..options.clone()
    };
    let spec = "0.99,keys=200000,requests=600000,value=400";
    let (all, part) = (zipf(spec, &options), zipf(spec, &sampled));
    for (row, estimate) in all.rows.iter().zip(&part.rows) {
        let difference = row.hit_rate.expect("gets") - estimate.hit_rate.expect("gets");
        assert!(difference.abs() < 0.02, "{all}\n{part}");
        let items = estimate.items as f64 / row.items as f64;
        assert!((0.9..1.1).contains(&items), "{all}\n{part}");
    }
    assert!(part.notes[0].starts_with("All sizes are estimates"), "{part}");
}

#[test]
fn sizes_above_the_memory_are_sampled() {
    let options = Options {
        sizes: vec![1 << 20, 4 << 20],
        memory_bytes: 1 << 20,
        ..Options::default()
    };
    let report = zipf("0.99,keys=20000,requests=100000,value=400", &options);
    let samples: Vec<f64> = report.of(Policy::S3Fifo).map(|row| row.sample).collect();
    assert_eq!(samples, [1.0, 0.25]);
    assert!(
        report.notes[0].starts_with("Sizes from 4 MiB on are estimates"),
        "{report}"
    );
}

#[test]
fn values_that_no_server_accepts_are_refused_and_said() {
    let report = play("key,size\na,1048577\na,99999999999999\nb,10\nb,10\n", &ample());
    assert!(
        report.rows.iter().all(|row| (row.refused, row.items) == (2, 1)),
        "{report}"
    );
    assert!(report.notes[0].starts_with("Stores refused, at most: 2. A value is longer than 1 MiB (-I)"));
    let append = "key,size,op\na,200000,set\na,400000,append\na,1,get\n";
    let report = play(append, &ample());
    assert!(
        report.rows.iter().all(|row| row.refused == 1),
        "half of the cache is less than both: {report}"
    );
    assert_eq!(rates(&report).0, 1.0);
}

#[test]
fn bad_lines_are_errors_with_their_place_or_are_counted() {
    let text = "key,size\na,1\nb,x\n\nc,1\n,1\n";
    let error = simulate(trace(text).expect("a header"), &ample()).expect_err("line 3");
    assert_eq!(
        error.to_string(),
        "trace.csv line 3: size `x`: expected a number of bytes (--skip-bad leaves such lines out)"
    );
    let input = Box::new(std::io::Cursor::new(text));
    let skipping = Trace::read("trace.csv", input, None, true).expect("a header");
    let report = simulate(skipping, &ample()).expect("a result");
    assert_eq!(report.requests, 2);
    assert_eq!(report.notes, ["Bad lines, left out: 2."]);
    let late = format!("key,time\na,0\na,{}\n", 1_700_000_000_000u64);
    let error = simulate(trace(late).expect("a header"), &ample()).expect_err("milliseconds");
    assert!(
        error
            .to_string()
            .contains("line 3: time: 1700000000000 s after the first request"),
        "{error}"
    );
}

#[test]
fn traces_that_are_none() {
    let error = |text: &[u8]| match trace(text) {
        Ok(trace) => simulate(trace, &ample()).expect_err("no result").to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(b""), "trace.csv has no requests");
    assert_eq!(error(b"key,size\n"), "trace.csv has no requests");
    assert!(error(b"a,1\n").starts_with("trace.csv line 1: expected a header that names the columns"));
    assert!(
        error(b"\x1f\x8b\x08\0").starts_with("trace.csv is compressed: decompress it, as by zcat FILE | ")
    );
    assert!(error(b"\x28\xb5\x2f\xfd").contains("zstdcat"));
    let long = format!("key\n{}\n", "k".repeat(70_000));
    assert!(error(long.as_bytes()).contains("line 2: longer than 65536 bytes"));
    assert!(error("k".repeat(70_000).as_bytes()).contains("line 1: expected a header"));
    let input = || Box::new(std::io::Cursor::new("key\n\"\n"));
    let all_bad = Trace::read("t", input(), None, true).expect("a header");
    let error = simulate(all_bad, &ample()).expect_err("no line is good");
    assert_eq!(error.to_string(), "t has no requests: all 1 lines are bad");
}

#[test]
fn first_lines_end_as_others_do() {
    for text in [
        "\u{feff}key,size\r\na,1\r\na,1\r\n",
        "5,a,1,1,1,get,0\r\n5,a,1,1,1,get,0",
    ] {
        assert_eq!(rates(&play(text, &ample())), (0.5, 0.5), "{text:?}");
    }
}

#[test]
fn options_that_make_no_sense() {
    let refused = |options: Options| match simulate(trace("key\na\n").expect("a header"), &options) {
        Err(SimError::Options(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(Options {
            sizes: vec![],
            ..ample()
        }),
        OptionsError::NoCache
    );
    assert_eq!(
        refused(Options {
            sizes: vec![1],
            ..ample()
        }),
        OptionsError::Size { bytes: 1 }
    );
    assert_eq!(
        refused(Options {
            warmup: 1.5,
            ..ample()
        }),
        OptionsError::Warmup { share: 1.5 }
    );
    let sample = Rate::new(0.01).expect("a share");
    let thin = Options {
        sample: Some(sample),
        ..ample()
    };
    assert_eq!(
        refused(thin),
        OptionsError::Sample {
            bytes: 1 << 20,
            sample
        }
    );
}

#[test]
fn the_advice_names_the_smallest_size_that_is_enough() {
    let options = Options {
        sizes: (20..=25).map(|shift| 1 << shift).collect(),
        ..Options::default()
    };
    let report = zipf("0.99,keys=20000,requests=200000,value=400", &options);
    let advice = report.advice();
    assert!(advice.starts_with("s3fifo: 8 MiB is enough: "), "{report}");
    assert!(advice.contains("% at 32 MiB). LRU has "), "{report}");
    assert!(advice.contains(" MiB on nearly nothing is evicted."), "{report}");
    let one = Options {
        sizes: vec![16 << 20],
        ..options.clone()
    };
    let advice = zipf("0.99,keys=20000,requests=200000,value=400", &one).advice();
    assert!(advice.ends_with(" hits. Nearly nothing is evicted."), "{advice}");
    let small = Options {
        sizes: vec![1 << 20, 2 << 20],
        ..options
    };
    let advice = zipf("0.99,keys=20000,requests=200000,value=400", &small).advice();
    assert!(
        advice.starts_with("s3fifo: no smaller size comes within 1 point of the largest ("),
        "{advice}"
    );
    assert!(
        advice.ends_with(" Larger caches than these would have more hits."),
        "{advice}"
    );
}

#[test]
fn the_table_and_the_columns() {
    let report = play("key\na\na\n", &ample());
    let text = report.to_string();
    assert!(
        text.starts_with("trace.csv: 2 requests; hits of 2 gets count, from request 0 on\n"),
        "{text}"
    );
    assert!(
        text.contains("     1 MiB  s3fifo      all              2    50.00 %    50.00 %"),
        "{text}"
    );
    let csv = report.csv();
    assert!(
        csv.contains("\n1048576,s3fifo,1,2,0.500000,0.500000,1,0,0\n"),
        "{csv}"
    );
    let only_sets = play("key,op\na,set\n", &ample());
    assert_eq!(only_sets.rows[0].hit_rate, None);
    assert_eq!(only_sets.advice(), "");
}

proptest! {
    /// Any bytes are requests or an error that names a line.
    #[test]
    fn any_lines_are_requests_or_errors(
        header in prop_oneof![Just("key,time,size,ttl,op\n"), Just("key\n"), Just(""), Just("1,k,1,1,1,get,0\n")],
        lines in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                "[0-9a-z,.\"\\-]{0,30}".prop_map(String::into_bytes),
                "[a-c],[0-9]{0,3},[0-9]{0,8},[0-9]{0,3},(get|set|add|delete|touch|append|incr)".prop_map(String::into_bytes),
                "[0-9]{1,3},[a-c\",]{1,4},[0-9]{1,3},[0-9]{1,7},1,(get|set|append),[0-9]".prop_map(String::into_bytes),
            ],
            0..20,
        ),
        skip_bad in any::<bool>(),
    ) {
        let text = [header.as_bytes(), &lines.join(&b'\n')].concat();
        let read = Trace::read("t", Box::new(std::io::Cursor::new(text)), None, skip_bad);
        let options = Options { sizes: vec![64 << 10], ..Options::default() };
        match read.map_err(SimError::from).and_then(|trace| simulate(trace, &options)) {
            Ok(report) => {
                prop_assert!(report.requests > 0);
                for row in &report.rows {
                    prop_assert!(row.hit_rate.is_none_or(|rate| (0.0..=1.0).contains(&rate)));
                }
                prop_assert!(!report.to_string().is_empty());
            }
            Err(error) => prop_assert!(error.to_string().starts_with("t ")),
        }
    }
}
