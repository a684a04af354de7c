//! How long a hand-over of many items takes. Not a check: to be run by hand, with `--ignored --nocapture`.

use crate::bed::core::{Job, Op, SEED};
use crate::bed::fresh_seed;
use crate::bed::load::{Load, key};
use crate::bed::service::{LONG, Service};
use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_testkit::linear::Model;
use std::sync::mpsc::sync_channel;

/// Items, with numbers after those of the load.
const ITEMS: std::ops::Range<u64> = 1_000..401_000;

#[test]
#[ignore = "measures the rate of a hand-over and asserts nothing about it: run it by name"]
fn rate_of_a_hand_over() {
    let cpu = NativeCpu::new(0);
    let mut service = Service::new(LONG, None);
    (service.is_linked, service.log_bytes) = (true, 128 << 20);
    service.join("a", 1);
    service.settle(&["a"]);
    fill(&service);
    let load = Load::start(&service.network, 1, 100, fresh_seed());
    let start = cpu.refresh();
    service.join("b", 1);
    service.settle(&["a", "b"]);
    let took: Ns = cpu.refresh().since(start);
    let tally = service.status("b").tally;
    let rate = tally.copied_items as f64 / (took.0 as f64 / 1e9);
    println!("{tally:?} in {took}: {rate:.0} items/s");
    load.finish().check(Model::Register).expect("nothing is lost");
}

/// Stores the items, without waiting for each answer.
fn fill(service: &Service) {
    let addresses = service.network.addresses();
    let member = service.network.get(&addresses[0]).expect("the only one");
    let (answer, answered) = sync_channel(ITEMS.count());
    for number in ITEMS {
        let (key, answer) = (key(number), answer.clone());
        let core = SEED.hasher().hash(&key).partition_index(member.cores.len());
        let op = Op::Put {
            value: number,
            flags: 0,
            ttl_s: 0,
        };
        member.cores[core]
            .send(Job::Request { key, op, answer })
            .expect("it runs");
    }
    ITEMS.for_each(|_| _ = answered.recv().expect("an answer"));
}
