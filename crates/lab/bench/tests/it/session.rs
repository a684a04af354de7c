//! A whole session against a toy system, with bounds and whatever rivals are installed.

use drover_base::Ns;
use drover_bench::pin::{self, Cores};
use drover_bench::rivals::{Entrant, Mode};
use drover_bench::session::{
    Clients, Comparison, Contestant, Plan, Sampling, ServerFacts, WorkloadPlan, run, run_by_turns,
};
use drover_bench::workload::{Mix, Popularity};
use drover_bench::{Helper, Pace, Progress, Reads, System, Table, TableKind, Target, TargetError};
use drover_kv::{Op, Outcome, SubmitError, Token};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

type Map = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// A map behind a mutex, shared by its clients.
#[derive(Default)]
struct Toy {
    map: Map,
    /// The client that cannot connect.
    refuses: Option<u32>,
}

enum Done {
    Stored,
    Deleted,
    Read(Option<Vec<u8>>),
}

struct ToyClient {
    map: Map,
    staged: Vec<(Token, Done)>,
}

impl System for Toy {
    type Target = ToyClient;

    fn connect(&self, client_index: u32) -> Result<ToyClient, Box<TargetError>> {
        if self.refuses == Some(client_index) {
            return Err(TargetError::new("no space for this client"));
        }
        Ok(ToyClient {
            map: self.map.clone(),
            staged: Vec::new(),
        })
    }
}

impl Target for ToyClient {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let mut map = self.map.lock().expect("no client panics");
        let done = match *op {
            Op::Put { key, value, .. } => {
                map.insert(key.to_vec(), value.to_vec());
                Done::Stored
            }
            Op::Delete { key, .. } => match map.remove(key) {
                Some(_) => Done::Deleted,
                None => Done::Read(None),
            },
            _ => Done::Read(map.get(op.key()).cloned()),
        };
        self.staged.push((token, done));
        Ok(())
    }

    fn poll(&mut self, _: bool, sink: &mut impl FnMut(Token, Outcome<'_>)) -> Result<(), Box<TargetError>> {
        for (token, done) in self.staged.drain(..) {
            match &done {
                Done::Stored => sink(token, Outcome::Stored),
                Done::Deleted => sink(token, Outcome::Deleted),
                Done::Read(Some(value)) => sink(token, Outcome::Value(value)),
                Done::Read(None) => sink(token, Outcome::NotFound),
            }
        }
        Ok(())
    }
}

fn plan() -> Plan {
    let allowed = pin::allowed_cores().expect("cores");
    Plan {
        system: "toy".to_owned(),
        fabric: "none".to_owned(),
        workload: WorkloadPlan {
            mix: Mix::parse("b").expect("a mix"),
            popularity: Popularity::Uniform,
            beside: None,
            key_count: 500,
            key_bytes: 16,
            value_bytes: [32, 32],
            seed: 7,
        },
        clients: Clients {
            window: 4,
            pace: Pace::Closed,
            processes: 1,
        },
        sampling: Sampling {
            time: Ns::from_ms(10),
            repeats: 2,
            wanted: None,
            warm_up: Ns::from_ms(1),
        },
        cores: Cores::choose(&allowed, 1, 2),
        comparison: Comparison::default(),
        load: true,
        helper: Helper {
            program: env!("CARGO_BIN_EXE_bench-lab").into(),
            arguments: vec!["helper".to_owned()],
        },
        server: ServerFacts {
            footprint: [1 << 16, 1 << 18],
            ..ServerFacts::default()
        },
        turnovers: 0,
    }
}

#[test]
fn samples_bounds_and_rivals_all_appear() {
    let mut plan = plan();
    plan.comparison.bound = true;
    plan.comparison.rivals = ["memcached", "redis"]
        .iter()
        .filter_map(|name| Entrant::named(name))
        .collect();
    let (report, latency) = run(&Toy::default(), &plan, &Progress::new(false)).expect("a session");
    assert_eq!(report.samples.len(), 2);
    assert!(
        report
            .samples
            .iter()
            .all(|s| s.throughput_ops > 0.0 && s.hit_rate == 1.0),
        "{report}"
    );
    assert!(
        report.performance.throughput_ops > 0.0 && report.performance.window1.latency_us.p50 > 0.0,
        "{report}"
    );
    assert!(latency.count() > 0);
    let bound = report.compared.bound.expect("a bound");
    assert!(
        bound.ring_ops > 0.0 && bound.dram_pair_ops > 0.0 && bound.socket_rtt_us > 0.0,
        "{bound:?}"
    );
    // All modes for each that is there, a line for each that is not.
    assert_eq!(
        report.compared.rivals.len() / Mode::ALL.len() + report.compared.rivals_missing.len(),
        2,
        "{report}"
    );
    assert!(
        report.compared.rivals.iter().all(|r| r.hit_rate == 1.0),
        "{report}"
    );
    assert!(report.compared.ratios.of_bound.is_some());
    assert_eq!(report.workload.sampling.latency_sampled_every, 32);
}

#[test]
fn other_keys_run_by_turns_and_are_compared() {
    let mut plan = plan();
    plan.workload.beside = Some(Popularity::Zipf(0.99));
    let (report, _) = run(&Toy::default(), &plan, &Progress::new(false)).expect("a session");
    assert!(
        report
            .samples
            .iter()
            .all(|s| s.beside_ops.is_some_and(|ops| ops > 0.0))
    );
    let [median, least, most] = report.performance.over_beside.expect("compared");
    assert!(least <= median && median <= most, "{report}");
    assert!(
        report.to_string().contains("uniform over zipf, interleaved: "),
        "{report}"
    );
    assert_eq!(report.workload.operations.beside.as_deref(), Some("zipf"));
}

/// A toy whose clients say that every GET took a READ of a table and one of a record.
struct Counting(Toy);

struct CountingClient {
    client: ToyClient,
    reads: Reads,
}

impl System for Counting {
    type Target = CountingClient;

    fn connect(&self, client_index: u32) -> Result<CountingClient, Box<TargetError>> {
        let (client, reads) = (self.0.connect(client_index)?, Reads::default());
        Ok(CountingClient { client, reads })
    }
}

impl Target for CountingClient {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        if let Op::Get { .. } = op {
            self.reads.add(&Reads {
                hits: 1,
                probes: 1,
                records: 1,
                ..Reads::default()
            });
        }
        self.client.submit(op, token)
    }

    fn poll(
        &mut self,
        draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>> {
        self.client.poll(draining, sink)
    }

    fn reads(&self) -> Option<Reads> {
        Some(self.reads)
    }
}

#[test]
fn systems_by_turns_are_all_measured_and_those_that_read_say_how_much() {
    let (plain, counting) = (Toy::default(), Counting(Toy::default()));
    let table = Table {
        kind: TableKind::Cuckoo,
        load: 0.75,
    };
    let mut with_table = plan();
    with_table.system = "counting".to_owned();
    with_table.server.table = Some(table);
    with_table.server.pid = Some(std::process::id());
    let plain_plan = plan();
    let pairs: [(&dyn Contestant, &Plan); 2] = [(&plain, &plain_plan), (&counting, &with_table)];
    let results = run_by_turns(&pairs, &Progress::new(false)).expect("both run");
    let [(plain, _), (counting, _)] = &results[..] else {
        panic!("two systems, {} reports", results.len());
    };
    assert_eq!((plain.samples.len(), counting.samples.len()), (2, 2));
    assert_eq!(
        (plain.reads.reads_per_get, plain.processor_time.server_ns),
        (None, None)
    );
    let per_get = counting.reads.reads_per_get.expect("it counts");
    assert_eq!((per_get.probes, per_get.reads), (1.0, 2.0));
    assert_eq!(per_get.computed_probes, Some(1.56));
    assert!(
        counting.processor_time.server_ns.is_some(),
        "the system tells of this process"
    );
    assert!(plain.processor_time.client_ns.is_some_and(|ns| ns > 0.0));
    let text = counting.to_string();
    assert!(
        text.contains("1.000 probes, 2.000 READs (computed for a load of 0.75: 1.56, 2.56)"),
        "{text}"
    );
    assert!(
        text.contains("processor time of the server per operation"),
        "{text}"
    );
}

#[test]
fn all_keys_are_replaced_after_the_samples_and_reads_are_told_beside_what_was_computed() {
    let counting = Counting(Toy::default());
    let map = counting.0.map.clone();
    let all = || -> Vec<Vec<u8>> { map.lock().expect("no client panics").keys().cloned().collect() };
    let mut fresh = plan();
    fresh.server.table = Some(Table {
        kind: TableKind::Cuckoo,
        load: 0.75,
    });
    let (report, _) = run(&counting, &fresh, &Progress::new(false)).expect("a session");
    assert_eq!(report.reads.churned, None);
    let before = all();
    for turnovers in [1, 3] {
        let plan = Plan {
            turnovers,
            ..fresh.clone()
        };
        map.lock().expect("no client panics").clear();
        let (report, _) = run(&counting, &plan, &Progress::new(false)).expect("a session");
        let after = all();
        assert_eq!(after.len(), before.len(), "the load is what it was");
        assert!(
            after.iter().all(|key| !before.contains(key)),
            "every key is another"
        );
        let churned = report.reads.churned.expect("GETs found the new keys");
        assert_eq!(
            (churned.turnovers, churned.reads_per_get.computed_probes),
            (turnovers, Some(1.65))
        );
        let text = report.to_string();
        let line =
            "1.000 probes, 2.000 READs (computed for a load of 0.75: 1.65, 2.65), off by -39.4 %, -24.5 %";
        assert!(text.contains(line), "{text}");
    }
}

/// DELETEs that find nothing would leave the load another one.
#[test]
fn keys_that_cannot_be_replaced_end_the_session() {
    let mut unloaded = plan();
    (unloaded.load, unloaded.turnovers) = (false, 1);
    unloaded.workload.mix = Mix::parse("c").expect("a mix");
    let error = run(&Toy::default(), &unloaded, &Progress::new(false)).expect_err("nothing to delete");
    assert!(
        error.to_string().contains("failed while keys were replaced"),
        "{error}"
    );
}

#[test]
fn a_client_that_cannot_connect_ends_the_session_with_its_reason() {
    let toy = Toy {
        refuses: Some(1),
        ..Toy::default()
    };
    let error = run(&toy, &plan(), &Progress::new(false)).expect_err("a refusal");
    assert!(error.to_string().contains("no space for this client"), "{error}");
}

#[test]
fn clients_that_share_memory_share_a_process() {
    let mut two = plan();
    two.clients.processes = 2;
    let error = run(&Toy::default(), &two, &Progress::new(false)).expect_err("a map in this process");
    assert!(error.to_string().contains("share one process"), "{error}");
}

/// A system whose client processes end at once.
struct Stillborn(Toy);

impl System for Stillborn {
    type Target = ToyClient;

    fn connect(&self, client_index: u32) -> Result<ToyClient, Box<TargetError>> {
        self.0.connect(client_index)
    }

    fn process(&self, helper: &Helper) -> Option<Command> {
        Some(helper.exec(Path::new("/bin/false")))
    }
}

#[test]
fn a_client_process_that_dies_ends_the_session_with_its_status() {
    let mut two = plan();
    two.clients.processes = 2;
    let error = run(&Stillborn(Toy::default()), &two, &Progress::new(false)).expect_err("it ended");
    assert!(
        error
            .to_string()
            .contains("a client process ended: exit status: 1"),
        "{error}"
    );
}
