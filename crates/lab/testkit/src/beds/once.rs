//! [`read_each_once`]: the counters of a client that reads every key of a shard once.

use super::shards::ShardOptions;
use super::sim_shards::SimBed;
use crate::kv_conformance::Bed;
use drover_base::Cpu;
use drover_kv::{KvClient, Op, Outcome, ShardedSystem};
use drover_verbs_sim::Sim;

/// All values are slices of this.
static VALUE: [u8; 1 << 14] = [7; 1 << 14];

/// Runs `count` operations, one for each key.
fn play<S: ShardedSystem>(
    bed: &mut SimBed<S, Sim>,
    client: &mut impl KvClient<Sim>,
    count: u64,
    op: impl for<'a> Fn(&'a [u8; 8]) -> Op<'a>,
) {
    let (mut next, mut done) = (0u64, 0);
    while done < count {
        bed.cpu().refresh();
        while next < count && client.submit(bed.cpu(), &op(&next.to_le_bytes()), next).is_ok() {
            next += 1;
        }
        client.poll(bed.cpu(), &mut |completion| {
            assert!(matches!(completion.outcome, Outcome::Stored | Outcome::Value(_)));
            done += 1;
        });
        bed.step();
    }
}

/// Starts one simulated shard, with options that `shard` may change; a client PUTs `count` keys with values of
/// `value_bytes` and GETs each once. Returns what `stats` reads from that client, whose counters include the PUTs.
///
/// # Panics
/// If an operation fails, or `value_bytes` is more than 16 KiB.
pub fn read_each_once<S: ShardedSystem, T>(
    count: u64,
    value_bytes: usize,
    shard: impl FnOnce(ShardOptions<S, Sim>) -> ShardOptions<S, Sim>,
    stats: impl FnOnce(&S::Client<Sim>) -> T,
) -> T {
    let mut bed = SimBed::<S, Sim>::of_one(1, false, shard);
    let mut client = bed.connect();
    let value: &'static [u8] = &VALUE[..value_bytes];
    play(&mut bed, &mut client, count, |key| Op::put(key, value));
    play(&mut bed, &mut client, count, |key| Op::Get { key });
    stats(&client)
}
