//! [`ControlServer`]: one thread that owns all control channels of a server.
//!
//! It accepts connections, reads frames, passes them to a [`ControlHandler`] and writes the handler's frames. All of it
//! is bounded: connections, frames per connection and turn, bytes queued per peer. A turn waits in `poll` for at most
//! the given time, so it can also be driven by hand, with time as an argument.

mod peers;

pub use peers::{ConnId, Peers};

use crate::{ControlError, ControlListener, ControlStream, Frame, refusal, timespec};
use drover_base::{Cpu, Ns};
use drover_rt::StopFlag;
use drover_rt::WakeFd;
use drover_verbs::Waker;
use rustix::event::{PollFd, PollFlags};
use std::io;

/// Most connections accepted per turn and listener.
const ACCEPTS_PER_TURN: usize = 64;
/// Most frames handled per turn and connection, so that one peer cannot starve the others.
const FRAMES_PER_TURN: usize = 16;
/// Pause of a listener after `accept` failed (for example because of too many open files).
const ACCEPT_REST: Ns = Ns::from_ms(100);

/// A server's handling of its control channels. Called on the control thread; must not block.
pub trait ControlHandler {
    /// Handles a new connection. It may be refused with [`Peers::refuse`].
    fn on_connect(&mut self, peers: &mut Peers, conn: ConnId) {
        let _ = (peers, conn);
    }

    /// Handles a frame. Its contents are untrusted: decode with checks, refuse malformed frames.
    fn on_frame(&mut self, peers: &mut Peers, conn: ConnId, frame: Frame);

    /// Handles the end of a connection, whatever the reason; called once for every
    /// [`on_connect`](ControlHandler::on_connect).
    fn on_close(&mut self, peers: &mut Peers, conn: ConnId, why: &ControlError) {
        let _ = (peers, conn, why);
    }

    /// Called in every turn, and at least every [`ServerOptions::tick_every`]: for timers and mailboxes.
    fn on_tick(&mut self, peers: &mut Peers, now: Ns) {
        let _ = (peers, now);
    }
}

/// Options of a [`ControlServer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// Most connections; further ones are refused with an error frame.
    pub connections_max: usize,
    /// Longest time between two ticks.
    pub tick_every: Ns,
}

impl Default for ServerOptions {
    /// 1024 connections, as in memcached; a tick every 100 ms.
    fn default() -> ServerOptions {
        ServerOptions {
            connections_max: 1024,
            tick_every: Ns::from_ms(100),
        }
    }
}

/// The event loop of a control thread.
#[derive(Debug)]
pub struct ControlServer<H> {
    handler: H,
    options: ServerOptions,
    listeners: Vec<Listening>,
    peers: Peers,
    wake: WakeFd,
}

#[derive(Debug)]
struct Listening {
    listener: ControlListener,
    rest_until: Ns,
}

impl<H: ControlHandler> ControlServer<H> {
    /// A server without listeners.
    ///
    /// # Errors
    /// There is no descriptor for the [`waker`](ControlServer::waker).
    pub fn new(handler: H, options: ServerOptions) -> io::Result<ControlServer<H>> {
        Ok(ControlServer {
            handler,
            options,
            listeners: Vec::new(),
            peers: Peers::default(),
            wake: WakeFd::new()?,
        })
    }

    /// Also accepts connections of `listener`.
    pub fn listen(&mut self, listener: ControlListener) {
        self.listeners.push(Listening {
            listener,
            rest_until: Ns::ZERO,
        });
    }

    /// Adds a connection from another source, for example one end of [`ControlStream::pair`]. `None` if it was refused
    /// because there are too many.
    pub fn adopt(&mut self, stream: ControlStream) -> Option<ConnId> {
        if self.peers.len() >= self.options.connections_max {
            let limit = self.options.connections_max;
            tracing::warn!(limit, client = %stream.peer(), "control connection refused: too many connections");
            let reason = format!("the server has {limit} connections, its limit (-c)");
            stream.refuse(refusal::TOO_MANY_CONNECTIONS, &reason);
            return None;
        }
        let conn = self.peers.insert(stream);
        self.handler.on_connect(&mut self.peers, conn);
        Some(conn)
    }

    /// The handler.
    pub fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// The connections.
    pub fn peers(&mut self) -> &mut Peers {
        &mut self.peers
    }

    /// Ends the wait of a [`turn`](ControlServer::turn) from another thread.
    pub fn waker(&self) -> Waker {
        self.wake.waker()
    }

    /// Runs turns until `stop` is set (and the [`waker`](ControlServer::waker) called), then notifies every peer.
    pub fn run<C: Cpu>(&mut self, cpu: &C, stop: &StopFlag) {
        while !stop.is_set() {
            self.turn(cpu, self.options.tick_every);
        }
        self.shut_down();
    }

    /// One turn: waits at most `wait` (not at all when there is work), accepts, handles, ticks.
    pub fn turn<C: Cpu>(&mut self, cpu: &C, wait: Ns) {
        let now = cpu.refresh();
        let ready = self.wait(now, wait);
        let now = cpu.refresh();
        self.wake.clear();
        self.accept(now);
        self.serve(&ready, now);
        self.handler.on_tick(&mut self.peers, now);
        self.reap();
    }

    /// Refuses the remaining connections, with a reason.
    pub fn shut_down(&mut self) {
        for conn in self.peers.ids() {
            self.peers
                .refuse(conn, refusal::SHUTTING_DOWN, "the server is shutting down");
        }
        self.reap();
    }

    /// Waits until a socket is ready, the waker is called, a heartbeat is due or `wait` is over. Returns the
    /// connections to check.
    fn wait(&self, now: Ns, wait: Ns) -> Vec<ConnId> {
        let heartbeat = self.peers.next_look().since(now);
        let until = if self.peers.has_work() {
            Ns::ZERO
        } else {
            wait.min(heartbeat)
        };
        let mut fds = vec![PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN)];
        let awake = self.listeners.iter().filter(|l| now >= l.rest_until);
        fds.extend(awake.map(|l| PollFd::from_borrowed_fd(l.listener.fd(), PollFlags::IN)));
        let own = fds.len();
        self.peers.poll_fds(&mut fds);
        // If interrupted or failed, nothing is ready, and the next turn tries again.
        let _ = rustix::event::poll(&mut fds, Some(&timespec(until.to_duration())));
        self.peers.ready(&fds[own..], now + until)
    }

    fn accept(&mut self, now: Ns) {
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                let listening = &mut self.listeners[index];
                if now < listening.rest_until {
                    break;
                }
                match listening.listener.accept() {
                    Ok(Some(stream)) => drop(self.adopt(stream)),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, addr = %listening.listener.addr(), "accepting a control connection failed");
                        listening.rest_until = now + ACCEPT_REST;
                    }
                }
            }
        }
    }

    fn serve(&mut self, ready: &[ConnId], now: Ns) {
        for &conn in ready {
            for _ in 0..FRAMES_PER_TURN {
                match self.peers.recv(conn, now) {
                    Some(frame) => self.handler.on_frame(&mut self.peers, conn, frame),
                    None => break,
                }
            }
        }
    }

    /// Reports connections that ended since the last call, and removes them.
    fn reap(&mut self) {
        while let Some((conn, why)) = self.peers.take_ended() {
            tracing::debug!(?conn, %why, "control connection ended");
            self.handler.on_close(&mut self.peers, conn, &why);
        }
    }
}
