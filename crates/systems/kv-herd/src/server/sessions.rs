//! [`Sessions`]: the sessions of all clients, and what each message of a client or a worker means to them.

use super::ids::ClientIds;
use super::mail::{Command, Event};
use super::options::ServerOptions;
use super::session::{Offer, Phase, Session};
use super::setup::Setup;
use super::stats::{ServerStats, WorkerStats};
use super::variant::{Mistake, Variant};
use super::worker::WorkerHandle;
use crate::control::{ErrorCode, FrontEnd, Message, Resync};
use drover_base::{Cpu, HashSeed, Ns, Progress};
use drover_control::acceptor::{ConnId, ControlHandler, Peers};
use drover_control::service::{ServiceInfo, ServiceQuery};
use drover_control::{ControlError, Frame, Message as _};
use drover_rt::Mailbox;
use drover_shards::Answers;
use drover_verbs::{Context, Provider, Waker};
use std::rc::Rc;

/// A client that is not live by then is sent away.
const HANDSHAKE_NS_MAX: Ns = Ns::from_s(10);

/// What every client is told of the server.
pub(super) struct Identity {
    pub(super) epoch: u64,
    pub(super) hash_seed: HashSeed,
    pub(super) item_bytes_max: usize,
}

/// All clients.
pub(super) struct Sessions<P: Provider, V: Variant> {
    pub(super) ctx: Rc<P::Context>,
    pub(super) offer: Offer,
    pub(super) identity: Identity,
    pub(super) slot_clients_max: usize,
    variant: V,
    pub(super) workers: Vec<WorkerHandle>,
    events: Mailbox<Event>,
    pub(super) all: Vec<Session<P>>,
    pub(super) ids: ClientIds,
    pub(super) clients_total: u64,
    started: Ns,
    /// What the workers did, for the clients that want to know.
    answers: Option<Answers<WorkerStats>>,
    /// Wakes the control thread when a worker has answered.
    bell: Waker,
    stopping: bool,
    /// Why it stops, if nobody asked it to.
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
        let hash_seed = options
            .hash_seed
            .unwrap_or_else(|| HashSeed::new(cpu.random(), cpu.random()));
        let header = crate::layout::DATAGRAM_HEADER_BYTES;
        let slot_bytes_max = options
            .slot_bytes_max
            .min((caps.mtu_bytes - header) & !63)
            .clamp(64, 1024);
        Sessions {
            offer: Offer {
                auth: options.auth.clone(),
                crc_required: options.crc || !caps.ordered_writes,
                paper_format: variant.paper_format(),
                datagram_window_max: datagram_window_max(options, caps.recv_depth_max, variant),
                hash_only: options.hash_only,
                slot_bytes_max,
                window_max: options.window_max,
                partition_count: options.partition_count,
            },
            identity: Identity {
                epoch: options.epoch.unwrap_or_else(|| cpu.random()).max(1),
                hash_seed,
                item_bytes_max: options.item_bytes_max,
            },
            slot_clients_max: options.slot_clients_max,
            variant,
            workers,
            events,
            all: Vec::new(),
            ids: ClientIds::new(options.clients_max),
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
        let message = match Message::decode(frame.kind, &frame.body, frame.fds) {
            Ok(message) => message,
            Err(error) => return session.refuse(peers, ErrorCode::Malformed, &error.to_string()),
        };
        match (session.phase, message) {
            (_, Message::Bye) => peers.close(session.conn),
            (Phase::Hello, Message::Hello(hello)) => self.greet(peers, index, &hello),
            // With no secret to tell, statistics are for anybody: `drover stats` asks nothing else.
            (phase, Message::StatsRequest) if phase == Phase::Live || self.offer.auth.is_empty() => {
                session.wants_stats = true;
                self.ask_workers();
            }
            (Phase::Attaching, Message::Attach { uc }) => self.attach(peers, index, &uc),
            (Phase::Attaching, Message::Replies { partition, ud }) => {
                self.note_replies(peers, index, partition, ud)
            }
            (Phase::Live, Message::Resync(resync)) => self.pass_on(peers, index, resync),
            (Phase::Live, Message::BulkOpen { chunk_count }) => {
                self.open_bulk(peers, index, usize::from(chunk_count))
            }
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

    pub(super) fn session_of(&self, client: u32) -> Option<usize> {
        self.all.iter().position(|session| session.is(client))
    }

    fn handle_event(&mut self, peers: &mut Peers, event: Event) {
        match event {
            Event::Added { client, result } => self.note_added(peers, client, result),
            Event::Removed { client } => self.note_removed(client),
            Event::Resynced { client, resynced } => {
                if let Some(index) = self.session_of(client) {
                    self.all[index].send(peers, &Message::Resynced(resynced));
                }
            }
            Event::BulkOpened { client } => {
                if let Some(index) = self.session_of(client) {
                    let missing = &mut self.all[index].bulk.missing;
                    *missing = missing.saturating_sub(1);
                    self.ready_if_bulk_open(peers, index);
                }
            }
            Event::Exported {
                worker,
                client,
                result,
            } => self.note_exported(peers, worker, client, result),
            Event::GaveUp { worker, reason } => {
                self.failure
                    .get_or_insert(format!("worker {worker} gave up: {reason}"));
                self.stop(peers);
                // It would not answer that it has dropped them.
                self.all.clear();
            }
        }
    }

    fn note_removed(&mut self, client: u32) {
        let Some(index) = self.session_of(client) else {
            return;
        };
        if let Phase::Leaving { missing } = &mut self.all[index].phase {
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                self.forget(index);
            }
        }
    }

    /// The channel of session `index` has ended: the client can write nothing more, and the workers forget it.
    fn end(&mut self, index: usize) {
        let session = &mut self.all[index];
        session.cut_off();
        let known = matches!(
            session.phase,
            Phase::Exporting { .. } | Phase::Adding { .. } | Phase::Live
        );
        match (known, session.id) {
            (true, Some((client, generation))) => {
                session.phase = Phase::Leaving {
                    missing: self.workers.len(),
                };
                for worker in &self.workers {
                    worker.send(Command::Remove { client });
                }
                if self.variant.makes(Mistake::ReusesIdsAtOnce) {
                    session.id = None;
                    self.ids.give_back((client, generation));
                }
            }
            _ => self.forget(index),
        }
    }

    /// Nothing of the session is left anywhere.
    fn forget(&mut self, index: usize) {
        let session = self.all.swap_remove(index);
        if let Some(id) = session.id {
            self.ids.give_back(id);
        }
    }

    fn ask_workers(&mut self) {
        let workers = &self.workers;
        // Answers under way will do.
        self.answers.get_or_insert_with(|| {
            Answers::ask(workers.len(), Some(&self.bell), |index, reply| {
                workers[index].send(Command::Stats(reply));
            })
        });
    }

    /// Passes the workers' answers on to the clients that wait for them, if they are complete.
    fn send_stats(&mut self, peers: &mut Peers) -> bool {
        let Some(workers) = self.answers.as_mut().and_then(Answers::take) else {
            return false;
        };
        self.answers = None;
        let stats = ServerStats {
            workers,
            ..self.stats()
        };
        let text = stats.to_text();
        for session in &mut self.all {
            if std::mem::take(&mut session.wants_stats) {
                session.send(peers, &Message::Stats { text: text.clone() });
            }
        }
        true
    }

    /// All but what the workers did.
    pub(super) fn stats(&self) -> ServerStats {
        let live = || self.all.iter().filter(|session| session.phase == Phase::Live);
        ServerStats {
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
            // It may want another system, and close.
            let _ = peers.send_message(conn, &info);
        } else if let Some(index) = self.all.iter().position(|session| session.conn == conn) {
            self.receive(peers, index, frame);
        }
    }

    fn on_close(&mut self, _: &mut Peers, conn: ConnId, why: &ControlError) {
        if let Some(index) = self.all.iter().position(|session| session.conn == conn) {
            tracing::debug!(%why, client = ?self.all[index].id, ?conn, "a client's control channel has ended");
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
        let late = |session: &&Session<P>| session.deadline().is_some_and(|deadline| now >= deadline);
        for session in self.all.iter().filter(late) {
            session.refuse(peers, ErrorCode::OutOfOrder, "the handshake took too long");
        }
        if self.is_stopped() {
            // Told once: nobody is left to add clients or to ask.
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

/// A request datagram that finds no RECV is lost, and clients do not know of each other: so windows are small
/// enough that 64 clients with all of theirs under way find one each.
fn datagram_window_max(options: &ServerOptions, recv_depth_max: usize, variant: impl Variant) -> usize {
    match options.datagram_recvs.min(recv_depth_max) {
        0 => 0,
        _ if variant.makes(Mistake::AnyDatagramWindow) => options.window_max,
        recvs => (1 << (recvs / 64).max(1).ilog2()).min(options.window_max),
    }
}
