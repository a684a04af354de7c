//! [`Acceptor`]: the control side of a server. It lets clients in, minds their control channels, and takes everything
//! back when one ends.

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

/// Connections that are no clients yet, in addition to those of clients.
const UNAUTHENTICATED_MAX: usize = 64;

/// The control side of a server. Steps never block.
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

    /// Its view of the fabric; its core is what [`step`](Actor::step) wants.
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// Also serves the clients that connect at `listeners`, in a thread that waits: `wake` ends its wait.
    pub(super) fn listen(&mut self, listeners: Vec<ControlListener>, wake: WakeFd) {
        listeners
            .into_iter()
            .for_each(|listener| self.server.listen(listener));
        self.server.wake_by(wake);
    }

    /// Waits until there is something to do, and does it.
    pub(super) fn turn(&mut self) {
        self.server.turn(self.ctx.cpu(), drover_base::Ns::MAX);
        if self.server.handler().is_stopping() {
            self.server.stop_listening();
        }
    }

    /// Serves the client at the other end of `stream`.
    pub fn adopt(&mut self, stream: ControlStream) {
        self.server.adopt(stream);
    }

    /// Clients that are live or on their way in or out.
    pub fn session_count(&self) -> usize {
        self.server.handler().count()
    }

    /// What a server tells of its clients; nothing of its workers.
    pub(super) fn stats(&self) -> ServiceStats {
        self.server.handler().stats()
    }

    /// Says goodbye to all clients; workers are told to stop when the last one is gone.
    pub fn stop(&mut self) {
        let (sessions, peers) = self.server.parts();
        sessions.stop(peers);
    }

    /// It was told to stop, and everybody is gone.
    pub fn is_stopped(&self) -> bool {
        self.server.handler().is_stopped()
    }

    /// Why it stops, if nobody asked it to.
    pub(super) fn failure(&self) -> Option<String> {
        self.server.handler().failure()
    }
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Acceptor<P, V> {
    /// Takes what has arrived on any channel. Costs a system call per client of another process.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.server.step(cpu)
    }
}
