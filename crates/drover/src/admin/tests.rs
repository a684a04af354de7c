//! The admin port as monitors use it, and the documented list of metrics.

use super::metrics::{HostingSnapshot, Memberships, Snapshot, Sockets, render};
use super::process::Process;
use super::shards::metric_of;
use super::sockets::commands_of;
use super::{Admin, Source, strict};
use crate::auth::Failures;
use drover_kv::{
    Capacity, Counter, CounterKind, Hosting, HostingJob, HostingService, HostingSystem, ServiceStats, Sizes,
    SystemTable, WorkerStats,
};
use drover_systems::System;
use drover_verbs::DeviceCounters;
use drover_verbs_shm::{Shm, ShmDevice};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit of a test.
const WATCHDOG: Duration = Duration::from_secs(60);

struct Fixed(Result<Snapshot, String>);

impl Source for Fixed {
    fn snapshot(&self, _: Duration) -> Result<Snapshot, String> {
        self.0.clone()
    }
}

/// A running service of the first hosting system of the table.
struct Running(Box<dyn HostingService>);

impl Source for Running {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Hosting(Box::new(HostingSnapshot {
            service: self.0.stats(patience)?,
            ..full()
        })))
    }
}

#[derive(Clone, Copy)]
struct Start;

impl HostingJob for Start {
    type Answer = Running;

    fn run<S: HostingSystem>(self) -> Running {
        let sizes = Sizes {
            shard_count: 2,
            capacity: Capacity::Memory { bytes: 1 << 17 },
            value_bytes_max: 1 << 10,
            window: 16,
        };
        let plan = S::plan(&sizes).expect("a small plan");
        let (device, on_core) = (ShmDevice::default(), Box::new(|_| {}));
        let service = S::start_hosting::<Shm>(&device, &plan, Vec::new(), on_core, Hosting::default());
        Running(service.expect("it starts"))
    }
}

#[derive(Clone, Copy)]
struct Counters;

impl HostingJob for Counters {
    type Answer = &'static [Counter];

    fn run<S: HostingSystem>(self) -> &'static [Counter] {
        S::FACTS.counters
    }
}

/// The answer to `job` of the first hosting system of the table.
fn of_a_host<J: HostingJob + Copy>(job: J) -> J::Answer {
    let mut answers = System::ALL.iter().filter_map(|system| system.hosting(job).ok());
    answers.next().expect("a system hosts")
}

/// Two workers, the second with counters that are not 0.
fn full() -> HostingSnapshot {
    let counters = of_a_host(Counters);
    let value = |counter: &Counter| match counter.name {
        "get_hits" => 7,
        "get_misses" => 3,
        _ => 0,
    };
    let worker = WorkerStats {
        operations: 10,
        counters: counters.iter().map(value).collect(),
        ..WorkerStats::default()
    };
    HostingSnapshot {
        counters,
        service: ServiceStats {
            workers: vec![WorkerStats::default(), worker],
            ..ServiceStats::default()
        },
        clients_max: 9,
        sockets: Sockets {
            connections: drover_net::Counters::default(),
            operations: vec![8],
            durations: vec![drover_base::Spread::default(); 2],
            commands: vec![("get", "hit", 5), ("incr", "miss", 3)],
        },
    }
}

/// Sends a request; returns status line and body.
fn ask(addr: SocketAddr, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a socket");
    stream.write_all(request).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers and ends");
    let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    (
        head.lines().next().unwrap_or_default().to_string(),
        body.to_string(),
    )
}

fn get(addr: SocketAddr, path: &str) -> (String, String) {
    ask(addr, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}

fn with_port<T>(source: &dyn Source, test: impl FnOnce(SocketAddr) -> T) -> T {
    let (admin, stopper) = Admin::bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let addr = admin.addr().expect("its number");
    std::thread::scope(|scope| {
        let _stopped_at_the_end = stopper;
        scope.spawn(|| admin.run(source));
        test(addr)
    })
}

#[test]
fn a_server_is_scraped_and_healthy() {
    with_port(&of_a_host(Start), |addr| {
        assert_eq!(get(addr, "/healthz"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
        let (status, body) = get(addr, "/metrics?format=any");
        assert_eq!(status, "HTTP/1.1 200 OK");
        let families = strict::parse(&body).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(families["drover_up"].samples[&vec![]], 1.0);
        assert_eq!(families["drover_limit_bytes"].samples.len(), 2);
        assert!(families["process_resident_memory_bytes"].samples[&vec![]] > 0.0);
        assert_eq!(get(addr, "/").0, "HTTP/1.1 404 Not Found");
        assert_eq!(
            ask(addr, b"PUT /x HTTP/1.1\r\n\r\n").0,
            "HTTP/1.1 405 Method Not Allowed"
        );
        assert_eq!(
            ask(addr, &[b'x'; 4096]).0,
            "HTTP/1.1 431 Request Header Fields Too Large"
        );
    });
}

#[test]
fn a_server_that_hangs_is_down_and_unhealthy_but_still_scraped() {
    with_port(&Fixed(Err("no answer from worker 1".into())), |addr| {
        let (status, body) = get(addr, "/healthz");
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(body, "no answer from worker 1 within 2 s\n");
        let families = strict::parse(&get(addr, "/metrics").1).expect("the format");
        assert_eq!(families["drover_up"].samples[&vec![]], 0.0);
        assert!(
            !families.contains_key("drover_current_items"),
            "nothing is made up"
        );
    });
}

#[test]
fn monitors_that_say_nothing_make_space_for_others() {
    with_port(&Fixed(Ok(Snapshot::Hosting(Box::new(full())))), |addr| {
        let idle: Vec<TcpStream> = (0..40)
            .map(|_| TcpStream::connect(addr).expect("it listens"))
            .collect();
        assert_eq!(get(addr, "/healthz").1, "ok\n");
        drop(idle);
    });
}

#[test]
fn native_commands_and_those_of_sockets_are_one_count() {
    let families = strict::parse(&render(
        Some(&Snapshot::Hosting(Box::new(full()))),
        None,
        &Memberships::default(),
        &Process::default(),
        Failures::default(),
    ))
    .expect("the format");
    let count = |command: &str, status: &str| {
        let labels = vec![
            ("command".to_string(), command.to_string()),
            ("status".to_string(), status.to_string()),
        ];
        families["drover_commands_total"].samples[&labels]
    };
    assert_eq!(count("get", "hit"), 12.0);
    assert_eq!(count("get", "miss"), 3.0);
    assert_eq!(count("incr", "miss"), 3.0);
}

/// Rows `| name | type | labels | meaning |` of the document.
fn documented(text: &str) -> BTreeMap<String, (String, String, String)> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<String> = row
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        assert_eq!(cells.len(), 4, "{row}");
        (
            cells[0].clone(),
            (cells[1].clone(), cells[2].clone(), cells[3].clone()),
        )
    })
    .collect()
}

/// The document, and where its part about services of shards begins.
const METRICS: &str = include_str!("../../../../docs/metrics.md");
const OF_SHARDS: &str = "## Services of shards";

/// Rows `| name | type | systems | meaning |`: the counters of all systems that are served and host nobody.
fn rows_of_shards() -> BTreeSet<String> {
    let mut systems = BTreeMap::<_, Vec<&str>>::new();
    let served = System::ALL.iter().filter(|system| system.facts().offers.service);
    for system in served.filter(|system| system.hosting(Counters).is_err()) {
        let facts = system.facts();
        for counter in facts.counters {
            let kind = match counter.kind {
                CounterKind::Events => "counter",
                CounterKind::Amount => "gauge",
            };
            let row = (metric_of(counter), kind, counter.help);
            systems.entry(row).or_default().push(facts.name);
        }
    }
    let row = |((name, kind, help), systems): ((String, _, _), Vec<&str>)| {
        format!("| `{name}` | {kind} | {} | {help} |", systems.join(", "))
    };
    systems.into_iter().map(row).collect()
}

#[test]
fn the_document_lists_the_counters_of_shards() {
    let (_, text) = METRICS
        .split_once(OF_SHARDS)
        .expect("services of shards come last");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let (listed, told) = (rows.map(str::to_owned).collect::<BTreeSet<_>>(), rows_of_shards());
    let expected: Vec<&str> = told.iter().map(String::as_str).collect();
    assert!(
        listed == told,
        "docs/metrics.md should have these rows:\n{}",
        expected.join("\n")
    );
}

#[test]
fn the_document_lists_what_is_told() {
    let process = Process {
        max_fds: Some(1),
        ..Process::default()
    };
    let card = DeviceCounters {
        retries: Some(1),
        ..DeviceCounters::default()
    };
    let snapshot = Snapshot::Hosting(Box::new(full()));
    let text = render(
        Some(&snapshot),
        Some(&card),
        &Memberships::default(),
        &process,
        Failures::default(),
    );
    let told = strict::parse(&text).expect("the format");
    let told: BTreeMap<_, _> = told
        .into_iter()
        .map(|(name, family)| {
            let labels = family.labels().into_iter().collect::<Vec<_>>().join(", ");
            (name, (family.kind, labels, family.help))
        })
        .collect();
    let (text, _) = METRICS
        .split_once(OF_SHARDS)
        .expect("services of shards come last");
    let listed = documented(text);
    let rows: Vec<String> = told
        .iter()
        .map(|(name, (kind, labels, help))| format!("| `{name}` | {kind} | {labels} | {help} |"))
        .collect();
    assert!(
        told == listed,
        "docs/metrics.md should have these rows:\n{}",
        rows.join("\n")
    );
    let mut less = listed.clone();
    less.pop_first();
    assert!(told != less, "a missing row is noticed");
}

#[test]
fn commands_of_memcached_are_told_once_each() {
    let commands = commands_of(&drover_memcached::Counters {
        get_hits: 5,
        cas_badval: 7,
        ..drover_memcached::Counters::default()
    });
    assert!(commands.contains(&("get", "hit", 5)) && commands.contains(&("cas", "badval", 7)));
    let mut names: Vec<_> = commands
        .iter()
        .map(|(command, status, _)| (command, status))
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), commands.len());
}
