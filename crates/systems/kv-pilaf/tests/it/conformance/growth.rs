//! Tables grow again and again under load: no operation fails, and nobody reads what was overwritten.
//!
//! Every key has one writer, which counts; a reader of a key must find at least what was acknowledged before it asked.

use drover_base::{Ns, Rng};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_pilaf::Pilaf;
use drover_kv_pilaf::client::PilafClient;
use drover_kv_pilaf::server::ServerOptions;
use drover_testkit::beds::{ShardsBed, SimBed, shard_options};
use drover_testkit::kv_conformance::{Bed, BedOptions, Faults};
use drover_testkit::seeds::Seeds;
use drover_verbs_shm::Shm;
use drover_verbs_sim::Sim;
use drover_verbs_suite::loopback::Loopback;
use std::collections::BTreeMap;

const WRITERS: usize = 2;
const READERS: usize = 2;
const WINDOW: usize = 8;

/// What a reader under way has to find at least.
type Floors = BTreeMap<u64, (u64, u64)>;

fn bytes(key: u64, count: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// Plays until there are `keys` keys; returns how many tables each reader has left behind.
fn play<B>(options: &BedOptions, keys: u64) -> Vec<u64>
where
    B: Bed<Client = PilafClient<<B as Bed>::P>>,
{
    play_in(&mut B::start(options), options, keys)
}

fn play_in<B>(bed: &mut B, options: &BedOptions, keys: u64) -> Vec<u64>
where
    B: Bed<Client = PilafClient<<B as Bed>::P>>,
{
    let mut writers: Vec<_> = (0..WRITERS).map(|_| bed.connect()).collect();
    let mut readers: Vec<_> = (0..READERS).map(|_| (bed.connect(), Floors::new())).collect();
    let mut rng = Rng::new(options.seed, 3, 4);
    // Counts of keys: acknowledged, and sent last.
    let mut counts: Vec<(u64, u64)> = Vec::new();
    let (mut acknowledged, mut token) = (0, 0);
    while acknowledged < keys {
        for (at, writer) in writers.iter_mut().enumerate() {
            while writer.in_flight() < WINDOW {
                let is_mine = |key: &usize| key % WRITERS == at;
                let key = match rng.chance(0.6) || counts.len() < 2 * WRITERS {
                    true => (counts.len()..).find(is_mine),
                    false => Some(rng.below(counts.len() as u64) as usize).filter(is_mine),
                };
                let Some(key) = key.filter(|key| *key <= counts.len()) else {
                    break;
                };
                if key == counts.len() {
                    counts.push((0, 0));
                }
                let count = counts[key].1 + 1;
                let value = bytes(key as u64, count);
                let put = Op::put(&value[..8], &value);
                let name = (key as u64) << 32 | count;
                // A place is taken until its SEND has completed, too.
                if writer.submit(bed.cpu(), &put, name).is_err() {
                    break;
                }
                counts[key].1 = count;
            }
            writer.poll(bed.cpu(), &mut |completion| {
                assert_eq!(completion.outcome, Outcome::Stored);
                let count = &mut counts[(completion.token >> 32) as usize];
                acknowledged += u64::from(count.0 == 0);
                count.0 = count.0.max(completion.token & 0xffff_ffff);
            });
        }
        for (reader, floors) in &mut readers {
            while !counts.is_empty() && reader.in_flight() < WINDOW {
                let key = rng.below(counts.len() as u64);
                let get = Op::Get {
                    key: &key.to_le_bytes(),
                };
                if reader.submit(bed.cpu(), &get, token).is_err() {
                    break;
                }
                floors.insert(token, (key, counts[key as usize].0));
                token += 1;
            }
            reader.poll(bed.cpu(), &mut |completion| {
                let (key, floor) = floors.remove(&completion.token).expect("asked once");
                match completion.outcome {
                    Outcome::Value(value) => {
                        let count = u64::from_le_bytes(value[8..].try_into().expect("16 bytes"));
                        assert_eq!(value, bytes(key, count), "another key's value");
                        assert!(
                            count >= floor,
                            "key {key}: {count} after {floor} was acknowledged"
                        );
                    }
                    Outcome::NotFound => assert_eq!(floor, 0, "key {key} was missed"),
                    other => panic!("key {key}: {other:?}"),
                }
            });
        }
        bed.step();
    }
    let lost = |client: &PilafClient<B::P>| client.stats().lost;
    assert!(
        writers.iter().all(|writer| lost(writer) == 0),
        "nobody was disconnected"
    );
    readers.iter().map(|(reader, _)| reader.stats().tables).collect()
}

fn options(seed: u64) -> BedOptions {
    BedOptions {
        seed,
        partition_count: 1,
        window: WINDOW,
        store_mode: true,
        ..BedOptions::default()
    }
}

/// From 64 places to 4096.
fn grows<B>(options: &BedOptions)
where
    B: Bed<Client = PilafClient<<B as Bed>::P>>,
{
    let tables = play::<B>(options, 2000);
    assert!(
        tables.iter().all(|tables| *tables >= 4),
        "{tables:?} tables were left behind"
    );
}

#[test]
fn pilaf_a_table_grows_under_load_and_no_operation_fails() {
    (0..4).for_each(|seed| grows::<ShardsBed<Pilaf, Loopback>>(&options(seed)));
}

#[test]
fn a_table_grows_under_load_over_shared_memory() {
    (0..2).for_each(|seed| grows::<ShardsBed<Pilaf, Shm>>(&options(seed)));
}

#[test]
fn a_table_grows_under_load_in_a_room_that_loses_and_tears() {
    for seed in 0..4 {
        let faults = Faults {
            drop: [0.0, 0.0, 0.001, 0.01][seed as usize],
            tear: 1.0,
            ..Faults::default()
        };
        grows::<SimBed<Pilaf, Sim>>(&BedOptions {
            faults,
            ..options(seed)
        });
    }
}

/// Without any grace places are reused while they are read: readers find that out and try again.
#[test]
fn records_are_reused_at_once_and_nothing_wrong_is_read() {
    for seed in 0..3 {
        let mut options = options(seed);
        options.faults.tear = 1.0;
        let shard = ServerOptions {
            grace: Ns::ZERO,
            ..shard_options::<Pilaf, Sim>(&options, 0)
        };
        let mut bed = SimBed::<Pilaf, Sim>::with_shards(&options, vec![shard]);
        assert_eq!(play_in(&mut bed, &options, 1000).len(), READERS);
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_table_grows_under_load_500_seeds() {
    let seeds = Seeds::new(0, 500);
    println!("{seeds}");
    seeds.each(|seed| {
        let faults = Faults {
            drop: if seed % 2 == 0 { 0.0 } else { 0.002 },
            tear: 1.0,
            ..Faults::default()
        };
        grows::<SimBed<Pilaf, Sim>>(&BedOptions {
            faults,
            ..options(seed)
        });
    });
}
