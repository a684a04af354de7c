//! `drover bench` as people and programs use it: its own server, the JSON object, clear refusals.

use std::path::PathBuf;
use std::process::{Command, Output};

fn bench(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.arg("bench").args(words.split_whitespace());
    command.output().expect("drover runs")
}

fn scratch(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("drover-bench-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}

#[test]
fn a_short_run_finds_every_key_and_writes_its_files() {
    let directory = scratch("run");
    let words = "--keys 2000 --seconds 0.02 --warm-up 0 --repeats 2 --bound --json - --results";
    let output = bench(&format!("{words} {}", directory.display()));
    let (out, table) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{table}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object and nothing else");
    assert!(
        report["throughput_ops"].as_f64().is_some_and(|ops| ops > 0.0),
        "{table}"
    );
    assert!(
        report["hit_rate"].as_f64().is_some_and(|rate| rate > 0.99),
        "{table}"
    );
    let puts = report["server_counters"]["puts"].as_u64();
    assert!(
        puts.is_some_and(|puts| puts > 0),
        "{:?}",
        report["server_counters"]
    );
    assert_eq!(report["samples"].as_array().map(Vec::len), Some(2));
    assert!(
        report["bound"]["ring_rtt_ns"].as_f64().is_some_and(|ns| ns > 0.0),
        "{table}"
    );
    assert!(
        table.contains("p99.9"),
        "the table goes to standard error: {table}"
    );
    let machine = report["machine"]["name"].as_str().expect("a name");
    let files = std::fs::read_dir(directory.join(machine)).expect("results of this machine");
    assert_eq!(files.count(), 2, "a report and a latency distribution");
    std::fs::remove_dir_all(&directory).expect("ours");
}

/// Two processes of two client threads each are four clients, and one report.
#[test]
fn client_processes_share_a_run() {
    let words = "--keys 2000 --seconds 0.02 --warm-up 0 --repeats 1 --no-results --json -";
    let output = bench(&format!("{words} --processes 2 --client-cores 2 --spin-us 20"));
    let (out, table) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{table}");
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object and nothing else");
    assert_eq!(report["workload"]["processes"], 2);
    assert_eq!(report["workload"]["clients"], 4);
    assert!(
        report["hit_rate"].as_f64().is_some_and(|rate| rate > 0.99),
        "{table}"
    );
    for latency in [&report["latency_us"], &report["window1"]["latency_us"]] {
        assert!(latency["p50"].as_f64().is_some_and(|us| us > 0.0), "{table}");
    }
    assert!(table.contains("4 client(s) in 2 processes"), "{table}");
}

#[test]
fn what_cannot_be_run_is_refused_with_its_reason() {
    for (words, status, reason) in [
        ("--mix e", 64, "scan"),
        ("--key-size 2 --keys 1000", 64, "no 1000 different keys"),
        ("--vs mysql", 64, "memcached, redis and drover are known"),
        ("--window 0", 64, "--window"),
        ("--ib-dev x", 64, "shm:bench-"),
        ("--address tcp://127.0.0.1:1", 64, "statistics only"),
    ] {
        let output = bench(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words}: {said}");
        assert!(said.contains(reason), "{words}: {said}");
    }
}

#[test]
fn a_killed_bench_leaves_no_server_and_no_socket() {
    let directory = scratch("killed");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.env("XDG_RUNTIME_DIR", &directory);
    command.args("bench --keys 2000 --warm-up 0 --seconds 600 --repeats 1 --no-results".split(' '));
    let mut bench = command
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("drover runs");
    let sockets = || {
        let listed = std::fs::read_dir(directory.join("drover"))
            .into_iter()
            .flatten()
            .flatten();
        listed
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "sock"))
            .count()
    };
    until("the server listens", || sockets() == 1);
    bench.kill().expect("ours");
    bench.wait().expect("ours");
    until("the server has removed its socket", || sockets() == 0);
    std::fs::remove_dir_all(&directory).expect("ours");
}

/// Waits for `done`, a minute at most.
fn until(what: &str, done: impl Fn() -> bool) {
    let cpu = drover_mem::NativeCpu::new(0);
    let deadline = drover_base::Cpu::refresh(&cpu) + drover_base::Ns::from_s(60);
    while !done() {
        assert!(drover_base::Cpu::refresh(&cpu) < deadline, "{what}: never");
        std::thread::yield_now();
    }
}
