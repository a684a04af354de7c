//! [`Sessions`]: the sessions of all clients, and the handling of each message of a client or a worker.

use super::counters::COUNTERS;
use super::mail::{Command, Event};
use super::options::ServerOptions;
use super::session::{Offer, Phase, Session};
use super::setup::Setup;
use super::variant::{Mistake, Variant};
use super::worker::WorkerHandle;
use crate::control::{ErrorCode, FrontEnd, Message, Resync};
use drover_base::{Cpu, HashSeed, Ns, Progress};
use drover_control::acceptor::{ConnId, ControlHandler, Peers};
use drover_control::service::{ServiceInfo, ServiceQuery, StatsQuery};
use drover_control::{ControlError, Frame, Message as _};
use drover_kv::{ServiceStats, WorkerStats};
use drover_rt::Mailbox;
use drover_shards::{Answers, Reply};
use drover_slots::server::ClientIds;
use drover_verbs::{Context, Provider, Waker};
use std::rc::Rc;

/// Longest handshake, from the opening of the channel; a client that takes longer is refused.
const HANDSHAKE_NS_MAX: Ns = Ns::from_s(10);

/// The fields of a Welcome that are the same for all clients.
pub(super) struct Identity {
    pub(super) epoch: u64,
    pub(super) hash_seed: HashSeed,
    pub(super) item_bytes_max: usize,
}

/// All sessions of a server.
pub(super) struct Sessions<P: Provider, V: Variant> {
    pub(super) ctx: Rc<P::Context>,
    pub(super) offer: Offer,
    pub(super) identity: Identity,
    pub(super) slot_clients_max: usize,
    pub(super) variant: V,
    pub(super) workers: Vec<WorkerHandle>,
    events: Mailbox<Event>,
    pub(super) all: Vec<Session<P>>,
    pub(super) ids: ClientIds,
    pub(super) clients_total: u64,
    started: Ns,
    /// Statistics of the workers, as they arrive, for the clients that have asked for them.
    answers: Option<Answers<WorkerStats>>,
    /// Wakes the control thread when a worker has answered.
    pub(super) bell: Waker,
    stopping: bool,
    /// Why the server stops, if a worker gave up.
    failure: Option<String>,
}

impl<P: Provider, V: Variant> Sessions<P, V> {
    pub(super) fn new(
        setup: &Setup<P, V>,
        ctx: Rc<P::Context>,
        workers: Vec<WorkerHandle>,
        events: Mailbox<Event>,
    ) -> Sessions<P, V> {
        let (options, started, variant) = (&setup.options, setup.started, setup.variant);
        let (cpu, caps) = (ctx.cpu(), ctx.caps());
        let header = crate::layout::DATAGRAM_HEADER_BYTES;
        let slot_bytes_max = options
            .clients
            .slot_bytes_max
            .min((caps.mtu_bytes - header) & !63)
            .clamp(64, 1024);
        Sessions {
            offer: Offer {
                auth: options.requests.auth.clone(),
                crc_required: options.requests.crc || !caps.writes.ordered,
                paper_format: variant.paper_format(),
                datagram_window_max: datagram_window_max(options, caps.recv_depth_max, variant),
                hash_only: options.requests.hash_only,
                slot_bytes_max,
                window_max: options.clients.window_max,
                partition_count: options.partition_count,
            },
            identity: Identity {
                epoch: options.identity.epoch.unwrap_or_else(|| cpu.random()).max(1),
                hash_seed: options.identity.hash_seed.expect("set up"),
                item_bytes_max: options.item_bytes_max,
            },
            slot_clients_max: options.clients.with_slots_max,
            variant,
            workers,
            events,
            all: Vec::new(),
            ids: ClientIds::new(options.clients.count_max),
            clients_total: 0,
            started,
            answers: None,
            bell: setup.control.clone(),
            stopping: false,
            failure: None,
            ctx,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopping && self.all.is_empty()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    fn receive(&mut self, peers: &mut Peers, index: usize, frame: Frame) {
        let session = &mut self.all[index];
        // Without a secret, anyone may have statistics.
        let may_ask = session.is_live() || self.offer.auth.is_empty();
        if frame.kind == StatsQuery::KIND {
            if !may_ask {
                return session.refuse(peers, ErrorCode::Auth, "not authorised");
            }
            session.wants_stats.by_query = true;
            return self.ask_stats();
        }
        let message = match Message::decode(frame.kind, &frame.body, frame.fds) {
            Ok(message) => message,
            Err(error) => return session.refuse(peers, ErrorCode::Malformed, &error.to_string()),
        };
        match (&session.phase, message) {
            (_, Message::Bye) => peers.close(session.conn),
            (Phase::Hello, Message::Hello(hello)) => self.greet(peers, index, &hello),
            (_, Message::StatsRequest) if may_ask => {
                session.wants_stats.by_request = true;
                self.ask_stats();
            }
            (Phase::Attaching, Message::Attach { uc }) => self.attach(peers, index, &uc),
            (Phase::Attaching, Message::Replies { partition, ud }) => {
                self.note_replies(peers, index, partition, ud)
            }
            (Phase::Live, Message::Resync(resync)) => self.pass_on(peers, index, resync),
            (
                Phase::Live,
                Message::BulkOpen {
                    chunk_count,
                    short_count,
                },
            ) => self.open_bulk(peers, index, [chunk_count, short_count].map(usize::from)),
            (Phase::Live, Message::BulkAttach { rc }) => self.attach_bulk(peers, index, &rc),
            (_, message) => {
                let text = format!("message of kind {} is not expected now", message.kind());
                session.refuse(peers, ErrorCode::OutOfOrder, &text);
            }
        }
    }

    fn pass_on(&self, peers: &mut Peers, index: usize, resync: Resync) {
        let session = &self.all[index];
        match (session.id, self.workers.get(usize::from(resync.partition))) {
            (Some((client, _)), Some(worker)) => worker.send(Command::Resync { client, resync }),
            _ => session.refuse(peers, ErrorCode::Malformed, "no such partition"),
        }
    }

    fn handle_event(&mut self, peers: &mut Peers, event: Event) {
        match event {
            Event::Resynced { client, resynced } => {
                if let Some(session) = self.all.iter().find(|session| session.is(client)) {
                    session.send(peers, &Message::Resynced(resynced));
                }
            }
            Event::Void { client, generation } => {
                let mut all = self.all.iter();
                if let Some(session) = all.find(|session| session.id == Some((client, generation))) {
                    tracing::warn!(
                        client = %peers.name(session.conn),
                        "a client's updates may be lost: its channel is closed"
                    );
                    peers.close(session.conn);
                }
            }
            Event::GaveUp { worker, reason } => {
                self.failure
                    .get_or_insert(format!("worker {worker} gave up: {reason}"));
                self.stop(peers);
                // The worker would not answer that it has dropped its clients.
                self.all.clear();
            }
        }
    }

    /// Sends a command to each worker. The answers that arrive wake the control thread.
    pub(super) fn ask_workers<T>(&self, command: impl Fn(Reply<T>) -> Command) -> Answers<T> {
        Answers::ask(self.workers.len(), Some(&self.bell), |index, reply| {
            self.workers[index].send(command(reply));
        })
    }

    /// Advances session `index` if all workers have answered a question about it. Returns whether they have.
    fn advance(&mut self, peers: &mut Peers, index: usize) -> bool {
        let session = &mut self.all[index];
        let bulk = session.bulk.opening.as_mut().and_then(Answers::take).is_some();
        if bulk {
            session.bulk.opening = None;
            self.ready_if_bulk_open(peers, index);
        }
        let phase = match &mut self.all[index].phase {
            Phase::Exporting(answers) => answers
                .take()
                .map(|all| self.welcome_datagrams(peers, index, all)),
            Phase::Adding(answers) => answers.take().map(|all| self.go_live(peers, index, all)),
            Phase::Leaving(answers) => answers.take().map(|_| self.forget(index)),
            Phase::Hello | Phase::Attaching | Phase::Live => None,
        };
        bulk || phase.is_some()
    }

    /// Ends session `index`, whose channel has ended: destroys the queue pairs and memory that the client could write
    /// through, and tells the workers to drop the client, if they know it.
    fn end(&mut self, index: usize) {
        let session = &mut self.all[index];
        session.cut_off();
        let known = matches!(
            session.phase,
            Phase::Exporting(_) | Phase::Attaching | Phase::Adding(_) | Phase::Live
        );
        let Some(id @ (client, _)) = session.id.filter(|_| known) else {
            return self.forget(index);
        };
        if self.variant.makes(Mistake::ReusesIdsAtOnce) {
            self.ids.give_back(id);
        }
        let answers = self.ask_workers(|reply| Command::Remove { client, reply });
        self.all[index].phase = Phase::Leaving(answers);
    }

    /// Removes session `index`, of which nothing is left anywhere, and frees its id.
    fn forget(&mut self, index: usize) {
        let session = self.all.swap_remove(index);
        let was_leaving = matches!(session.phase, Phase::Leaving(_));
        if let Some(id) = session.id
            && !(was_leaving && self.variant.makes(Mistake::ReusesIdsAtOnce))
        {
            self.ids.give_back(id);
        }
    }

    /// Takes a client id and its generation; `None` if all ids are in use.
    ///
    /// # Panics
    /// The id was freed while a session still had it: workers' answers about that would be taken for the new client's.
    pub(super) fn take_id(&mut self) -> Option<(u32, u32)> {
        let id = self.ids.take()?;
        for session in &self.all {
            assert!(
                !session.is(id.0),
                "client id {} is given out while its session is {:?}",
                id.0,
                session.phase
            );
        }
        Some(id)
    }

    fn ask_stats(&mut self) {
        if self.answers.is_none() {
            self.answers = Some(self.ask_workers(Command::Stats));
        }
    }

    /// Sends statistics to the clients that wait for them, if all workers have answered. Returns whether they have.
    fn send_stats(&mut self, peers: &mut Peers) -> bool {
        let Some(workers) = self.answers.as_mut().and_then(Answers::take) else {
            return false;
        };
        self.answers = None;
        let stats = ServiceStats {
            workers,
            ..self.stats()
        };
        let text = stats.text(&COUNTERS);
        for session in &mut self.all {
            session.tell_stats(peers, &text);
        }
        true
    }

    /// Statistics of the clients; those of the workers are missing.
    pub(super) fn stats(&self) -> ServiceStats {
        let live = || self.all.iter().filter(|session| session.is_live());
        ServiceStats {
            workers: Vec::new(),
            clients: live().count(),
            datagram_clients: live().filter(|session| session.uses(FrontEnd::Datagrams)).count(),
            clients_total: self.clients_total,
            uptime_s: self.ctx.cpu().now().since(self.started).as_s(),
        }
    }

    pub(super) fn stop(&mut self, peers: &mut Peers) {
        self.stopping = true;
        for session in &self.all {
            session.send(peers, &Message::Bye);
            peers.close(session.conn);
        }
    }
}

impl<P: Provider, V: Variant> ControlHandler for Sessions<P, V> {
    fn on_connect(&mut self, peers: &mut Peers, conn: ConnId) {
        let session = Session::new(conn, self.ctx.cpu().now() + HANDSHAKE_NS_MAX);
        match self.stopping {
            true => session.refuse(peers, ErrorCode::Stopping, "the server is going down"),
            false => self.all.push(session),
        }
    }

    fn on_frame(&mut self, peers: &mut Peers, conn: ConnId, frame: Frame) {
        if frame.kind == ServiceQuery::KIND {
            let info = ServiceInfo {
                system: crate::control::SYSTEM.to_owned(),
                shard_count: 0,
            };
            // The client may close the channel because it wants another system.
            let _ = peers.send_message(conn, &info);
        } else if let Some(index) = self.all.iter().position(|session| session.conn == conn) {
            self.receive(peers, index, frame);
        }
    }

    fn on_close(&mut self, _: &mut Peers, conn: ConnId, _: &ControlError) {
        if let Some(index) = self.all.iter().position(|session| session.conn == conn) {
            self.end(index);
        }
    }

    fn on_tick(&mut self, peers: &mut Peers, now: Ns) -> Progress {
        let mut any = false;
        while let Some(event) = self.events.recv() {
            any = true;
            self.handle_event(peers, event);
        }
        any |= self.send_stats(peers);
        // Backwards: a session that is gone is replaced by the last one.
        for index in (0..self.all.len()).rev() {
            any |= self.advance(peers, index);
        }
        let late = |session: &&Session<P>| session.deadline().is_some_and(|deadline| now >= deadline);
        for session in self.all.iter().filter(late) {
            session.refuse(peers, ErrorCode::OutOfOrder, "the handshake took too long");
        }
        if self.is_stopped() {
            // The workers are removed: they get this command once, and no other after it.
            for worker in self.workers.drain(..) {
                any = true;
                worker.send(Command::Stop);
            }
        }
        match any {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self
                    .all
                    .iter()
                    .filter_map(Session::deadline)
                    .min()
                    .unwrap_or(Ns::MAX),
            },
        }
    }
}

/// Largest window of a client that sends datagrams; 0: clients cannot send datagrams. A request datagram that finds no
/// RECV is lost, and clients do not know of each other: so windows are so small that there are RECVs for all requests
/// of 64 clients.
fn datagram_window_max(options: &ServerOptions, recv_depth_max: usize, variant: impl Variant) -> usize {
    match options.clients.datagram_recvs.min(recv_depth_max) {
        0 => 0,
        _ if variant.makes(Mistake::AnyDatagramWindow) => options.clients.window_max,
        recvs => (1 << (recvs / 64).max(1).ilog2()).min(options.clients.window_max),
    }
}
