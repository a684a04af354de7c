//! Services of one-sided systems as users meet them: one address for all shards, the same commands, clear refusals.

use crate::common::{Serving, drover, folder};
use drover_base::{Cpu, Ns};
use drover_client::{CallError, Client, Refusal};
use drover_control::{ControlAddr, Dial, kind};
use drover_mem::NativeCpu;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SYSTEMS: [&str; 2] = ["pilaf", "farm"];

fn start(name: &str, system: &str, args: &[&str]) -> Serving {
    Serving::start(
        &format!("{system}-{name}"),
        &[&["--system", system], args].concat(),
    )
}

#[test]
fn the_same_commands_find_the_same_items_in_all_shards() {
    for system in SYSTEMS {
        let server = start("basics", system, &["-t", "3"]);
        assert_eq!(
            server.ask(&["get", "greeting"]),
            (1, String::new(), "drover: no key greeting\n".into())
        );
        for key in 0..12 {
            let (key, value) = (format!("key{key}"), format!("value{key}"));
            assert_eq!(
                server.ask(&["set", &key, &value]),
                (0, String::new(), String::new()),
                "{key}"
            );
        }
        for key in 0..12 {
            let value = format!("value{key}");
            assert_eq!(
                server.ask(&["get", &format!("key{key}")]),
                (0, value, String::new())
            );
        }
        assert_eq!(server.ask(&["delete", "key3"]).0, 0);
        assert_eq!(server.ask(&["delete", "key3"]).0, 1);
        assert_eq!(server.ask(&["get", "key3"]).0, 1);
        let (status, text, error) = server.ask(&["stats"]);
        assert_eq!((status, error.as_str()), (0, ""));
        let value = |name: &str| -> u64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.and_then(|value| value.parse().ok())
                .unwrap_or_else(|| panic!("{name} in\n{text}"))
        };
        assert!(text.starts_with(&format!("system {system}\n")), "{text}");
        assert_eq!((value("shards"), value("items")), (3, 11));
        assert_eq!((value("puts"), value("deletes")), (12, 2));
        if system == "pilaf" {
            assert!(value("bytes") > 11 * 4, "{text}");
        }
        let shards: Vec<u64> = (0..3).map(|n| value(&format!("shard{n}_items"))).collect();
        assert_eq!(shards.iter().sum::<u64>(), 11);
        assert!(
            shards.iter().all(|items| *items < 11),
            "keys go to more than one: {shards:?}"
        );
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn values_from_none_to_the_largest_and_a_longer_one() {
    for system in SYSTEMS {
        let server = start("values", system, &["-I", "100k"]);
        for bytes in [0, 1, 900, 1100, 100 << 10] {
            let value = "v".repeat(bytes);
            assert_eq!(server.ask_with(&["set", "key"], &value).0, 0, "{bytes} bytes");
            assert_eq!(
                server.ask(&["get", "key", "--raw"]),
                (0, value, String::new()),
                "{bytes} bytes"
            );
        }
        let key = "k".repeat(250);
        let (status, _, error) = server.ask_with(&["set", &key], &"v".repeat((100 << 10) + 300));
        assert_eq!(status, 2);
        assert!(
            error.starts_with("drover: value of 102,700 B; this server takes 102,")
                && error.ends_with(": serve -I\n"),
            "{error}"
        );
        let bad_key = "drover: a key has 1 to 250 bytes; this one has 251\n";
        assert_eq!(
            server.ask(&["get", &"k".repeat(251)]),
            (2, String::new(), bad_key.into())
        );
    }
}

#[test]
fn a_store_says_full_and_a_cache_forgets() {
    for system in SYSTEMS {
        let value = "v".repeat(100 << 10);
        let fill = |server: &Serving| -> Vec<i32> {
            let set = |n| server.ask_with(&["set", &format!("key{n}")], &value);
            (0..12).map(|n| set(n).0).collect()
        };
        let store = start("store", system, &["-m", "1", "-M", "-I", "200k"]);
        let said = fill(&store);
        assert!(said.contains(&2) && said[0] == 0, "{said:?}");
        let (_, _, error) = store.ask_with(&["set", "another"], &value);
        let full = "drover: the store is full: the server needs more memory (-m), or must be allowed to evict (no -M)\n";
        assert_eq!(error, full);
        let (_, text, _) = store.ask(&["stats"]);
        assert!(
            text.contains("\nrefused_memory_full_remedy more memory (-m), or eviction (no -M)\n"),
            "{text}"
        );
        let cache = start("cache", system, &["-m", "1", "-I", "200k"]);
        assert_eq!(fill(&cache), [0; 12]);
        let (_, text, _) = cache.ask(&["stats"]);
        assert!(
            !text.contains("\nevictions 0\n") && text.contains("\nputs 12\n"),
            "{text}"
        );
        assert_eq!(cache.ask(&["get", "key0"]).0, 1);
        assert_eq!(cache.ask(&["get", "key11"]).0, 0);
    }
}

/// PUTs `keys`, each as its own value; the first refusal, and how many are stored.
fn put_until_refused(client: &mut Client, keys: Range<u32>) -> (Option<Refusal>, u32) {
    for key in keys.clone() {
        match client.put(&key.to_be_bytes(), &key.to_be_bytes(), 0) {
            Ok(()) => {}
            Err(CallError::Refused(refusal)) => return (Some(refusal), key - keys.start),
            Err(error) => panic!("key {key}: {error}"),
        }
    }
    (None, keys.len() as u32)
}

/// Looks at all of `keys`, which are there.
fn read_all(client: &mut Client, keys: Range<u32>) {
    for key in keys {
        let value = client.get(&key.to_be_bytes()).expect("an answer");
        assert_eq!(value, Some(key.to_be_bytes().to_vec()), "key {key}");
    }
}

/// The number `name` of `drover stats`.
fn stat(server: &Serving, name: &str) -> u64 {
    let (_, text, error) = server.ask(&["stats"]);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{name} in\n{text}{error}"))
}

/// The table of a megabyte begins with 1024 places and would be as large as planned with 8192. Items of so few bytes need
/// more places than that, and get them from the memory for records.
#[test]
fn a_table_of_pilaf_grows_while_clients_read() {
    let args = ["-m", "1", "-M", "-I", "1k", "--metrics-listen", "127.0.0.1:0"];
    let server = start("growth", "pilaf", &args);
    assert!(
        server.said.contains("1024 places (up to 8192 as items arrive)"),
        "{}",
        server.said
    );
    assert_eq!((stat(&server, "places"), stat(&server, "growths")), (1024, 0));
    let mut writer = Client::connect(&server.addr).expect("a client");
    let addr = server.addr.clone();
    assert_eq!(put_until_refused(&mut writer, 0..500), (None, 500));
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let done = done.clone();
        move || {
            let mut client = Client::connect(&addr).expect("a client");
            let mut rounds = 0;
            // Relaxed: a flag that says stop.
            while !done.load(Ordering::Relaxed) || rounds == 0 {
                read_all(&mut client, 0..500);
                rounds += 1;
            }
        }
    });
    let (refusal, more) = put_until_refused(&mut writer, 500..1 << 20);
    done.store(true, Ordering::Relaxed);
    reader.join().expect("the reader finds every key at any time");
    let count = 500 + more;
    // Each has a record of 32 bytes. In 8192 places there would be fewer.
    assert!(count > 12_000, "{count} items in a megabyte, then {refusal:?}");
    read_all(&mut writer, 0..count);
    assert_eq!(stat(&server, "items"), u64::from(count));
    assert!(stat(&server, "places") > 8192 && stat(&server, "growths") >= 4);
    let text = server.metrics();
    let growths = text
        .lines()
        .find_map(|line| line.strip_prefix("drover_growths_total{shard=\"0\"} "));
    assert!(growths.is_some_and(|count| count != "0"), "{text}");
    assert_eq!(server.stop(), 0);
}

/// A table of FaRM-KV has its size from the start. What it says when that is not enough: to the client, in the log, in
/// `stats` and at the admin port.
#[test]
fn a_full_table_of_farm_says_what_to_set() {
    let server = start(
        "table",
        "farm",
        &["-m", "1", "-M", "--metrics-listen", "127.0.0.1:0"],
    );
    let mut client = Client::connect(&server.addr).expect("a client");
    let (refusal, count) = put_until_refused(&mut client, 0..1 << 20);
    assert_eq!(refusal, Some(Refusal::TableFull), "after {count} items");
    let (status, _, error) = server.ask(&["set", &count.to_string(), "value"]);
    if status != 0 {
        let said = "drover: the server's table has no place for another key: the server needs more memory (-m), or must be \
                    allowed to evict (no -M)\n";
        assert_eq!((status, error.as_str()), (2, said));
    }
    read_all(&mut client, 0..count);
    let refused = stat(&server, "refused_table_full");
    assert!(refused >= 1 && stat(&server, "refused_memory_full") == 0);
    let (_, text, _) = server.ask(&["stats"]);
    assert!(
        text.contains("\nrefused_table_full_remedy more memory (-m), or eviction (no -M)\n"),
        "{text}"
    );
    let text = server.metrics();
    let line = format!("drover_refused_table_full_total{{shard=\"0\"}} {refused}");
    assert!(text.lines().any(|has| has == line), "{line} in\n{text}");
    let (status, log) = server.stop_with_log();
    assert_eq!(status, 0);
    let said = "shard 0 refused a PUT (1 so far) because its table is full: ";
    let warning = log
        .lines()
        .find(|line| line.contains(said))
        .unwrap_or_else(|| panic!("no warning in\n{log}"));
    assert!(
        warning.ends_with("; give the server more memory (-m), or let it evict (without -M)"),
        "{warning}"
    );
}

#[test]
fn counters_are_metrics() {
    for system in SYSTEMS {
        let server = start("metrics", system, &["-t", "2", "--metrics-listen", "127.0.0.1:0"]);
        for key in ["a", "b", "c"] {
            assert_eq!(server.ask(&["set", key, "value"]).0, 0);
        }
        let text = server.metrics();
        for line in [
            "drover_up 1".to_owned(),
            format!("drover_system{{system=\"{system}\"}} 1"),
            "# TYPE drover_puts_total counter".to_owned(),
            "# TYPE drover_current_items gauge".to_owned(),
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in\n{text}");
        }
        let shards = text
            .lines()
            .filter_map(|line| line.strip_prefix("drover_puts_total{shard="));
        let puts: u64 = shards
            .filter_map(|line| line.split(' ').nth(1)?.parse::<u64>().ok())
            .sum();
        assert_eq!(puts, 3, "{text}");
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn flags_that_mean_nothing_are_refused_by_name() {
    for system in SYSTEMS {
        for (words, flag) in [
            (&["-p", "11211"][..], "--port 11211"),
            (&["-s", "/nowhere/m.sock"], "--unix-socket /nowhere/m.sock"),
            (&["-l", "127.0.0.1"], "--listen 127.0.0.1"),
            (&["-C"], "--disable-cas true"),
            (&["-o", "idle_timeout=7"], "-o"),
            (&["-e", "/nowhere/items"], "-e /nowhere/items (--memory-file)"),
            (&["--window-max", "8"], "--window-max 8"),
        ] {
            let (status, _, error) = drover(&[&["serve", "--system", system][..], words].concat(), "");
            let said = format!("drover: {flag}: does not apply to --system {system}: ");
            assert!(status == 64 && error.starts_with(&said), "{words:?}: {error}");
        }
        let (_, _, error) = drover(
            &["serve", "--system", system, "--memory-file", "/nowhere/items"],
            "",
        );
        let said = format!(
            "drover: -e /nowhere/items (--memory-file): does not apply to --system {system}: its items do not outlive the \
             process; --system herd keeps items in a file (command line)\n"
        );
        assert_eq!(error, said);
        let (status, shown, _) = drover(&["config", "--system", system, "-p", "0"], "");
        assert!(status == 0 && shown.contains(system), "{shown}");
    }
    let (status, _, error) = drover(&["serve", "--system", "redis"], "");
    assert_eq!(status, 64);
    assert!(
        error.starts_with("drover: --system redis: expected herd or "),
        "{error}"
    );
    let (status, _, error) = drover(
        &[
            "serve", "--system", "pilaf", "-m", "1", "-t", "8", "--cores", "none",
        ],
        "",
    );
    assert_eq!(
        (status, error.as_str()),
        (64, "drover: -m 1: too little for 8 shards\n")
    );
}

#[test]
fn an_address_in_use_a_dead_one_and_a_server_that_was_killed() {
    for system in SYSTEMS {
        let server = start("addresses", system, &[]);
        let (status, _, error) = drover(
            &["serve", "--system", system, "--fabric", &server.addr, "-t", "1"],
            "",
        );
        assert_eq!(status, 69, "{error}");
        assert!(error.contains("address in use"), "{error}");
        assert_eq!(server.ask(&["set", "a", "1"]).0, 0);
        let addr = server.addr.clone();
        server.kill();
        let (status, _, error) = drover(&["get", "a", "--server", &addr], "");
        assert!(status == 2 && error.contains("died"), "{error}");
        let again = Serving::start_at(&addr, &["--system", system]);
        assert_eq!(again.ask(&["get", "a"]).0, 1, "nothing outlives the process");
        assert_eq!(again.stop(), 0);
        assert_eq!(drover(&["get", "a", "--server", &addr], "").0, 2);
    }
}

#[test]
fn further_ways_lead_to_the_same_items() {
    let socket = folder("further").join("further.sock");
    let further = format!("unix:{}", socket.display());
    let server = start("ways", "pilaf", &["--control-listen", &further]);
    assert_eq!(server.ask(&["set", "a", "1"]).0, 0);
    assert_eq!(
        drover(&["get", "a", "--server", &further], ""),
        (0, "1".into(), String::new())
    );
}

#[test]
fn clients_beyond_the_limit_and_who_wants_no_shard_are_turned_away() {
    let server = start("limit", "pilaf", &["-c", "1"]);
    let addr: ControlAddr = server.addr.parse().expect("an address");
    let mut first = Dial::to_shard(addr.clone(), 0).attempt().expect("it listens");
    for looks in 0.. {
        assert!(looks < 1000, "the shard never has its client");
        if server.ask(&["stats"]).1.contains("\nclients 1\n") {
            break;
        }
    }
    let (status, _, error) = server.ask(&["get", "a", "--timeout-ms", "50"]);
    assert!(
        status == 2 && error.contains("has 1 clients, its limit (-c)"),
        "{error}"
    );
    let cpu = NativeCpu::new(0);
    assert!(first.recv(cpu.refresh()).is_ok(), "who was first stays");

    for (message, reason) in [
        (5u16, "there is no shard 5: there are 1"),
        (u16::MAX, "there is no shard 65535"),
    ] {
        let mut stream = Dial::to_shard(addr.clone(), message)
            .attempt()
            .expect("it listens");
        let error = stream.recv_until(&cpu, cpu.refresh() + Ns::from_s(10));
        let error = error.expect_err("a refusal").to_string();
        assert!(error.contains(reason), "{error}");
    }
    // A client of another system.
    let mut stream = Dial::to(addr).attempt().expect("it listens");
    stream.send(kind::APPLICATION + 1, b"hello", &[]).expect("space");
    let error = stream.recv_until(&cpu, cpu.refresh() + Ns::from_s(10));
    let error = error.expect_err("a refusal").to_string();
    assert!(error.contains("this is a service of pilaf"), "{error}");
}

fn bench(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command.arg("bench").args(words.split_whitespace());
    command.output().expect("drover runs")
}

fn json_of(output: &Output) -> (serde_json::Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let object = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    (object, said)
}

#[test]
fn a_bench_finds_every_key_and_counts_what_a_get_reads() {
    for system in SYSTEMS {
        let words = format!(
            "--system {system} --keys 6144 --mix c --churn 10 --seconds 0.05 --warm-up 0 --repeats 1 --no-results --json -"
        );
        let (report, table) = json_of(&bench(&words));
        assert_eq!(report["system"], *system);
        assert!(
            report["hit_rate"].as_f64().is_some_and(|rate| rate == 1.0),
            "{table}"
        );
        let per_get = &report["reads_per_get"];
        assert!(
            per_get["probes"].as_f64().is_some_and(|probes| probes >= 1.0),
            "{table}"
        );
        assert!(
            per_get["computed_probes"]
                .as_f64()
                .is_some_and(|probes| probes > 1.0),
            "{table}"
        );
        assert_eq!(report["table"]["load"], 0.75);
        let off = |line: &serde_json::Value| {
            let figure = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name}: {table}"));
            figure("probes") / figure("computed_probes") - 1.0
        };
        let churned = &report["churned"];
        assert_eq!(churned["turnovers"], 10, "{table}");
        for line in [per_get, &churned["reads_per_get"]] {
            assert!(off(line).abs() < 0.03, "{table}");
        }
        assert!(
            table.contains("after all keys were replaced 10 times: "),
            "{table}"
        );
        assert!(table.contains("(computed for a load of 0.75: "), "{table}");
        assert!(
            table.contains("processor time of the server per operation"),
            "{table}"
        );
    }
}

#[test]
fn keys_are_replaced_only_where_that_tells_something() {
    for (words, reason) in [
        ("--system herd --churn 1", "herd's GETs make none"),
        (
            "--system farm --churn 1 --mix d",
            "constant, but mix d inserts keys",
        ),
        ("--system farm --churn 101", "--churn: 0 to 100"),
        (
            "--system farm --churn 9 --keys 4000 --key-size 3",
            "no 40000 different keys of 3 bytes",
        ),
    ] {
        let output = bench(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{words}: {said}");
        assert!(said.contains(reason), "{words}: {said}");
    }
}

#[test]
fn client_processes_count_reads_too() {
    let words = "--system pilaf --keys 3000 --mix c --churn 2 --seconds 0.02 --warm-up 0 --repeats 1 --no-results --json - \
                 --processes 2 --spin-us 20";
    let (report, table) = json_of(&bench(words));
    assert_eq!(report["workload"]["processes"], 2);
    assert!(
        report["reads_per_get"]["reads"]
            .as_f64()
            .is_some_and(|reads| reads >= 2.0),
        "{table}"
    );
    // All of them know the new keys: nothing was missed.
    assert!(
        report["churned"]["reads_per_get"]["reads"]
            .as_f64()
            .is_some_and(|reads| reads >= 2.0),
        "{table}"
    );
}

#[test]
fn all_systems_by_turns_at_each_size_and_which_won() {
    let directory = folder("turns");
    let words = "--system auto --keys 3000 --value-size 32,3000 --seconds 0.02 --warm-up 0 --repeats 2 --json - --results";
    let (turns, table) = json_of(&bench(&format!("{words} {}", directory.display())));
    let sizes = turns["sizes"].as_array().expect("sizes");
    assert_eq!(sizes.len(), 2);
    let count = drover_systems::System::ALL.len();
    for size in sizes {
        let reports = size["reports"].as_array().expect("reports");
        assert_eq!(reports.len(), count);
        for report in reports {
            assert_eq!(report["samples"].as_array().map(Vec::len), Some(2));
            assert!(
                report["hit_rate"].as_f64().is_some_and(|rate| rate > 0.99),
                "{table}"
            );
            // The first size's cores are everybody's: no run leaves the next one fewer.
            let cores = |report: &serde_json::Value| report["workload"]["server_cores"].clone();
            assert!(cores(report).is_array(), "{table}");
            assert_eq!(cores(report), cores(&sizes[0]["reports"][0]), "{table}");
            let winner = size["winner"].as_str().expect("a winner");
            assert!(table.contains(winner), "{table}");
        }
    }
    assert!(
        table.contains("3000") && table.contains("pilaf") && table.contains("herd"),
        "{table}"
    );
    let files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .expect("results")
        .flatten()
        .flat_map(|machine| {
            std::fs::read_dir(machine.path())
                .expect("of this machine")
                .flatten()
        })
        .map(|entry| entry.path())
        .collect();
    assert_eq!(
        files.len(),
        2 * 2 * count,
        "a report and latencies of each: {files:?}"
    );
}

#[test]
fn listed_systems_are_compared_with_the_first() {
    let words =
        "--compare farm,pilaf --keys 2000 --seconds 0.02 --warm-up 0 --repeats 2 --no-results --json -";
    let (turns, table) = json_of(&bench(words));
    let size = &turns["sizes"][0];
    let names: Vec<_> = (0..2).map(|i| &size["reports"][i]["system"]).collect();
    assert_eq!(names, ["farm", "pilaf"]);
    assert_eq!(size["of_first"][0], serde_json::json!([1.0, 1.0, 1.0]));
    assert!(size["of_first"][1][0].as_f64().is_some_and(|ratio| ratio > 0.0));
    assert!(table.contains("1.00 of farm (1.00 to 1.00)"), "{table}");
}

#[test]
fn a_bench_asks_the_server_which_system_it_is() {
    let server = start("bench", "pilaf", &[]);
    let words = format!(
        "--address {} --keys 2000 --seconds 0.02 --warm-up 0 --repeats 1 --no-results --json -",
        server.addr
    );
    let (report, _) = json_of(&bench(&words));
    assert_eq!(report["system"], "pilaf");
    for (words, reason) in [
        (format!("--address {} --system herd", server.addr), "speaks pilaf"),
        (
            format!("--address {} --system auto", server.addr),
            "--address is for one system at a time",
        ),
        ("--value-size 32,64".to_owned(), "--system auto"),
        ("--system auto --bound".to_owned(), "--bound is for one system"),
        ("--compare herd,nosuch".to_owned(), "expected some of herd,"),
        ("--compare herd,herd".to_owned(), "lists herd twice"),
    ] {
        let output = bench(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{words}: {said}");
        assert!(said.contains(reason), "{words}: {said}");
    }
}
