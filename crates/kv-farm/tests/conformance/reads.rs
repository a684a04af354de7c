//! What a GET reads, counted at the client of a service that stores real values, at a load of 0.75.

use crate::bed::server_options;
use crate::sim_bed::SimBed;
use drover_base::Cpu;
use drover_index::hopscotch::{Geometry, SlotKind};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_farm::client::ClientStats;
use drover_kv_farm::logic::Miss;
use drover_kv_farm::server::ServerOptions;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs_sim::Sim;

const SLOTS: usize = 1 << 13;
const KEYS: u64 = SLOTS as u64 * 3 / 4;

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

/// The counters of a client that has read every key once; messages are PUTs.
fn counted(kind: SlotKind) -> ClientStats {
    let options = BedOptions {
        partition_count: 1,
        store_mode: true,
        memory_bytes: 4 << 20,
        ..BedOptions::default()
    };
    let shard = ServerOptions {
        geometry: Geometry::CLASSIC,
        home_count: SLOTS,
        block_count: SLOTS / 16,
        kind,
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
    client.stats()
}

#[test]
fn a_get_reads_a_neighbourhood_and_an_object_if_need_be_as_computed() {
    for (kind, objects, computed) in [(SlotKind::Wide, 0, 1.011), (SlotKind::Narrow, KEYS, 2.011)] {
        let stats = counted(kind);
        assert_eq!(
            (
                stats.hits,
                stats.neighbourhood_reads,
                stats.object_reads,
                stats.messages
            ),
            (KEYS, KEYS, objects, KEYS)
        );
        let reads = stats.reads() as f64 / KEYS as f64;
        let overflow = stats.overflow_reads as f64 / KEYS as f64;
        println!("{kind:?}: {reads:.3} READs a GET (computed {computed}), {overflow:.4} of them overflow");
        assert!(
            (reads / computed - 1.0).abs() < 0.03,
            "{kind:?}: {reads:.3} READs a GET"
        );
        assert!(
            (0.005..0.02).contains(&overflow),
            "{kind:?}: {overflow:.4} in overflow"
        );
    }
}
