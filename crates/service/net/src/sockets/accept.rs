//! Accepting connections: how many, for which core, and when to pause.

use super::Sockets;
use crate::conn_table::{Arrival, Known};
use crate::connection::Connection;
use crate::{Interest, Output, Poller, Protocol};
use drover_base::Ns;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Connections accepted per step and listener.
const ACCEPTS: usize = 16;
/// Pause in accepting after descriptors or memory have run out.
const PAUSE: Ns = Ns::from_ms(100);

impl<T: Protocol, P: Poller> Sockets<T, P> {
    /// Accepts the connections waiting at a listener.
    pub(super) fn accept(&mut self, index: usize, now: Ns) {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listeners.get(index) else {
                return;
            };
            if self.options.refusal.is_none() && self.conn_table.is_full() {
                self.counters.listen_disabled += 1;
                self.conn_table.tell_when_one_leaves();
                return self.pause_accepting(Ns::MAX);
            }
            let origin = listener.origin();
            match listener.accept() {
                Ok((socket, peer)) => {
                    self.accepted += 1;
                    let known = Known::new(self.accepted, peer, listener.shared_address());
                    let known = Arc::new(known);
                    self.admit(Arrival {
                        socket,
                        origin,
                        known,
                    });
                }
                Err(Errno::AGAIN) => return,
                // The client left before we accepted, or the network reported an error.
                Err(
                    Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::NETDOWN | Errno::HOSTUNREACH,
                ) => {}
                Err(error) => {
                    self.counters.accept_failures += 1;
                    let (addr, error) = (listener.address(), io::Error::from(error));
                    tracing::warn!(%addr, "accepting connections is paused for 100 ms: {error}");
                    return self.pause_accepting(now + PAUSE);
                }
            }
        }
    }

    /// Takes the connections that the accepting core handed over.
    pub(super) fn take_arrivals(&mut self) {
        for arrival in self.conn_table.take(self.options.core) {
            self.let_in(arrival);
        }
        if self.paused == Some(Ns::MAX) && !self.conn_table.is_full() {
            self.resume_accepting();
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        self.changed = true;
        if !self.conn_table.enter() {
            self.counters.rejected += 1;
            tracing::info!("{} refused: as many are open as may be", arrival.known);
            return refuse(&arrival.socket, self.options.refusal.unwrap_or_default());
        }
        let core = self.conn_table.choose();
        if core == self.options.core {
            self.let_in(arrival);
        } else {
            self.conn_table.hand_over(core, arrival);
        }
    }

    fn let_in(&mut self, arrival: Arrival) {
        let Arrival {
            socket,
            origin,
            known,
        } = arrival;
        tracing::debug!("{known} is open, at worker {}", self.options.core);
        known.spoke(self.now_s);
        self.conn_table.meet(self.options.core, &known);
        let layer = self.wrap.as_mut().and_then(|wrap| wrap(origin));
        let (greet, limit, replies) = (&mut self.greet, self.options.output_limit, &self.replies);
        let now_s = self.now_s;
        let token = self.connections.insert(|token| {
            let output = Output::with_pool(token.0, limit, replies.clone());
            let talk = greet(token, origin, &known);
            Connection::new(socket, known, talk, layer, output, now_s)
        });
        self.counters.total += 1;
        self.counters.current += 1;
        self.changed = true;
        let connection = self.connections.get_mut(token).expect("just inserted");
        let added = self
            .poller
            .add(connection.socket.as_fd(), token.0, Interest::Arrivals);
        if let Err(error) = added {
            tracing::warn!("{} closed: the poller cannot watch it: {error}", connection.known);
            return self.close(token);
        }
        if self.leaving {
            // It was handed over before the server began to leave.
            super::mark(&mut self.dirty, token, connection);
        }
    }

    fn pause_accepting(&mut self, until: Ns) {
        self.paused = Some(until);
        self.watch_listeners(Interest::Nothing);
    }

    pub(super) fn resume_accepting(&mut self) {
        self.paused = None;
        self.watch_listeners(Interest::Accepts);
    }

    fn watch_listeners(&mut self, interest: Interest) {
        for (index, listener) in self.listeners.iter().enumerate() {
            // It cannot fail: the poller already watches the listener.
            let _ = self
                .poller
                .change(listener.fd(), Self::listener_token(index), interest);
        }
    }
}

/// Sends the reason, as far as the socket takes it, and closes the connection.
fn refuse(socket: &OwnedFd, text: &[u8]) {
    let _ = rustix::net::send(socket, text, SendFlags::NOSIGNAL);
}
