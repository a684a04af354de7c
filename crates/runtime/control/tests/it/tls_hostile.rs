//! Goal: who is between the ends of a channel with TLS, or at one end without being invited, learns nothing, gets nothing
//! and keeps nobody out.

use crate::tls::{Server, TURNS_MAX, dial, localhost};
use drover_base::{Ns, Rng};
use drover_control::{
    ControlAddr, ControlError, ControlStream, Credentials, Guard, TlsAcceptor, TlsOptions, refusal,
};
use drover_testkit::seeds::Seeds;
use drover_tls::TlsSession;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

const USER: &str = "night-porter";
const SECRET: &str = "open-sesame";
const WORDS: &[u8] = b"the words of a message";
/// Turns after which nobody waits for the rest of a record whose length was changed.
const TURNS_OF_A_CUT: usize = 50;

fn credentials() -> Arc<Credentials> {
    Arc::new(Credentials::parse(format!("{USER}:{SECRET}").as_bytes()).expect("credentials"))
}

/// A socket between two ends: the client dials `addr`.
struct Between {
    listener: TcpListener,
    addr: ControlAddr,
}

impl Between {
    fn new() -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = ControlAddr::tcp(listener.local_addr().expect("a port"));
        Between { listener, addr }
    }

    /// Sockets towards the client, which has dialled, and the server.
    fn connect(&self, server: &Server) -> [TcpStream; 2] {
        let (client, _) = self.listener.accept().expect("a client");
        let server = TcpStream::connect(server.socket_addr()).expect("it listens");
        for stream in [&client, &server] {
            stream.set_nonblocking(true).expect("a socket");
        }
        [client, server]
    }
}

/// Passes on the bytes that are waiting at `from`, as `change` leaves them.
fn pass(mut from: &TcpStream, mut to: &TcpStream, change: &mut dyn FnMut(&mut [u8])) {
    let mut bytes = [0; 16 << 10];
    match from.read(&mut bytes) {
        Ok(count) => {
            change(&mut bytes[..count]);
            // The other end may be gone.
            let _ = to.write_all(&bytes[..count]);
        }
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset),
            "{error}"
        ),
    }
}

/// What a client is answered within `turns` whose bytes go through `change`.
fn ask_through(
    server: &mut Server,
    client: &mut ControlStream,
    [near, far]: &[TcpStream; 2],
    turns: usize,
    change: &mut dyn FnMut(&mut [u8]),
) -> Result<Option<Vec<u8>>, ControlError> {
    client.send(20, WORDS, &[])?;
    for _ in 0..turns {
        pass(near, far, change);
        server.bed.waiting_turn();
        pass(far, near, change);
        if let Some(frame) = client.recv(Ns::ZERO)? {
            return Ok(Some(frame.body));
        }
    }
    Ok(None)
}

#[test]
fn the_wire_shows_neither_user_nor_secret_nor_message() {
    let guard = Guard::new(credentials());
    let mut server = Server::with("wire", 10, Some(&guard), |_| {});
    let shows = |server: &mut Server, addr: &ControlAddr, between: &Between| {
        let mut client = dial(&addr.clone().with_credentials(Some(credentials())));
        let streams = between.connect(server);
        let mut seen = Vec::new();
        let answer = ask_through(server, &mut client, &streams, TURNS_MAX, &mut |bytes| {
            seen.extend_from_slice(bytes);
        });
        assert_eq!(answer.expect("let in").expect("an answer"), WORDS);
        [USER.as_bytes(), SECRET.as_bytes(), WORDS]
            .map(|word| seen.windows(word.len()).any(|bytes| bytes == word))
    };
    let between = Between::new();
    let with_tls = between.addr.clone().with_tls(Some(Arc::new(server.trusting())));
    assert_eq!(shows(&mut server, &with_tls, &between), [false; 3]);
    // The same eyes see a channel without TLS.
    let plain = localhost().guarded(Some(guard.clone()));
    let addr = plain.addr().to_string();
    server.bed.server.listen(plain);
    server.addr = addr.parse().expect("an address");
    assert_eq!(shows(&mut server, &between.addr, &between), [true, false, true]);
}

/// One end of the TLS of somebody who ends that of both others.
struct Half {
    stream: TcpStream,
    session: TlsSession,
}

impl Half {
    /// Passes on the plain bytes that have arrived here.
    fn pass(&mut self, to: &mut Half) {
        let mut bytes = [0; 16 << 10];
        if let Ok(count @ 1..) = self.session.read(&mut self.stream, &mut bytes) {
            let written = to.session.write(&mut to.stream, &[IoSlice::new(&bytes[..count])]);
            assert_eq!(written.expect("space"), count);
        }
        let _ = to.session.flush(&mut to.stream);
    }
}

/// It has a certificate that the client trusts, for the right name, and still gets no further than the proof.
#[test]
fn a_proof_is_good_for_its_own_channel_only() {
    let guard = Guard::new(credentials());
    let mut server = Server::with("relay", 10, Some(&guard), |_| {});
    let identity = server.authority.issue("relay", "127.0.0.1");
    let acceptor = TlsAcceptor::new(TlsOptions {
        chain_cert: identity.chain,
        key: identity.key,
        ..TlsOptions::default()
    })
    .expect("files");
    let between = Between::new();
    let trusting = server.trusting();
    let addr = between.addr.clone().with_tls(Some(Arc::new(trusting.clone())));
    let mut client = dial(&addr.with_credentials(Some(credentials())));
    let [near, far] = between.connect(&server);
    let mut near = Half {
        stream: near,
        session: acceptor.session().expect("a session"),
    };
    let mut far = Half {
        stream: far,
        session: trusting.session("127.0.0.1").expect("a session"),
    };
    client.send(20, WORDS, &[]).expect("it waits");
    let end = (0..TURNS_MAX).find_map(|_| {
        near.pass(&mut far);
        server.bed.waiting_turn();
        far.pass(&mut near);
        match client.recv(Ns::ZERO) {
            Ok(None) => None,
            other => Some(other),
        }
    });
    match end {
        Some(Err(ControlError::Refused { code, reason })) => {
            assert_eq!((code, reason.as_str()), (refusal::AUTH, "wrong user or password"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(guard.failures(), 1);
}

#[test]
fn handshakes_that_stop_half_way_are_bounded_and_end() {
    const SPACE: usize = 50;
    let mut server = Server::with("half-way", SPACE, None, |_| {});
    let trusting = server.trusting();
    let mut users: Vec<ControlStream> = (0..SPACE / 2)
        .map(|_| server.dial(Some(trusting.clone())))
        .collect();
    for user in &mut users {
        server.ask(user, b"").expect("let in");
    }
    let mut hello = Vec::new();
    let mut session = trusting.session("127.0.0.1").expect("a session");
    session.flush(&mut hello).expect("memory");
    let mut strangers = Vec::new();
    for number in 0..10_000 {
        let mut stranger = TcpStream::connect(server.socket_addr()).expect("it listens");
        // Some send nothing, some a part of the first message, some all of it and no more.
        let length = [0, hello.len() / 2, hello.len()][number % 3];
        stranger.write_all(&hello[..length]).expect("space");
        strangers.push(stranger);
        server.bed.turn();
        assert!(server.bed.server.peers().len() <= SPACE);
        // Both ends are of this process, whose descriptors are limited.
        if strangers.len() == 2 * SPACE {
            strangers.drain(..SPACE);
        }
    }
    let mut late = server.dial(Some(trusting));
    server.ask(&mut late, b"").expect("strangers make space");
    users.push(late);
    for second in 0..8 {
        server.bed.turn();
        server.bed.device.advance(Ns::from_s(1));
        for user in &mut users {
            user.recv(Ns::from_s(second)).expect("open");
        }
    }
    server.bed.turn();
    assert_eq!(server.bed.server.peers().len(), users.len(), "their time is over");
    for user in &mut users {
        server.ask(user, b"").expect("still in");
    }
}

#[test]
fn garbage_ends_its_channel_alone() {
    let seeds = Seeds::new(4, 60);
    println!("{seeds}");
    let mut server = Server::new("garbage");
    let mut user = server.dial(Some(server.trusting()));
    seeds.each(|seed| {
        let mut random = Rng::new(seed, 0, 0);
        let mut bytes: Vec<u8> = (0..random.below(3000) + 1)
            .map(|_| random.next_u64() as u8)
            .collect();
        if seed % 2 == 0 {
            // It begins like a record.
            let head = [22, 3, 3, 0, 200];
            let count = head.len().min(bytes.len());
            bytes[..count].copy_from_slice(&head[..count]);
        }
        let mut stranger = TcpStream::connect(server.socket_addr()).expect("it listens");
        stranger.write_all(&bytes).expect("space");
        drop(stranger);
        let end = server.end();
        assert!(
            end.contains("TLS") || end == ControlError::Closed.to_string(),
            "{end}"
        );
        assert_eq!(server.ask(&mut user, WORDS).expect("an answer"), WORDS);
    });
}

/// A byte that TLS does not care for, or a length, may also change nothing or stop everything.
#[test]
fn a_changed_byte_forges_nothing() {
    let seeds = Seeds::new(4, 60);
    println!("{seeds}");
    let mut server = Server::new("changed");
    let tls = Some(Arc::new(server.trusting()));
    let mut stopped = 0;
    seeds.each(|seed| {
        let between = Between::new();
        let mut client = dial(&between.addr.clone().with_tls(tls.clone()));
        let streams = between.connect(&server);
        let mut random = Rng::new(seed, 0, 0);
        let (mut passed, changed) = (0, random.below(2500) as usize);
        let mut is_changed = false;
        let mut change = |bytes: &mut [u8]| {
            if let Some(byte) = changed.checked_sub(passed).and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1 << (seed % 8);
                is_changed = true;
            }
            passed += bytes.len();
        };
        match ask_through(&mut server, &mut client, &streams, TURNS_OF_A_CUT, &mut change) {
            Ok(Some(answer)) => assert_eq!(answer, WORDS),
            Ok(None) | Err(_) => {
                assert!(is_changed, "byte {changed} of {passed}");
                stopped += 1;
            }
        }
    });
    assert!(stopped > 0, "most bytes matter");
}
