//! What a GET reads, counted at the client of a service that stores real records: entries at a load of 0.75, and one record.

use crate::bed::server_options;
use crate::sim_bed::SimBed;
use drover_base::Cpu;
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_pilaf::logic::Miss;
use drover_kv_pilaf::server::ServerOptions;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs_sim::Sim;

const ENTRIES: usize = 1 << 13;
const KEYS: u64 = ENTRIES as u64 * 3 / 4;

/// Plays `KEYS` operations, one for each key.
fn play(bed: &mut SimBed<Sim>, client: &mut impl KvClient<Sim>, op: impl for<'a> Fn(&'a [u8; 8]) -> Op<'a>) {
    let (mut next, mut done) = (0u64, 0);
    while done < KEYS {
        bed.cpu().refresh();
        while next < KEYS && client.submit(bed.cpu(), &op(&next.to_le_bytes()), next).is_ok() {
            next += 1;
        }
        client.poll(bed.cpu(), &mut |completion| {
            assert!(matches!(completion.outcome, Outcome::Stored | Outcome::Value(_)));
            done += 1;
        });
        bed.step();
    }
}

#[test]
fn a_get_reads_one_record_and_as_many_entries_as_computed() {
    let options = BedOptions {
        partition_count: 1,
        store_mode: true,
        memory_bytes: 4 << 20,
        ..BedOptions::default()
    };
    let shard = ServerOptions {
        entry_count: ENTRIES,
        entry_count_max: ENTRIES,
        ..server_options(&options, 0)
    };
    let mut bed = SimBed::<Sim>::with_shards(&options, vec![shard]);
    let mut client = bed.client(Miss::Confirmed);
    play(&mut bed, &mut client, |key| Op::Put {
        key,
        value: key,
        ttl_s: 0,
    });
    play(&mut bed, &mut client, |key| Op::Get { key });
    let stats = client.stats();
    assert_eq!((stats.hits, stats.record_reads, stats.asked), (KEYS, KEYS, 0));
    let entries = stats.entry_reads as f64 / KEYS as f64;
    println!(
        "{entries:.3} entries a GET (computed 1.56), {:.3} READs (2.56)",
        entries + 1.0
    );
    assert!((entries / 1.56 - 1.0).abs() < 0.03, "{entries:.3} entries a GET");
}
