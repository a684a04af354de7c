//! Connecting, control messages, loss of the session, reconnection. Only [`Dial`] may block.

use super::bulk::Transfers;
use super::complete::Received;
use super::handshake::ClientHandshake;
use super::options::ClientOptions;
use super::session::Session;
use super::{HerdClient, Keyed, RequestFormat, Sink};
use crate::control::Message;
use drover_base::{Cpu, Ns};
use drover_control::{ATTEMPT_MAX, Dial, Frame, Keeper, Link, LinkEvent, LinkOptions};
use drover_kv::{Outcome, Refusal, SetupError};
use drover_slots::client::{Conflicts, NEVER_SENT, SlotPhase, TICK, Tally, Ticker, WaitQueue};
use drover_verbs::Provider;
use std::rc::Rc;

/// Longest wait between two attempts to connect to the server.
const BACKOFF_MAX: Ns = Ns::from_ms(200);
/// Longest handshake; one that takes longer has failed.
const HANDSHAKE_MAX: Ns = Ns::from_s(5);
/// Longest time, 6.2 s, until a client has a session again once its server can be reached: a handshake that hangs is
/// given up (5 s), then comes the longest wait (200 ms), then one attempt to connect (1 s). It holds if the client is
/// polled all the time, the server's host has one address, and neither name resolution nor the server's answers take
/// noticeable time. `docs/operations.md` promises it to users.
pub const RECONNECT_MAX: Ns = Ns(HANDSHAKE_MAX.0 + BACKOFF_MAX.0 + ATTEMPT_MAX.0);
/// Time between checks of the control channel, each a system call, while no answer is due.
const LOOK_EVERY: Ns = Ns::from_ms(1);

const LINK: LinkOptions = LinkOptions {
    handshake_max: HANDSHAKE_MAX,
    rest_min: Ns::from_ms(1),
    rest_max: BACKOFF_MAX,
    rest_lost: Ns::ZERO,
    look_every: LOOK_EVERY,
};

/// A client's link to its server, now and after a loss of the session.
pub(super) struct Connection<P: Provider, F: RequestFormat> {
    link: Link<ClientHandshake<P, F>>,
    /// Sends heartbeats while the client is not polled.
    keeper: Option<Keeper>,
    /// Number of answers of the server that have not arrived.
    awaited: usize,
    /// Whether the client leaves the session as soon as no request is in flight.
    leaving: bool,
    /// Number of sessions established so far.
    sessions: u64,
    /// The last statistics that the server sent, until they are taken.
    server_stats: Option<String>,
}

impl<P: Provider, F: RequestFormat> Connection<P, F> {
    /// Name of the server for log lines.
    pub(super) fn server(&self) -> &str {
        self.link.server()
    }

    /// Whether the caller has closed the client.
    pub(super) fn is_closed(&self) -> bool {
        self.link.is_closed()
    }
}

impl<P: Provider> HerdClient<P> {
    /// Creates a client with our own request format, which starts to connect at its first poll and reconnects until it
    /// is closed.
    pub fn new(ctx: Rc<P::Context>, dial: Dial, options: ClientOptions) -> HerdClient<P> {
        HerdClient::with_format(ctx, dial, options, Keyed)
    }
}

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// As [`new`](HerdClient::new), with the request format `format`.
    pub fn with_format(
        ctx: Rc<P::Context>,
        dial: Dial,
        mut options: ClientOptions,
        format: F,
    ) -> HerdClient<P, F> {
        options.waiting_max = options.waiting_max.min(16 << 10);
        let handshake = ClientHandshake::new(&ctx, &options, format);
        HerdClient {
            open: false,
            timers: Ticker::new(),
            session: None,
            conflicts: Conflicts::new(options.window),
            tally: Tally::default(),
            received: Received::new(),
            stats: Default::default(),
            waiting: WaitQueue::new(),
            bulk: Transfers::new(),
            connection: Connection {
                link: Link::new(dial, handshake, LINK),
                keeper: None,
                awaited: 0,
                leaving: false,
                sessions: 0,
                server_stats: None,
            },
            options,
            ctx,
        }
    }

    /// Takes the last error of setting up or losing a session, if there was one since the last call. By now there may
    /// be a session all the same.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.connection.link.take_error()
    }

    /// Closes the client for good. Updates whose request is posted complete as `Indeterminate`, all other operations in
    /// flight or waiting as `Refused(Unavailable)`. Operations submitted later are refused with `Closed`.
    pub fn close(&mut self, sink: &mut impl FnMut(drover_kv::Completion<'_>)) {
        self.send(&Message::Bye);
        self.connection.link.close();
        self.end_session(sink);
        while let Some(waiting) = self.waiting.pop_front() {
            self.complete(waiting.token, Outcome::Refused(Refusal::Unavailable), sink);
        }
        self.conflicts.clear();
    }

    /// Time of the next `poll` that is needed even if nothing arrives; [`Ns::MAX`] if the client is closed.
    pub(super) fn earliest_timer(&self) -> Ns {
        let (link, tick) = (&self.connection.link, self.timers.next_tick());
        match () {
            () if link.is_closed() => Ns::MAX,
            () if self.timers.is_urgent() => Ns::ZERO,
            () if link.is_shaking() || self.connection.awaited > 0 => tick,
            () if self.session.is_none() && self.tally.in_flight() == 0 => link.next_timer(),
            () if self.session.is_none() => link.next_timer().min(tick),
            // Ticks go on at leisure while only replies are awaited: no timer is shorter than a millisecond.
            // A check comes with a tick; a wake-up before that would find nothing to do, again and again.
            () if self.tally.in_flight() > 0 => (tick + LOOK_EVERY - TICK).min(link.next_timer().max(tick)),
            () => link.next_heartbeat().max(link.next_timer()),
        }
    }

    /// Sends a question to the server, and counts its answer as awaited. Does nothing without a session.
    pub(super) fn ask(&mut self, message: &Message) {
        if self.session.is_some() {
            self.send(message);
            self.connection.awaited += 1;
        }
    }

    /// Sends a message to the server; no answer is awaited. Does nothing without a session.
    pub(super) fn send(&mut self, message: &Message) {
        let Some(control) = self.connection.link.control() else {
            return;
        };
        // A broken channel is noticed when it is read.
        if let Err(error) = message.send(control) {
            tracing::debug!(%error, server = %control.peer(), kind = message.kind(), "a control message was not sent");
            control.close();
        }
    }

    /// Notes that one of the awaited answers has arrived.
    pub(super) fn answered(&mut self) {
        self.connection.awaited = self.connection.awaited.saturating_sub(1);
    }

    /// Sends no new requests from now on, and replaces the session when those in flight are complete.
    pub(super) fn leave_when_idle(&mut self) {
        self.open = false;
        self.connection.leaving = true;
    }

    /// Leaves or loses the session if that is due; otherwise handles what the link reports. Without an awaited answer,
    /// a session's channel is checked only at a `tick`.
    pub(super) fn tend_link(&mut self, cpu: &P::Cpu, tick: bool, sink: Sink<'_>) {
        let now = cpu.now();
        if let Some(session) = &self.session {
            let is_idle = session.window.busy_count() == 0 && !self.bulk_is_moving();
            if self.connection.leaving && is_idle {
                self.send(&Message::Bye);
                return self.lose(now, SetupError::Ended, sink);
            }
            if session.broken {
                return self.lose(now, SetupError::Ended, sink);
            }
            match self.connection.awaited > 0 {
                true => self.connection.link.look_soon(),
                false if !tick => return,
                false => {}
            }
        }
        while let Some(event) = self.connection.link.poll(now) {
            match event {
                LinkEvent::Up(session) => return self.begin_session(session),
                LinkEvent::Frame(frame) => self.take_frame(frame, now, sink),
                LinkEvent::Lost => return self.end_session(sink),
            }
        }
        // A handshake that began just now may be answered at once; later checks come with ticks.
        if self.connection.link.is_shaking() && self.connection.link.next_timer() == now {
            self.timers.hurry();
        }
    }

    fn begin_session(&mut self, session: Box<Session<P, F>>) {
        let control = self.connection.link.control().filter(|_| self.options.keeper);
        self.connection.keeper = control.and_then(|control| control.keeper().ok());
        let slots = session.window.slots().len();
        self.conflicts = Conflicts::new(slots);
        for waiting in self.waiting.iter_mut() {
            waiting.hash = session.hasher.hash(waiting.op.key());
            waiting.r = NEVER_SENT;
            self.conflicts.add(waiting.hash, waiting.is_write());
        }
        self.session = Some(session);
        self.stats.reconnects += u64::from(self.connection.sessions > 0);
        self.connection.sessions += 1;
        self.open = true;
        self.timers.hurry();
    }

    fn take_frame(&mut self, frame: Frame, now: Ns, sink: Sink<'_>) {
        let message = match Message::decode(frame.kind, &frame.body, frame.fds) {
            Ok(message) => message,
            Err(error) => return self.lose(now, error.into(), sink),
        };
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
                let server = self.connection.server();
                tracing::warn!(code = code as u16, text, server, "the server refused a request");
                self.answered();
                self.bulk_refused();
            }
            Message::Bye => self.lose(now, SetupError::Ended, sink),
            _ => self.stats.garbage += 1,
        }
    }

    /// Ends the session because of `error`; the link connects again after a rest.
    fn lose(&mut self, now: Ns, error: SetupError, sink: Sink<'_>) {
        self.connection.link.lose(now, error);
        self.end_session(sink);
    }

    /// Ends the session: every operation in flight completes or waits for the next session.
    fn end_session(&mut self, sink: Sink<'_>) {
        self.open = false;
        self.connection.keeper = None;
        self.connection.awaited = 0;
        self.connection.leaving = false;
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
        match slot.phase {
            SlotPhase::Free => {}
            SlotPhase::Posted | SlotPhase::Quarantined if !slot.commit.is_update() => {
                if let Some(waiting) = self.copy_out(at) {
                    self.stats.resubmits += 1;
                    self.waiting.put_back(waiting);
                }
            }
            SlotPhase::Posted | SlotPhase::Quarantined | SlotPhase::Ghost => {
                self.finish_slot(at, Outcome::Indeterminate, sink);
            }
        }
    }

    /// Asks the server for its statistics; [`take_server_stats`](HerdClient::take_server_stats) returns the answer once
    /// it has arrived. Does nothing without a session; if the session ends first, no answer comes.
    pub fn ask_server_stats(&mut self) {
        self.ask(&Message::StatsRequest);
        self.timers.hurry();
    }

    /// Takes the server's last answer to [`ask_server_stats`](HerdClient::ask_server_stats): lines `name value`. `None`
    /// if none has arrived since the last call.
    pub fn take_server_stats(&mut self) -> Option<String> {
        self.connection.server_stats.take()
    }
}
