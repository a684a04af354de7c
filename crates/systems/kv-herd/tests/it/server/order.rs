//! Order, fairness, and that nobody waits for ever.

use crate::server::fake::{Fake, LONG, World, hello, options};
use drover_base::Progress;
use drover_kv_herd::control::Hello;
use drover_kv_herd::layout::{SlotOp, Status};
use drover_kv_herd::server::{Mistake, ServeMode, ServerOptions};

fn modes() -> [ServeMode; 3] {
    [
        ServeMode::Batch { batch: 32 },
        ServeMode::Pipeline { drain: true },
        ServeMode::Pipeline { drain: false },
    ]
}

/// Test 10: PUT k=1; GET k; PUT k=2, pipelined by one client.
fn get_between_two_puts(options: &ServerOptions, mistake: Option<Mistake>) -> Vec<u8> {
    let mut world = World::with(options, mistake);
    let mut fake = world.connect();
    fake.send(SlotOp::Put, b"k", b"1");
    fake.send(SlotOp::Get, b"k", b"");
    fake.send(SlotOp::Put, b"k", b"2");
    world.settle();
    let replies = fake.replies();
    assert_eq!(replies.len(), 3);
    assert_eq!(fake.get(&mut world, b"k"), Some(b"2".to_vec()));
    let of_the_get = replies.iter().find(|reply| reply.slot == 1);
    of_the_get.expect("the second slot's").payload.clone()
}

#[test]
fn a_pipelined_get_sees_what_was_sent_before_it() {
    for mode in modes() {
        assert_eq!(
            get_between_two_puts(&ServerOptions { mode, ..options() }, None),
            b"1",
            "{mode:?}"
        );
    }
}

#[test]
fn flaw_newer_first_is_caught() {
    let flawed = ServerOptions {
        mode: ServeMode::Pipeline { drain: true },
        ..options()
    };
    assert_eq!(
        get_between_two_puts(&flawed, Some(Mistake::NewerFirst)),
        b"2",
        "a value from the future"
    );
}

/// One batch with a PUT and GETs of one key, both ways round (defect 8: a reply that is still read from the log
/// when a later PUT of the batch overwrites the item).
#[test]
fn defect_8_replies_of_a_batch_are_of_their_moment() {
    let mut world = World::new(&options());
    let mut fake = world.connect_as(Hello {
        window: 32,
        ..hello()
    });
    fake.put(&mut world, b"k", &[0; 400]);
    for round in 1..20u8 {
        for value in [round, round + 100] {
            fake.send(SlotOp::Get, b"k", b"");
            fake.send(SlotOp::Put, b"k", &[value; 400]);
        }
        fake.send(SlotOp::Get, b"k", b"");
        world.settle();
        let replies = fake.replies();
        let before = if round == 1 { 0 } else { round + 99 };
        assert_eq!(replies[0].payload, [before; 400]);
        assert_eq!(replies[2].payload, [round; 400]);
        assert_eq!(replies[4].payload, [round + 100; 400]);
    }
    assert!(
        world.counters().replies.doorbells < world.counters().replies.posted / 4,
        "they were batches"
    );
}

/// Defect 6: between the stages of a GET its item is overwritten (the log is short), or its bucket changes.
#[test]
fn defect_6_an_item_overwritten_between_the_stages_is_a_miss_not_garbage() {
    for mode in modes() {
        let mut short_log = ServerOptions { mode, ..options() };
        short_log.partition.log_bytes = 4096;
        short_log.partition.bucket_count = 64;
        let mut world = World::new(&short_log);
        let mut fake = world.connect_as(Hello { window: 8, ..hello() });
        for round in 0..50u8 {
            fake.put(&mut world, b"victim", &[round; 32]);
            for filler in 0..5u8 {
                fake.send(SlotOp::Put, format!("filler{filler}").as_bytes(), &[0xee; 800]);
            }
            fake.send(SlotOp::Get, b"victim", b"");
            fake.send(SlotOp::Put, b"filler9", &[0xee; 900]);
            world.settle();
            let replies = fake.replies();
            let reply = &replies[5];
            match reply.status {
                Status::Ok => assert_eq!(reply.payload, [round; 32]),
                status => assert_eq!(status, Status::NotFound),
            }
        }
    }
}

/// How many steps one lone request takes until its reply, at most `limit`.
fn steps_for_a_lone_request(options: &ServerOptions, mistake: Option<Mistake>, limit: usize) -> usize {
    let mut world = World::with(options, mistake);
    let mut fake = world.connect_as(Hello { window: 1, ..hello() });
    fake.send(SlotOp::Get, b"k", b"");
    (1..=limit)
        .find(|_| {
            world.step(0);
            !fake.replies().is_empty()
        })
        .unwrap_or(usize::MAX)
}

/// Test 9: one client with one request under way must not wait for a second one.
#[test]
fn a_lone_request_is_answered() {
    let steps = |drain| {
        let mode = ServeMode::Pipeline { drain };
        steps_for_a_lone_request(&ServerOptions { mode, ..options() }, None, 1000)
    };
    let (with_drain, with_nops) = (steps(true), steps(false));
    assert!(with_drain <= 2, "{with_drain}");
    assert!(
        (100..=300).contains(&with_nops),
        "two no-ops of 100 failed polls each: {with_nops}"
    );
    assert_eq!(
        steps_for_a_lone_request(&options(), None, 10),
        1,
        "a batch waits for nobody"
    );
}

#[test]
fn flaw_no_nop_is_caught() {
    let mode = ServeMode::Pipeline { drain: false };
    let flawed = ServerOptions { mode, ..options() };
    assert_eq!(
        steps_for_a_lone_request(&flawed, Some(Mistake::NoNop), 1000),
        usize::MAX
    );
}

/// Position 1 is lost. The server takes 0, waits, then looks around and takes 2 and 3; when 1 comes it is taken,
/// and the pair goes on with 4.
fn served_behind_a_lost_request(options: &ServerOptions, mistake: Option<Mistake>) -> usize {
    let mut world = World::with(options, mistake);
    let mut fake = world.connect();
    fake.put(&mut world, b"k0", b"0");
    let lost = fake.next(SlotOp::Put, b"k1", b"1", 0);
    fake.send(SlotOp::Put, b"k2", b"2");
    fake.send(SlotOp::Put, b"k3", b"3");
    for _ in 0..64 * 64 {
        world.step(0);
    }
    let served = fake.replies().len();
    fake.again(&lost, 1);
    world.settle();
    fake.send(SlotOp::Put, b"k4", b"4");
    world.settle();
    assert_eq!(served + fake.replies().len(), 4, "everybody is served in the end");
    for (key, value) in [
        (b"k0", b"0"),
        (b"k1", b"1"),
        (b"k2", b"2"),
        (b"k3", b"3"),
        (b"k4", b"4"),
    ] {
        assert_eq!(fake.get(&mut world, key), Some(value.to_vec()));
    }
    served
}

#[test]
fn a_lost_request_does_not_block_those_behind_it() {
    assert_eq!(served_behind_a_lost_request(&options(), None), 2);
}

#[test]
fn flaw_never_looks_around_is_caught() {
    assert_eq!(
        served_behind_a_lost_request(&options(), Some(Mistake::NeverLooksAround)),
        0
    );
}

/// A lost reply: the retransmission is in a slot whose turn is over.
#[test]
fn a_retransmission_behind_the_turn_is_found() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    let sent = fake.send(SlotOp::Put, b"k", b"v");
    fake.reply(&mut world);
    fake.again(&sent, 1);
    assert_eq!(fake.reply(&mut world).status, Status::Ok);
    assert_eq!(world.counters().irregular.out_of_turn, 1);
}

/// Replies that the quiet client gets while a hot one keeps its window full for ever.
fn quiet_clients_share(options: &ServerOptions) -> (usize, usize) {
    let mut world = World::new(options);
    let wide = Hello {
        window: 64,
        ..hello()
    };
    let mut hot: Vec<Fake> = (0..2).map(|_| world.connect_as(wide.clone())).collect();
    let mut quiet = world.connect();
    let (mut hot_served, mut quiet_served) = (0, 0);
    for client in &mut hot {
        (0..64).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
    }
    quiet.send(SlotOp::Get, b"k", b"");
    for _ in 0..12 {
        world.step(0);
        for client in &mut hot {
            let count = client.replies().len();
            hot_served += count;
            (0..count).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
        }
        let count = quiet.replies().len();
        quiet_served += count;
        (0..count).for_each(|_| drop(quiet.send(SlotOp::Get, b"k", b"")));
    }
    (hot_served, quiet_served)
}

#[test]
fn a_hot_client_does_not_starve_another() {
    let small_batches = ServerOptions {
        mode: ServeMode::Batch { batch: 16 },
        ..options()
    };
    let (hot, quiet) = quiet_clients_share(&small_batches);
    assert!(quiet >= 3, "served once per round: {quiet}");
    assert!(hot > 100, "{hot}");
}

#[test]
fn two_hot_clients_get_equal_shares() {
    let mut world = World::new(&ServerOptions {
        mode: ServeMode::Batch { batch: 8 },
        ..options()
    });
    let wide = Hello {
        window: 64,
        ..hello()
    };
    let mut clients = [world.connect_as(wide.clone()), world.connect_as(wide)];
    for client in &mut clients {
        (0..64).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
    }
    for _ in 0..8 {
        world.step(0);
    }
    let served = clients.each_mut().map(|client| client.replies().len());
    assert_eq!(served, [32, 32]);
}

/// What one batch takes of two clients whose windows are full and would each fill it.
fn served_of_two(mistake: Option<Mistake>) -> [usize; 2] {
    let narrow = ServerOptions {
        mode: ServeMode::Batch { batch: 8 },
        ..options()
    };
    let mut world = World::with(&narrow, mistake);
    let mut clients = [(); 2].map(|()| world.connect_as(Hello { window: 8, ..hello() }));
    for client in &mut clients {
        (0..8).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
    }
    world.step(0);
    clients.each_mut().map(|client| client.replies().len())
}

/// So that the first requests of the second client do not wait for the last ones of the first.
#[test]
fn a_client_takes_half_its_window_of_a_batch() {
    assert_eq!(served_of_two(None), [4, 4]);
}

#[test]
fn flaw_no_quota_is_caught() {
    assert_eq!(served_of_two(Some(Mistake::NoQuota)), [8, 0]);
}

#[test]
fn windows_wrap_for_long() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    for round in 0..200u32 {
        for i in 0..4u32 {
            fake.send(SlotOp::Put, &i.to_le_bytes(), &round.to_le_bytes());
        }
        world.settle();
        let replies = fake.replies();
        assert_eq!(replies.len(), 4);
        assert!(
            replies
                .iter()
                .all(|reply| reply.seq == round + 1 && reply.status == Status::Ok)
        );
    }
    assert_eq!(world.counters().operations.puts, 800);
}

/// Many silent clients cost little and are still heard.
#[test]
fn cold_clients_are_heard() {
    let mut world = World::new(&options());
    let mut fakes: Vec<Fake> = (0..40).map(|_| world.connect()).collect();
    for _ in 0..64 * 64 {
        world.step(0);
    }
    for (i, fake) in fakes.iter_mut().enumerate() {
        fake.send(SlotOp::Put, format!("k{i}").as_bytes(), b"v");
    }
    world.settle();
    for fake in &mut fakes {
        assert_eq!(fake.replies().len(), 1);
    }
}

/// Two clients that fill every batch do not keep a worker from those that were silent for long.
#[test]
fn cold_clients_are_heard_beside_busy_ones() {
    let mut world = World::new(&ServerOptions {
        mode: ServeMode::Batch { batch: 8 },
        ..options()
    });
    let mut cold: Vec<Fake> = (0..40).map(|_| world.connect()).collect();
    for _ in 0..64 * 64 {
        world.step(0);
    }
    let wide = Hello {
        window: 64,
        ..hello()
    };
    let mut busy = [(); 2].map(|()| world.connect_as(wide.clone()));
    for client in &mut busy {
        (0..64).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
    }
    for fake in &mut cold {
        fake.send(SlotOp::Put, b"k", b"v");
    }
    let mut heard = 0;
    for _ in 0..200 {
        world.step(0);
        for client in &mut busy {
            (0..client.replies().len()).for_each(|_| drop(client.send(SlotOp::Get, b"k", b"")));
        }
        heard += cold.iter_mut().map(|fake| fake.replies().len()).sum::<usize>();
    }
    assert_eq!(heard, 40);
}

#[test]
fn idle_is_said_only_when_every_slot_was_looked_at() {
    let mut world = World::new(&options());
    let mut fake = world.connect();
    assert!(matches!(world.step(0), Progress::Idle { .. }));
    fake.send(SlotOp::Put, b"k", b"v");
    assert_eq!(world.step(0), Progress::Busy);
    let sent = fake.send(SlotOp::Put, b"k", b"w");
    assert_eq!(world.step(0), Progress::Busy);
    // A retransmission in a slot whose turn is over is seen before sleep.
    fake.again(&sent, 1);
    assert_eq!(world.step(0), Progress::Busy);
    assert!(matches!(world.step(0), Progress::Idle { .. }));
    world.device.advance(LONG);
    assert!(matches!(world.step(0), Progress::Idle { .. }));
}
