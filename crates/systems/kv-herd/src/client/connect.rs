//! From nothing to a session and back: handshake, control messages, loss, reconnection. Never blocks but in
//! [`Dial`] and [`HerdClient::connect_blocking`].

use super::bulk::Transfers;
use super::complete::Received;
use super::conflict::Conflicts;
use super::imports::Imports;
use super::options::ClientOptions;
use super::receive::Receive;
use super::send_queue::{SendQueue, SendQueueOptions, Signals};
use super::session::{RequestPath, ServerParams, Session};
use super::tally::Tally;
use super::timers::{TICK, Timers};
use super::waiting::{NEVER_SENT, Queue};
use super::window::{SlotState, Window, commit_writes};
use super::{HerdClient, Keyed, RequestFormat, Sink, paper};
use crate::control::{ErrorCode, FrontEnd, Hello, Message, PROTOCOL_VERSION, Welcome};
use crate::layout::SlotMap;
use crate::staging::Staging;
use drover_base::{Cpu, Ns};
use drover_control::{ATTEMPT_MAX, ControlError, ControlStream, Dial, Keeper};
use drover_kv::SetupError;
use drover_kv::{KvClient, Outcome, Refusal};
use drover_mem::{LINE_BYTES, PageWish};
use drover_verbs::{Access, Context, Provider, QpKind, QpOptions, QueuePair, UdDest};
use std::rc::Rc;

/// First wait before another attempt to reach the server; doubled with each failure.
const BACKOFF_MIN: Ns = Ns::from_ms(1);
/// Longest wait.
const BACKOFF_MAX: Ns = Ns::from_ms(200);
/// A handshake that takes longer has failed.
const HANDSHAKE_MAX: Ns = Ns::from_s(5);
/// A client that can reach its server has a session within this: a handshake that hangs is given up, then comes the
/// longest wait, then one attempt. `docs/operations.md` promises it to users.
pub const RECONNECT_MAX: Ns = Ns(HANDSHAKE_MAX.0 + BACKOFF_MAX.0 + ATTEMPT_MAX.0);
/// The control channel is looked at this often (a system call) while no answer is due.
const LOOK_EVERY: Ns = Ns::from_ms(1);
/// Requests staged before they are posted, on any fabric: on shared memory their lines travel together (8 were 1 to 7 %
/// faster than 4), and in large windows half a window is the server's share of a sweep, too (in a window of 32, 16 were
/// about a tenth faster than 8).
const POST_BATCH: std::ops::RangeInclusive<usize> = 8..=32;
/// Control messages taken per look.
const MESSAGES_MAX: usize = 64;
/// Before the image of a slot in its block: space for a datagram's header.
const DATAGRAM_LEAD_BYTES: usize = 64;

/// How a client reaches its server, now and after a loss.
pub(super) struct Connection<P: Provider, F: RequestFormat> {
    link: Link<P, F>,
    format: F,
    /// The next attempt asks for datagrams: the server has no slots left.
    without_slots: bool,
    dial: Dial,
    /// Wait before the next attempt to connect, should the current one fail.
    backoff: Ns,
    sessions: u64,
    last_epoch: u64,
    server_stats: Option<String>,
    last_error: Option<SetupError>,
}

impl<P: Provider, F: RequestFormat> Connection<P, F> {
    /// The server, for log lines.
    pub(super) fn server(&self) -> &str {
        self.dial.server()
    }

    /// Closed by the caller, for good.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.link, Link::Closed)
    }
}

/// The control side of a client.
enum Link<P: Provider, F: RequestFormat> {
    /// No connection; another attempt at `retry_at`.
    Down { retry_at: Ns },
    /// The handshake is under way.
    Shaking(Box<Shaking<P, F>>),
    /// There is a session.
    Up(Box<Up>),
    /// Closed by the caller.
    Closed,
}

/// A handshake under way.
struct Shaking<P: Provider, F: RequestFormat> {
    control: ControlStream,
    /// Asked for.
    front_end: FrontEnd,
    deadline: Ns,
    /// From Welcome on.
    session: Option<Box<Session<P, F>>>,
    /// Address handles still to come.
    partitions_missing: usize,
}

/// The control channel of a session.
struct Up {
    control: ControlStream,
    _keeper: Option<Keeper>,
    next_look: Ns,
    /// Answers that we wait for.
    awaited: usize,
    /// To be left as soon as nothing is under way.
    leaving: bool,
}

impl<P: Provider> HerdClient<P> {
    /// A client that starts to connect at its first poll.
    pub fn new(ctx: Rc<P::Context>, dial: Dial, options: ClientOptions) -> HerdClient<P> {
        HerdClient::with_format(ctx, dial, options, Keyed)
    }

    /// A connected client. Blocks until the handshake is done. Errors: the reason of the last attempt, at once if
    /// another one would not help, else after `timeout`.
    pub fn connect_blocking(
        ctx: Rc<P::Context>,
        dial: Dial,
        options: ClientOptions,
        timeout: Ns,
    ) -> Result<HerdClient<P>, SetupError> {
        let mut client = HerdClient::new(ctx.clone(), dial, options);
        let deadline = ctx.cpu().refresh() + timeout;
        let mut last = None;
        loop {
            let now = ctx.cpu().refresh();
            client.poll(ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                return Ok(client);
            }
            match client.take_error() {
                Some(error) if error.is_final() => return Err(error),
                Some(error) => last = Some(error),
                None => {}
            }
            if now >= deadline {
                return Err(last.unwrap_or(SetupError::Timeout));
            }
            client.rest(deadline);
        }
    }
}

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// A client of any format that starts to connect at its first poll.
    pub fn with_format(
        ctx: Rc<P::Context>,
        dial: Dial,
        mut options: ClientOptions,
        format: F,
    ) -> HerdClient<P, F> {
        options.waiting_max = options.waiting_max.min(16 << 10);
        HerdClient {
            open: false,
            timers: Timers::new(),
            session: None,
            conflicts: Conflicts::new(options.window),
            tally: Tally::default(),
            received: Received::new(),
            stats: Default::default(),
            waiting: Queue::new(),
            bulk: Transfers::new(),
            connection: Connection {
                link: Link::Down { retry_at: Ns::ZERO },
                format,
                without_slots: false,
                dial,
                backoff: BACKOFF_MIN,
                sessions: 0,
                last_epoch: 0,
                server_stats: None,
                last_error: None,
            },
            options,
            ctx,
        }
    }

    /// Why there is no session, if there was a reason since the last call.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.connection.last_error.take()
    }

    /// Waits a moment for the control channel, or for the next attempt.
    pub(super) fn rest(&self, deadline: Ns) {
        let now = self.ctx.cpu().now();
        match &self.connection.link {
            Link::Shaking(shaking) => {
                shaking.control.wait(Ns::from_ms(1));
            }
            Link::Down { retry_at } => {
                self.ctx.arm();
                self.ctx.park((*retry_at).min(deadline).max(now));
            }
            Link::Up(_) | Link::Closed => {}
        }
    }

    /// Says goodbye. Operations under way end as at a session's loss; later ones are refused with `Closed`.
    pub fn close(&mut self, sink: &mut impl FnMut(drover_kv::Completion<'_>)) {
        if let Link::Up(up) = &mut self.connection.link {
            send(&mut up.control, &Message::Bye);
        }
        self.lose(Ns::ZERO, SetupError::Ended, sink);
        self.connection.link = Link::Closed;
        while let Some(waiting) = self.waiting.pop_front() {
            self.complete(waiting.token, Outcome::Refused(Refusal::Unavailable), sink);
        }
        self.conflicts.clear();
    }

    /// When `poll` is wanted again though nothing arrives.
    pub(super) fn earliest_timer(&self) -> Ns {
        match &self.connection.link {
            Link::Closed => Ns::MAX,
            _ if self.timers.is_urgent() => Ns::ZERO,
            Link::Down { retry_at } if self.tally.in_flight() == 0 => *retry_at,
            Link::Down { retry_at } => (*retry_at).min(self.timers.next_tick()),
            Link::Shaking(_) => self.timers.next_tick(),
            Link::Up(up) if up.awaited > 0 => self.timers.next_tick(),
            // Ticks go on at leisure while only replies are awaited: no timer is shorter than a millisecond.
            // A look comes with a tick; who woke us before that would find nothing to do, again and again.
            Link::Up(up) if self.tally.in_flight() > 0 => {
                (self.timers.next_tick() + LOOK_EVERY - TICK).min(up.next_look.max(self.timers.next_tick()))
            }
            Link::Up(up) => up.control.next_look().max(up.next_look),
        }
    }

    /// Sends a question whose answer is awaited.
    pub(super) fn ask(&mut self, message: &Message) {
        if let Link::Up(up) = &mut self.connection.link {
            send(&mut up.control, message);
            up.awaited += 1;
        }
    }

    /// Sends a message that has no answer of its own.
    pub(super) fn send(&mut self, message: &Message) {
        if let Link::Up(up) = &mut self.connection.link {
            send(&mut up.control, message);
        }
    }

    /// One of the awaited answers came.
    pub(super) fn answered(&mut self) {
        if let Link::Up(up) = &mut self.connection.link {
            up.awaited = up.awaited.saturating_sub(1);
        }
    }

    /// No new requests; when those under way are done, a new session.
    pub(super) fn leave_when_idle(&mut self) {
        self.open = false;
        if let Link::Up(up) = &mut self.connection.link {
            up.leaving = true;
        }
    }

    /// Moves the connection on.
    pub(super) fn tend_link(&mut self, cpu: &P::Cpu, tick: bool, sink: Sink<'_>) {
        let now = cpu.now();
        match &mut self.connection.link {
            Link::Closed => {}
            Link::Down { retry_at } => {
                if now >= *retry_at {
                    self.begin_handshake(now);
                }
            }
            Link::Shaking(_) => self.shake(cpu),
            Link::Up(up) => {
                let look = up.awaited > 0 || (tick && now >= up.next_look);
                let idle = self
                    .session
                    .as_ref()
                    .is_none_or(|session| session.window.busy_count() == 0);
                if up.leaving && idle && !self.bulk_is_moving() {
                    self.send(&Message::Bye);
                    return self.lose(now, SetupError::Ended, sink);
                }
                if self.session.as_ref().is_some_and(|session| session.broken) {
                    return self.lose(now, SetupError::Ended, sink);
                }
                if look {
                    self.look_at_control(now, sink);
                }
            }
        }
    }

    fn begin_handshake(&mut self, now: Ns) {
        let mut control = match self.connection.dial.attempt() {
            Ok(control) => control,
            Err(error) => return self.fail(now, error.into()),
        };
        let front_end = match std::mem::take(&mut self.connection.without_slots) {
            true => FrontEnd::Datagrams,
            false => self.options.front_end,
        };
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            format: self.connection.format.format(),
            front_end,
            window: self.options.window as u16,
            slot_bytes: self.options.slot_bytes as u16,
            crc: self.options.crc,
            resume_epoch: self.connection.last_epoch,
            auth: self.options.auth.clone(),
        };
        send(&mut control, &Message::Hello(hello));
        self.timers.hurry();
        self.connection.link = Link::Shaking(Box::new(Shaking {
            control,
            front_end,
            deadline: now + HANDSHAKE_MAX,
            session: None,
            partitions_missing: 0,
        }));
    }

    /// This attempt failed: another one later.
    fn fail(&mut self, now: Ns, error: SetupError) {
        let server = self.connection.dial.server();
        tracing::debug!(%error, server, rest = %self.connection.backoff, "no session, will retry");
        self.connection.last_error = Some(error);
        self.connection.link = Link::Down {
            retry_at: now + self.connection.backoff,
        };
        self.connection.backoff = (self.connection.backoff * 2).min(BACKOFF_MAX);
    }

    /// Takes the handshake's messages.
    fn shake(&mut self, cpu: &P::Cpu) {
        let now = cpu.now();
        for _ in 0..MESSAGES_MAX {
            let Link::Shaking(shaking) = &mut self.connection.link else {
                return;
            };
            let message = match receive(&mut shaking.control, now) {
                Ok(Some(message)) => message,
                Ok(None) if now >= shaking.deadline => return self.fail(now, SetupError::Timeout),
                Ok(None) => return,
                Err(error) => return self.fail(now, error),
            };
            if let Message::Error { code, .. } = message
                && shaking.front_end == FrontEnd::Slots
                && !self.connection.format.is_paper()
                && code == ErrorCode::NoSlots
            {
                self.connection.without_slots = true;
                return self.begin_handshake(now);
            }
            let done = match message {
                Message::Error { code, text } => Err(code.refusal(&text)),
                message => shaking.take(&self.ctx, &self.options, self.connection.format, message),
            };
            match done {
                Ok(true) => return self.begin_session(now),
                Ok(false) => {}
                Err(error) => return self.fail(now, error),
            }
        }
        self.timers.hurry();
    }

    /// Ready was received.
    fn begin_session(&mut self, now: Ns) {
        let Link::Shaking(shaking) = std::mem::replace(&mut self.connection.link, Link::Closed) else {
            return;
        };
        let keeper = match self.options.keeper {
            true => shaking.control.keeper().ok(),
            false => None,
        };
        self.connection.link = Link::Up(Box::new(Up {
            control: shaking.control,
            _keeper: keeper,
            next_look: now + LOOK_EVERY,
            awaited: 0,
            leaving: false,
        }));
        let session = shaking.session.expect("Ready comes after Welcome");
        let slots = session.window.slots().len();
        self.conflicts = Conflicts::new(slots);
        for waiting in self.waiting.iter_mut() {
            waiting.hash = session.hasher.hash(&waiting.key);
            waiting.r = NEVER_SENT;
            self.conflicts.add(waiting.hash, waiting.is_write());
        }
        self.connection.last_epoch = session.params.epoch;
        self.session = Some(session);
        self.stats.reconnects += u64::from(self.connection.sessions > 0);
        self.connection.sessions += 1;
        self.connection.backoff = BACKOFF_MIN;
        self.open = true;
        self.timers.hurry();
    }

    fn look_at_control(&mut self, now: Ns, sink: Sink<'_>) {
        for _ in 0..MESSAGES_MAX {
            let Link::Up(up) = &mut self.connection.link else {
                return;
            };
            up.next_look = now + LOOK_EVERY;
            match receive(&mut up.control, now) {
                Ok(Some(message)) => self.take_message(message, now, sink),
                Ok(None) => return,
                Err(error) => return self.lose(now, error, sink),
            }
        }
        self.timers.hurry();
    }

    fn take_message(&mut self, message: Message, now: Ns, sink: Sink<'_>) {
        match message {
            Message::Resynced(answer) => {
                self.answered();
                self.resynced(&answer, now, sink);
            }
            Message::BulkReady { .. } | Message::Ready => self.bulk_message(message),
            Message::Stats { text } => {
                self.answered();
                self.connection.server_stats = Some(text);
            }
            Message::Error { code, text } => {
                let server = self.connection.dial.server();
                tracing::warn!(?code, text, server, "the server refused a request");
                self.answered();
                self.bulk_refused();
            }
            Message::Bye => self.lose(now, SetupError::Ended, sink),
            _ => self.stats.garbage += 1,
        }
    }

    /// The session is over: every operation under way gets its end or waits for the next session.
    pub(super) fn lose(&mut self, now: Ns, error: SetupError, sink: Sink<'_>) {
        self.open = false;
        self.connection.last_error = Some(error);
        self.connection.link = Link::Down { retry_at: now };
        self.lose_bulk(sink);
        let slot_count = self
            .session
            .as_ref()
            .map_or(0, |session| session.window.slots().len());
        for at in 0..slot_count {
            self.lose_slot(at, sink);
        }
        self.session = None;
        self.timers.hurry();
    }

    fn lose_slot(&mut self, at: usize, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        match slot.state {
            SlotState::Free => {}
            SlotState::Posted | SlotState::Quarantined if !commit_writes(slot.commit) => {
                if let Some(waiting) = self.copy_out(at) {
                    self.stats.resubmits += 1;
                    self.waiting.put_back(waiting);
                }
            }
            SlotState::Posted | SlotState::Quarantined | SlotState::Ghost => {
                self.finish_slot(at, Outcome::Indeterminate, sink);
            }
        }
    }

    /// Asks the server for its counters; [`take_server_stats`](HerdClient::take_server_stats) has them later.
    pub fn ask_server_stats(&mut self) {
        self.ask(&Message::StatsRequest);
        self.timers.hurry();
    }

    /// The answer, if it has come: lines `name value`.
    pub fn take_server_stats(&mut self) -> Option<String> {
        self.connection.server_stats.take()
    }
}

impl<P: Provider, F: RequestFormat> Shaking<P, F> {
    /// Takes a message; true when the handshake is complete.
    fn take(
        &mut self,
        ctx: &Rc<P::Context>,
        options: &ClientOptions,
        format: F,
        message: Message,
    ) -> Result<bool, SetupError> {
        match (message, &mut self.session) {
            (Message::Welcome(welcome), None) => {
                self.welcome(ctx, options, format, &welcome)?;
                Ok(false)
            }
            (Message::Partition { index, ud }, Some(session)) => {
                let dest = session.imports.dest(&ud)?;
                let RequestPath::Datagrams { dests, .. } = &mut session.front else {
                    return Err(SetupError::Unusable {
                        what: "a partition's address",
                    });
                };
                if dests.len() != usize::from(index) || self.partitions_missing == 0 {
                    return Err(SetupError::Unusable {
                        what: "order of partitions",
                    });
                }
                dests.push(dest);
                self.partitions_missing -= 1;
                Ok(false)
            }
            (Message::Ready, Some(_)) if self.partitions_missing == 0 => Ok(true),
            _ => Err(SetupError::Unusable {
                what: "order of messages",
            }),
        }
    }

    /// Builds our side of the session and tells the server where it is.
    fn welcome(
        &mut self,
        ctx: &Rc<P::Context>,
        options: &ClientOptions,
        format: F,
        welcome: &Welcome,
    ) -> Result<(), SetupError> {
        let session = build_session::<P, F>(ctx, options, format, self.front_end, welcome)?;
        if let RequestPath::Slots { uc, .. } = &session.front {
            send(&mut self.control, &Message::Attach { uc: uc.export()? });
        } else {
            self.partitions_missing = usize::from(welcome.partition_count);
        }
        for partition in 0..welcome.partition_count {
            let ud = session.receive.qp.export()?;
            send(&mut self.control, &Message::Replies { partition, ud });
        }
        self.session = Some(Box::new(session));
        Ok(())
    }
}

/// The slots as the server laid them out. Errors: numbers that we did not ask for.
fn checked_map(options: &ClientOptions, welcome: &Welcome) -> Result<SlotMap, SetupError> {
    let map = SlotMap {
        slot_bytes: usize::from(welcome.slot_bytes),
        window: usize::from(welcome.window),
        partition_count: usize::from(welcome.partition_count),
    };
    let unusable = |what| Err(SetupError::Unusable { what });
    match () {
        () if !map.is_valid() => unusable("geometry of the slots"),
        () if map.window > options.window.max(1) => unusable("a larger window than asked for"),
        () if welcome.reply_qpns.len() != map.partition_count => unusable("number of queue pairs"),
        () => Ok(map),
    }
}

fn build_session<P: Provider, F: RequestFormat>(
    ctx: &Rc<P::Context>,
    options: &ClientOptions,
    format: F,
    front_end: FrontEnd,
    welcome: &Welcome,
) -> Result<Session<P, F>, SetupError> {
    let map = checked_map(options, welcome)?;
    let caps = ctx.caps().clone();
    let request_count = map.window * map.partition_count;
    let send_depth = (4 * request_count).clamp(128, caps.send_depth_max.max(1));
    let bulk_depth = 4 * usize::from(options.bulk_chunks);
    let cq = ctx.create_cq(Receive::<P>::recv_count(request_count) + 2 * send_depth + bulk_depth)?;
    let receive = Receive::<P>::new(ctx, &cq, &caps, request_count, map.body_bytes_max(), send_depth)?;
    let Some(routes) = Session::<P, F>::route_table(&welcome.reply_qpns) else {
        return Err(SetupError::Unusable {
            what: "two partitions with one queue pair",
        });
    };
    let mut imports = Imports::new(ctx);
    let front = match front_end {
        FrontEnd::Datagrams => RequestPath::Datagrams {
            dests: Vec::<UdDest>::with_capacity(map.partition_count),
            client_id: welcome.client_id,
            generation: welcome.generation,
        },
        FrontEnd::Slots => build_slots(ctx, &mut imports, welcome, &map, &cq, send_depth)?,
    };
    let paper = format.is_paper();
    let lead_bytes = match (&front, paper) {
        (RequestPath::Slots { .. }, false) => 0,
        (RequestPath::Datagrams { .. }, false) => DATAGRAM_LEAD_BYTES,
        (_, true) => paper::LEAD_BYTES,
    };
    let block_bytes = map.slot_bytes + lead_bytes;
    let signals = Signals::new(send_depth);
    let staging = if block_bytes > caps.inline_bytes_max {
        // A window of requests, their retransmissions, and those that have left without our knowing it.
        let count = 2 * request_count + 2 * signals.list_max();
        let region = ctx.alloc(count * block_bytes, PageWish::Small)?;
        let mr = ctx.register(&region, Access::LOCAL_READ)?;
        Some(Staging::new(mr, count, block_bytes))
    } else {
        None
    };
    let post_batch = match options.post_batch {
        0 => caps
            .post_batch
            .max((map.window / 2).clamp(*POST_BATCH.start(), *POST_BATCH.end())),
        chosen => chosen,
    };
    let params = ServerParams {
        epoch: welcome.epoch,
        partition_count: map.partition_count,
        body_bytes_max: map.body_bytes_max(),
        item_bytes_max: welcome.item_bytes_max as usize,
        crc: welcome.crc || options.crc,
        format,
        plain: !(paper || welcome.crc || options.crc)
            && matches!(front, RequestPath::Slots { .. })
            && caps.inline_bytes_max >= LINE_BYTES,
        keeps_order: caps.writes.lossless && !paper && matches!(front, RequestPath::Slots { .. }),
    };
    let sends = SendQueueOptions {
        request_count,
        block_bytes,
        signals,
        post_batch: post_batch.min(signals.list_max()),
        inline_bytes: caps.inline_bytes_max,
        staging,
    };
    Ok(Session {
        params,
        window: Window::new(map, 0),
        hasher: welcome.hash_seed.hasher(),
        front,
        receive,
        sends: SendQueue::new(sends),
        routes,
        broken: false,
        cq,
        imports,
    })
}

/// The end from which slots are written.
fn build_slots<P: Provider>(
    ctx: &Rc<P::Context>,
    imports: &mut Imports<P>,
    welcome: &Welcome,
    map: &SlotMap,
    cq: &P::Cq,
    send_depth: usize,
) -> Result<RequestPath<P>, SetupError> {
    let remote = imports.region(&welcome.slots.region)?;
    if remote.len < map.region_bytes() as u64 || !remote.access.remote_write {
        return Err(SetupError::Unusable {
            what: "region of slots",
        });
    }
    let mut uc = ctx.create_qp(&QpOptions {
        send_depth,
        recv_depth: 1,
        ..QpOptions::new(QpKind::Uc, cq, ctx.caps())
    })?;
    uc.connect(&welcome.slots.uc)?;
    Ok(RequestPath::Slots { uc, remote })
}

/// Sends; a broken channel is noticed when it is read.
fn send(control: &mut ControlStream, message: &Message) {
    let encoded = message.encode();
    if let Err(error) = control.send(encoded.kind, &encoded.bytes, &encoded.fds) {
        tracing::debug!(%error, server = %control.peer(), kind = encoded.kind, "a control message was not sent");
        if matches!(error, ControlError::FdsOverTcp | ControlError::TooLong { .. }) {
            control.close();
        }
    }
}

fn receive(control: &mut ControlStream, now: Ns) -> Result<Option<Message>, SetupError> {
    match control.recv(now)? {
        None => Ok(None),
        Some(frame) => Ok(Some(Message::decode(frame.kind, &frame.body, frame.fds)?)),
    }
}
