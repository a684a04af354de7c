//! Connections and servers that end: what happens to what was under way.

use crate::service::bed::{Cluster, Ended, get, put, small, value};
use drover_base::Ns;
use drover_control::{ControlStream, LocalListener};
use drover_kv_pilaf::client::{ClientOptions, Dial};
use std::sync::{Arc, Mutex, PoisonError};

/// A server that comes back is another one: GETs are tried again with it, updates that were sent nobody knows, and those
/// that were not are sent to it.
#[test]
fn a_restarted_server_is_found_and_only_updates_that_were_sent_are_in_doubt() {
    let mut cluster = Cluster::new(small());
    let mut client = cluster.client_with(ClientOptions {
        window: 4,
        ..ClientOptions::default()
    });
    client.fill(&mut cluster, 0..40);
    let read = client.submit(&get(&7u32.to_le_bytes()));
    let sent = client.submit(&put(b"sent", b"1"));
    let behind = client.submit(&put(b"sent", b"2"));
    client.poll();
    cluster.restart();
    assert_eq!(
        client.wait(&mut cluster, read),
        Ended::NotFound,
        "the new server is empty"
    );
    assert_eq!(client.wait(&mut cluster, sent), Ended::Indeterminate);
    assert_eq!(client.wait(&mut cluster, behind), Ended::Stored);
    assert_eq!(client.run(&mut cluster, &get(b"sent")), value(b"2"));
    assert_eq!(cluster.server.stats().puts, 1, "nothing was sent twice");
    assert_eq!(client.client.stats().lost, 1);
    client.fill(&mut cluster, 0..100);
    client.check(&mut cluster, 0..100);
}

/// A server that restarts while its table grows, at any moment of it.
#[test]
fn a_server_restarts_while_its_table_grows() {
    for steps in 0..30 {
        let mut cluster = Cluster::new(small());
        let mut client = cluster.client();
        client.fill(&mut cluster, 0..48);
        (0..steps).for_each(|_| cluster.step());
        cluster.restart();
        let token = client.submit(&get(&7u32.to_le_bytes()));
        assert_eq!(client.wait(&mut cluster, token), Ended::NotFound);
        client.fill(&mut cluster, 0..100);
        client.check(&mut cluster, 0..100);
        assert_eq!(cluster.server.host().entry_count(), 256);
    }
}

/// A control channel that a test can cut: both halves of every connection made over it.
#[derive(Clone, Default)]
struct Cable(Arc<Mutex<Vec<[ControlStream; 2]>>>);

impl Cable {
    fn dial(&self, listener: &LocalListener) -> Dial {
        let (cable, listener) = (self.clone(), listener.clone());
        Dial::new("this process", move || {
            let (ours, near) = ControlStream::pair();
            cable.halves().push([near, listener.connect()]);
            Ok(ours)
        })
    }

    fn halves(&self) -> std::sync::MutexGuard<'_, Vec<[ControlStream; 2]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries what has come at either end to the other one.
    fn carry(&self) {
        for [near, far] in self.halves().iter_mut() {
            pass(near, far);
            pass(far, near);
        }
    }

    /// The client's end finds its peer gone; the server still believes in its own.
    fn cut_near(&self) {
        self.halves().iter_mut().for_each(|[near, _]| near.close());
    }
}

fn pass(from: &mut ControlStream, to: &mut ControlStream) {
    while let Ok(Some(frame)) = from.recv(Ns::ZERO) {
        to.send(frame.kind, &frame.body, &frame.fds)
            .expect("space for a frame");
    }
}

/// Pilaf's released code sends a PUT again whose reply it did not get, and the server executes it again, over what
/// another client has put since.
#[test]
fn pilaf_a_put_whose_reply_was_lost_does_not_overwrite_what_came_after() {
    let mut cluster = Cluster::new(small());
    let cable = Cable::default();
    let dial = cable.dial(&cluster.listener);
    let between = cable.clone();
    let mut one = cluster.client_over(ClientOptions::default(), dial, move |cluster| {
        between.carry();
        cluster.step();
    });
    let mut other = cluster.client();
    let lost = one.submit(&put(b"key", b"first"));
    one.poll();
    // Executed, and the reply is on its way: nobody will look at it.
    cluster.step();
    assert_eq!(cluster.server.stats().puts, 1);
    cable.cut_near();
    cluster.device.advance(Ns::from_ms(1));
    assert_eq!(other.run(&mut cluster, &put(b"key", b"second")), Ended::Stored);
    for _ in 0..1000 {
        one.poll();
        cable.carry();
        cluster.step();
    }
    let ended = one.ended.iter().find(|(token, _)| *token == lost);
    assert_eq!(ended.map(|(_, ended)| ended), Some(&Ended::Stored));
    assert!(one.client.is_ready(), "it is back");
    let stats = cluster.server.stats();
    assert_eq!((stats.puts, stats.repeated), (2, 1), "each of the two once");
    assert_eq!(other.run(&mut cluster, &get(b"key")), value(b"second"));
    assert_eq!(one.run(&mut cluster, &get(b"key")), value(b"second"));
}

/// A PUT that the server has not read yet when its client gives its session up: it is sent again, so what was left behind
/// must not happen as well.
#[test]
fn what_a_lost_session_left_unread_does_not_happen_later() {
    let mut cluster = Cluster::new(small());
    let cable = Cable::default();
    let dial = cable.dial(&cluster.listener);
    let between = cable.clone();
    let mut one = cluster.client_over(ClientOptions::default(), dial, move |cluster| {
        between.carry();
        cluster.step();
    });
    let left = one.submit(&put(b"key", b"left behind"));
    one.poll();
    cable.cut_near();
    cluster.device.advance(Ns::from_ms(1));
    // The server hears of the new session before it looks at the old one's messages.
    one.poll();
    assert_eq!(one.ended.pop(), None);
    let token = one.submit(&put(b"key", b"after"));
    for _ in 0..1000 {
        one.poll();
        cable.carry();
        cluster.step();
    }
    assert_eq!(one.wait(&mut cluster, left), Ended::Stored);
    assert_eq!(one.wait(&mut cluster, token), Ended::Stored);
    assert_eq!(cluster.server.stats().puts, 2, "each of the two once");
    assert_eq!(one.run(&mut cluster, &get(b"key")), value(b"after"));
}
