//! Goal: a guarded server lets users in and nobody else, on every carrier, and strangers cost it little.

use crate::acceptor::Bed;
use drover_base::Ns;
use drover_control::{ControlError, ControlStream, Credentials, Guard, refusal};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

fn credentials(text: &str) -> Arc<Credentials> {
    Arc::new(Credentials::parse(text.as_bytes()).expect("credentials"))
}

fn guard() -> Arc<Guard> {
    Guard::new(credentials("me:open-sesame"))
}

/// A client of `bed` behind `guard`, as `user`, or nobody.
fn client(bed: &mut Bed, guard: &Arc<Guard>, user: Option<&str>) -> ControlStream {
    let (mut client, mut server) = ControlStream::pair();
    server.guard(guard);
    let _ = bed.server.adopt(server);
    if let Some(user) = user {
        client.authenticate(credentials(user));
    }
    client
}

/// What the server answers to a frame, in at most ten turns.
fn ask(bed: &mut Bed, client: &mut ControlStream) -> Result<Option<Vec<u8>>, ControlError> {
    let _ = client.send(20, b"hello", &[]);
    for _ in 0..10 {
        bed.turn();
        if let Some(frame) = client.recv(Ns::ZERO)? {
            return Ok(Some(frame.body));
        }
    }
    Ok(None)
}

fn refused(answer: Result<Option<Vec<u8>>, ControlError>) -> String {
    match answer {
        Err(ControlError::Refused { code, reason }) if code == refusal::AUTH => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn users_are_let_in_and_strangers_are_not() {
    let (mut bed, guard) = (Bed::new(10), guard());
    let mut user = client(&mut bed, &guard, Some("me:open-sesame"));
    assert_eq!(ask(&mut bed, &mut user).expect("let in"), Some(b"hello".to_vec()));
    let mut stranger = client(&mut bed, &guard, None);
    assert!(refused(ask(&mut bed, &mut stranger)).contains("--auth-file"));
    let mut guesser = client(&mut bed, &guard, Some("me:open-barley"));
    assert_eq!(refused(ask(&mut bed, &mut guesser)), "wrong user or password");
    assert_eq!(
        ask(&mut bed, &mut user).expect("still in"),
        Some(b"hello".to_vec())
    );
    assert_eq!((guard.failures(), bed.server.peers().len()), (1, 1));
}

#[test]
fn a_guess_after_a_guess_waits_while_others_are_served() {
    let (mut bed, guard) = (Bed::new(10), guard());
    let mut first = client(&mut bed, &guard, Some("me:open-barley"));
    refused(ask(&mut bed, &mut first));
    let mut second = client(&mut bed, &guard, Some("me:open-oats"));
    assert_eq!(ask(&mut bed, &mut second).expect("not judged yet"), None);
    let mut other = bed.client();
    assert_eq!(ask(&mut bed, &mut other).expect("open"), Some(b"hello".to_vec()));
    bed.device.advance(Ns::from_s(1));
    assert_eq!(refused(ask(&mut bed, &mut second)), "wrong user or password");
}

#[test]
fn strangers_who_stop_half_way_are_bounded_and_end() {
    const SPACE: usize = 50;
    let (mut bed, guard) = (Bed::new(SPACE), guard());
    let mut users: Vec<ControlStream> = Vec::new();
    for _ in 0..SPACE / 2 {
        let mut user = client(&mut bed, &guard, Some("me:open-sesame"));
        assert!(ask(&mut bed, &mut user).expect("let in").is_some());
        users.push(user);
    }
    let mut strangers = Vec::new();
    for number in 0..10_000 {
        let mut stranger = client(&mut bed, &guard, (number % 2 == 0).then_some("me:open-barley"));
        // Of those with a hello some read the challenge, and none answers it.
        if number % 4 == 0 {
            bed.turn();
            stranger.close();
        }
        strangers.push(stranger);
        assert!(bed.server.peers().len() <= SPACE);
    }
    let mut late = client(&mut bed, &guard, Some("me:open-sesame"));
    assert!(
        ask(&mut bed, &mut late).expect("let in").is_some(),
        "strangers make space"
    );
    users.push(late);
    for second in 0..8 {
        bed.turn();
        bed.device.advance(Ns::from_s(1));
        for user in &mut users {
            user.recv(Ns::from_s(second)).expect("open");
        }
    }
    bed.turn();
    assert_eq!(bed.server.peers().len(), users.len(), "their time is over");
    assert_eq!(guard.failures(), 0, "nobody guessed");
    for user in &mut users {
        assert!(ask(&mut bed, user).expect("still in").is_some());
    }
}

/// The bytes that are waiting at `from`, passed on to `to`.
fn pass(from: &mut UnixStream, to: &mut UnixStream, seen: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    match from.read(&mut bytes) {
        Ok(count) => {
            to.write_all(&bytes[..count]).expect("space");
            seen.extend_from_slice(&bytes[..count]);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
}

#[test]
fn the_secret_is_not_on_the_wire() {
    let (mut bed, guard) = (Bed::new(10), guard());
    let ((near, mut from_client), (mut to_server, far)) = (
        UnixStream::pair().expect("a pair"),
        UnixStream::pair().expect("a pair"),
    );
    for stream in [&from_client, &to_server] {
        stream.set_nonblocking(true).expect("a socket");
    }
    let mut client = ControlStream::from_unix(near).expect("a stream");
    client.authenticate(credentials("me:open-sesame"));
    client.send(20, b"hello", &[]).expect("it waits");
    let mut server = ControlStream::from_unix(far).expect("a stream");
    server.guard(&guard);
    let _ = bed.server.adopt(server);
    let mut seen = Vec::new();
    let answer = (0..100).find_map(|_| {
        pass(&mut from_client, &mut to_server, &mut seen);
        bed.turn();
        pass(&mut to_server, &mut from_client, &mut seen);
        client.recv(Ns::ZERO).expect("open")
    });
    assert_eq!(answer.expect("an answer").body, b"hello");
    let holds = |word: &[u8]| seen.windows(word.len()).any(|bytes| bytes == word);
    assert!(holds(b"me") && holds(b"hello"), "it saw all");
    assert!(
        !holds(b"open-sesame") && !holds(b"sesame"),
        "{}",
        seen.escape_ascii()
    );
}
