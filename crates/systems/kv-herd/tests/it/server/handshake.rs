//! The control channel: who gets in, who is sent away, and that replies go to whom they belong.

use crate::server::fake::{Fake, World, hello, options, receive, send};
use drover_base::{Actor, Ns};
use drover_control::ControlStream;
use drover_control::service::{StatsQuery, StatsReply};
use drover_kv_herd::control::{ErrorCode, Format, FrontEnd, Hello, Message};
use drover_kv_herd::layout::{SlotMap, SlotOp, Status};
use drover_kv_herd::server::{ClientLimits, RequestRules, Server, ServerOptions};
use drover_verbs::{Context, Device, Export};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};

fn refusal(world: &mut World, hello: Hello) -> ErrorCode {
    match Fake::connect(world, hello) {
        Err(Message::Error { code, .. }) => code,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("let in"),
    }
}

#[test]
fn strangers_are_told_why() {
    let mut world = World::new(&ServerOptions {
        clients: ClientLimits {
            count_max: 1,
            ..options().clients
        },
        requests: RequestRules {
            auth: b"secret".to_vec(),
            ..options().requests
        },
        ..options()
    });
    let known = Hello {
        auth: b"secret".to_vec(),
        ..hello()
    };
    assert_eq!(refusal(&mut world, hello()), ErrorCode::Auth);
    assert_eq!(
        refusal(
            &mut world,
            Hello {
                protocol_version: 9,
                ..known.clone()
            }
        ),
        ErrorCode::Version
    );
    let mut first = Fake::connect(&mut world, known.clone()).expect("welcome");
    assert_eq!(refusal(&mut world, known.clone()), ErrorCode::TooManyClients);
    first.hang_up(&mut world);
    assert!(Fake::connect(&mut world, known).is_ok(), "space again");
    assert_eq!(world.acceptor.session_count(), 1, "refused sessions are gone");
}

#[test]
fn any_wish_becomes_a_valid_map() {
    let mut world = World::new(&ServerOptions {
        partition_count: 3,
        clients: ClientLimits {
            window_max: 64,
            ..options().clients
        },
        ..options()
    });
    for window in [0, 1, 3, 16, 200, u16::MAX] {
        for slot_bytes in [0, 1, 64, 100, 1024, 4000, u16::MAX] {
            let wish = Hello {
                window,
                slot_bytes,
                ..hello()
            };
            let mut fake = world.connect_as(wish);
            let map = SlotMap {
                slot_bytes: fake.welcome.slot_bytes.into(),
                window: fake.welcome.window.into(),
                partition_count: fake.welcome.partition_count.into(),
            };
            assert!(map.is_valid() && map.slot_bytes <= 1024, "{map:?}");
            assert!(map.window <= usize::from(window).clamp(1, 64), "{map:?}");
            fake.hang_up(&mut world);
        }
    }
}

/// The paper's format is for reproducing the paper: `drover serve` does not offer it.
#[test]
fn the_shipped_server_does_not_speak_the_papers_format() {
    let device = LoopbackDevice::new();
    let (mut acceptor, _workers) = Server::<Loopback>::in_pieces(&device, &options()).expect("a server");
    let (mut stream, server) = ControlStream::pair();
    acceptor.adopt(server);
    let paper = Hello {
        format: Format::P,
        ..hello()
    };
    send(&mut stream, &Message::Hello(paper));
    let ctx = acceptor.context();
    acceptor.step(ctx.cpu());
    let refused = receive(&ctx, &mut stream);
    assert!(
        matches!(
            &refused,
            Some(Message::Error {
                code: ErrorCode::NotSupported,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn clients_beyond_the_slots_are_asked_for_datagrams() {
    let with = |datagram_recvs| {
        World::new(&ServerOptions {
            clients: ClientLimits {
                count_max: 3,
                with_slots_max: 1,
                datagram_recvs,
                ..options().clients
            },
            ..options()
        })
    };
    let datagrams = || Hello {
        front_end: FrontEnd::Datagrams,
        ..hello()
    };
    let mut world = with(64);
    let mut first = world.connect();
    assert_eq!(refusal(&mut world, hello()), ErrorCode::NoSlots);
    let mut others = [world.connect_as(datagrams()), world.connect_as(datagrams())];
    assert_eq!(refusal(&mut world, datagrams()), ErrorCode::TooManyClients);
    first.put(&mut world, b"k", b"v");
    for other in &mut others {
        assert_eq!(other.get(&mut world, b"k"), Some(b"v".to_vec()));
    }
    first.hang_up(&mut world);
    assert!(Fake::connect(&mut world, hello()).is_ok(), "slots again");

    let mut world = with(0);
    let _first = world.connect();
    assert_eq!(refusal(&mut world, hello()), ErrorCode::TooManyClients);
}

/// The authors' code files a client's address under the order of its arrival while the client names itself: when
/// two connect out of order, each gets the other's replies. Our ids are the server's.
#[test]
fn replies_find_their_client_whatever_the_order_of_attaching() {
    let mut world = World::new(&options());
    let mut one = world.connect();
    let mut two = world.connect();
    one.put(&mut world, b"one", b"1");
    two.put(&mut world, b"two", b"2");
    // The first goes and comes back: its id is the smallest free one again, its generation a new one.
    let id = one.welcome.client_id;
    one.hang_up(&mut world);
    let mut three = world.connect();
    assert_eq!((three.welcome.client_id, three.welcome.generation), (id, 1));
    two.send(SlotOp::Get, b"two", b"");
    three.send(SlotOp::Get, b"one", b"");
    world.settle();
    assert_eq!(two.replies()[0].payload, b"2");
    assert_eq!(three.replies()[0].payload, b"1");
    assert!(one.replies().is_empty());
}

/// A raw control channel after `frames`: the server's answers, and whether it closed.
fn talk(world: &mut World, frames: &[(u16, Vec<u8>)]) -> (Vec<Message>, bool) {
    let ctx = world.device.context().expect("context");
    let (mut stream, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    for (kind, body) in frames {
        // The server may have closed by now.
        let _ = stream.send(*kind, body, &[]);
        world.settle();
    }
    let mut said = Vec::new();
    while let Some(message) = receive(&ctx, &mut stream) {
        said.push(message);
    }
    (said, stream.is_closed())
}

fn frame(message: &Message) -> (u16, Vec<u8>) {
    let frame = message.encode();
    (frame.kind, frame.body)
}

#[test]
fn hostile_frames_end_their_session_only() {
    let mut world = World::new(&options());
    let mut good = world.connect();
    let hello = frame(&Message::Hello(hello()));
    let scripts: Vec<Vec<(u16, Vec<u8>)>> = vec![
        vec![(17, vec![])],
        vec![(17, vec![0xff; 100])],
        vec![(999, vec![1, 2, 3])],
        vec![frame(&Message::Ready)],
        vec![hello.clone(), hello.clone()],
        vec![
            hello.clone(),
            frame(&Message::BulkOpen {
                chunk_count: 1,
                short_count: 1,
            }),
        ],
        vec![
            hello.clone(),
            frame(&Message::Attach {
                uc: Export::default(),
            }),
        ],
        vec![
            hello.clone(),
            frame(&Message::Replies {
                partition: 77,
                ud: Export::default(),
            }),
        ],
        vec![
            hello.clone(),
            frame(&Message::Replies {
                partition: 0,
                ud: Export::default(),
            }),
            frame(&Message::Replies {
                partition: 0,
                ud: Export::default(),
            }),
        ],
    ];
    for script in scripts {
        let (said, closed) = talk(&mut world, &script);
        assert!(closed, "{script:?}");
        assert!(matches!(said.last(), Some(Message::Error { .. })), "{said:?}");
    }
    world.settle();
    assert_eq!(world.acceptor.session_count(), 1);
    good.put(&mut world, b"k", b"v");
}

#[test]
fn a_useless_reply_address_is_refused() {
    let mut world = World::new(&options());
    let other = world.connect();
    let ctx = world.device.context().expect("context");
    let (mut stream, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    send(&mut stream, &Message::Hello(hello()));
    world.settle();
    let _welcome = receive(&ctx, &mut stream);
    // A stranger's end is no peer for UC either.
    send(
        &mut stream,
        &Message::Attach {
            uc: other.welcome.slots.uc.clone(),
        },
    );
    send(
        &mut stream,
        &Message::Replies {
            partition: 0,
            ud: Export {
                bytes: vec![9; 9],
                fds: vec![],
            },
        },
    );
    world.settle();
    assert!(matches!(receive(&ctx, &mut stream), Some(Message::Error { .. })));
    drop(stream);
    world.settle();
    assert_eq!(world.acceptor.session_count(), 1);
}

#[test]
fn silence_is_not_waited_for() {
    let mut world = World::new(&options());
    let (stream, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    world.settle();
    assert_eq!(world.acceptor.session_count(), 1);
    world.device.advance(Ns::from_s(11));
    world.settle();
    assert_eq!(world.acceptor.session_count(), 0);
    drop(stream);
}

/// The answer to the statistics query that all systems understand.
fn asked_as_any_system(world: &mut World) -> Option<StatsReply> {
    let (mut stream, server) = ControlStream::pair();
    world.acceptor.adopt(server);
    stream.send_message(&StatsQuery).expect("space for a frame");
    world.settle();
    let frame = stream.recv(Ns::ZERO).ok().flatten()?;
    frame.decode().ok()
}

#[test]
fn a_stranger_to_the_secret_gets_no_statistics() {
    let mut world = World::new(&ServerOptions {
        requests: RequestRules {
            auth: b"secret".to_vec(),
            ..RequestRules::default()
        },
        ..options()
    });
    assert_eq!(asked_as_any_system(&mut world), None);
}

#[test]
fn statistics() {
    let mut world = World::new(&ServerOptions {
        partition_count: 2,
        ..options()
    });
    let mut fake = world.connect();
    fake.put(&mut world, b"k", b"v");
    fake.get(&mut world, b"k");
    fake.get(&mut world, b"nothing");
    fake.send_control(&Message::StatsRequest);
    world.settle();
    let Some(Message::Stats { text }) = fake.receive() else {
        panic!("no statistics");
    };
    let reply = asked_as_any_system(&mut world).expect("statistics");
    assert_eq!(
        reply.text, text,
        "the same to a stranger that asks any system alike"
    );
    for line in [
        "threads 2",
        "curr_connections 1",
        "cmd_get 2",
        "get_hits 1",
        "get_misses 1",
        "cmd_set 1",
        "curr_items 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
    }
    assert_eq!(fake.call(&mut world, SlotOp::Get, b"k", b"").status, Status::Ok);
}
