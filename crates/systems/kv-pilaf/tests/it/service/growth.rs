//! The table grows while it is served: how long the old one stays, and what becomes of those who were away meanwhile.

use crate::service::bed::{Cluster, Ended, fabric, get, put, small, value};
use drover_base::{HashSeed, Ns};
use drover_kv::Refusal;
use drover_kv_pilaf::server::ServerOptions;
use drover_one_sided::Membership;

/// Lets the server go on until it has nothing left to poison, and has looked at its clients.
fn settle(cluster: &mut Cluster) {
    (0..1000).for_each(|_| cluster.step());
}

#[test]
fn the_table_grows_at_three_quarters() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client();
    client.fill(&mut cluster, 0..47);
    settle(&mut cluster);
    assert_eq!(
        (
            cluster.server.host().entry_count(),
            cluster.server.stats().growths
        ),
        (64, 0)
    );
    client.fill(&mut cluster, 47..48);
    settle(&mut cluster);
    assert_eq!(
        (
            cluster.server.host().entry_count(),
            cluster.server.stats().growths
        ),
        (128, 1)
    );
    client.check(&mut cluster, 0..48);
    assert_eq!(client.client.stats().tables, 1);
}

#[test]
fn a_table_may_be_as_large_as_allowed_and_then_the_store_is_full() {
    let mut cluster = Cluster::new(ServerOptions {
        entry_count_max: 256,
        ..small()
    });
    let mut client = cluster.client();
    let mut key = 0u32;
    while client.run(&mut cluster, &put(&key.to_le_bytes(), &key.to_le_bytes())) == Ended::Stored {
        key += 1;
    }
    assert!((220..=256).contains(&key), "{key} keys in 256 places");
    assert_eq!(cluster.server.host().entry_count(), 256);
    client.check(&mut cluster, 0..key);
}

/// Records of 32 bytes need as many bytes of places: a table of 64 places would leave most of the memory unused.
#[test]
fn a_table_goes_on_growing_in_memory_that_no_record_uses() {
    let fill = |grows_into_records| {
        let mut cluster = Cluster::new(ServerOptions {
            entry_count: 32,
            entry_count_max: 64,
            grows_into_records,
            memory_bytes: 64 << 10,
            item_bytes_max: 4096,
            ..small()
        });
        let mut client = cluster.client();
        let mut key = 0u32;
        let end = loop {
            match client.run(&mut cluster, &put(&key.to_le_bytes(), &key.to_le_bytes())) {
                Ended::Stored => key += 1,
                other => break other,
            }
            // The time between two looks for memory.
            cluster.device.advance(Ns::from_ms(1));
        };
        client.check(&mut cluster, 0..key);
        let stats = cluster.server.stats();
        assert_eq!(stats.refusals.table_full + stats.refusals.memory_full, 1);
        (key, end, cluster.server.host().entry_count())
    };
    let (few, end, places) = fill(false);
    assert_eq!((end, places), (Ended::Refused(Refusal::TableFull), 64));
    let (many, end, places) = fill(true);
    assert!(few < 64 && many > 900, "{few} keys, {many} keys and {end:?}");
    assert_eq!(places, 1024, "64 KiB, of which 30 KiB were taken for the table");
}

#[test]
fn an_old_table_goes_when_all_have_gone_over() {
    let mut cluster = Cluster::new(small());
    let (mut one, mut other) = (cluster.client(), cluster.client());
    one.fill(&mut cluster, 0..60);
    settle(&mut cluster);
    assert_eq!(
        (
            cluster.server.host().retired_count(),
            cluster.server.host().entry_count()
        ),
        (1, 128),
        "the other client has not been heard"
    );
    one.check(&mut cluster, 0..60);
    assert_eq!(cluster.server.host().retired_count(), 1);
    other.check(&mut cluster, 0..60);
    settle(&mut cluster);
    other.check(&mut cluster, 0..60);
    settle(&mut cluster);
    assert_eq!(cluster.server.host().retired_count(), 0);
    assert_eq!(
        other.client.stats().lost,
        0,
        "it went over without losing its connection"
    );
}

#[test]
fn an_old_table_goes_when_the_last_lease_is_over_and_who_slept_recovers() {
    let mut cluster = Cluster::new(small());
    let (mut one, mut sleeper) = (cluster.client(), cluster.client());
    one.fill(&mut cluster, 0..60);
    cluster.device.advance(Ns::from_ms(900));
    one.check(&mut cluster, 0..60);
    settle(&mut cluster);
    assert_eq!(cluster.server.host().retired_count(), 1, "the lease is not over");
    cluster.device.advance(Ns::from_ms(200));
    settle(&mut cluster);
    assert_eq!(cluster.server.host().retired_count(), 0, "the lease is over");
    // Two more tables while it sleeps: of those it hears at once, and only the newest is there.
    one.fill(&mut cluster, 60..200);
    cluster.device.advance(Ns::from_ms(1100));
    one.check(&mut cluster, 0..200);
    settle(&mut cluster);
    assert_eq!(
        (
            cluster.server.host().retired_count(),
            cluster.server.host().entry_count()
        ),
        (0, 512)
    );
    sleeper.check(&mut cluster, 0..200);
    let new = sleeper.run(&mut cluster, &put(b"new", b"value"));
    assert_eq!(
        new,
        Ended::Stored,
        "an update of who slept is no more in doubt than others"
    );
    assert_eq!(sleeper.client.stats().tables, 1);
}

/// A READ of memory that is registered no more breaks the connection: the client makes another, and tries again.
#[test]
fn pilaf_a_read_of_a_table_that_is_gone_is_tried_again() {
    // So slow a clock that the client does not look at its control channel before it reads.
    let mut cluster: Cluster = Cluster::on(
        fabric(Ns(1)),
        ServerOptions {
            lease: Ns::ZERO,
            ..small()
        },
    );
    let (mut one, mut reader) = (cluster.client(), cluster.client());
    one.fill(&mut cluster, 0..47);
    reader.check(&mut cluster, 0..47);
    // Until the reader has just looked.
    cluster.device.advance(Ns::from_us(300));
    reader.poll();
    one.fill(&mut cluster, 47..60);
    settle(&mut cluster);
    cluster.device.advance(Ns::from_us(25));
    cluster.step();
    assert_eq!(
        (
            cluster.server.host().retired_count(),
            cluster.server.host().entry_count()
        ),
        (0, 128)
    );
    let tokens: Vec<_> = (0..8u32)
        .map(|key| reader.submit(&get(&key.to_le_bytes())))
        .collect();
    for (key, token) in tokens.into_iter().enumerate() {
        assert_eq!(
            reader.wait(&mut cluster, token),
            value(&(key as u32).to_le_bytes())
        );
    }
    assert_eq!(
        reader.client.stats().lost,
        1,
        "the READs did not fail: this test could not"
    );
    reader.check(&mut cluster, 0..60);
}

/// Who does not know of a new table yet finds in the old one what has not changed, and nothing that has.
#[test]
fn pilaf_nothing_stale_is_read_in_a_table_that_was_left() {
    // Whether a reader meets poison first, or what was changed, is a matter of chance.
    let in_old: u32 = (0..16).map(changes_in_a_table_that_was_left).sum();
    assert!(
        in_old > 0,
        "the reader never read the table that was left: this test could not fail"
    );
}

fn changes_in_a_table_that_was_left(seed: u64) -> u32 {
    // So large a table that it is poisoned in many slices, so slow a clock that nobody looks at a control channel for it.
    let mut cluster: Cluster = Cluster::on(
        fabric(Ns(1)),
        ServerOptions {
            entry_count: 4096,
            membership: Membership::alone_with(HashSeed::new(seed, 2)),
            ..small()
        },
    );
    let (mut one, mut reader) = (cluster.client(), cluster.client());
    one.fill(&mut cluster, 0..3072);
    reader.check(&mut cluster, 0..3);
    let mut in_old = 0;
    for round in 0..200u32 {
        let changed = (round * 15).to_le_bytes();
        let value_now = round.to_le_bytes();
        assert_eq!(one.run(&mut cluster, &put(&changed, &value_now)), Ended::Stored);
        assert_eq!(
            reader.run(&mut cluster, &get(&changed)),
            value(&value_now),
            "round {round}"
        );
        let unchanged = (round * 15 + 1).to_le_bytes();
        assert_eq!(reader.run(&mut cluster, &get(&unchanged)), value(&unchanged));
        let is_old = cluster.server.stats().growths == 1 && reader.client.stats().tables == 0;
        in_old += u32::from(is_old);
    }
    assert_eq!(
        (cluster.server.stats().growths, reader.client.stats().tables),
        (1, 1)
    );
    in_old
}

/// A client that comes while a table is being replaced, at any moment of it.
#[test]
fn who_connects_while_the_table_grows_reads_the_right_one() {
    for steps in 0..40 {
        let mut cluster = Cluster::new(small());
        let mut one = cluster.client();
        one.fill(&mut cluster, 0..47);
        one.submit(&put(&47u32.to_le_bytes(), &47u32.to_le_bytes()));
        one.poll();
        (0..steps).for_each(|_| cluster.step());
        let mut other = cluster.client();
        other.check(&mut cluster, 0..48);
        one.poll();
        other.check(&mut cluster, 0..48);
        settle(&mut cluster);
        one.check(&mut cluster, 0..48);
        settle(&mut cluster);
        other.check(&mut cluster, 0..48);
        settle(&mut cluster);
        assert_eq!(
            (
                cluster.server.host().entry_count(),
                cluster.server.host().retired_count()
            ),
            (128, 0),
            "{steps}"
        );
    }
}
