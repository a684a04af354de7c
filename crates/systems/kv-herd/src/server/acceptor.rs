//! [`Acceptor`]: the control side of a server. It admits clients, serves their control channels, and releases a
//! client's resources when its channel ends.

use super::mail::Event;
use super::sessions::Sessions;
use super::setup::Setup;
use super::variant::{Standard, Variant};
use super::worker::WorkerHandle;
use drover_base::{Actor, Progress};
use drover_control::acceptor::ControlServer;
use drover_control::{ControlListener, ControlStream};
use drover_kv::{ServiceStats, StartError};
use drover_rt::{Mailbox, WakeFd};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// Number of connections that are allowed beyond the maximum number of clients: for some that are no clients yet.
const UNAUTHENTICATED_MAX: usize = 64;

/// The control side of a server: admits clients and serves their control channels. Its steps never block.
pub struct Acceptor<P: Provider, V: Variant = Standard> {
    server: ControlServer<Sessions<P, V>>,
    ctx: Rc<P::Context>,
}

impl<P: Provider, V: Variant> Acceptor<P, V> {
    pub(super) fn new(
        setup: &Setup<P, V>,
        workers: Vec<WorkerHandle>,
        events: Mailbox<Event>,
    ) -> Result<Acceptor<P, V>, StartError> {
        let ctx = Rc::new(setup.device.context()?);
        let sessions = Sessions::new(setup, ctx.clone(), workers, events);
        let connections_max = setup
            .options
            .clients
            .count_max
            .saturating_add(UNAUTHENTICATED_MAX);
        let server = ControlServer::new(sessions, connections_max);
        Ok(Acceptor { server, ctx })
    }

    /// The acceptor's device context; its core is the one to pass to [`step`](Actor::step).
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// Also serves the clients that connect at `listeners`. `wake` ends the wait of a [`turn`](Acceptor::turn).
    pub(super) fn listen(&mut self, listeners: Vec<ControlListener>, wake: WakeFd) {
        listeners
            .into_iter()
            .for_each(|listener| self.server.listen(listener));
        self.server.wake_by(wake);
    }

    /// Blocks until there is something to do, and does it. While the server stops, closes all listeners.
    pub(super) fn turn(&mut self) {
        self.server.turn(self.ctx.cpu(), drover_base::Ns::MAX);
        if self.server.handler().is_stopping() {
            self.server.stop_listening();
        }
    }

    /// Serves the client at the other end of `stream`, as if it had connected at a listener. The channel is refused if
    /// there are too many or the server is stopping.
    pub fn adopt(&mut self, stream: ControlStream) {
        self.server.adopt(stream);
    }

    /// Number of sessions: one for each open control channel, even before its Hello, and one for each channel that has
    /// ended and whose client the workers have not dropped yet.
    pub fn session_count(&self) -> usize {
        self.server.handler().count()
    }

    /// Statistics of the server's clients; those of its workers are missing.
    pub(super) fn stats(&self) -> ServiceStats {
        self.server.handler().stats()
    }

    /// Starts to stop the server: sends Bye to all clients, closes their channels, and refuses new ones. Later steps
    /// tell the workers to stop, once no session is left.
    pub fn stop(&mut self) {
        let (sessions, peers) = self.server.parts();
        sessions.stop(peers);
    }

    /// Whether the server is stopping, because of [`stop`](Acceptor::stop) or because a worker gave up, and no session
    /// is left.
    pub fn is_stopped(&self) -> bool {
        self.server.handler().is_stopped()
    }

    /// Why the server stops, if a worker gave up; `None` otherwise.
    pub(super) fn failure(&self) -> Option<String> {
        self.server.handler().failure()
    }
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Acceptor<P, V> {
    /// Handles what has arrived on any channel and from workers. Costs a system call per channel to another process.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.server.step(cpu)
    }
}
