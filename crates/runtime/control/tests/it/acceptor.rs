//! Goal: a control server serves many, refuses too many, cuts off the bad and tells about every end, once.

use drover_base::{Actor, Ns, Progress};
use drover_control::acceptor::{ConnId, ControlHandler, ControlServer, Peers};
use drover_control::{
    BEAT_EVERY, ControlAddr, ControlError, ControlListener, ControlStream, Frame, kind, refusal,
};
use drover_rt::{StopFlag, WakeFd};
use drover_testkit::bounded;
use drover_verbs::{Context, Device};
use drover_verbs_suite::loopback::{LoopbackCpu, LoopbackDevice, LoopbackOptions};

/// Sends every frame back; kind 66 asks to be refused, kind 77 to be closed.
#[derive(Default)]
pub struct Echo {
    open: Vec<ConnId>,
    ends: Vec<String>,
    ticks: usize,
}

impl ControlHandler for Echo {
    fn on_connect(&mut self, _: &mut Peers, conn: ConnId) {
        self.open.push(conn);
    }

    fn on_frame(&mut self, peers: &mut Peers, conn: ConnId, frame: Frame) {
        match frame.kind {
            66 => peers.refuse(conn, 66, "as you wish"),
            77 => peers.close(conn),
            kind => drop(peers.send(conn, kind, &frame.body, &frame.fds)),
        }
    }

    fn on_close(&mut self, peers: &mut Peers, conn: ConnId, why: &ControlError) {
        assert!(!peers.is_open(conn));
        let at = self
            .open
            .iter()
            .position(|&id| id == conn)
            .expect("was open, and not closed before");
        self.open.swap_remove(at);
        self.ends.push(why.to_string());
    }

    fn on_tick(&mut self, _: &mut Peers, _: Ns) -> Progress {
        self.ticks += 1;
        Progress::Idle { wake_at: Ns::MAX }
    }
}

pub struct Bed {
    pub device: LoopbackDevice,
    ctx: drover_verbs_suite::loopback::LoopbackContext,
    pub server: ControlServer<Echo>,
}

impl Bed {
    pub fn new(connections_max: usize) -> Bed {
        // A clock that moves only by hand.
        let options = LoopbackOptions {
            tick: Ns::ZERO,
            ..LoopbackOptions::default()
        };
        let device = LoopbackDevice::with_options(options);
        let ctx = device.context().expect("context");
        let server = ControlServer::new(Echo::default(), connections_max);
        Bed { device, ctx, server }
    }

    fn cpu(&self) -> &LoopbackCpu {
        self.ctx.cpu()
    }

    pub fn turn(&mut self) {
        self.server.turn(self.ctx.cpu(), Ns::ZERO);
    }

    /// A turn that waits a little for sockets.
    pub fn waiting_turn(&mut self) {
        self.server.turn(self.ctx.cpu(), Ns::from_ms(10));
    }

    /// Why connections have ended since the last call.
    pub fn ends(&mut self) -> Vec<String> {
        std::mem::take(&mut self.server.parts().0.ends)
    }

    pub fn client(&mut self) -> ControlStream {
        let (client, server) = ControlStream::pair();
        let _ = self.server.adopt(server);
        client
    }
}

fn localhost() -> ControlListener {
    let addr: ControlAddr = "tcp://127.0.0.1:0".parse().expect("address");
    ControlListener::bind(&addr).expect("bind")
}

#[test]
fn frames_come_back_on_every_carrier() {
    let mut bed = Bed::new(10);
    let listener = localhost();
    let tcp = ControlStream::connect(listener.addr(), Ns::from_s(5)).expect("connect");
    bed.server.listen(listener);
    let (a, b) = std::os::unix::net::UnixStream::pair().expect("socketpair");
    let _ = bed.server.adopt(ControlStream::from_unix(b).expect("stream"));
    let mut clients = [bed.client(), ControlStream::from_unix(a).expect("stream"), tcp];
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(20 + i as u16, &[i as u8; 1000], &[]).expect("send");
    }
    for (i, client) in clients.iter_mut().enumerate() {
        let frame = (0..1000).find_map(|_| {
            bed.server.turn(bed.ctx.cpu(), Ns::from_ms(10));
            client.recv(Ns::ZERO).expect("open")
        });
        assert_eq!(frame.expect("an answer").body, [i as u8; 1000]);
    }
    assert_eq!(bed.server.peers().len(), 3);
    drop(clients);
    for _ in 0..1000 {
        bed.server.turn(bed.ctx.cpu(), Ns::from_ms(10));
        if bed.server.peers().is_empty() {
            break;
        }
    }
    assert_eq!(bed.ends(), vec!["the peer closed the control channel"; 3]);
    assert!(bed.server.handler().open.is_empty());
}

#[test]
fn too_many_connections_are_refused_and_space_is_made_again() {
    let mut bed = Bed::new(2);
    let (first, _second, mut third) = (bed.client(), bed.client(), bed.client());
    let Err(ControlError::Refused { code, reason }) = third.recv(Ns::ZERO) else {
        panic!("not refused");
    };
    assert_eq!(code, refusal::TOO_MANY_CONNECTIONS);
    assert!(reason.contains("2 connections"), "{reason}");
    drop(first);
    bed.turn();
    assert!(bed.client().recv(Ns::ZERO).expect("accepted").is_none());
}

#[test]
fn the_handler_can_refuse_and_close() {
    let mut bed = Bed::new(10);
    let (mut a, mut b) = (bed.client(), bed.client());
    a.send(66, b"", &[]).expect("send");
    a.send(20, b"never handled", &[]).expect("send");
    b.send(77, b"", &[]).expect("send");
    bed.turn();
    assert!(matches!(
        a.recv(Ns::ZERO),
        Err(ControlError::Refused { code: 66, .. })
    ));
    assert!(matches!(b.recv(Ns::ZERO), Err(ControlError::Closed)));
    assert_eq!(bed.ends(), vec!["closed on this side"; 2]);
}

#[test]
fn garbage_ends_its_connection_only() {
    let mut bed = Bed::new(10);
    let (mut raw, end) = std::os::unix::net::UnixStream::pair().expect("socketpair");
    let _ = bed.server.adopt(ControlStream::from_unix(end).expect("stream"));
    let mut good = bed.client();
    std::io::Write::write_all(&mut raw, b"get user42\r\n").expect("write");
    good.send(20, b"still served", &[]).expect("send");
    bed.turn();
    let ends = bed.ends();
    assert!(
        ends.len() == 1 && ends[0].contains("not a drover control channel"),
        "{ends:?}"
    );
    assert_eq!(
        good.recv(Ns::ZERO).expect("open").expect("answer").body,
        b"still served"
    );
    // The stranger is told, too.
    let mut stranger = ControlStream::from_unix(raw).expect("stream");
    assert!(matches!(
        stranger.recv(Ns::ZERO),
        Err(ControlError::Refused {
            code: refusal::BAD_FRAME,
            ..
        })
    ));
}

#[test]
fn a_greedy_peer_gets_its_share_and_no_more() {
    let mut bed = Bed::new(10);
    let (mut greedy, mut modest) = (bed.client(), bed.client());
    for i in 0..500u16 {
        greedy.send(1000 + i, b"", &[]).expect("send");
    }
    modest.send(20, b"", &[]).expect("send");
    bed.turn();
    assert!(
        modest.recv(Ns::ZERO).expect("open").is_some(),
        "served in the first turn"
    );
    let mut next = 1000;
    for _ in 0..100 {
        while let Some(frame) = greedy.recv(Ns::ZERO).expect("open") {
            assert_eq!(frame.kind, next);
            next += 1;
        }
        bed.turn();
    }
    assert_eq!(next, 1500);
}

#[test]
fn a_dead_silent_client_is_dropped_and_a_beating_one_stays() {
    let mut bed = Bed::new(10);
    let (_silent, mut beating) = (bed.client(), bed.client());
    for second in 0..10 {
        bed.turn();
        let _ = beating.recv(Ns::from_s(second)).expect("alive");
        bed.device.advance(Ns::from_s(1));
    }
    assert_eq!(bed.ends(), vec!["the peer has been silent for 3 heartbeats"]);
    assert_eq!(bed.server.peers().len(), 1);
    assert_eq!(bed.cpu().now_seconds(), 9);
}

/// Reads better in the assertion above.
trait Seconds {
    fn now_seconds(&self) -> u64;
}

impl Seconds for LoopbackCpu {
    fn now_seconds(&self) -> u64 {
        drover_base::Cpu::now(self).as_s()
    }
}

#[test]
fn a_client_that_never_reads_is_cut_off() {
    let mut bed = Bed::new(10);
    let mut client = bed.client();
    for _ in 0..200 {
        let _ = client.send(20, &[0; 60_000], &[]);
        bed.turn();
    }
    assert!(client.is_closed() || bed.server.peers().is_empty());
    let ends = bed.ends();
    assert!(ends.len() == 1 && ends[0].contains("does not read"), "{ends:?}");
}

/// A simulated core has no `poll`: a step checks everything, and says when it wants to be stepped again.
#[test]
fn a_step_does_what_a_turn_does_without_waiting() {
    let mut bed = Bed::new(10);
    let mut client = bed.client();
    client.send(20, b"x", &[]).expect("send");
    assert_eq!(bed.server.step(bed.ctx.cpu()), Progress::Busy);
    assert_eq!(client.recv(Ns::ZERO).expect("open").expect("frame").body, b"x");
    let Progress::Idle { wake_at } = bed.server.step(bed.ctx.cpu()) else {
        panic!("nothing was left to do");
    };
    assert_eq!(wake_at, BEAT_EVERY, "the next heartbeat");
    drop(client);
    assert_eq!(bed.server.step(bed.ctx.cpu()), Progress::Busy, "an end to report");
    assert_eq!(bed.ends(), vec!["the peer closed the control channel"]);
    assert_eq!(
        bed.server.step(bed.ctx.cpu()),
        Progress::Idle { wake_at: Ns::MAX }
    );
}

#[test]
fn listeners_are_closed_before_the_connections() {
    let mut bed = Bed::new(10);
    let listener = localhost();
    let addr = listener.addr().clone();
    bed.server.listen(listener);
    let mut client = ControlStream::connect(&addr, Ns::from_s(5)).expect("connect");
    while bed.server.peers().is_empty() {
        bed.server.turn(bed.ctx.cpu(), Ns::from_ms(10));
    }
    bed.server.stop_listening();
    assert!(
        ControlStream::connect(&addr, Ns::from_s(5)).is_err(),
        "nobody listens"
    );
    client.send(20, b"x", &[]).expect("send");
    let answer = (0..1000).find_map(|_| {
        bed.server.turn(bed.ctx.cpu(), Ns::from_ms(10));
        client.recv(Ns::ZERO).expect("open")
    });
    assert_eq!(answer.expect("an answer").body, b"x");
}

#[test]
fn messages_to_the_gone_are_dropped_and_ids_are_not_reused() {
    let mut bed = Bed::new(1);
    let client = bed.client();
    let old = bed.server.handler().open[0];
    drop(client);
    bed.turn();
    let mut client = bed.client();
    let new = bed.server.handler().open[0];
    assert_ne!(old, new);
    let (_, peers) = bed.server.parts();
    peers.send(old, 20, b"to the dead", &[]).expect("dropped");
    peers.close(old);
    peers.send(new, 21, b"to the living", &[]).expect("sent");
    assert_eq!(client.recv(Ns::ZERO).expect("open").expect("frame").kind, 21);
}

#[test]
fn it_runs_in_a_thread_until_stopped_and_says_goodbye() {
    bounded::within_a_minute(|| {
        let listener = localhost();
        let addr = listener.addr().clone();
        let stop = StopFlag::new();
        let stop_too = stop.clone();
        let wake = WakeFd::new().expect("a descriptor");
        let waker = wake.waker();
        let thread = std::thread::spawn(move || {
            let Bed { ctx, mut server, .. } = Bed::new(10);
            server.listen(listener);
            server.wake_by(wake);
            server.run(ctx.cpu(), &stop_too);
            assert!(server.handler().ticks > 0 && server.handler().open.is_empty());
        });
        let mut client = ControlStream::connect(&addr, Ns::from_s(5)).expect("connect");
        client.send(kind::APPLICATION, b"x", &[]).expect("send");
        let ctx = LoopbackDevice::new().context().expect("context");
        let frame = client.recv_until(ctx.cpu(), Ns::from_s(10)).expect("answer");
        assert_eq!(frame.body, b"x");
        stop.set();
        waker.wake();
        let goodbye = client.recv_until(ctx.cpu(), Ns::from_s(10)).expect_err("closed");
        assert!(
            matches!(
                goodbye,
                ControlError::Refused {
                    code: refusal::SHUTTING_DOWN,
                    ..
                }
            ),
            "{goodbye}"
        );
        thread.join().expect("server");
    });
}
