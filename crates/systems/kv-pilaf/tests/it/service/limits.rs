//! Lengths, cluster and time to live, at their limits.

use crate::service::bed::{Cluster, Ended, Player, get, put, small, value};
use drover_base::Ns;
use drover_kv::{KvClient, Op, Refusal, SubmitError};
use drover_kv_pilaf::layout::{RECORD_HEADER_BYTES, record_bytes};
use drover_kv_pilaf::server::ServerOptions;

const MIB: usize = 1 << 20;

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8 ^ seed).collect()
}

#[test]
fn keys_have_1_to_250_bytes() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client();
    let key = [7; 251];
    for bytes in 1..=250 {
        assert_eq!(
            client.run(&mut cluster, &put(&key[..bytes], &[bytes as u8])),
            Ended::Stored
        );
    }
    for bytes in 1..=250 {
        assert_eq!(
            client.run(&mut cluster, &get(&key[..bytes])),
            value(&[bytes as u8])
        );
    }
    for bytes in [0, 251] {
        assert_eq!(
            client.try_submit(&put(&key[..bytes], b"")),
            Err(SubmitError::BadKey),
            "{bytes} bytes"
        );
    }
}

#[test]
fn values_of_64_kib_and_1_mib_are_fetched_and_read_whole() {
    let mut cluster = Cluster::new(ServerOptions {
        memory_bytes: 16 * MIB,
        item_bytes_max: record_bytes(250, MIB),
        ..small()
    });
    let mut client = cluster.client();
    let lens = [0, 900, 1024, 2048, 64 << 10, MIB];
    for (at, bytes) in lens.into_iter().enumerate() {
        let stored = client.run(&mut cluster, &put(&[at as u8], &pattern(bytes, at as u8)));
        assert_eq!(stored, Ended::Stored, "{bytes} bytes");
    }
    for (at, bytes) in lens.into_iter().enumerate() {
        let found = client.run(&mut cluster, &get(&[at as u8]));
        assert!(found == value(&pattern(bytes, at as u8)), "{bytes} bytes");
    }
    assert_eq!(
        cluster.server.stats().pulls,
        4,
        "what fits no message was fetched"
    );
    // Several at once share the two buffers for long values.
    let tokens: Vec<_> = (0..6u8)
        .map(|seed| client.submit(&put(&[5], &pattern(MIB, seed))))
        .collect();
    for token in tokens {
        assert_eq!(client.wait(&mut cluster, token), Ended::Stored);
    }
    assert!(client.run(&mut cluster, &get(&[5])) == value(&pattern(MIB, 5)));
}

#[test]
fn a_record_may_be_as_long_as_allowed_and_no_longer() {
    let mut cluster = Cluster::new(ServerOptions {
        item_bytes_max: 4096,
        ..small()
    });
    let mut client = cluster.client();
    let longest = 4096 - RECORD_HEADER_BYTES - 3;
    let fits = pattern(longest, 1);
    assert_eq!(client.run(&mut cluster, &put(b"key", &fits)), Ended::Stored);
    assert_eq!(
        client.try_submit(&put(b"key", &pattern(longest + 1, 2))),
        Err(SubmitError::TooLarge)
    );
    assert!(
        client.run(&mut cluster, &get(b"key")) == value(&fits),
        "as it was"
    );
}

#[test]
fn a_full_store_refuses_what_is_new_and_serves_the_rest() {
    let mut cluster = Cluster::new(ServerOptions {
        memory_bytes: 64 << 10,
        ..small()
    });
    let mut client = cluster.client();
    let mut key = 0u32;
    let full = loop {
        let bytes = key.to_le_bytes();
        match client.run(&mut cluster, &put(&bytes, &bytes)) {
            Ended::Stored => key += 1,
            other => break other,
        }
    };
    assert_eq!(full, Ended::Refused(Refusal::Full));
    assert!(key > 1000, "{key} keys in 64 KiB");
    client.check(&mut cluster, 0..key);
    let gone = client.run(&mut cluster, &Op::delete(&0u32.to_le_bytes()));
    assert_eq!(gone, Ended::Deleted);
    client.fill(&mut cluster, key..key + 1);
    client.check(&mut cluster, 1..key + 1);
}

#[test]
fn a_cache_forgets_the_oldest_and_never_refuses() {
    let mut cluster = Cluster::new(ServerOptions {
        memory_bytes: 64 << 10,
        entry_count_max: 256,
        evicts: true,
        ..small()
    });
    let mut client = cluster.client();
    client.fill(&mut cluster, 0..5000);
    client.check(&mut cluster, 4900..5000);
    assert_eq!(
        client.run(&mut cluster, &get(&0u32.to_le_bytes())),
        Ended::NotFound
    );
    assert!(cluster.server.len() <= 256, "{} keys", cluster.server.len());
}

/// Lets seconds pass, none of them so long that anybody is taken for dead.
fn pass(cluster: &mut Cluster, players: &mut [&mut Player], seconds: u64) {
    for _ in 0..2 * seconds {
        cluster.device.advance(Ns::from_ms(500));
        for player in players.iter_mut() {
            player.poll();
        }
        cluster.step();
    }
}

/// Time to live is counted by the server's clock, wherever the client's stood when it connected.
#[test]
fn what_has_expired_is_missed_by_the_servers_clock() {
    let mut cluster = Cluster::new(small());
    cluster.device.advance(Ns::from_s(1000));
    let mut one = cluster.client();
    pass(&mut cluster, &mut [&mut one], 500);
    let mut other = cluster.client();
    let op = Op::put_for(b"key", b"value", 10);
    assert_eq!(one.run(&mut cluster, &op), Ended::Stored);
    pass(&mut cluster, &mut [&mut one, &mut other], 8);
    assert_eq!(one.run(&mut cluster, &get(b"key")), value(b"value"));
    assert_eq!(other.run(&mut cluster, &get(b"key")), value(b"value"));
    // A second early or late at most.
    pass(&mut cluster, &mut [&mut one, &mut other], 3);
    let asked = (one.client.stats().asked, other.client.stats().asked);
    assert_eq!(one.run(&mut cluster, &get(b"key")), Ended::NotFound);
    assert_eq!(other.run(&mut cluster, &get(b"key")), Ended::NotFound);
    assert_eq!(
        (one.client.stats().asked, other.client.stats().asked),
        (asked.0 + 1, asked.1 + 1),
        "a record that seems expired is the server's to judge: readers' clocks differ"
    );
    assert_eq!(one.run(&mut cluster, &Op::delete(b"key")), Ended::NotFound);
    assert!(
        cluster.server.is_empty(),
        "a DELETE of what has expired takes it away"
    );
}

#[test]
fn the_longest_time_to_live_is_no_overflow() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client();
    let op = Op::put_for(b"key", b"value", u32::MAX);
    assert_eq!(client.run(&mut cluster, &op), Ended::Stored);
    assert_eq!(client.run(&mut cluster, &get(b"key")), value(b"value"));
    // Years later; the connection has not survived them.
    cluster.device.advance(Ns::from_s(1 << 30));
    assert_eq!(client.run(&mut cluster, &get(b"key")), value(b"value"));
}

/// In Pilaf's released code a connection has one request under way.
#[test]
fn pilaf_requests_do_not_wait_for_each_other() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client();
    let window = 16;
    let tokens: Vec<_> = (0..window)
        .map(|key: u32| client.submit(&put(&key.to_le_bytes(), b"")))
        .collect();
    assert_eq!(
        client.try_submit(&put(b"more", b"")),
        Err(SubmitError::WindowFull)
    );
    assert_eq!(client.client.in_flight(), 16);
    for token in tokens {
        assert_eq!(client.wait(&mut cluster, token), Ended::Stored);
    }
    assert_eq!(client.client.in_flight(), 0);
}
