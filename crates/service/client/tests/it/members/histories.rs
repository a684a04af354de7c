//! Several clients while shards go from member to member without their items: a value may vanish, an old one never comes back.

use super::bed::{SHARDS, TestService};
use drover_base::{Cpu, Rng};
use drover_client::{CallError, Client};
use drover_mem::NativeCpu;
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;
use drover_testkit::seeds::Seeds;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations of one client on random keys until `stop`.
fn operate(mut client: Client, number: u32, seed: u64, stop: &AtomicBool) -> History {
    let (mut rng, cpu, mut history) = (
        Rng::new(seed, u64::from(number), 0),
        NativeCpu::new(0),
        History::default(),
    );
    let mut value = u64::from(number) << 32;
    // Relaxed: it publishes nothing.
    while !stop.load(Ordering::Relaxed) {
        let key = [b'a' + rng.below(16) as u8];
        let called_at = cpu.refresh().0;
        let (call, is_known) = match rng.below(3) {
            0 => {
                value += 1;
                match client.set(&key, &value.to_le_bytes()) {
                    Ok(()) => (Call::Put(value), true),
                    Err(CallError::Indeterminate) => (Call::Put(value), false),
                    Err(error) => panic!("{error}"),
                }
            }
            _ => {
                let found = client.get(&key).expect("answered");
                let number = found.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
                (Call::Get(number), true)
            }
        };
        let returned_at = is_known.then(|| cpu.refresh().0);
        let event = Event {
            client: number,
            call,
            called_at,
            returned_at,
        };
        history.push(&key, event);
    }
    history
}

#[test]
fn histories_are_linearizable_while_shards_change_hands() {
    let seeds = Seeds::new(0, 2);
    println!("{seeds}");
    seeds.each(|seed| {
        let names = ["a", "b", "c", "d"];
        let mut service = TestService::new(&names);
        let stop = AtomicBool::new(false);
        let history = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3)
                .map(|number| {
                    let registry = service.registry.clone();
                    let stop = &stop;
                    scope.spawn(move || {
                        let options = drover_client::Options::default();
                        let connected = drover_client::connect_through(Box::new(registry), &options);
                        operate(connected.expect("members").into(), number, seed, stop)
                    })
                })
                .collect();
            // Each shard goes to each member once: none has its old items.
            for to in 1..names.len() {
                for shard in 0..SHARDS {
                    service.give(shard..shard + 1, to);
                    service.wait_for_operations(to);
                }
            }
            stop.store(true, Ordering::Relaxed);
            let mut all = History::default();
            clients
                .into_iter()
                .for_each(|it| all.merge(it.join().expect("no panic")));
            all
        });
        println!("{} operations", history.len());
        history.check(Model::Cache).expect("linearizable");
    });
}
