//! A server that requires a secret.

use crate::service::bed::{Cluster, Ended, get, put, small, value};
use crate::service::raw::{hello, receive};
use drover_base::{Cpu, Ns};
use drover_control::{ControlError, Message};
use drover_kv::refused::{WRONG_SECRET, WRONG_VERSION};
use drover_kv::secret::SECRET_BYTES_MAX;
use drover_kv::{KvClient, SetupError};
use drover_kv_pilaf::client::{ClientOptions, PilafClient};
use drover_kv_pilaf::control::Hello;
use drover_verbs::{Context, Device};
use drover_verbs_suite::loopback::Loopback;
use std::rc::Rc;

fn guarded() -> Cluster {
    let mut cluster = Cluster::new(small());
    cluster.server.require_secret(b"secret");
    cluster
}

fn with(secret: &[u8]) -> ClientOptions {
    ClientOptions {
        secret: secret.to_vec(),
        ..ClientOptions::default()
    }
}

/// Why the server sends a client with `secret` away.
fn refusal(cluster: &mut Cluster, secret: &[u8]) -> SetupError {
    let ctx = Rc::new(cluster.device.context().expect("a context"));
    let dial = drover_control::Dial::at(&cluster.listener);
    let mut client = PilafClient::<Loopback>::new(ctx.clone(), vec![dial], with(secret));
    for _ in 0..10_000 {
        ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        assert!(!client.is_ready(), "let in with {secret:?}");
        if let Some(error) = client.take_error() {
            return error;
        }
        cluster.step();
    }
    panic!("neither let in nor refused");
}

#[test]
fn a_client_with_the_secret_is_served_and_others_are_not() {
    let mut cluster = guarded();
    let mut client = cluster.client_with(with(b"secret"));
    assert_eq!(client.run(&mut cluster, &put(b"k", b"v")), Ended::Stored);
    for wrong in [&b""[..], b"secre", b"Secret", &[7; SECRET_BYTES_MAX]] {
        let error = refusal(&mut cluster, wrong);
        assert!(error.is_final(), "{error}");
        assert!(error.to_string().contains("not authorised"), "{error}");
    }
    assert_eq!(client.run(&mut cluster, &get(b"k")), value(b"v"));
    assert_eq!(cluster.server.client_count(), 1);
}

#[test]
fn a_secret_that_nobody_requires_does_not_matter() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client_with(with(b"any"));
    assert_eq!(client.run(&mut cluster, &put(b"k", b"v")), Ended::Stored);
}

/// The code with which the server refuses `body`, sent as a Hello.
fn code(cluster: &mut Cluster, body: &[u8]) -> u16 {
    let mut control = cluster.listener.connect();
    control.send(<Hello as Message>::KIND, body, &[]).expect("space");
    for _ in 0..100 {
        cluster.step();
        if let Err(ControlError::Refused { code, .. }) = control.recv(Ns::ZERO) {
            return code;
        }
    }
    panic!("not refused");
}

/// Clients of version 4 send a Hello without a secret: what they must learn is that the version differs.
#[test]
fn another_version_is_told_before_anything_else() {
    let mut cluster = guarded();
    let mut old = vec![4, 0];
    old.extend([0; 14]);
    assert_eq!(code(&mut cluster, &old), WRONG_VERSION);
    let mut control = cluster.listener.connect();
    control.send_message(&hello()).expect("space");
    let mut refused = 0;
    for _ in 0..100 {
        cluster.step();
        if let Err(ControlError::Refused { code, .. }) = control.recv(Ns::ZERO) {
            refused = code;
            break;
        }
    }
    assert_eq!(refused, WRONG_SECRET);
    assert!(receive(&mut cluster, &mut control).is_none());
}

#[test]
fn a_secret_that_is_too_long_is_no_hello() {
    let mut cluster = guarded();
    let mut control = cluster.listener.connect();
    let long = Hello {
        secret: vec![7; SECRET_BYTES_MAX + 1],
        ..hello()
    };
    control.send_message(&long).expect("space");
    assert!(receive(&mut cluster, &mut control).is_none() && control.is_closed());
}
