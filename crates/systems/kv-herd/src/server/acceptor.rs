//! [`Acceptor`]: lets clients in, minds their control channels, takes everything back when one ends.

use super::counters::stats_text;
use super::ids::ClientIds;
use super::inbox::{Command, Event, Inbox};
use super::listeners::Listeners;
use super::options::ServerOptions;
use super::session::{Offer, Phase, Session};
use super::setup::Setup;
use super::variant::{Mistake, Standard, Variant};
use super::worker::Introduction;
use crate::control::{ErrorCode, FrontEnd, Message};
use drover_base::{Actor, Cpu, HashSeed, Ns, Progress};
use drover_control::service::{ServiceQuery, StatsQuery};
use drover_control::{ControlError, ControlListener, ControlStream, Frame, Message as _};
use drover_kv::{ServiceStats, StartError, WorkerStats};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;
use std::sync::{Arc, mpsc};

/// A client that is not live by then is sent away.
const HANDSHAKE_NS_MAX: Ns = Ns::from_s(10);
/// Frames of one client per step: nobody starves the others.
const FRAMES_PER_STEP: usize = 32;
/// Connections taken per step.
const ACCEPTS_PER_STEP: usize = 16;

/// Threads that wait for statistics at a time.
const ASKERS_MAX: usize = 64;

/// What the owner of a running server wants of its control thread.
pub(super) enum Ask {
    /// Serve the client at the other end.
    Adopt(ControlStream),
    /// Tell.
    Stats(mpsc::Sender<ServiceStats>),
    /// Say which workers have not answered the last question yet.
    Silent(mpsc::Sender<Vec<usize>>),
    /// Say goodbye to all clients and stop the workers.
    Stop,
}

/// What every client is told of the server.
pub(super) struct Identity {
    pub(super) epoch: u64,
    pub(super) hash_seed: HashSeed,
    pub(super) item_bytes_max: usize,
}

/// The control side of a server. Steps never block.
pub struct Acceptor<P: Provider, V: Variant = Standard> {
    pub(super) ctx: Rc<P::Context>,
    pub(super) offer: Offer,
    pub(super) identity: Identity,
    pub(super) slot_clients_max: usize,
    variant: V,
    pub(super) workers: Vec<Introduction>,
    events: Arc<Inbox<Event>>,
    pub(super) asks: Arc<Inbox<Ask>>,
    pub(super) listeners: Listeners,
    pub(super) sessions: Vec<Session<P>>,
    pub(super) ids: ClientIds,
    pub(super) clients_total: u64,
    started: Ns,
    /// Workers that owe an answer.
    stats_missing: Vec<usize>,
    stats: ServiceStats,
    stats_for: Vec<mpsc::Sender<ServiceStats>>,
    pub(super) stopping: bool,
    /// Why it stops, if nobody asked it to.
    pub(super) failure: Option<String>,
}

impl<P: Provider, V: Variant> Acceptor<P, V> {
    pub(super) fn new(
        setup: &Setup<P, V>,
        workers: Vec<Introduction>,
        listeners: Vec<ControlListener>,
    ) -> Result<Acceptor<P, V>, StartError> {
        let (options, started, variant) = (&setup.options, setup.started, setup.variant);
        let ctx = setup.device.context()?;
        let (cpu, caps) = (ctx.cpu(), ctx.caps());
        let hash_seed = options
            .identity
            .hash_seed
            .unwrap_or_else(|| HashSeed::new(cpu.random(), cpu.random()));
        let header = crate::layout::DATAGRAM_HEADER_BYTES;
        let slot_bytes_max = options
            .clients
            .slot_bytes_max
            .min((caps.mtu_bytes - header) & !63)
            .clamp(64, 1024);
        Ok(Acceptor {
            offer: Offer {
                auth: options.requests.auth.clone(),
                crc_required: options.requests.crc || !caps.ordered_writes,
                paper_format: variant.paper_format(),
                datagram_window_max: datagram_window_max(options, caps.recv_depth_max, variant),
                hash_only: options.requests.hash_only,
                slot_bytes_max,
                window_max: options.clients.window_max,
                partition_count: options.partition_count,
            },
            identity: Identity {
                epoch: options.identity.epoch.unwrap_or_else(|| cpu.random()).max(1),
                hash_seed,
                item_bytes_max: options.item_bytes_max,
            },
            slot_clients_max: options.clients.with_slots_max,
            variant,
            workers,
            events: setup.events.clone(),
            asks: Inbox::new(),
            listeners: Listeners::new(listeners),
            sessions: Vec::new(),
            ids: ClientIds::new(options.clients.count_max),
            clients_total: 0,
            started,
            stats_missing: Vec::new(),
            stats: ServiceStats::default(),
            stats_for: Vec::new(),
            stopping: false,
            failure: None,
            ctx: Rc::new(ctx),
        })
    }

    /// Its view of the fabric; its core is what [`step`](Actor::step) wants.
    pub fn context(&self) -> Rc<P::Context> {
        self.ctx.clone()
    }

    /// Serves the client at the other end of `stream`.
    pub fn adopt(&mut self, stream: ControlStream) {
        let deadline = self.ctx.cpu().now() + HANDSHAKE_NS_MAX;
        self.sessions.push(Session::new(stream, deadline));
    }

    /// Clients that are live or on their way in or out.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// It was told to stop, and everybody is gone.
    pub fn is_stopped(&self) -> bool {
        self.stopping && self.sessions.is_empty()
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &ControlStream> {
        let open = |session: &&Session<P>| !matches!(session.phase, Phase::Leaving { .. });
        self.sessions.iter().filter(open).map(|session| &session.stream)
    }

    fn accept(&mut self, now: Ns) -> bool {
        for count in 0..ACCEPTS_PER_STEP {
            match self.listeners.accept(now) {
                Some(stream) => self.adopt(stream),
                None => return count > 0,
            }
        }
        true
    }

    /// Frames of session `index`. Returns whether there were any.
    fn listen(&mut self, now: Ns, index: usize) -> bool {
        for count in 0..FRAMES_PER_STEP {
            let session = &mut self.sessions[index];
            if matches!(session.phase, Phase::Leaving { .. }) {
                return count > 0;
            }
            match session.stream.recv(now) {
                Ok(Some(frame)) => self.receive(index, frame),
                Ok(None) => {
                    if session.phase != Phase::Live && now >= session.deadline {
                        session.refuse(ErrorCode::OutOfOrder, "the handshake took too long");
                        return true;
                    }
                    return count > 0;
                }
                Err(error) => {
                    self.end(index, &error);
                    return true;
                }
            }
        }
        true
    }

    fn receive(&mut self, index: usize, frame: Frame) {
        let session = &mut self.sessions[index];
        if frame.kind == ServiceQuery::KIND {
            return session.announce();
        }
        // With no secret to tell, statistics are for anybody: `drover stats` asks nothing else.
        let may_ask = session.phase == Phase::Live || self.offer.auth.is_empty();
        if frame.kind == StatsQuery::KIND {
            if !may_ask {
                return session.refuse(ErrorCode::Auth, "not authorised");
            }
            session.wants_stats.by_query = true;
            return self.ask_stats();
        }
        let message = match Message::decode(frame.kind, &frame.body, frame.fds) {
            Ok(message) => message,
            Err(error) => return session.refuse(ErrorCode::Malformed, &error.to_string()),
        };
        match (session.phase, message) {
            (_, Message::Bye) => session.stream.close(),
            (Phase::Hello, Message::Hello(hello)) => self.greet(index, &hello),
            (_, Message::StatsRequest) if may_ask => {
                session.wants_stats.by_request = true;
                self.ask_stats();
            }
            (Phase::Attaching, Message::Attach { uc }) => self.attach(index, &uc),
            (Phase::Attaching, Message::Replies { partition, ud }) => self.note_replies(index, partition, ud),
            (Phase::Live, Message::Resync(resync)) => {
                match (session.id, self.workers.get(usize::from(resync.partition))) {
                    (Some((client, _)), Some(worker)) => {
                        worker.inbox.push(Command::Resync { client, resync })
                    }
                    _ => session.refuse(ErrorCode::Malformed, "no such partition"),
                }
            }
            (Phase::Live, Message::BulkOpen { chunk_count }) => {
                self.open_bulk(index, usize::from(chunk_count))
            }
            (Phase::Live, Message::BulkAttach { rc }) => self.attach_bulk(index, &rc),
            (_, message) => {
                let text = format!("message of kind {} is not expected now", message.kind());
                session.refuse(ErrorCode::OutOfOrder, &text);
            }
        }
    }

    /// What the workers have to say. Returns whether there was something.
    fn hear_workers(&mut self) -> bool {
        let mut any = false;
        while self.events.has_mail() {
            let Some(event) = self.events.pop() else {
                break;
            };
            any = true;
            self.hear_worker(event);
        }
        any
    }

    pub(super) fn session_of(&self, client: u32) -> Option<usize> {
        self.sessions.iter().position(|session| session.is(client))
    }

    fn hear_worker(&mut self, event: Event) {
        match event {
            Event::Added { client, result } => self.note_added(client, result),
            Event::Removed { client } => self.note_removed(client),
            Event::Resynced { client, resynced } => {
                if let Some(index) = self.session_of(client) {
                    self.sessions[index].send(&Message::Resynced(resynced));
                }
            }
            Event::BulkOpened { client } => {
                if let Some(index) = self.session_of(client) {
                    let session = &mut self.sessions[index];
                    session.bulk.missing = session.bulk.missing.saturating_sub(1);
                    self.ready_if_bulk_open(index);
                }
            }
            Event::Exported {
                worker,
                client,
                result,
            } => self.note_exported(worker, client, result),
            Event::Stats { worker, stats } => self.note_stats(worker, *stats),
            Event::GaveUp {
                worker: index,
                reason,
            } => {
                self.failure
                    .get_or_insert(format!("worker {index} gave up: {reason}"));
                self.stop();
                // It would not answer that it has dropped them.
                self.sessions.clear();
            }
        }
    }

    fn note_removed(&mut self, client: u32) {
        let Some(index) = self.session_of(client) else {
            return;
        };
        if let Phase::Leaving { missing } = &mut self.sessions[index].phase {
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                self.forget(index);
            }
        }
    }

    /// The channel of session `index` has ended: the client can write nothing more, and the workers forget it.
    fn end(&mut self, index: usize, error: &ControlError) {
        let session = &mut self.sessions[index];
        tracing::debug!(%error, client = ?session.id, peer = %session.stream.peer(), "a control channel has ended");
        session.cut_off();
        let known = matches!(session.phase, Phase::Adding { .. } | Phase::Live);
        match (known, session.id) {
            (true, Some((client, generation))) => {
                session.phase = Phase::Leaving {
                    missing: self.workers.len(),
                };
                for worker in &self.workers {
                    worker.inbox.push(Command::Remove { client });
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
        let session = self.sessions.swap_remove(index);
        if let Some(id) = session.id {
            self.ids.give_back(id);
        }
    }

    fn ask_stats(&mut self) {
        if !self.stats_missing.is_empty() {
            return; // the answers under way will do
        }
        self.stats_missing = (0..self.workers.len()).collect();
        self.stats.workers = vec![WorkerStats::default(); self.workers.len()];
        for worker in &self.workers {
            worker.inbox.push(Command::Stats);
        }
    }

    fn note_stats(&mut self, worker: usize, stats: WorkerStats) {
        self.stats.workers[worker] = stats;
        self.stats_missing.retain(|missing| *missing != worker);
        if !self.stats_missing.is_empty() {
            return;
        }
        let live = || {
            self.sessions
                .iter()
                .filter(|session| session.phase == Phase::Live)
        };
        self.stats.clients = live().count();
        self.stats.datagram_clients = live().filter(|session| session.uses(FrontEnd::Datagrams)).count();
        self.stats.clients_total = self.clients_total;
        self.stats.uptime_s = self.ctx.cpu().now().since(self.started).as_s();
        let text = stats_text(&self.stats);
        for session in &mut self.sessions {
            session.tell_stats(&text);
        }
        for asker in self.stats_for.drain(..) {
            // The caller may have stopped waiting.
            let _ = asker.send(self.stats.clone());
        }
    }

    fn hear_owner(&mut self) -> bool {
        let mut any = false;
        while let Some(ask) = self.asks.has_mail().then(|| self.asks.pop()).flatten() {
            any = true;
            match ask {
                Ask::Adopt(stream) => self.adopt(stream),
                Ask::Stats(asker) => {
                    self.stats_for.truncate(ASKERS_MAX - 1); // of a server that hangs, the later give up
                    self.stats_for.push(asker);
                    self.ask_stats();
                }
                // The caller may have stopped waiting.
                Ask::Silent(asker) => drop(asker.send(self.stats_missing.clone())),
                Ask::Stop => self.stop(),
            }
        }
        any
    }

    /// Says goodbye to all clients; workers are told to stop when the last one is gone.
    pub fn stop(&mut self) {
        self.stopping = true;
        self.listeners.close();
        for session in &mut self.sessions {
            if !session.stream.is_closed() {
                session.send(&Message::Bye);
            }
            session.stream.close();
        }
    }
}

/// A request datagram that finds no RECV is lost, and clients do not know of each other: so windows are small
/// enough that 64 clients with all of theirs under way find one each.
fn datagram_window_max(options: &ServerOptions, recv_depth_max: usize, variant: impl Variant) -> usize {
    match options.clients.datagram_recvs.min(recv_depth_max) {
        0 => 0,
        _ if variant.makes(Mistake::AnyDatagramWindow) => options.clients.window_max,
        recvs => (1 << (recvs / 64).max(1).ilog2()).min(options.clients.window_max),
    }
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Acceptor<P, V> {
    /// Takes what has arrived on any channel. Costs a system call per client.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let now = cpu.now();
        let mut any = self.hear_owner();
        any |= self.accept(now);
        any |= self.hear_workers();
        // Backwards: a session that is gone is replaced by the last one.
        for index in (0..self.sessions.len()).rev() {
            any |= self.listen(now, index);
        }
        if self.is_stopped() {
            // Told once: nobody is left to add clients or to ask.
            for worker in self.workers.drain(..) {
                worker.inbox.push(Command::Stop);
            }
            return Progress::Idle { wake_at: Ns::MAX };
        }
        if any {
            return Progress::Busy;
        }
        let looks = self.streams().map(|stream| stream.next_look());
        let looks = looks.chain(Some(self.listeners.paused_until()).filter(|until| *until > now));
        let wake_at = looks.min().unwrap_or(Ns::MAX).max(now + Ns::from_ms(1));
        Progress::Idle { wake_at }
    }
}
