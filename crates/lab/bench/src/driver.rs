//! [`Client`]: drives a target with a tape, closed loop or open loop, and measures it.
//!
//! ```text
//! closed loop:  fill the window from the tape -> poll -> fill what has become free -> poll ...
//! open loop:    an operation is due every 1/rate s; its latency counts from when it was due, sent or not
//! ```
//! Requests are sent as slots become free: client and server do not alternate with whole windows. The clock is not read
//! per operation: at window 1 and in open loop every latency is measured, otherwise one operation in [`SAMPLE_EVERY`]
//! is stamped at submit and completion.

use crate::flight::{Counts, Flight};
use crate::latency::Latency;
use crate::processor_time;
use crate::target::{Target, TargetError};
use crate::workload::{Draw, KeyText, Tape, Values, Verb};
use drover_base::Ns;
use drover_kv::{Calls, Reads};
use drover_kv::{Op, SubmitError};
use drover_mem::{NativeCpu, timestamp};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering};

/// In a closed loop with a window above 1, one operation in this many has its latency measured.
pub const SAMPLE_EVERY: u64 = 32;

/// The clock is read once in this many polls of a closed loop.
const POLLS_PER_CLOCK: u32 = 64;

/// Time limit for unfinished operations after the end of a run; later they count as lost.
const DRAIN: Ns = Ns::from_s(10);

/// When a client starts its next operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// As soon as the window has space.
    Closed,
    /// At a fixed rate, operations per second and client (above 0), however fast the target is. An operation for which
    /// the window has no space starts later, but its latency counts from when it was due.
    Open(f64),
}

/// Options of one run of a client.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunOptions {
    /// Maximum number of operations in flight per client; 0 counts as 1. The target's own window also limits it.
    pub window: usize,
    /// When operations start: closed loop or open loop.
    pub pace: Pace,
    /// Minimum duration of the run. An open loop then stops; a closed loop also goes on until it has finished
    /// `ops_min` operations.
    pub time: Ns,
    /// Minimum number of operations to finish in a closed loop; unused in an open loop.
    pub ops_min: u64,
    /// Whether to take the operations from the [second tape](Client::with_other_tape); without one, the first is used.
    pub other_tape: bool,
}

/// Results of a run: of one client, or [merged](Measured::merge) from several.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Counts of the operations that finished within `elapsed`, without those that were still in flight at its end.
    pub counts: Counts,
    /// Latencies of the operations that were timed: all in an open loop or at window 1, otherwise one in
    /// [`SAMPLE_EVERY`]. Operations in flight at the end and failed ones are included.
    pub latency: Latency,
    /// Duration of the run, without the wait for operations in flight at the end. If results of several clients are
    /// merged: from the start of the first to the end of the last, for on shared cores they do not start together.
    pub elapsed: Ns,
    /// Start of the run, in ticks of the machine's clock.
    pub began: u64,
    /// Rates of the clients.
    pub rates: Rates,
    /// GETs and READs that the target counted during the run, including operations in flight at the end; `None` if the
    /// target does not count them.
    pub reads: Option<Reads>,
    /// What the target's calls took during the run; `None` if the target does not count them.
    pub calls: Option<Calls>,
    /// Processor time of the clients' threads during the run, with the wait for operations in flight at the end.
    pub processor_time: Ns,
}

impl Measured {
    /// Operations finished per second within `elapsed`, failed ones included.
    pub fn ops_per_s(&self) -> f64 {
        self.counts.ops as f64 * 1e9 / self.elapsed.0.max(1) as f64
    }

    /// Adds the results of another client that ran at the same time; `elapsed` becomes the longer of the two.
    pub fn merge(&mut self, other: &Measured) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.rates.merge(&other.rates);
        let (early, late) = match self.began <= other.began {
            true => ((self.began, self.elapsed), (other.began, other.elapsed)),
            false => ((other.began, other.elapsed), (self.began, self.elapsed)),
        };
        let between = Ns(NativeCpu::ticks_to_ns(late.0 - early.0));
        (self.began, self.elapsed) = (early.0, early.1.max(between + late.1));
        if let Some(reads) = &other.reads {
            self.reads.get_or_insert_default().add(reads);
        }
        if let Some(calls) = &other.calls {
            self.calls.get_or_insert_default().add(calls);
        }
        self.processor_time += other.processor_time;
    }
}

/// Operations per second of the clients of a run, each over its own time.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// Number of clients.
    pub clients: usize,
    /// Sum over all clients.
    pub sum: f64,
    /// That of the slowest client.
    pub least: f64,
}

impl Rates {
    /// Rates of one client.
    fn of(ops: u64, elapsed: Ns) -> Rates {
        let rate = ops as f64 * 1e9 / elapsed.0.max(1) as f64;
        Rates {
            clients: 1,
            sum: rate,
            least: rate,
        }
    }

    fn merge(&mut self, other: &Rates) {
        self.clients += other.clients;
        self.sum += other.sum;
        self.least = self.least.min(other.least);
    }

    /// The slowest client's rate relative to the mean, 0 to 1; 1 if no client did anything.
    pub fn slowest_share(&self) -> f64 {
        match self.sum > 0.0 {
            true => self.least * self.clients as f64 / self.sum,
            false => 1.0,
        }
    }
}

/// Drives one target with the operations of a tape. Owns both. One per client thread.
pub struct Client<T: Target> {
    pub(crate) target: T,
    tape: Tape,
    other_tape: Option<Tape>,
    pub(crate) keys: KeyText,
    pub(crate) values: Values,
    pub(crate) version: u64,
    /// Added to an index of the tape to get the current key's index: every [turnover](Client::churn) adds to it.
    pub(crate) key_shift: u64,
}

impl<T: Target> Client<T> {
    /// Creates a client that drives `target` with `tape`. Clients of one run need different `client_index`, so that no
    /// two PUT the same version of a value.
    pub fn new(target: T, tape: Tape, keys: KeyText, values: Values, client_index: u32) -> Client<T> {
        Client {
            target,
            tape,
            other_tape: None,
            keys,
            values,
            version: u64::from(client_index) << 40,
            key_shift: 0,
        }
    }

    /// Adds a second tape. Runs with [`RunOptions::other_tape`] take their operations from it instead of from the first
    /// tape. It must name the same keys as the first.
    pub fn with_other_tape(mut self, tape: Tape) -> Client<T> {
        self.other_tape = Some(tape);
        self
    }

    /// Consumes the client and returns its target.
    pub fn into_target(self) -> T {
        self.target
    }

    /// Polls the target once, so that it handles its timers between runs. To be called only while no operations are in
    /// flight: outcomes are dropped.
    ///
    /// # Errors
    /// The target failed.
    pub fn idle(&mut self) -> Result<(), Box<TargetError>> {
        self.target.poll(true, &mut |_, _| {})
    }

    /// PUTs the keys of `indices` with `window` operations in flight (at least 1: with 0 it never returns). Adds the
    /// number of finished PUTs, failed ones included, to `progress`.
    ///
    /// # Errors
    /// The target failed, or a PUT was not stored (reported once all PUTs have finished).
    pub fn load(
        &mut self,
        indices: std::ops::Range<u32>,
        window: usize,
        progress: &AtomicU64,
    ) -> Result<(), Box<TargetError>> {
        let mut flight = Flight::new(window);
        let mut next = indices.start;
        while next < indices.end || !flight.is_empty() {
            while next < indices.end {
                let verb = Verb::Put;
                if !self.start(&mut flight, Draw { verb, index: next }, |_, _| {})? {
                    break;
                }
                next += 1;
            }
            let before = flight.counts().ops;
            self.poll(&mut flight, next == indices.end)?;
            // Relaxed: a statistic.
            progress.fetch_add(flight.counts().ops - before, Ordering::Relaxed);
        }
        match flight.counts().failed {
            0 => Ok(()),
            n => Err(TargetError::new(format!("{n} PUTs failed while loading"))),
        }
    }

    /// Executes operations of the tape from its current position, as `options` say, then waits for those in flight.
    /// Failed operations and wrong values are not errors here but counted in [`Measured::counts`].
    ///
    /// # Errors
    /// The target failed, lost operations (unfinished after 10 s), or finished some that were not in flight.
    pub fn run(&mut self, options: &RunOptions) -> Result<Measured, Box<TargetError>> {
        self.change_tape(options);
        let measured = self.run_tape(options);
        self.change_tape(options);
        measured
    }

    fn change_tape(&mut self, options: &RunOptions) {
        let other = self.other_tape.as_mut().filter(|_| options.other_tape);
        if let Some(other) = other {
            std::mem::swap(&mut self.tape, other);
        }
    }

    fn run_tape(&mut self, options: &RunOptions) -> Result<Measured, Box<TargetError>> {
        let mut flight = Flight::new(options.window.max(1));
        let before = (self.target.reads(), self.target.calls());
        let used = processor_time::of_thread();
        let began = timestamp();
        let elapsed = match options.pace {
            Pace::Closed => self.closed(&mut flight, began, options)?,
            Pace::Open(rate) => self.open(&mut flight, began, options.time, rate)?,
        };
        let counts = flight.counts();
        self.drain(&mut flight)?;
        let processor_time = processor_time::of_thread().since(used);
        Ok(Measured {
            processor_time,
            counts,
            latency: flight.latency,
            elapsed,
            began,
            rates: Rates::of(counts.ops, elapsed),
            reads: self
                .target
                .reads()
                .zip(before.0)
                .map(|(now, before)| now.since(&before)),
            calls: self
                .target
                .calls()
                .zip(before.1)
                .map(|(now, before)| now.since(&before)),
        })
    }

    /// A separate function, so that only the loop uses registers.
    #[inline(never)]
    fn closed(
        &mut self,
        flight: &mut Flight,
        began: u64,
        options: &RunOptions,
    ) -> Result<Ns, Box<TargetError>> {
        let sample_every = if options.window <= 1 { 1 } else { SAMPLE_EVERY };
        let mut until_sample = sample_every;
        loop {
            for _ in 0..POLLS_PER_CLOCK {
                self.start_modifies(flight)?;
                while self.start_next(flight, |flight, token| {
                    until_sample -= 1;
                    if until_sample == 0 {
                        cold_path();
                        until_sample = sample_every;
                        flight.sample(token, timestamp());
                    }
                })? {}
                self.poll(flight, false)?;
            }
            let elapsed = since(began);
            if elapsed >= options.time && flight.counts().ops >= options.ops_min {
                return Ok(elapsed);
            }
        }
    }

    fn open(&mut self, flight: &mut Flight, began: u64, time: Ns, rate: f64) -> Result<Ns, Box<TargetError>> {
        let now = timestamp();
        let ticks_per_s = 1e9 * (1u64 << 32) as f64 / NativeCpu::ticks_to_ns(1 << 32) as f64;
        let interval = ticks_per_s / rate;
        let (mut nth, mut due) = (1.0, now);
        loop {
            let now = timestamp();
            if NativeCpu::ticks_to_ns(now - began) >= time.0 {
                return Ok(since(began));
            }
            self.start_modifies(flight)?;
            while due <= now && self.start_next(flight, |flight, token| flight.sample(token, due))? {
                due = began + (nth * interval) as u64;
                nth += 1.0;
            }
            self.poll(flight, false)?;
        }
    }

    /// Waits for all operations in flight.
    fn drain(&mut self, flight: &mut Flight) -> Result<(), Box<TargetError>> {
        let began = timestamp();
        while !flight.is_empty() {
            self.start_modifies(flight)?;
            self.poll(flight, true)?;
            if since(began) > DRAIN {
                let lost = flight.under_way();
                return Err(TargetError::new(format!(
                    "{lost} operations never finished: lost by the target"
                )));
            }
        }
        match flight.strays {
            0 => Ok(()),
            n => Err(TargetError::new(format!(
                "the target finished {n} operations that were not under way"
            ))),
        }
    }

    #[inline(always)]
    fn poll(&mut self, flight: &mut Flight, draining: bool) -> Result<(), Box<TargetError>> {
        let values = &self.values;
        self.target.poll(draining, &mut |token, outcome| {
            flight.finish(token, outcome, values)
        })
    }

    /// Starts the next operation of the tape, with latency measurement if `sample`. Returns false if the target's
    /// window is full; the operation then stays the next.
    #[inline(always)]
    fn start_next(
        &mut self,
        flight: &mut Flight,
        sample: impl FnOnce(&mut Flight, usize),
    ) -> Result<bool, Box<TargetError>> {
        let draw = self.tape.peek();
        let started = self.start(flight, draw, sample)?;
        if started {
            self.tape.advance();
        }
        Ok(started)
    }

    #[inline(always)]
    fn start(
        &mut self,
        flight: &mut Flight,
        draw: Draw,
        sample: impl FnOnce(&mut Flight, usize),
    ) -> Result<bool, Box<TargetError>> {
        // Recorded before it is submitted: nothing has to be kept across the submit.
        let Some(token) = flight.begin(draw) else {
            return Ok(false);
        };
        sample(flight, token);
        let started = self.submit(draw.index, draw.verb == Verb::Put, token)?;
        if !started {
            cold_path();
            flight.cancel(token);
        }
        Ok(started)
    }

    /// Submits the PUTs of read-modify-writes whose GET has finished.
    #[inline(always)]
    fn start_modifies(&mut self, flight: &mut Flight) -> Result<(), Box<TargetError>> {
        while let Some(&token) = flight.modify.last() {
            if !self.submit(flight.index_of(token), true, token)? {
                break;
            }
            flight.modify.pop();
            flight.now_put(token);
        }
        Ok(())
    }

    #[inline(always)]
    fn submit(&mut self, index: u32, put: bool, token: usize) -> Result<bool, Box<TargetError>> {
        let index = u64::from(index);
        let key = self.keys.key(index + self.key_shift);
        let op = if put {
            self.version += 1;
            Op::put(key, self.values.value(index, self.version))
        } else {
            Op::Get { key }
        };
        match self.target.submit(&op, token as u64) {
            Ok(()) => Ok(true),
            Err(SubmitError::WindowFull) => Ok(false),
            Err(error) => Err(TargetError::new(error.to_string())),
        }
    }
}

/// Time since `began`, which is in ticks.
pub(crate) fn since(began: u64) -> Ns {
    Ns(NativeCpu::ticks_to_ns(timestamp().saturating_sub(began)))
}
