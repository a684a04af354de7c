//! A client that writes whatever it likes into its slots, or vanishes at any time: the server neither panics nor waits for
//! it, and others are served.

use crate::raw::{Cluster, Guest, Guests as _, PLACES, VALUES_BYTES};
use drover_base::{Cpu, Ns, Rng};
use drover_kv::{ConnectOptions, KvClient, Op, Outcome, PartitionMap};
use drover_kv_rfp::control::{Attach, Ticket};
use drover_kv_rfp::layout::{Request, RequestKind};
use drover_kv_rfp::{
    JakiroVariant, MemcachedVariant, ServerReplyFaithfulVariant, ServerReplyVariant, Variant,
};
use drover_testkit::beds::put;
use drover_verbs::{Context, Device};
use drover_verbs_suite::faulty::{FaultOptions, Faulty, FaultyDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

const KEY: &[u8] = b"key";

fn loopback(tick: Ns) -> LoopbackDevice {
    LoopbackDevice::with_options(LoopbackOptions {
        tick,
        ..LoopbackOptions::default()
    })
}

fn cluster<V: Variant>() -> Cluster<Loopback, V> {
    Cluster::new(loopback(Ns::from_us(5)))
}

fn request(kind: RequestKind) -> Request {
    Request {
        kind,
        slot: 0,
        key_bytes: KEY.len(),
        value_bytes: 0,
        ttl_s: 0,
        sequence: 1,
        value_offset: 0,
        is_detailed: false,
        extension: None,
    }
}

fn noise<V: Variant>() {
    let mut cluster = cluster::<V>();
    let mut honest = cluster.client();
    let mut ended = 0;
    for seed in 0..150 {
        let mut rng = Rng::new(seed, 0, 0);
        let mut guest = cluster.guest(Ticket::NONE);
        let layout = guest.layout();
        for _ in 0..4 {
            let place = rng.below(PLACES as u64) as usize;
            let len = 8 * (1 + rng.below(200) as usize);
            let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let start = place * layout.request_stride();
            match rng.below(4) {
                // A request with a byte that is not as it was.
                0 => {
                    let mut message = guest.message(place, &request(RequestKind::Delete), KEY);
                    let at = rng.below(message.len() as u64) as usize;
                    message[at] ^= 1 << rng.below(8);
                    guest.write(start, &message);
                }
                // Its first word is right, for a short payload, and the byte behind that as well.
                1 => {
                    let message = guest.message(place, &request(RequestKind::Delete), KEY);
                    bytes.resize(message.len(), 7);
                    bytes[..8].copy_from_slice(&message[..8]);
                    bytes[message.len() - 1] = 1;
                    guest.write(start, &bytes);
                }
                2 => guest.write(start, &bytes),
                _ => guest.write(layout.requests_bytes(), &bytes),
            }
            cluster.run(20);
        }
        let value = seed.to_le_bytes();
        assert_eq!(
            cluster.ask(&mut honest, put(KEY, &value)),
            "stored",
            "seed {seed}"
        );
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{value:?}"), "seed {seed}");
        ended += usize::from(cluster.server.client_count() == 1);
        drop(guest);
        cluster.run_until_clients(1);
    }
    assert!(ended > 30, "only {ended} of 150 were sent away");
}

#[test]
fn rfp_noise_in_slots_and_modes_hurts_nobody_else() {
    noise::<JakiroVariant>();
    noise::<ServerReplyVariant>();
    noise::<MemcachedVariant>();
}

/// The header is right, the end never comes.
#[test]
fn rfp_a_request_that_is_never_finished_holds_up_nobody_else() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    let mut guest = cluster.guest(Ticket::NONE);
    let whole = guest.message(0, &request(RequestKind::Delete), KEY);
    guest.write(0, &whole[..whole.len() - 1]);
    for round in 0..50u64 {
        assert_eq!(cluster.ask(&mut honest, put(KEY, &round.to_le_bytes())), "stored");
    }
    assert_eq!(cluster.server.stats().deletes, 0);
    guest.write(0, &whole);
    cluster.run(10);
    let stats = cluster.server.stats();
    assert_eq!((stats.deletes, cluster.server.client_count()), (1, 2));
}

/// Requests whose checksums are right, and which lie: refused, or the end of the session.
#[test]
fn rfp_requests_that_contradict_themselves_are_refused() {
    let base = request(RequestKind::PutLarge);
    let far = u64::from(u32::MAX) - 3;
    let bytes = VALUES_BYTES;
    let long = |value_bytes, value_offset| Request {
        value_bytes,
        value_offset,
        is_detailed: false,
        extension: None,
        ..base
    };
    let lies = [
        long(0, 0),
        long(1 << 31, 0),
        long(100, far),
        long(bytes, bytes as u64 - 96),
        Request { key_bytes: 0, ..base },
        Request {
            key_bytes: 255,
            ..base
        },
        Request {
            value_bytes: 77,
            ..request(RequestKind::Put)
        },
        Request {
            value_bytes: u32::MAX as usize,
            value_offset: far,
            is_detailed: false,
            extension: None,
            ..request(RequestKind::Get)
        },
    ];
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    assert_eq!(cluster.ask(&mut honest, put(KEY, &[7; 3000])), "stored");
    for lie in lies {
        let mut guest = cluster.guest(Ticket::NONE);
        guest.send(0, &lie, KEY);
        cluster.run(30);
        drop(guest);
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{:?}", [7u8; 3000]), "{lie:?}");
    }
    cluster.run_until_clients(1);
    assert_eq!(cluster.server.stats().pulls, 1, "the honest one's");
}

/// Clients that ask for long values all the time, and never look at a result, leave buffers to others.
#[test]
fn rfp_a_flood_of_long_values_leaves_stages_to_others() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    let mut guests: Vec<Guest<Loopback>> = (0..6).map(|_| cluster.guest(Ticket::NONE)).collect();
    for lap in 0..20u8 {
        for guest in &mut guests {
            let large = Request {
                value_bytes: VALUES_BYTES,
                ..request(RequestKind::PutLarge)
            };
            guest.send(usize::from(lap) % 2, &large, KEY);
        }
        let value = vec![lap; 5000];
        assert_eq!(cluster.ask(&mut honest, put(b"mine", &value)), "stored");
        let answer = cluster.ask(&mut honest, Op::Get { key: b"mine" });
        assert_eq!(answer, format!("{value:?}"));
    }
    let stats = cluster.server.stats();
    assert!(stats.pulls >= 100, "{stats:?}");
}

/// More long values at a time than a client has buffers for: no correct client does that.
#[test]
fn rfp_too_many_long_values_at_a_time_end_the_session() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut guest = cluster.guest(Ticket::NONE);
    let large = Request {
        value_bytes: VALUES_BYTES,
        ..request(RequestKind::PutLarge)
    };
    (0..3).for_each(|place| guest.send(place, &large, KEY));
    cluster.run_until_clients(0);
}

/// What the last session wrote and the server has not seen is sent again or was reported as unknown: once the client is
/// back, it must not happen any more.
#[test]
fn rfp_what_an_old_session_left_in_its_slots_never_happens() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    let old_value = Request {
        value_bytes: 3,
        ..request(RequestKind::Put)
    };
    // The canary: it does happen as long as the session lasts.
    let mut guest = cluster.guest(Ticket::NONE);
    guest.send(0, &old_value, b"keyold");
    cluster.run(10);
    let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
    assert_eq!(answer, format!("{:?}", b"old"));
    assert_eq!(cluster.ask(&mut honest, put(KEY, b"new")), "stored");
    for _ in 0..20 {
        let mut old = cluster.guest(Ticket::NONE);
        let message = old.message(0, &old_value, b"keyold");
        old.write(0, &message[..message.len() - 1]);
        let new = cluster.guest(old.ticket());
        old.write(0, &message);
        cluster.run(30);
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{:?}", b"new"));
        drop((old, new));
    }
}

/// A client goes on from its last session, and an update that comes again is answered, not executed. Who does not have the
/// whole ticket gets a session of its own, and the other one stays.
#[test]
fn rfp_only_who_has_the_ticket_goes_on_from_a_session() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    let value = Request {
        value_bytes: 3,
        ..request(RequestKind::Put)
    };
    let mut old = cluster.guest(Ticket::NONE);
    old.send(0, &value, b"keyold");
    cluster.run(10);
    assert_eq!(cluster.ask(&mut honest, put(KEY, b"new")), "stored");
    let ticket = old.ticket();
    for change in [1, 1 << 63] {
        let secret = ticket.secret ^ change;
        let stranger = cluster.guest(Ticket { secret, ..ticket });
        assert_ne!(stranger.ticket(), ticket);
        cluster.run(30);
        assert_eq!(cluster.server.client_count(), 3, "nobody was sent away");
    }
    cluster.run_until_clients(2);
    let mut heir = cluster.guest(ticket);
    assert_eq!(heir.ticket(), ticket);
    // The number of its first request is that of the old session's.
    heir.send(0, &value, b"keyold");
    cluster.run(10);
    let stats = cluster.server.stats();
    assert_eq!((stats.puts, stats.repeated), (2, 1), "{stats:?}");
    let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
    assert_eq!(answer, format!("{:?}", b"new"));
    heir.send(0, &value, b"keyold");
    cluster.run(10);
    assert_eq!(cluster.server.stats().puts, 3, "the next one");
}

/// An update is that of its place's slot, however a server takes requests: one that comes again is known though another
/// place had one since.
#[test]
fn rfp_each_place_has_a_last_update_of_its_own() {
    fn check<V: Variant>() {
        let mut cluster = cluster::<V>();
        let value = Request {
            value_bytes: 3,
            ..request(RequestKind::Put)
        };
        let mut old = cluster.guest(Ticket::NONE);
        old.send(0, &value, b"keyold");
        cluster.run(30);
        old.send(1, &value, b"keynew");
        cluster.run(30);
        let mut heir = cluster.guest(old.ticket());
        heir.send(0, &value, b"keyold");
        cluster.run(30);
        let stats = cluster.server.stats();
        assert_eq!((stats.puts, stats.repeated), (2, 1), "{}", V::CURVE);
    }
    check::<JakiroVariant>();
    check::<ServerReplyVariant>();
    check::<ServerReplyFaithfulVariant>();
    check::<MemcachedVariant>();
}

/// The key of an update that was executed moves to another shard before the answer has come: the update is answered where
/// it was executed, and not sent elsewhere to be executed again.
#[test]
fn rfp_an_update_that_was_executed_is_answered_though_its_key_has_moved() {
    let device = LoopbackDevice::with_options(LoopbackOptions::default());
    let mut cluster = Cluster::<Loopback, JakiroVariant>::with_options(device, |mut options| {
        options.membership.shard_count = 2;
        options
    });
    let own = |cluster: &mut Cluster<Loopback, JakiroVariant>, epoch, owner| {
        let map = PartitionMap::new(epoch, vec![owner; 2]).expect("a sound map");
        let changed = cluster.server.change(|shard| shard.set_map(map));
        assert!(changed.is_ok());
    };
    let value = Request {
        value_bytes: 3,
        ..request(RequestKind::Put)
    };
    own(&mut cluster, 2, 0);
    let mut old = cluster.guest(Ticket::NONE);
    old.send(0, &value, b"keyold");
    cluster.run(10);
    own(&mut cluster, 3, 1);
    let mut heir = cluster.guest(old.ticket());
    heir.send(0, &value, b"keyold");
    cluster.run(10);
    let stats = cluster.server.stats();
    assert_eq!((stats.puts, stats.repeated, stats.elsewhere), (1, 1, 0));
    // The canary: one that was not executed is sent elsewhere.
    heir.send(0, &value, b"keynew");
    cluster.run(10);
    let stats = cluster.server.stats();
    assert_eq!((stats.puts, stats.repeated, stats.elsewhere), (1, 1, 1));
}

/// A server that restarts has new slots: what was half-written into the old ones is nowhere.
#[test]
fn rfp_a_server_that_restarts_begins_with_empty_slots() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut guest = cluster.guest(Ticket::NONE);
    let half = guest.message(0, &request(RequestKind::Delete), KEY);
    guest.write(0, &half[..8]);
    cluster.restart();
    let mut honest = cluster.client();
    for round in 0..200u64 {
        assert_eq!(cluster.ask(&mut honest, put(KEY, &round.to_le_bytes())), "stored");
    }
    assert_eq!(cluster.server.client_count(), 1);
}

/// A client vanishes after its request, with a result that nobody fetches, while one is pushed, and in the middle of a long
/// value: nothing of it stays, and the buffers for long values are there for others.
#[test]
fn rfp_clients_that_vanish_in_any_state_are_forgotten() {
    let mut cluster = cluster::<JakiroVariant>();
    let mut honest = cluster.client();
    let large = Request {
        value_bytes: VALUES_BYTES,
        ..request(RequestKind::PutLarge)
    };
    let long_get = Request {
        value_bytes: VALUES_BYTES,
        ..request(RequestKind::Get)
    };
    assert_eq!(cluster.ask(&mut honest, put(KEY, &[7; 3000])), "stored");
    // How many steps the server has before the client vanishes.
    for steps in 0..12 {
        for is_pushed in [false, true] {
            for kind in [request(RequestKind::Get), large, long_get] {
                let mut guest = cluster.guest(Ticket::NONE);
                let layout = guest.layout();
                if is_pushed && steps % 2 == 0 {
                    guest.write(layout.requests_bytes(), &[1; 64]);
                }
                guest.send(0, &kind, KEY);
                cluster.run(steps);
                if is_pushed && steps % 2 == 1 {
                    guest.write(layout.requests_bytes(), &[1; 64]);
                    cluster.run(steps / 4);
                }
                drop(guest);
                cluster.run_until_clients(1);
            }
        }
        let value = vec![steps as u8; 5000];
        assert_eq!(cluster.ask(&mut honest, put(KEY, &value)), "stored");
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{value:?}"), "after {steps} steps");
    }
    assert_eq!(cluster.server.stats().quarantined, 12 * 2 * 3);
}

/// Clients ask for long items and never say that they have READ them: the items stay where they are as long as the client
/// asks for nothing else, and their memory is there for others when it is gone, whatever it has written into its
/// acknowledgements.
#[test]
fn rfp_items_that_vanished_clients_read_are_freed() {
    let mut cluster = cluster::<MemcachedVariant>();
    let mut honest = cluster.client();
    let long = vec![1; 9000];
    assert_eq!(cluster.ask(&mut honest, put(KEY, &long)), "stored");
    let one = cluster.server.used_bytes();
    let mut kept = 0;
    for steps in 0..20 {
        let mut guest = cluster.guest(Ticket::NONE);
        (0..3).for_each(|place| guest.send(place, &request(RequestKind::Get), KEY));
        cluster.run(steps);
        if steps % 3 == 1 {
            guest.acknowledge(&[0xff; 8 * PLACES]);
        }
        if steps % 3 == 2 {
            // The next request of a place ends what was before.
            guest.send(1, &request(RequestKind::Get), b"few");
        }
        let value = vec![steps as u8; 9000];
        assert_eq!(cluster.ask(&mut honest, put(KEY, &value)), "stored");
        kept += usize::from(cluster.server.used_bytes() > one);
        let answer = cluster.ask(&mut honest, Op::Get { key: KEY });
        assert_eq!(answer, format!("{value:?}"), "after {steps} steps");
        drop(guest);
        cluster.run_until_clients(1);
        assert_eq!(cluster.server.used_bytes(), one, "after {steps} steps");
    }
    assert!(kept > 5, "only {kept} of 20 clients had an item");
    assert_eq!(cluster.ask(&mut honest, Op::delete(KEY)), "Deleted");
    cluster.run(5);
    assert_eq!(cluster.server.used_bytes(), 0);
}

/// The server gives a client up that may be in the middle of READing an item, as over shared memory one that was stopped:
/// the item stays where it is until the client is fenced.
#[test]
fn rfp_items_are_kept_until_a_client_that_was_given_up_is_fenced() {
    let device = FaultyDevice::new(loopback(Ns::from_us(5)), FaultOptions::quiet(0));
    let device = device.with_slow_fences(5);
    let mut cluster = Cluster::<Faulty<Loopback>, MemcachedVariant>::new(device);
    let mut honest = cluster.client();
    assert_eq!(cluster.ask(&mut honest, put(KEY, &[1; 9000])), "stored");
    let one = cluster.server.used_bytes();
    let mut guest = cluster.guest(Ticket::NONE);
    guest.send(0, &request(RequestKind::Get), KEY);
    cluster.run(20);
    drop(guest);
    cluster.run_until_clients(1);
    assert_eq!(cluster.ask(&mut honest, put(KEY, &[2; 9000])), "stored");
    assert!(cluster.server.used_bytes() > one, "the guest's item is gone");
    for _ in 0..1_000_000 {
        if cluster.server.used_bytes() == one {
            return;
        }
        cluster.run(1);
    }
    panic!("the guest's item stays for ever");
}

/// On a slow network a READ of a long value takes its time; the client does not ask for it again and again.
#[test]
fn rfp_a_long_value_whose_read_takes_seconds_is_returned() {
    let mut cluster = Cluster::<Loopback, MemcachedVariant>::new(loopback(Ns::from_ms(1)));
    let mut client = cluster.client_with(&ConnectOptions {
        deadline: Ns::from_s(3600),
        ..ConnectOptions::default()
    });
    let long = vec![1; 9000];
    assert_eq!(cluster.ask(&mut client, put(KEY, &long)), "stored");
    let before = cluster.server.stats().in_place;
    let ctx = cluster.ctx.clone();
    let get = Op::Get { key: KEY };
    client.submit(ctx.cpu(), &get, 0).expect("space in the window");
    let mut is_right = None;
    for _ in 0..1000 {
        // Two seconds pass for the client before it looks again.
        for _ in 0..2000 {
            ctx.cpu().refresh();
        }
        client.poll(ctx.cpu(), &mut |done| {
            is_right = Some(matches!(done.outcome, Outcome::Value(value) if *value == long[..]));
        });
        cluster.run(1);
    }
    assert_eq!(is_right, Some(true));
    assert_eq!(cluster.server.stats().in_place - before, 1);
}

/// A client in a thread of its own rewrites its requests while the server reads them: what is executed is one of them.
#[test]
fn rfp_requests_that_are_rewritten_while_they_are_read() {
    use drover_verbs_shm::{Shm, ShmDevice};
    let device = ShmDevice::default();
    let mut cluster = Cluster::<Shm, JakiroVariant>::new(device.clone());
    let mut honest = cluster.client();
    let mut executed = 0;
    for seed in 0..20 {
        let (mut stream, welcome) = cluster.greet(Ticket::NONE);
        let (to_us, from_guest) = mpsc::channel::<Attach>();
        let stop = Arc::new(AtomicBool::new(false));
        let (their_device, their_stop, welcome) = (device.clone(), stop.clone(), welcome.clone());
        let guest = std::thread::spawn(move || {
            let ctx = Rc::new(their_device.context().expect("a context"));
            let mut guest = Guest::<Shm>::new(&ctx, &welcome);
            to_us.send(guest.attach()).expect("the server");
            let mut rng = Rng::new(seed, 0, 0);
            let messages: Vec<Vec<u8>> = [b"one", b"two", b"six"]
                .map(|value| {
                    let put = Request {
                        value_bytes: 100,
                        ..request(RequestKind::Put)
                    };
                    let tail = [&b"his"[..], &value.repeat(34)[..100]].concat();
                    guest.begin_again();
                    guest.message(0, &put, &tail)
                })
                .to_vec();
            while !their_stop.load(Ordering::Relaxed) {
                let [first, second] = [0, 1].map(|_| &messages[rng.below(3) as usize]);
                guest.write(0, first);
                let from = rng.below(second.len() as u64) as usize;
                guest.write(from & !7, &second[from & !7..]);
            }
        });
        let attach = from_guest.recv().expect("a guest");
        cluster.attach(&mut stream, attach);
        for _ in 0..50 {
            cluster.run(20);
            assert_eq!(cluster.ask(&mut honest, put(KEY, b"mine")), "stored");
        }
        let answer = cluster.ask(&mut honest, Op::Get { key: b"his" });
        if answer != "NotFound" {
            let is_whole = [b"one", b"two", b"six"].iter().any(|value| {
                let whole = &value.repeat(34)[..100];
                answer == format!("{whole:?}")
            });
            assert!(is_whole, "{answer}");
            executed += 1;
        }
        stop.store(true, Ordering::Relaxed);
        guest.join().expect("the guest");
        drop(stream);
        cluster.run_until_clients(1);
    }
    println!("{executed} of 20 had a request executed");
}
