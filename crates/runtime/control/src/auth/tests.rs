//! Tests of the handshake, frame by frame.

use super::*;
use crate::{Frame, Peer};
use drover_base::Ns;
use proptest::prelude::*;
use std::sync::Arc;

fn credentials(text: &str) -> Arc<Credentials> {
    Arc::new(Credentials::parse(text.as_bytes()).expect("credentials"))
}

fn guard() -> Arc<Guard> {
    Guard::new(credentials("me:secret"))
}

fn gate(guard: &Arc<Guard>) -> Gate {
    Gate::new(guard.clone(), Peer::Unknown)
}

fn sent(step: Step) -> Frame {
    match step {
        Step::Send(frame) | Step::Open(Some(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

fn refusal(step: Step) -> &'static str {
    match step {
        Step::Refuse(why) => why,
        other => panic!("{other:?}"),
    }
}

/// All frames of a handshake of `prover` with `gate`, at `now`.
fn shake(credentials: Arc<Credentials>, gate: &mut Gate, now: Ns) -> Result<Vec<Frame>, &'static str> {
    let (mut prover, hello) = Prover::new(credentials);
    let challenge = sent(gate.take(&hello, now));
    let proof = sent(prover.take(&challenge));
    let accept = match gate.take(&proof, now) {
        Step::Open(Some(accept)) => accept,
        Step::Refuse(why) => return Err(why),
        other => panic!("{other:?}"),
    };
    assert!(matches!(prover.take(&accept), Step::Open(None)));
    Ok(vec![hello, challenge, proof, accept])
}

#[test]
fn who_knows_the_secret_is_let_in_and_the_secret_is_not_sent() {
    let frames = shake(credentials("me:secret"), &mut gate(&guard()), Ns::ZERO).expect("let in");
    for frame in &frames {
        assert!(
            !frame.body.windows(6).any(|bytes| bytes == b"secret"),
            "{frame:?}"
        );
    }
    let again = shake(credentials("me:secret"), &mut gate(&guard()), Ns::ZERO).expect("let in");
    for (a, b) in frames.iter().zip(&again) {
        assert_ne!(a.body, b.body, "no two handshakes are alike");
    }
}

#[test]
fn who_does_not_know_it_is_refused_and_counted() {
    let guard = guard();
    for wrong in ["me:Secret", "me:secre", "me:secrets", "you:secret", "m:e:secret"] {
        let late = Ns::from_s(1000) * (guard.failures() + 1);
        let error = shake(credentials(wrong), &mut gate(&guard), late).expect_err(wrong);
        assert_eq!(error, "wrong user or password");
    }
    assert_eq!(guard.failures(), 5);
}

#[test]
fn secrets_of_all_lengths() {
    assert_eq!(Credentials::parse(b"me:"), Err(CredentialsError::Empty));
    assert_eq!(Credentials::parse(b":x"), Err(CredentialsError::Format));
    assert_eq!(Credentials::parse(b"me"), Err(CredentialsError::Format));
    for bytes in [1, 63, 64, 65, SECRET_BYTES_MAX] {
        let credentials = Credentials::new(b"me", &vec![b'x'; bytes]).expect("allowed");
        let credentials = Arc::new(credentials);
        let guard = Guard::new(credentials.clone());
        assert!(shake(credentials, &mut gate(&guard), Ns::ZERO).is_ok(), "{bytes}");
    }
    let bytes = SECRET_BYTES_MAX + 1;
    assert_eq!(
        Credentials::new(b"me", &vec![b'x'; bytes]),
        Err(CredentialsError::TooLong { bytes })
    );
    let debug = format!("{:?}", credentials("me:secret"));
    assert_eq!(debug, "Credentials(me)");
}

#[test]
fn a_replayed_handshake_proves_nothing() {
    let guard = guard();
    let frames = shake(credentials("me:secret"), &mut gate(&guard), Ns::ZERO).expect("let in");
    let mut second = gate(&guard);
    sent(second.take(&frames[0], Ns::ZERO));
    assert_eq!(
        refusal(second.take(&frames[2], Ns::ZERO)),
        "wrong user or password"
    );
    // A server that replays another's challenge and answer.
    let (mut prover, _) = Prover::new(credentials("me:secret"));
    sent(prover.take(&frames[1]));
    assert_eq!(
        refusal(prover.take(&frames[3])),
        "the server does not prove that it knows the password"
    );
}

/// A server that does not know the secret returns the client's own proof.
#[test]
fn a_reflected_proof_is_refused() {
    let (mut prover, _) = Prover::new(credentials("me:secret"));
    let (_, other) = Prover::new(credentials("me:secret"));
    let mut honest = gate(&guard());
    let challenge = sent(honest.take(&other, Ns::ZERO));
    let mut proof = sent(prover.take(&challenge));
    proof.kind = crate::kind::AUTH_ACCEPT;
    refusal(prover.take(&proof));
}

#[test]
fn whatever_comes_first_but_a_hello_is_refused_with_advice() {
    let stats = Frame {
        kind: crate::kind::STATS_QUERY,
        ..Frame::default()
    };
    let why = refusal(gate(&guard()).take(&stats, Ns::ZERO));
    assert!(
        why.contains("--auth-file") && why.contains("DROVER_AUTH"),
        "{why}"
    );
}

#[test]
fn a_handshake_that_stops_half_way_ends_in_time() {
    let guard = guard();
    for frames in 0..2 {
        let mut gate = gate(&guard);
        assert!(matches!(gate.pass(Ns::ZERO), Step::Wait));
        let (_, hello) = Prover::new(credentials("me:secret"));
        if frames == 1 {
            sent(gate.take(&hello, Ns::ZERO));
        }
        let end = gate.next_look();
        assert!(end <= Ns::from_s(5));
        assert!(matches!(gate.pass(Ns(end.0 - 1)), Step::Wait));
        assert_eq!(refusal(gate.pass(end)), "the handshake took too long");
    }
    assert_eq!(guard.failures(), 0, "nobody guessed");
}

#[test]
fn a_guess_after_a_guess_waits_and_is_then_judged() {
    let (guard, now) = (guard(), Ns::from_s(1));
    shake(credentials("me:wrong"), &mut gate(&guard), now).expect_err("wrong");
    for (text, is_let_in) in [("me:wrong", false), ("me:secret", true)] {
        let mut gate = gate(&guard);
        let (mut prover, hello) = Prover::new(credentials(text));
        let proof = sent(prover.take(&sent(gate.take(&hello, now))));
        assert!(matches!(gate.take(&proof, now), Step::Wait), "it is held back");
        let at = gate.next_look();
        assert!(at > now && at <= now + Ns::from_s(1), "{at}");
        assert!(matches!(gate.pass(Ns(at.0 - 1)), Step::Wait));
        assert_eq!(matches!(gate.pass(at), Step::Open(_)), is_let_in, "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_let_anybody_in(input: Vec<u8>) {
        fuzz_handshake(&input);
    }

    #[test]
    fn one_changed_bit_is_noticed(which in 0usize..4, bit: prop::sample::Index) {
        let guard = guard();
        let mut gate = gate(&guard);
        let (mut prover, mut hello) = Prover::new(credentials("me:secret"));
        let flip = |frame: &mut Frame| {
            let bit = bit.index(frame.body.len() * 8);
            frame.body[bit / 8] ^= 1 << (bit % 8);
        };
        if which == 0 { flip(&mut hello); }
        let Step::Send(mut challenge) = gate.take(&hello, Ns::ZERO) else { return Ok(()) };
        if which == 1 { flip(&mut challenge); }
        let Step::Send(mut proof) = prover.take(&challenge) else { return Ok(()) };
        if which == 2 { flip(&mut proof); }
        let Step::Open(Some(mut accept)) = gate.take(&proof, Ns::ZERO) else { return Ok(()) };
        prop_assert_eq!(which, 3);
        flip(&mut accept);
        prop_assert!(matches!(prover.take(&accept), Step::Refuse(_)));
    }
}
