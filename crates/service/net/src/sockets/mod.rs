//! [`Sockets`]: all sockets of a core.
//!
//! ```text
//! step:   queued connections, then the poller's events: accept, or read once and serve
//! flush:  one write for each connection with output
//! ```
//! Between the two the owner may publish its counters, so that a client that has read a reply finds it counted.

mod accept;
mod memory;

use crate::conn_table::Known;
use crate::connection::{Bench, Connection, Turn};
use crate::slab::{BEYOND, Slab};
use crate::{ConnTable, Counters, Epoll, Event, Interest, Layer, Listener, Origin, PendingReply, Poller};
use crate::{Need, Pool, Protocol, Token};
use drover_base::{Ns, Progress};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Size of the core's buffer, which is the maximum of one read, bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// Events handled per step; then the output is written.
const EVENTS: usize = 32;
/// Bytes of replies after which the step ends and they are written: clients need not wait for a whole round of long
/// replies.
const STAGED_BYTES: usize = 32 << 10;
/// Token of the connection table's event descriptor, among the listeners' tokens.
const BELL: u64 = u64::MAX;
/// Token of a descriptor that only ends the core's sleep.
const OTHER: u64 = u64::MAX - 1;

/// Options of a core's sockets.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// Index of this core among those that share the [`ConnTable`]. Only core 0 may [`listen`](Sockets::listen).
    pub core: usize,
    /// A connection begins no further request while its output holds at least this many bytes.
    pub output_limit: usize,
    /// Memory for incomplete requests of all connections of this core, bytes. When it is used up, further long requests
    /// stay unread and stalled ones lose their connections. When the beginnings of requests take more than a quarter of
    /// it, connections are closed, those without a whole request so far first.
    pub request_budget: usize,
    /// Memory for unsent replies of all connections of this core, bytes. When it is exceeded, connections whose sockets
    /// take no more output are closed, the longest inactive first.
    pub reply_budget: usize,
    /// Time without input and output after which a connection is closed, seconds, checked once a second; 0: never.
    pub idle_timeout_s: u32,
    /// Text sent to a connection beyond the limit of the [`ConnTable`] before it is closed. `None`: such a connection
    /// is not accepted until another one closes.
    pub refusal: Option<&'static [u8]>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            core: 0,
            output_limit: 64 << 10,
            request_budget: 32 << 20,
            reply_budget: 32 << 20,
            idle_timeout_s: 0,
            refusal: None,
        }
    }
}

/// Makes the protocol state of a connection.
type Greet<T> = Box<dyn FnMut(Token, Origin, &Known) -> T>;
/// Makes the layer between a connection and its socket.
type Wrap = Box<dyn FnMut(Origin) -> Option<Box<dyn Layer>>>;

/// All sockets of one core: owns its listeners, its connections and their memory. The owner calls
/// [`step`](Sockets::step), then [`flush`](Sockets::flush), in every round; neither blocks.
pub struct Sockets<T: Protocol, P: Poller = Epoll> {
    poller: P,
    options: SocketOptions,
    conn_table: Arc<ConnTable>,
    listeners: Vec<Listener>,
    connections: Slab<Connection<T>>,
    greet: Greet<T>,
    wrap: Option<Wrap>,
    buffer: Box<[u8]>,
    requests: Rc<Pool>,
    replies: Rc<Pool>,
    events: Vec<Event>,
    /// Index of the first unhandled event in `events`.
    next_event: usize,
    /// Bytes of replies added in this step by connections with new input.
    staged_bytes: usize,
    /// Connections with a turn in the next step.
    queue: VecDeque<Token>,
    /// Connections that may have output.
    dirty: Vec<Token>,
    /// Connections that wait for memory, longest waiting first.
    hungry: VecDeque<Token>,
    /// Connections that wait for the way to another core, longest waiting first.
    stalled: VecDeque<Token>,
    /// Connections that wait for the next second.
    sleeping: Vec<Token>,
    /// Number of returned blocks when memory last sufficed for no waiting connection.
    starved_at: u64,
    counters: Counters,
    /// Connection whose turn it is, kept for recovery after a panic.
    serving: Option<Token>,
    now_s: u32,
    /// Time when accepting resumes; `Some(MAX)`: when a connection closes.
    paused: Option<Ns>,
    changed: bool,
    /// Number of connections accepted here.
    accepted: u64,
    /// No new connections or requests are begun.
    leaving: bool,
    /// Start time of this round.
    round: Ns,
    /// Requests answered in this round: arrival time and number.
    answered: Vec<(Ns, u64)>,
}

impl<T: Protocol, P: Poller> Sockets<T, P> {
    /// Creates the sockets of core `options.core`, with no listener or connection yet. `greet` makes the protocol state
    /// of each new connection.
    ///
    /// # Errors
    /// No file descriptor or memory is left.
    ///
    /// # Panics
    /// If `conn_table` has no such core.
    pub fn new(
        options: SocketOptions,
        conn_table: Arc<ConnTable>,
        greet: impl FnMut(Token, Origin, &Known) -> T + 'static,
    ) -> io::Result<Sockets<T, P>> {
        let mut poller = P::new()?;
        poller.add(conn_table.bell(options.core), BELL, Interest::Accepts)?;
        Ok(Sockets {
            poller,
            conn_table,
            listeners: Vec::new(),
            connections: Slab::new(),
            greet: Box::new(greet),
            wrap: None,
            buffer: vec![0; BUFFER_BYTES].into(),
            requests: Pool::new(options.request_budget),
            replies: Pool::new(options.reply_budget),
            events: Vec::with_capacity(EVENTS),
            next_event: 0,
            staged_bytes: 0,
            queue: VecDeque::new(),
            dirty: Vec::new(),
            hungry: VecDeque::new(),
            stalled: VecDeque::new(),
            sleeping: Vec::new(),
            starved_at: u64::MAX,
            counters: Counters::default(),
            serving: None,
            now_s: 0,
            paused: None,
            changed: true,
            accepted: 0,
            leaving: false,
            round: Ns::ZERO,
            answered: Vec::with_capacity(EVENTS),
            options,
        })
    }

    /// From now on, `wrap` decides for each new connection which layer lies between it and its socket; `None`: no
    /// layer.
    pub fn set_layers(&mut self, wrap: impl FnMut(Origin) -> Option<Box<dyn Layer>> + 'static) {
        self.wrap = Some(Box::new(wrap));
    }

    /// Accepts at `listener` from now on, and gives each connection to the core with the fewest. Core 0 calls it: only
    /// that core is woken when a full [`ConnTable`] has space again.
    ///
    /// # Errors
    /// The poller cannot watch the listener.
    pub fn listen(&mut self, listener: Listener) -> io::Result<()> {
        let token = Self::listener_token(self.listeners.len());
        self.poller.add(listener.fd(), token, Interest::Accepts)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Descriptor that becomes readable when a socket has an event for the next [`step`](Sockets::step). It does not
    /// show turns that the last step left over: after `Busy`, step again without waiting.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// Counters of these sockets as of now, also those that no [`flush`](Sockets::flush) has published yet.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Memory pools of this core: of incomplete requests, and of unsent replies.
    pub fn pools(&self) -> (&Pool, &Pool) {
        (&self.requests, &self.replies)
    }

    /// Accepts connections and serves input, at most one batch; writes no replies. When `now_s` (seconds since the
    /// server's start) has changed, it also closes idle and stalled connections, and goes on with those that wait for that. Returns `Busy` if it did something or
    /// has more to do. Cost: a system call, and one for each connection with input.
    pub fn step(&mut self, executor: &mut T::Executor<'_>, now: Ns, now_s: u32) -> Progress {
        self.begin_round(now);
        if now_s != self.now_s {
            self.now_s = now_s;
            self.tick();
        }
        if self.paused.is_some_and(|until| until <= now) {
            self.resume_accepting();
        }
        let mut busy = !self.queue.is_empty();
        for _ in 0..self.queue.len().min(EVENTS) {
            let Some(token) = self.queue.pop_front() else {
                break;
            };
            if let Some(connection) = self.connections.get_mut(token) {
                connection.lists.queued = false;
                self.turn(token, executor);
            }
        }
        if self.next_event >= self.events.len() {
            self.poller.poll(&mut self.events);
            self.next_event = 0;
        }
        busy |= !self.events.is_empty();
        // Connections with new input get their share, however much output the queued ones added.
        self.staged_bytes = 0;
        while self.staged_bytes < STAGED_BYTES
            && let Some(&event) = self.events.get(self.next_event)
        {
            self.next_event += 1;
            self.happened(&event, executor, now);
        }
        self.feed();
        let more = !self.queue.is_empty() || self.next_event < self.events.len();
        match busy || more {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.wake_at(now),
            },
        }
    }

    /// Writes output, closes connections that are done or whose memory is needed, and publishes the counters to the
    /// [`ConnTable`] (see [`ConnTable::counters`]). Cost: a system call for each connection with output.
    pub fn flush(&mut self) {
        // In the order of service: the first request is answered first.
        let mut nth = 0;
        while let Some(&token) = self.dirty.get(nth) {
            nth += 1;
            self.flush_one(token);
        }
        self.dirty.clear();
        while self.replies.is_over() && self.shed_reader() {}
        while self.requests.is_over_in_small() && self.shed_beginner() {}
        if std::mem::take(&mut self.changed) {
            self.conn_table.show(self.options.core, &self.counters);
        }
    }

    /// Fills a pending reply of any connection of this core; the next [`flush`](Sockets::flush) writes it if no reply
    /// before it is missing. Does nothing if the connection is gone.
    pub fn fill(&mut self, pending_reply: PendingReply, bytes: &[u8]) {
        let token = Token(pending_reply.connection);
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        connection.output.fill(pending_reply, bytes);
        mark(&mut self.dirty, token, connection);
        if connection.need == Need::Replies {
            enqueue(&mut self.queue, token, connection);
        }
    }

    /// Closes the connection of a pending reply that will never come. Replies that were not written yet are lost.
    pub fn give_up(&mut self, pending_reply: PendingReply) {
        self.close(Token(pending_reply.connection));
    }

    /// Closes the connections that have replies which were not written yet: those must not leave any more.
    pub fn close_unsent(&mut self) {
        let has_output = |(token, connection): (Token, &mut Connection<T>)| {
            (!connection.output.is_empty()).then_some(token)
        };
        let unsent: Vec<Token> = self.connections.iter_mut().filter_map(has_output).collect();
        unsent.into_iter().for_each(|token| self.close(token));
    }

    /// Makes [`fd`](Sockets::fd) readable while `fd` is, too, such as the descriptor of another poller that the same core steps.
    ///
    /// # Errors
    /// The poller cannot watch it.
    pub fn wake_for(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.poller.add(fd, OTHER, Interest::Accepts)
    }

    /// Notifies a connection that waits for a [notification](Need::Notification): it gets a turn in the next step.
    /// Returns false if it is gone or waits for something else.
    pub fn notify(&mut self, token: Token) -> bool {
        let awaits_notification = |connection: &&mut Connection<T>| connection.need == Need::Notification;
        let Some(connection) = self.connections.get_mut(token).filter(awaits_notification) else {
            return false;
        };
        enqueue(&mut self.queue, token, connection);
        true
    }

    /// Gives a turn in the next step to the `count` connections that have waited longest for the way to another core
    /// ([`Need::Route`]); called when it has space, for about as many. A connection that finds it full again waits behind
    /// the others, so that none is passed over for ever.
    pub fn resume_routes(&mut self, count: usize) {
        let count = count.min(self.stalled.len());
        for token in self.stalled.drain(..count) {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.lists.stalled = false;
                enqueue(&mut self.queue, token, connection);
            }
        }
    }

    /// Closes the connection whose turn it was when [`step`](Sockets::step) panicked; the others stay. For a caller
    /// that has caught the panic.
    pub fn recover(&mut self) {
        if let Some(token) = self.serving.take() {
            self.close(token);
        }
    }

    /// Closes the listeners and reads no further requests; each connection is closed as soon as the requests already
    /// read are served and their replies written. The owner steps and flushes on until there are [no
    /// connections](Sockets::is_empty), or until it has waited long enough.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.listeners.clear();
        for (token, connection) in self.connections.iter_mut() {
            mark(&mut self.dirty, token, connection);
        }
    }

    /// Whether this core has no connections.
    pub fn is_empty(&self) -> bool {
        self.counters.current == 0
    }

    /// Closes all connections and listeners at once; unsent replies are lost.
    pub fn close_all(&mut self) {
        self.listeners.clear();
        let all: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        all.into_iter().for_each(|token| self.close(token));
    }

    /// Poller token of a listener; connections and listeners share the number space.
    fn listener_token(index: usize) -> u64 {
        BEYOND + index as u64
    }

    /// Records the durations of the requests answered in the last round, without an extra clock read.
    fn begin_round(&mut self, now: Ns) {
        for (since, count) in self.answered.drain(..) {
            self.conn_table
                .durations(self.options.core)
                .note(now.since(since), count);
        }
        self.round = now;
    }

    fn happened(&mut self, event: &Event, executor: &mut T::Executor<'_>, now: Ns) {
        match event.token {
            BELL => self.take_arrivals(),
            OTHER => {}
            token if token >= BEYOND => self.accept((token - BEYOND) as usize, now),
            token => {
                let token = Token(token);
                // Closed in this or an earlier step.
                let Some(connection) = self.connections.get_mut(token) else {
                    return;
                };
                if connection.readiness.notice(event) {
                    mark(&mut self.dirty, token, connection);
                }
                self.turn(token, executor);
            }
        }
    }

    #[inline]
    fn turn(&mut self, token: Token, executor: &mut T::Executor<'_>) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        if self.leaving && matches!(connection.need, Need::Input { .. }) {
            return mark(&mut self.dirty, token, connection);
        }
        if connection.lists.stalled || connection.lists.asleep {
            return; // Whatever has arrived: its turn comes in order, or in time.
        }
        self.serving = Some(token);
        self.changed = true;
        let mut bench = Bench {
            buffer: &mut self.buffer,
            pool: &self.requests,
            counters: &mut self.counters,
            now_s: self.now_s,
        };
        let turn = connection.turn(executor, &mut bench);
        self.serving = None;
        let begun = connection.output.take_begun();
        connection.unanswered.add(begun, self.round);
        if connection.output.is_empty() {
            answer(&mut self.answered, connection);
        }
        if connection.output.ready_bytes() > 0 || connection.need == Need::Close || self.leaving {
            self.staged_bytes += connection.output.ready_bytes();
            mark(&mut self.dirty, token, connection);
        }
        match connection.need {
            Need::Route => {
                connection.lists.stalled = true;
                self.stalled.push_back(token);
            }
            Need::Tick => {
                connection.lists.asleep = true;
                self.sleeping.push(token);
            }
            _ => {}
        }
        match turn {
            Turn::Done => {}
            Turn::Again => enqueue(&mut self.queue, token, connection),
            Turn::Hungry => {
                if !connection.lists.hungry {
                    connection.lists.hungry = true;
                    self.counters.memory_waits += 1;
                    self.hungry.push_back(token);
                }
            }
            Turn::Broken => self.close(token),
        }
    }

    fn flush_one(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        connection.lists.dirty = false;
        let broken = connection.write(&mut self.counters, self.now_s).is_err();
        if broken {
            return self.close(token);
        }
        if connection.output.is_empty() && !connection.readiness.is_blocked() {
            answer(&mut self.answered, connection);
        }
        if connection.is_over(self.leaving) {
            connection.say_goodbye(&mut self.buffer);
            return self.close(token);
        }
        if let Some(interest) = connection.readiness.take_new_interest()
            && self
                .poller
                .change(connection.socket.as_fd(), token.0, interest)
                .is_err()
        {
            return self.close(token);
        }
        let goes_on = match connection.need {
            Need::Input { .. } => connection.readiness.is_readable() && !connection.lists.hungry,
            Need::OutputSpace => true,
            Need::Notification => connection.readiness.is_readable(),
            Need::Replies | Need::Route | Need::Tick | Need::Turn | Need::Close => false,
        };
        if goes_on && !connection.output.is_full() {
            enqueue(&mut self.queue, token, connection);
        }
    }

    fn close(&mut self, token: Token) {
        let Some(connection) = self.connections.remove(token) else {
            return;
        };
        tracing::debug!("{} is closed", connection.known);
        self.conn_table.forget(self.options.core, connection.known.number);
        connection.end(&self.requests);
        self.counters.current -= 1;
        self.changed = true;
        self.conn_table.leave(self.options.core);
    }
}

/// Whether all requests are answered.
#[inline]
fn answer<T>(answered: &mut Vec<(Ns, u64)>, connection: &mut Connection<T>) {
    let (since, count) = connection.unanswered.take();
    match answered.last_mut() {
        _ if count == 0 => {}
        Some(last) if last.0 == since => last.1 += count,
        _ => answered.push((since, count)),
    }
}

/// Adds it to the list of connections that may have output.
#[inline]
fn mark<T>(dirty: &mut Vec<Token>, token: Token, connection: &mut Connection<T>) {
    if !connection.lists.dirty {
        connection.lists.dirty = true;
        dirty.push(token);
    }
}

/// Queues it for a turn in the next step.
#[inline]
fn enqueue<T>(queue: &mut VecDeque<Token>, token: Token, connection: &mut Connection<T>) {
    if !connection.lists.queued {
        connection.lists.queued = true;
        queue.push_back(token);
    }
}
