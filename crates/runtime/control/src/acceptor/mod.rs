//! [`ControlServer`]: owns all control channels of a server.
//!
//! It accepts connections, reads frames, passes them to a [`ControlHandler`] and writes the handler's frames. All of it
//! is bounded: connections, frames per connection and turn, bytes queued per peer. A thread [runs](ControlServer::run)
//! it, or takes [turns](ControlServer::turn) that wait for sockets. A simulated core [steps](Actor::step) it: a step
//! never waits, and makes no system call for connections within the process.

mod peers;

pub use peers::{ConnId, Peers};

use crate::{ControlError, ControlListener, ControlStream, Frame, refusal, timespec};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_rt::StopFlag;
use drover_rt::WakeFd;
use rustix::event::{PollFd, PollFlags};

/// Most connections accepted per turn and listener.
const ACCEPTS_PER_TURN: usize = 64;
/// Most frames handled per turn and connection, so that one peer cannot starve the others.
const FRAMES_PER_TURN: usize = 32;
/// Pause of a listener after `accept` failed (for example because of too many open files).
const ACCEPT_REST: Ns = Ns::from_ms(100);
/// Longest wait of a turn while there are connections without a descriptor, which cannot end it.
const BLIND_WAIT: Ns = Ns::from_ms(1);

/// Callbacks of a [`ControlServer`]: the server's actions on a new connection, a frame, the end of a connection, and in
/// every turn. They run on the control thread and must not block.
pub trait ControlHandler {
    /// Handles a new connection, which stays open unless this method [refuses](Peers::refuse) it. Does nothing by
    /// default.
    fn on_connect(&mut self, peers: &mut Peers, conn: ConnId) {
        let _ = (peers, conn);
    }

    /// Handles a frame of `conn`; heartbeats are not passed on. Its contents are untrusted: decode with checks, refuse
    /// malformed frames.
    fn on_frame(&mut self, peers: &mut Peers, conn: ConnId, frame: Frame);

    /// Handles the end of a connection, whatever the reason; `peers` no longer contains it. Called once for every
    /// [`on_connect`](ControlHandler::on_connect), unless [`Peers::take`] removed the connection.
    fn on_close(&mut self, peers: &mut Peers, conn: ConnId, why: &ControlError) {
        let _ = (peers, conn, why);
    }

    /// Handles the server's timers and its messages from other threads; called in every turn. Returns
    /// [`Progress::Busy`] if there was any work, else the time of the next timer: the next turn may come as late as
    /// that, unless something arrives or the server is [woken](ControlServer::wake_by).
    fn on_tick(&mut self, peers: &mut Peers, now: Ns) -> Progress {
        let _ = (peers, now);
        Progress::Idle { wake_at: Ns::MAX }
    }
}

/// The control side of a server: owns its listeners, connections and [handler](ControlHandler), and runs their event
/// loop in [turns](ControlServer::turn) on a control thread, or in [steps](Actor::step).
#[derive(Debug)]
pub struct ControlServer<H> {
    handler: H,
    connections_max: usize,
    listeners: Vec<Listening>,
    peers: Peers,
    wake: Option<WakeFd>,
    /// Time of the next turn, if nothing arrives earlier.
    next_turn: Ns,
}

#[derive(Debug)]
struct Listening {
    listener: ControlListener,
    rest_until: Ns,
}

impl<H: ControlHandler> ControlServer<H> {
    /// Creates a server without listeners or connections. Connections beyond `connections_max` are refused with
    /// [`TOO_MANY_CONNECTIONS`](refusal::TOO_MANY_CONNECTIONS) without a call of the handler.
    pub fn new(handler: H, connections_max: usize) -> ControlServer<H> {
        ControlServer {
            handler,
            connections_max,
            listeners: Vec::new(),
            peers: Peers::default(),
            wake: None,
            next_turn: Ns::ZERO,
        }
    }

    /// Adds `listener`, whose connections are accepted from the next turn on.
    pub fn listen(&mut self, listener: ControlListener) {
        self.listeners.push(Listening {
            listener,
            rest_until: Ns::ZERO,
        });
    }

    /// Closes all listeners. Connections stay open.
    pub fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    /// Makes `wake` end the wait of a [`turn`](ControlServer::turn): another thread calls [`WakeFd::wake`] on a clone
    /// of it. It replaces the one set before.
    pub fn wake_by(&mut self, wake: WakeFd) {
        self.wake = Some(wake);
    }

    /// Adds a connection from another source, for example one end of [`ControlStream::pair`], and calls
    /// [`ControlHandler::on_connect`]. `None` if there are too many connections: then it was refused.
    pub fn adopt(&mut self, mut stream: ControlStream) -> Option<ConnId> {
        stream.came_in_at(None);
        if self.peers.len() >= self.connections_max
            && let Some(conn) = self.peers.longest_unproven()
        {
            // Strangers who begin handshakes do not keep users out.
            self.peers
                .refuse(conn, refusal::TOO_MANY_CONNECTIONS, "others came later");
        }
        if self.peers.len() >= self.connections_max {
            let limit = self.connections_max;
            let reason = format!("the server has {limit} connections, its limit (-c)");
            stream.refuse(refusal::TOO_MANY_CONNECTIONS, &reason);
            return None;
        }
        self.next_turn = Ns::ZERO;
        let conn = self.peers.insert(stream);
        self.handler.on_connect(&mut self.peers, conn);
        Some(conn)
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// All connections.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The handler and the connections, for changes between turns. The next turn then does not wait.
    pub fn parts(&mut self) -> (&mut H, &mut Peers) {
        self.next_turn = Ns::ZERO;
        (&mut self.handler, &mut self.peers)
    }

    /// Runs turns until `stop` is set, then [shuts down](ControlServer::shut_down). The caller that sets `stop` must also
    /// [wake](ControlServer::wake_by) the server.
    pub fn run<C: Cpu>(&mut self, cpu: &C, stop: &StopFlag) {
        while !stop.is_set() {
            self.turn(cpu, Ns::MAX);
        }
        self.shut_down();
    }

    /// Runs one turn: waits until a socket is ready, a timer is due or the server is woken, then accepts connections,
    /// handles frames, calls [`on_tick`](ControlHandler::on_tick) and reports ends. The wait is at most `wait`, zero
    /// when there is work, and at most 1 ms while any connection has no descriptor, such as an end of
    /// [`ControlStream::pair`].
    pub fn turn<C: Cpu>(&mut self, cpu: &C, wait: Ns) {
        let ready = self.wait(cpu.refresh(), wait);
        self.advance(&ready, cpu.refresh());
    }

    /// Refuses the remaining connections with [`SHUTTING_DOWN`](refusal::SHUTTING_DOWN) and reports their ends to the
    /// handler. Listeners stay open.
    pub fn shut_down(&mut self) {
        for conn in self.peers.ids() {
            self.peers
                .refuse(conn, refusal::SHUTTING_DOWN, "the server is shutting down");
        }
        self.reap();
    }

    /// Waits until a socket is ready, another thread wakes us, the next turn is due or `wait` is over. Returns the
    /// connections to check.
    fn wait(&self, now: Ns, wait: Ns) -> Vec<ConnId> {
        let until = match () {
            () if self.peers.has_work() => Ns::ZERO,
            () if self.peers.are_blind() => wait.min(self.next_turn.since(now)).min(BLIND_WAIT),
            () => wait.min(self.next_turn.since(now)),
        };
        let mut fds = Vec::new();
        fds.extend(
            self.wake
                .iter()
                .map(|wake| PollFd::from_borrowed_fd(wake.fd(), PollFlags::IN)),
        );
        let awake = self.listeners.iter().filter(|l| now >= l.rest_until);
        fds.extend(awake.map(|l| PollFd::from_borrowed_fd(l.listener.fd(), PollFlags::IN)));
        let own = fds.len();
        self.peers.poll_fds(&mut fds);
        // If interrupted or failed, nothing is ready, and the next turn tries again.
        let _ = rustix::event::poll(&mut fds, Some(&timespec(until.to_duration())));
        // Before the mail is looked for: later mail ends the next wait.
        self.wake.iter().for_each(WakeFd::clear);
        self.peers.ready(&fds[own..], Ns(now.0.saturating_add(until.0)))
    }

    fn advance(&mut self, ready: &[ConnId], now: Ns) -> Progress {
        let accepted = self.accept(now);
        let served = self.serve(ready, now);
        let ticked = self.handler.on_tick(&mut self.peers, now);
        let ended = self.reap();
        let own = match accepted || served || ended || self.peers.has_work() {
            true => Progress::Busy,
            false => {
                let rests = self
                    .listeners
                    .iter()
                    .map(|l| l.rest_until)
                    .filter(|until| now < *until);
                let wake_at = rests.min().unwrap_or(Ns::MAX).min(self.peers.next_look());
                Progress::Idle { wake_at }
            }
        };
        let progress = own.and(ticked);
        self.next_turn = match progress {
            Progress::Busy => Ns::ZERO,
            Progress::Idle { wake_at } => wake_at,
        };
        progress
    }

    /// Returns whether a connection waited.
    fn accept(&mut self, now: Ns) -> bool {
        let mut any = false;
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                let listening = &mut self.listeners[index];
                if now < listening.rest_until {
                    break;
                }
                match listening.listener.accept() {
                    Ok(Some(stream)) => {
                        any = true;
                        self.adopt(stream);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, addr = %listening.listener.addr(), "accepting a control connection failed");
                        listening.rest_until = now + ACCEPT_REST;
                    }
                }
            }
        }
        any
    }

    /// Returns whether there was a frame.
    fn serve(&mut self, ready: &[ConnId], now: Ns) -> bool {
        let mut any = false;
        for &conn in ready {
            for _ in 0..FRAMES_PER_TURN {
                let Some(frame) = self.peers.recv(conn, now) else {
                    break;
                };
                any = true;
                tracing::trace!(
                    "{}: message of kind {}, {} bytes",
                    self.peers.name(conn),
                    frame.kind,
                    frame.body.len()
                );
                self.handler.on_frame(&mut self.peers, conn, frame);
            }
        }
        any
    }

    /// Reports connections that ended since the last call, and removes them. Returns whether there were any.
    fn reap(&mut self) -> bool {
        let mut any = false;
        while let Some((conn, why)) = self.peers.take_ended() {
            any = true;
            self.handler.on_close(&mut self.peers, conn, &why);
        }
        any
    }
}

impl<C: Cpu, H: ControlHandler> Actor<C> for ControlServer<H> {
    /// Takes what has arrived on any connection. Costs a system call for every connection with a descriptor.
    fn step(&mut self, cpu: &C) -> Progress {
        let all = self.peers.ids();
        self.advance(&all, cpu.now())
    }
}
