//! [`Sockets`]: all sockets of a core.
//!
//! ```text
//! step:   connections whose turn it still is, then what the poller tells: accept, or read once and serve
//! flush:  one write for each connection that has something to write
//! ```
//! Between the two the owner may show others what it did, so that whoever has read a reply finds it counted.

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

/// The core's buffer: what one read brings at most, bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// Sockets looked at per step: what is read is written after so many.
const EVENTS: usize = 32;
/// When so many bytes of replies wait, the step ends and they are written: the clients go on meanwhile, instead of waiting
/// for a whole round of long replies.
const STAGED_BYTES: usize = 32 << 10;
/// The bell of the connection table, among listeners.
const BELL: u64 = u64::MAX;

/// How the sockets of a core behave.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// Number of this core among those that share the [`ConnTable`]; 0 accepts.
    pub core: usize,
    /// Replies that may wait for a slow reader before no further request of it is begun, bytes.
    pub output_limit: usize,
    /// Memory for requests that are not whole yet, bytes. When it is used up, further long ones wait unread.
    pub request_budget: usize,
    /// Memory for replies that wait for slow readers, bytes. Beyond it the slowest lose their connections.
    pub reply_budget: usize,
    /// A connection from which nothing came for so many seconds is closed; 0: never.
    pub idle_timeout_s: u32,
    /// What is said to a connection that is one too many before it is closed. `None`: it is not accepted before another
    /// one is closed.
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

/// Makes what talks on a connection.
type Greet<T> = Box<dyn FnMut(Token, Origin, &Known) -> T>;
/// Makes what lies between a connection and its socket.
type Wrap = Box<dyn FnMut(Origin) -> Option<Box<dyn Layer>>>;

/// All sockets of a core. Steps never block.
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
    /// Of `events`, the first that was not looked at yet.
    next_event: usize,
    /// What the turns of those who had something new added in this step.
    staged_bytes: usize,
    /// Those whose turn comes in the next step.
    queue: VecDeque<Token>,
    /// Those that may have something to write.
    dirty: Vec<Token>,
    /// Those that wait for memory, longest first.
    hungry: VecDeque<Token>,
    /// Blocks that had come back when there was not enough for any of them.
    starved_at: u64,
    counters: Counters,
    /// Whose turn it is: known after a panic.
    serving: Option<Token>,
    now_s: u32,
    /// Accepting goes on then; `Some(MAX)`: when a connection is closed.
    paused: Option<Ns>,
    changed: bool,
    /// Connections accepted here.
    accepted: u64,
    /// Nothing new is begun.
    leaving: bool,
    /// The start of this round.
    round: Ns,
    /// Requests answered in this round: since when they had been there, and how many.
    answered: Vec<(Ns, u64)>,
}

impl<T: Protocol, P: Poller> Sockets<T, P> {
    /// Without sockets yet. `greet` makes what talks on a connection. Errors: no descriptors left.
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

    /// Puts what `wrap` makes between each new connection and its socket.
    pub fn set_layers(&mut self, wrap: impl FnMut(Origin) -> Option<Box<dyn Layer>> + 'static) {
        self.wrap = Some(Box::new(wrap));
    }

    /// Accepts at `listener` from now on.
    pub fn listen(&mut self, listener: Listener) -> io::Result<()> {
        let token = Self::listener_token(self.listeners.len());
        self.poller.add(listener.fd(), token, Interest::Accepts)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Becomes readable when a [`step`](Sockets::step) would find something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// What was done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Memory lent to unfinished requests and to waiting replies.
    pub fn pools(&self) -> (&Pool, &Pool) {
        (&self.requests, &self.replies)
    }

    /// Serves what came, and lets in who came; writes nothing. `now_s`: seconds since the server's start. Cost: a system
    /// call, and one for each connection that has something to read.
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
                connection.queued = false;
                self.turn(token, executor);
            }
        }
        if self.next_event >= self.events.len() {
            self.poller.poll(&mut self.events);
            self.next_event = 0;
        }
        busy |= !self.events.is_empty();
        // Whatever the turns of others came to, some who have something new are heard.
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

    /// Writes what is to be written: a system call for each connection that has something.
    pub fn flush(&mut self) {
        // In the order they were served: who asked first is answered first.
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

    /// The reply that was missing. Ignored if the connection is gone. It is written with the next
    /// [`flush`](Sockets::flush).
    pub fn fill(&mut self, pending_reply: PendingReply, bytes: &[u8]) {
        let token = Token(pending_reply.connection);
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        connection.output.fill(pending_reply, bytes);
        mark(&mut self.dirty, token, connection);
        if connection.need == Need::Others {
            enqueue(&mut self.queue, token, connection);
        }
    }

    /// There is something to tell to a connection that [need to be told](Need::Notification): its turn comes in the next step.
    /// False if it is gone, or waits for something else.
    pub fn news(&mut self, token: Token) -> bool {
        let wants_news = |connection: &&mut Connection<T>| connection.need == Need::Notification;
        let Some(connection) = self.connections.get_mut(token).filter(wants_news) else {
            return false;
        };
        enqueue(&mut self.queue, token, connection);
        true
    }

    /// There is space again on the way to other cores: those who wait for it go on.
    pub fn space_for_others(&mut self) {
        for (token, connection) in self.connections.iter_mut() {
            if connection.need == Need::Others {
                enqueue(&mut self.queue, token, connection);
            }
        }
    }

    /// After a panic in [`step`](Sockets::step): the connection whose turn it was is closed, the others stay.
    pub fn recover(&mut self) {
        if let Some(token) = self.serving.take() {
            self.close(token);
        }
    }

    /// From now on nobody is let in and no request is begun; each connection is closed as soon as all it was promised has
    /// been written. Steps go on until [nobody is left](Sockets::is_empty), or the owner has waited for long enough.
    pub fn leave(&mut self) {
        self.leaving = true;
        self.listeners.clear();
        for (token, connection) in self.connections.iter_mut() {
            mark(&mut self.dirty, token, connection);
        }
    }

    /// No connections.
    pub fn is_empty(&self) -> bool {
        self.counters.current == 0
    }

    /// Closes all connections and listeners.
    pub fn close_all(&mut self) {
        self.listeners.clear();
        let all: Vec<Token> = self.connections.iter_mut().map(|(token, _)| token).collect();
        all.into_iter().for_each(|token| self.close(token));
    }

    /// Connections and listeners have numbers of one kind for the poller.
    fn listener_token(index: usize) -> u64 {
        BEYOND + index as u64
    }

    /// What the last round answered took until now: no clock is read for it.
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
            token if token >= BEYOND => self.accept((token - BEYOND) as usize, now),
            token => {
                let token = Token(token);
                // Closed earlier in this step, or in an earlier one.
                let Some(connection) = self.connections.get_mut(token) else {
                    return;
                };
                connection.readable |= event.readable;
                connection.hung_up |= event.hung_up;
                if event.writable && connection.blocked {
                    connection.blocked = false;
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
        if connection.unanswered == 0 {
            connection.unanswered_since = self.round;
        }
        connection.unanswered += connection.output.take_begun();
        if connection.output.is_empty() {
            answer(&mut self.answered, connection);
        }
        if connection.output.ready_bytes() > 0 || connection.need == Need::Close || self.leaving {
            self.staged_bytes += connection.output.ready_bytes();
            mark(&mut self.dirty, token, connection);
        }
        match turn {
            Turn::Done => {}
            Turn::Again => enqueue(&mut self.queue, token, connection),
            Turn::Hungry => {
                if !connection.hungry {
                    connection.hungry = true;
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
        connection.dirty = false;
        let broken = connection.write(&mut self.counters, self.now_s).is_err();
        if broken {
            return self.close(token);
        }
        if connection.output.is_empty() && !connection.blocked {
            answer(&mut self.answered, connection);
        }
        if connection.is_over(self.leaving) {
            connection.say_goodbye(&mut self.buffer);
            return self.close(token);
        }
        if connection.blocked != connection.told_of_space {
            connection.told_of_space = connection.blocked;
            let interest = match connection.blocked {
                true => Interest::ArrivalsAndSpace,
                false => Interest::Arrivals,
            };
            if self
                .poller
                .change(connection.socket.as_fd(), token.0, interest)
                .is_err()
            {
                return self.close(token);
            }
        }
        let goes_on = match connection.need {
            Need::Input { .. } => connection.readable && !connection.hungry,
            Need::OutputSpace => true,
            Need::Notification => connection.readable,
            Need::Others | Need::Turn | Need::Close => false,
        };
        if goes_on && !connection.output.is_full() {
            enqueue(&mut self.queue, token, connection);
        }
    }

    fn close(&mut self, token: Token) {
        let Some(connection) = self.connections.remove(token) else {
            return;
        };
        self.conn_table.forget(self.options.core, connection.known.number);
        connection.end(&self.requests);
        self.counters.current -= 1;
        self.changed = true;
        self.conn_table.leave(self.options.core);
    }
}

/// All that was asked is answered.
#[inline]
fn answer<T>(answered: &mut Vec<(Ns, u64)>, connection: &mut Connection<T>) {
    let (since, count) = (
        connection.unanswered_since,
        std::mem::take(&mut connection.unanswered),
    );
    match answered.last_mut() {
        _ if count == 0 => {}
        Some(last) if last.0 == since => last.1 += count,
        _ => answered.push((since, count)),
    }
}

/// Puts it into the list of those that may have something to write.
#[inline]
fn mark<T>(dirty: &mut Vec<Token>, token: Token, connection: &mut Connection<T>) {
    if !connection.dirty {
        connection.dirty = true;
        dirty.push(token);
    }
}

/// Puts it into the queue of those whose turn comes in the next step.
#[inline]
fn enqueue<T>(queue: &mut VecDeque<Token>, token: Token, connection: &mut Connection<T>) {
    if !connection.queued {
        connection.queued = true;
        queue.push_back(token);
    }
}
