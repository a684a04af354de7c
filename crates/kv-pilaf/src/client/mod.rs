//! [`PilafClient`]: GETs by READs, everything else by messages.
//!
//! An operation has a place, whose index is its slot: it has its own buffers, and at most one request of its own at a time.
//! What it waits for is its state (`operation.rs`); how it begins and ends, `places.rs`; what is read next,
//! [`Lookup`](crate::logic::Lookup) decides (`reads.rs`). Operations on one key go one after the other.

mod link;
mod messages;
mod operation;
mod options;
mod places;
mod reads;
mod session;
mod tables;

pub use drover_rt::control::Dial;
pub use options::{ClientOptions, ClientStats, SetupError};

use crate::layout::record_bytes;
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KEY_BYTES_MAX, KvClient, Op, SubmitError, Token};
use drover_verbs::{CompletionQueue, Provider, Wc, WcStatus};
use link::Link;
use operation::{Operation, State};
use session::{ENTRY, PIECE, RECORD, SENT, Session, WHICH};
use std::rc::Rc;

/// Completions taken at a time.
const BATCH: usize = 32;

type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// A client of all shards of a service, for one thread.
pub struct PilafClient<P: Provider> {
    links: Vec<Link<P>>,
    places: Vec<Operation>,
    free: Vec<u32>,
    options: ClientOptions,
    orders: u64,
    in_flight: usize,
    /// Some operation may be able to go on without anything arriving.
    stirred: bool,
    scratch: Vec<u8>,
    stats: ClientStats,
    ctx: Rc<P::Context>,
}

impl<P: Provider> PilafClient<P> {
    /// A client of the shards behind `dials`, in the order of the service's shards. Connects while it is polled.
    ///
    /// # Panics
    /// If there are no shards, or the window is 0.
    pub fn new(ctx: Rc<P::Context>, dials: Vec<Dial>, options: ClientOptions) -> PilafClient<P> {
        let count = dials.len();
        assert!(count > 0 && options.window > 0, "a shard and a window at least");
        let slots = (options.window * count).min(1024);
        let link = |(shard, dial)| link::link(&ctx, dial, shard, count, slots);
        PilafClient {
            links: dials.into_iter().enumerate().map(link).collect(),
            places: (0..slots).map(|_| Operation::default()).collect(),
            free: (0..slots as u32).rev().collect(),
            options,
            orders: 0,
            in_flight: 0,
            stirred: false,
            scratch: Vec::new(),
            stats: ClientStats::default(),
            ctx,
        }
    }

    /// Whether it has a session with every shard.
    pub fn is_ready(&mut self) -> bool {
        self.links.iter_mut().all(|link| link.session().is_some())
    }

    /// Why a shard could not be reached last.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.links.iter_mut().find_map(Link::take_error)
    }

    /// Counters.
    pub fn stats(&self) -> ClientStats {
        self.stats
    }

    /// What has completed at `shard`; returns how much.
    fn take_completions(&mut self, cpu: &P::Cpu, shard: usize, sink: Sink<'_>) -> usize {
        let mut wcs = [Wc::default(); BATCH];
        let Some(session) = self.links[shard].session() else {
            return 0;
        };
        let count = session.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            self.take_completion(wc, shard, sink);
        }
        count
    }

    fn take_completion(&mut self, wc: &Wc, shard: usize, sink: Sink<'_>) {
        let Some(session) = self.links[shard].session() else {
            return;
        };
        let at = (wc.wr_id.0 & WHICH) as usize;
        if wc.status != WcStatus::Success {
            tracing::debug!(status = ?wc.status, shard, "a queue pair failed");
            session.broken = true;
            return;
        }
        match wc.wr_id.0 & !WHICH {
            SENT => {
                let place = &mut self.places[at];
                place.sending = false;
                if place.state == State::Sending {
                    self.vacate(at);
                }
            }
            ENTRY => {
                session.read_came(true);
                self.entry_came(at, sink);
            }
            PIECE => session.read_came(false),
            RECORD => {
                session.read_came(false);
                self.record_came(at, sink);
            }
            _ => {
                Session::reply(session, at, wc.byte_len as usize, &mut self.scratch);
                session.expect(at);
                self.reply_came(shard, sink);
            }
        }
    }
}

impl<P: Provider> KvClient<P> for PilafClient<P> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let (value, ttl_s): (&[u8], u32) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            _ => (&[], 0),
        };
        let item_bytes_max = self
            .links
            .iter_mut()
            .find_map(|link| link.session().map(|s| s.shape.record_bytes_max));
        if item_bytes_max.is_some_and(|max| record_bytes(key.len(), value.len()) > max as usize) {
            return Err(SubmitError::TooLarge);
        }
        let at = self.free.pop().ok_or(SubmitError::WindowFull)? as usize;
        self.orders += 1;
        let place = &mut self.places[at];
        place.key.clear();
        place.key.extend_from_slice(key);
        place.value.clear();
        place.value.extend_from_slice(value);
        (place.kind, place.token, place.ttl_s) = (Some(op.kind()), token, ttl_s);
        (place.order, place.sequence) = (self.orders, self.orders);
        place.deadline = cpu.now() + self.options.deadline;
        place.state = State::Waiting;
        self.in_flight += 1;
        self.stirred = true;
        Ok(())
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let now = cpu.now();
        let mut done = 0;
        let mut sink = |completion: Completion<'_>| {
            done += 1;
            sink(completion);
        };
        for shard in 0..self.links.len() {
            if now >= self.links[shard].next_timer() {
                let was_up = self.links[shard].session().is_some();
                if self.links[shard].look(now) {
                    self.lost(shard, &mut sink);
                }
                if let Some(session) = self.links[shard].session() {
                    self.stirred |= !was_up;
                    self.stats.tables += std::mem::take(&mut session.table_count);
                }
            }
            self.take_completions(cpu, shard, &mut sink);
        }
        if self.is_due(now) {
            self.stir(cpu, &mut sink);
        }
        for link in &mut self.links {
            if let Some(session) = link.session() {
                session.post(cpu);
            }
        }
        done
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn next_timer(&self) -> Ns {
        if self.stirred {
            return Ns::ZERO;
        }
        let links = self.links.iter().map(Link::next_timer).min();
        self.next_event().min(links.unwrap_or(Ns::MAX))
    }
}
