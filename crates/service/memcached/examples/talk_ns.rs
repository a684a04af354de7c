//! Cost of a request without sockets: nanoseconds, minimum of many rounds.
//! `cargo run --release -p drover-memcached --example talk_ns [requests of one kind]`
//!
//! Under callgrind, with a kind and a number of rounds as arguments, it repeats that kind alone.

use drover_base::{HashSeed, Rng};
use drover_mem::{NativeCpu, timestamp};
use drover_memcached::{Core, Executor, NoHooks, Server, Session, Settings, SingleCore};
use drover_net::{Need, Output, Protocol};
use drover_store::{Partition, PartitionOptions};
use std::fmt::Write;

const KEYS: u64 = 100_000;
const ROUNDS: usize = 2000;

struct Bed {
    partition: Partition,
    cpu: NativeCpu,
    core: Core,
    server: Server,
    session: Session<NativeCpu>,
    output: Output,
}

impl Bed {
    fn new() -> Bed {
        let settings = Settings {
            requests_per_event: 1000,
            ..Settings::default()
        };
        let hasher = HashSeed::new(1, 2).hasher();
        let mut bed = Bed {
            partition: Partition::new(&PartitionOptions::default()).expect("memory"),
            cpu: NativeCpu::new(1),
            core: Core::default(),
            server: Server::new(hasher, 1_700_000_000, 1, settings, Box::new(NoHooks)),
            session: Session::new(false),
            output: Output::new(1, 1 << 20),
        };
        for key in 0..KEYS {
            bed.say(format!("set user{key:012} 0 0 32 noreply\r\n{:032}\r\n", key).as_bytes());
        }
        bed
    }

    fn say(&mut self, input: &[u8]) {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.cpu,
            now_s: 100,
            core: &mut self.core,
            server: &self.server,
            router: &mut SingleCore,
        };
        let advance = self.session.advance(&mut executor, input, &mut self.output);
        assert_eq!(advance.used, input.len());
        assert_eq!(advance.need, Need::Input { at_least: 1 });
        self.output.wrote(self.output.ready_bytes());
    }
}

/// Inputs of one kind, and the number of requests or keys in each.
fn inputs(kind: &str, rng: &mut Rng) -> (Vec<String>, u64) {
    let mut key = || format!("user{:012}", rng.below(KEYS));
    let count = match kind {
        "get" | "set" | "mg" => 1,
        "multiget100" => 100,
        _ => 32,
    };
    let one = |input: &mut String, key: String| {
        let _ = match kind {
            "get" | "get32" => write!(input, "get {key}\r\n"),
            "set" | "set32" => write!(input, "set {key} 0 0 32\r\n{:032}\r\n", 7),
            "mg" | "mg32" => write!(input, "mg {key} v\r\n"),
            _ => write!(input, " {key}"),
        };
    };
    let inputs = (0..64).map(|_| {
        let mut input = String::from(if kind == "multiget100" { "get" } else { "" });
        (0..count).for_each(|_| one(&mut input, key()));
        if kind == "multiget100" {
            input.push_str("\r\n");
        }
        input
    });
    (inputs.collect(), count)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut bed = Bed::new();
    let mut rng = Rng::new(1, 0, 0);
    if let [kind, rounds] = &arguments[..] {
        let (inputs, _) = inputs(kind, &mut rng);
        for i in 0..rounds.parse().expect("a number of rounds") {
            bed.say(inputs[i % inputs.len()].as_bytes());
        }
        return;
    }
    println!("{:<14}{:>10}", "", "ns each");
    for kind in ["get", "get32", "multiget100", "set", "set32", "mg", "mg32"] {
        let (inputs, count) = inputs(kind, &mut rng);
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            let start = timestamp();
            inputs.iter().for_each(|input| bed.say(input.as_bytes()));
            least = least.min(timestamp() - start);
        }
        let ns = NativeCpu::ticks_to_ns(least) as f64 / (count * inputs.len() as u64) as f64;
        println!("{kind:<14}{ns:>10.1}");
    }
}
