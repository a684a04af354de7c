//! The server in threads of its own, on a fabric whose sleeps are real. No clock decides anything here: every
//! wait is for a message.

use crate::planted::Planted;
use crate::server::fake::{hello, options, send};
use drover_base::Ns;
use drover_control::ControlStream;
use drover_kv::{HostingService, StartError};
use drover_kv_herd::control::Message;
use drover_kv_herd::server::{ClientLimits, Mistake, Server, ServerOptions};
use drover_verbs::{Context, Device};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions, ParkMode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

fn device() -> LoopbackDevice {
    let fabric = LoopbackOptions {
        park: ParkMode::Block,
        ..LoopbackOptions::default()
    };
    LoopbackDevice::with_options(fabric)
}

#[test]
fn it_starts_answers_and_stops() {
    let device = device();
    let two = ServerOptions {
        partition_count: 2,
        idle: drover_rt::Idle::Sleep,
        ..options()
    };
    let server = Server::<Loopback>::start(&device, None, &two, |_| {}).expect("server");
    let (mut stream, other) = ControlStream::pair();
    server.adopt(other);
    send(&mut stream, &Message::Hello(hello()));
    let ctx = device.context().expect("context");
    // Loopback's clock runs by looks, not by seconds: a bound on looks of at least 100 us each.
    let frame = stream.recv_until(ctx.cpu(), Ns::from_s(3600)).expect("an answer");
    let message = Message::decode(frame.kind, &frame.body, frame.fds).expect("a message");
    assert!(matches!(message, Message::Welcome(welcome) if welcome.partition_count == 2));
    let stats = server.stats().expect("workers answer");
    assert_eq!(stats.workers.len(), 2);
    server.stop();
    assert!(
        stream.recv(Ns::ZERO).is_ok_and(|frame| frame.is_some()),
        "goodbye"
    );
}

#[test]
fn workers_that_keep_silent_are_named() {
    let two = ServerOptions {
        partition_count: 2,
        ..options()
    };
    let variant = Planted(Some(Mistake::KeepsSilent));
    let server =
        Server::<Loopback>::start_as(&device(), None, &two, |_| {}, None, variant).expect("it starts");
    let answer = HostingService::stats(&server, Duration::from_millis(1));
    assert_eq!(answer.err().as_deref(), Some("no answer from worker 0, 1"));
}

/// A worker that cannot go on ends the server, and clients hear of it: better than a partition that is silent.
#[test]
fn a_worker_that_gives_up_ends_the_server() {
    let device = device();
    let doomed = ServerOptions {
        partition_count: 2,
        ..options()
    };
    let variant = Planted(Some(Mistake::PanicsAlways));
    let server =
        Server::<Loopback>::start_as(&device, None, &doomed, |_| {}, None, variant).expect("it starts");
    let mut stream = {
        let (ours, other) = ControlStream::pair();
        server.adopt(other);
        ours
    };
    let mut ended = [PollFd::from_borrowed_fd(server.ended(), PollFlags::IN)];
    let patience = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    assert_eq!(poll(&mut ended, Some(&patience)), Ok(1), "it ends");
    let why = server.why().expect("nobody asked it to");
    assert!(why.ends_with("gave up: it panicked 16 times"), "{why}");
    let ctx = device.context().expect("context");
    let last_words = stream.recv_until(ctx.cpu(), Ns::from_s(3600));
    assert!(
        last_words.is_err() || stream.recv_until(ctx.cpu(), Ns::from_s(3600)).is_err(),
        "the channel is closed"
    );
}

#[test]
fn options_that_cannot_be_are_refused() {
    let start = |options: ServerOptions| Server::<Loopback>::start(&device(), None, &options, |_| {}).err();
    let bad = [
        ServerOptions {
            partition_count: 0,
            ..options()
        },
        ServerOptions {
            partition_count: 5000,
            ..options()
        },
        ServerOptions {
            clients: ClientLimits {
                window_max: 3,
                ..options().clients
            },
            ..options()
        },
        ServerOptions {
            clients: ClientLimits {
                slot_bytes_max: 100,
                ..options().clients
            },
            ..options()
        },
        ServerOptions {
            clients: ClientLimits {
                count_max: 0,
                ..options().clients
            },
            ..options()
        },
        ServerOptions {
            item_bytes_max: 1 << 30,
            ..options()
        },
    ];
    for options in bad {
        assert!(matches!(start(options), Some(StartError::Options { .. })));
    }
    let mut fabric = LoopbackOptions::default();
    fabric.caps.supports.uc = false;
    let device = LoopbackDevice::with_options(fabric);
    let refused = Server::<Loopback>::start(&device, None, &options(), |_| {}).err();
    assert!(matches!(refused, Some(StartError::Fabric { .. })));
}
