//! `drover bench`: a quick run with checks of its report, and an ordinary one that keeps its result file.

use crate::command::{self, cargo, root, target_dir};
use crate::counts::Counts;
use crate::steps::Steps;
use serde_json::Value;
use std::process::Command;

/// Arguments of the README's first command, shortened, with bounds and rivals.
const SMOKE: &str = "bench --keys 100000 --seconds 0.3 --repeats 1 --bound --vs memcached,redis --json -";
/// One sample of everything covered by the performance promises.
const ORDINARY: &str = "run --release --quiet -- bench --system herd --fabric shm --mix b --dist zipf --keys 1000000 \
                        --key-size 16 --value-size 32 --window 16 --server-cores 1 --client-cores 1 --seconds 3 \
                        --repeats 5 --bound --json";
/// Report fields that other programs rely on.
const FIELDS: &[&str] = &[
    "/system",
    "/fabric",
    "/throughput_ops",
    "/hit_rate",
    "/latency_us/mean",
    "/latency_us/p50",
    "/latency_us/p95",
    "/latency_us/p99",
    "/latency_us/p999",
    "/samples/0/throughput_ops",
    "/bound/ring_ops",
    "/bound/dram_pair_ops",
    "/bound/ring_rtt_ns",
    "/bound/dram_pair_ns",
    "/rivals",
    "/commit",
    "/seed",
    "/machine/name",
];
/// Fields of each rival.
const RIVAL_FIELDS: &[&str] = &["/name", "/mode", "/throughput_ops", "/latency_us/p50"];

/// A bench with its own server: it measures, finds every key, and reports all promised fields.
pub fn smoke(steps: &mut Steps) {
    steps.run("bench smoke", || {
        command::build_drover()?;
        let mut bench = Command::new(command::drover_path());
        bench.args(words(SMOKE)).current_dir(root());
        let text = command::output(bench.arg("--results").arg(target_dir("bench-results")))?;
        let report: Value = serde_json::from_str(&text).map_err(|e| format!("{e} in {text}"))?;
        match complaint(&report) {
            None => Ok(Counts::ONE),
            Some(why) => Err(format!("{why} in {text}")),
        }
    });
}

/// One ordinary run that keeps its result file.
pub fn run(steps: &mut Steps) {
    steps.run("bench", || {
        let folder = root().join("results");
        std::fs::create_dir_all(&folder).map_err(|e| format!("results/: {e}"))?;
        command::run(cargo(&words(ORDINARY)).arg(folder.join("xtask-bench.json")))
    });
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The problem with a report, if there is one.
fn complaint(report: &Value) -> Option<String> {
    if let Some(field) = FIELDS.iter().find(|field| is_missing(report, field)) {
        return Some(format!("{field} is missing"));
    }
    let rivals = report["rivals"].as_array()?;
    for rival in rivals {
        if let Some(field) = RIVAL_FIELDS.iter().find(|field| is_missing(rival, field)) {
            return Some(format!("{field} of a rival is missing"));
        }
    }
    let number = |name: &str| report[name].as_f64().unwrap_or(0.0);
    if number("throughput_ops") <= 0.0 {
        return Some("no throughput".to_string());
    }
    (number("hit_rate") < 0.99).then(|| "keys were not found".to_string())
}

fn is_missing(value: &Value, field: &str) -> bool {
    value.pointer(field).is_none_or(Value::is_null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({
            "system": "herd", "fabric": "shm", "throughput_ops": 1.0, "hit_rate": 1.0,
            "latency_us": {"mean": 1, "p50": 1, "p95": 1, "p99": 1, "p999": 1},
            "samples": [{"throughput_ops": 1.0}],
            "bound": {"ring_ops": 1, "dram_pair_ops": 1, "ring_rtt_ns": 1, "dram_pair_ns": 1},
            "rivals": [{"name": "redis", "mode": "x", "throughput_ops": 1, "latency_us": {"p50": 1}}],
            "commit": "x", "seed": 1, "machine": {"name": "x"},
        })
    }

    #[test]
    fn a_whole_report_is_fine_and_every_lack_is_noticed() {
        assert_eq!(complaint(&report()), None);
        for field in FIELDS {
            let mut cut = report();
            *cut.pointer_mut(field).expect("the report is whole") = Value::Null;
            assert!(complaint(&cut).is_some_and(|why| why.contains(field)));
        }
        let mut cut = report();
        cut["rivals"][0]["mode"] = Value::Null;
        assert!(complaint(&cut).is_some_and(|why| why.contains("rival")));
        let mut misses = report();
        misses["hit_rate"] = json!(0.5);
        assert!(complaint(&misses).is_some());
    }
}
