//! Every operation, in every mode and format.

use crate::server::fake::{World, hello, key_of, options};
use drover_base::Ns;
use drover_kv_herd::control::{Format, FrontEnd, Hello};
use drover_kv_herd::layout::{SlotOp, Status, paper};
use drover_kv_herd::server::{ClientLimits, RequestRules, ServeMode, ServerOptions};

fn all_modes() -> Vec<ServerOptions> {
    let mode = |mode| ServerOptions { mode, ..options() };
    vec![
        mode(ServeMode::Batch { batch: 32 }),
        mode(ServeMode::Batch { batch: 1 }),
        mode(ServeMode::Pipeline { drain: true }),
        mode(ServeMode::Pipeline { drain: false }),
    ]
}

#[test]
fn put_get_delete() {
    for options in all_modes() {
        let mut world = World::new(&options);
        let mut fake = world.connect();
        assert_eq!(fake.get(&mut world, b"k"), None);
        fake.put(&mut world, b"k", b"value");
        assert_eq!(fake.get(&mut world, b"k"), Some(b"value".to_vec()));
        assert_eq!(
            fake.call(&mut world, SlotOp::Delete, b"k", b"").status,
            Status::Ok
        );
        assert_eq!(
            fake.call(&mut world, SlotOp::Delete, b"k", b"").status,
            Status::NotFound
        );
        assert_eq!(fake.get(&mut world, b"k"), None);
        assert_eq!(fake.call(&mut world, SlotOp::Nop, b"", b"").status, Status::Ok);
    }
}

/// Test 4 of the specification: lengths, both directions, zero and the most a slot holds.
#[test]
fn value_lengths_change_both_ways() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let most = 1000 - 1;
    for len in [0, 1, 7, 8, 9, 300, 255, 256, 257, most, 0, 32, most, 31] {
        let value: Vec<u8> = (0..len).map(|i| i as u8 ^ len as u8).collect();
        fake.put(&mut world, b"k", &value);
        assert_eq!(fake.get(&mut world, b"k"), Some(value), "{len}");
    }
    let key = [b'x'; 250];
    fake.put(&mut world, &key, &[7; 750]);
    assert_eq!(fake.get(&mut world, &key), Some(vec![7; 750]));
}

/// Test 3: keys of one bucket do not disturb each other.
#[test]
fn keys_that_share_a_bucket_are_told_apart() {
    let mut one_bucket = options();
    one_bucket.partition.bucket_count = 1;
    let mut world = World::new(&one_bucket);
    let mut fake = world.connect();
    let keys: Vec<Vec<u8>> = (0..6).map(|i| format!("key-{i}").into_bytes()).collect();
    for round in 0..3u8 {
        for key in &keys {
            fake.put(&mut world, key, &[round]);
        }
        assert_eq!(
            fake.call(&mut world, SlotOp::Delete, &keys[1], b"").status,
            Status::Ok
        );
        for (i, key) in keys.iter().enumerate() {
            let want = (i != 1).then(|| vec![round]);
            assert_eq!(fake.get(&mut world, key), want);
        }
    }
}

#[test]
fn items_expire() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    assert_eq!(fake.call_ttl(&mut world, b"soon", b"1", 2).status, Status::Ok);
    assert_eq!(fake.call_ttl(&mut world, b"never", b"2", 0).status, Status::Ok);
    world.device.advance(Ns::from_ms(900));
    assert_eq!(fake.get(&mut world, b"soon"), Some(b"1".to_vec()));
    world.device.advance(Ns::from_ms(2100));
    assert_eq!(fake.get(&mut world, b"soon"), None);
    assert_eq!(fake.get(&mut world, b"never"), Some(b"2".to_vec()));
}

#[test]
fn each_partition_serves_its_own_keys() {
    let mut world = World::new(&ServerOptions {
        partition_count: 3,
        ..options()
    });
    let mut fake = world.connect();
    for partition in 0..3 {
        let key = key_of(&fake, partition, 1);
        let (_, _, request) = fake.next(SlotOp::Put, &key, b"v", 0);
        fake.write(partition, 0, &request);
        let reply = fake.reply(&mut world);
        assert_eq!((reply.partition, reply.status), (partition, Status::Ok));
        assert_eq!(world.workers[partition].stats().partition.items, 1);
        let wrong = (partition + 1) % 3;
        let request = fake.request(SlotOp::Get, 9, &key, b"", 0);
        fake.write(wrong, 3, &request);
        assert_eq!(fake.reply(&mut world).status, Status::WrongPartition);
    }
}

#[test]
fn a_small_window_of_small_slots() {
    let mut world = World::new(&options());
    let mut fake = world.connect_as(Hello {
        window: 1,
        slot_bytes: 64,
        ..hello()
    });
    fake.put(&mut world, b"k", &[1; 39]);
    assert_eq!(fake.get(&mut world, b"k"), Some(vec![1; 39]));
    let mut wide = world.connect_as(Hello {
        window: 256,
        ..hello()
    });
    wide.put(&mut world, b"k", &[2; 100]);
    for _ in 0..600 {
        assert_eq!(wide.get(&mut world, b"k"), Some(vec![2; 100]));
    }
    // Longer than this client's replies may be: it must ask for it in bulk.
    let reply = fake.call(&mut world, SlotOp::Get, b"k", b"");
    assert_eq!(
        (reply.status, reply.payload),
        (Status::Bulk, 100u32.to_le_bytes().to_vec())
    );
}

#[test]
fn datagrams_do_what_slots_do() {
    let mut world = World::new(&ServerOptions {
        partition_count: 2,
        clients: ClientLimits {
            datagram_recvs: 128,
            ..options().clients
        },
        ..options()
    });
    let mut fake = world.connect_as(Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    });
    for i in 0..100u32 {
        let key = format!("key{i}").into_bytes();
        let value = vec![i as u8; i as usize * 9];
        fake.put(&mut world, &key, &value);
        assert_eq!(fake.get(&mut world, &key), Some(value));
    }
    let sent = fake.send(SlotOp::Delete, b"key1", b"");
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    fake.again(&sent, 1);
    assert_eq!(
        fake.reply(&mut world).status,
        Status::Ok,
        "said again, not executed again"
    );
}

#[test]
fn datagrams_of_strangers_are_dropped() {
    let mut world = World::new(&ServerOptions {
        clients: ClientLimits {
            datagram_recvs: 8,
            ..options().clients
        },
        ..options()
    });
    let datagrams = Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    };
    let mut one = world.connect_as(datagrams.clone());
    let mut two = world.connect_as(datagrams);
    let request = one.request(SlotOp::Put, 1, b"k", b"v", 0);
    // Two claims to be one.
    std::mem::swap(&mut one.welcome.client_id, &mut two.welcome.client_id);
    two.write(0, 0, &request);
    for junk in [&b""[..], &[1; 7], &[0; 31], &[0xff; 1032], &[3; 1033]] {
        two.send_raw(0, junk);
    }
    world.settle();
    assert!(one.replies().is_empty() && two.replies().is_empty());
    assert_eq!(world.counters().irregular.stray_datagrams, 6);
    std::mem::swap(&mut one.welcome.client_id, &mut two.welcome.client_id);
    two.put(&mut world, b"k", b"v");
}

/// Format P: the paper's bytes, with the server zeroing the slot at detection.
#[test]
fn the_papers_format() {
    for mode in [
        ServeMode::Batch { batch: 32 },
        ServeMode::Pipeline { drain: true },
    ] {
        let mut world = World::new(&ServerOptions { mode, ..options() });
        let mut fake = world.connect_as(Hello {
            format: Format::P,
            ..hello()
        });
        let hash = paper::wire_hash(fake.hash(b"k"));
        let put = |value: &[u8]| [value, &(value.len() as u16).to_le_bytes(), &hash].concat();
        for (slot, bytes, want) in [
            (0, hash.to_vec(), (Status::NotFound, vec![])),
            (1, put(&[5; 32]), (Status::Ok, vec![])),
            (2, hash.to_vec(), (Status::Ok, vec![5; 32])),
            (3, put(&[6; 1000]), (Status::Ok, vec![])),
            (0, hash.to_vec(), (Status::Ok, vec![6; 1000])),
            (1, put(&[7]), (Status::Ok, vec![])),
            (2, hash.to_vec(), (Status::Ok, vec![7])),
        ] {
            fake.write_end(0, slot, &bytes);
            let reply = fake.reply(&mut world);
            assert_eq!((reply.slot, reply.status, reply.payload), (slot, want.0, want.1));
        }
    }
}

#[test]
fn hash_only_keys_need_the_servers_leave() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let request = fake.request(SlotOp::Get, 1, b"", b"", 0);
    fake.write(0, 0, &request);
    assert_eq!(fake.reply(&mut world).status, Status::BadRequest);
    let mut world = World::new(&ServerOptions {
        requests: RequestRules {
            hash_only: true,
            ..options().requests
        },
        ..options()
    });
    let mut fake = world.connect();
    let mut request = fake.request(SlotOp::Put, 1, b"", b"v", 0);
    request.hash = fake.hash(b"k");
    fake.write(0, 0, &request);
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
}
