//! [`Feed`]: the requests of a trace in batches, with everything that the trace leaves open filled in.

use crate::batch::{BATCH, Batch, Request};
use crate::counts::{Checkpoints, Sum};
use crate::trace::{BadLine, Line, Op, Trace, TraceError};
use crate::{Options, Rate};
use drover_base::{HashSeed, KeyHasher};
use drover_store::KEY_BYTES_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seed of all hashes: fixed, so that the same trace gives the same result.
pub(crate) const SEED: HashSeed = HashSeed::new(0x6472_6f76_6572_2d31, 0x6361_6368_652d_7369);
/// Longest simulated time: 34 years. Times in milliseconds or nanoseconds exceed it soon, and are noticed.
const SECONDS_MAX: u64 = 1 << 30;
/// Bytes of a key that is made from another's hash, at least, so that no two are equal.
const MADE_KEY_BYTES_MIN: u64 = 8;

/// Reads a trace and counts what it asks for.
pub(crate) struct Feed<'a> {
    trace: Trace,
    /// Position in the trace.
    progress: &'a AtomicU64,
    state: State,
}

struct State {
    hasher: KeyHasher,
    /// Requests for other keys are counted, but no cache takes them.
    rate: Rate,
    value_bytes: u64,
    ttl_s: u32,
    /// Time of the first request that has one.
    start_s: Option<u64>,
    now_s: u32,
    index: u64,
    gets: Sum,
    checkpoints: Checkpoints<Sum>,
    oddities: Oddities,
    key: Vec<u8>,
}

/// What a trace has that a reader of the results should know.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Oddities {
    /// Requests whose time is before that of an earlier one.
    pub(crate) back_in_time: u64,
    /// Requests whose keys are longer than a server accepts.
    pub(crate) long_keys: u64,
    /// Lines left out.
    pub(crate) skipped: u64,
}

/// What a whole trace asked for.
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) requests: u64,
    /// Index of the first request that counts.
    pub(crate) counted_from: u64,
    /// GETs that count, and their bytes.
    pub(crate) gets: Sum,
    pub(crate) oddities: Oddities,
    /// Whether there are times to live, but no times.
    pub(crate) is_timeless: bool,
}

impl Feed<'_> {
    /// `rate` is the largest of all caches.
    pub(crate) fn new<'a>(trace: Trace, options: &Options, rate: Rate, progress: &'a AtomicU64) -> Feed<'a> {
        Feed {
            trace,
            progress,
            state: State {
                hasher: SEED.hasher(),
                rate,
                value_bytes: options.value_bytes,
                ttl_s: options.ttl_s,
                start_s: None,
                now_s: 1,
                index: 0,
                gets: Sum::default(),
                checkpoints: Checkpoints::new(),
                oddities: Oddities::default(),
                key: Vec::new(),
            },
        }
    }

    /// Fills `batch`; it is empty at the end of the trace.
    pub(crate) fn fill(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        let state = &mut self.state;
        while batch.requests.len() < BATCH && self.trace.visit(|line| state.take(line, batch))? {}
        self.progress.store(self.trace.position(), Ordering::Relaxed);
        Ok(())
    }

    /// What the trace asked for from `share` of its requests on.
    ///
    /// # Errors
    /// [`TraceError::Empty`].
    pub(crate) fn finish(self, share: f64) -> Result<Asked, TraceError> {
        let state = self.state;
        let skipped = self.trace.skipped();
        if state.index == 0 {
            return Err(TraceError::Empty {
                name: self.trace.name().to_string(),
                skipped,
            });
        }
        let (counted_from, gets) = state.checkpoints.after(share, state.index, state.gets);
        Ok(Asked {
            name: self.trace.name().to_string(),
            requests: state.index,
            counted_from,
            gets,
            oddities: Oddities {
                skipped,
                ..state.oddities
            },
            is_timeless: self.trace.has_ttl() && !self.trace.has_time(),
        })
    }
}

impl State {
    fn take(&mut self, line: &Line<'_>, batch: &mut Batch) -> Result<(), BadLine> {
        self.advance(line)?;
        let index = self.index;
        self.index += 1;
        let value_bytes = line.value_bytes.unwrap_or(self.value_bytes);
        if line.op == Op::Get {
            self.checkpoints.reach(index, self.gets);
            self.gets.add(value_bytes);
        }
        let made = self.make_key(line);
        let key = if made { &self.key } else { &*line.key };
        let hash = self.hasher.hash(key);
        if self.rate.takes(hash) {
            let expire_s = match line.ttl_s.unwrap_or(self.ttl_s) {
                0 => 0,
                ttl_s => self.now_s.saturating_add(ttl_s),
            };
            let request = Request {
                index,
                hash,
                key: [0; 2],
                value_bytes,
                now_s: self.now_s,
                expire_s,
                op: line.op,
            };
            batch.push(request, key);
        }
        Ok(())
    }

    /// Moves the time on to that of `line`; never back.
    fn advance(&mut self, line: &Line<'_>) -> Result<(), BadLine> {
        let Some(time_s) = line.time_s else {
            return Ok(());
        };
        let start_s = *self.start_s.get_or_insert(time_s);
        let since_s = time_s.saturating_sub(start_s);
        if since_s > SECONDS_MAX {
            return Err(BadLine::TooLate {
                s: since_s,
                s_max: SECONDS_MAX,
            });
        }
        let now_s = 1 + since_s as u32;
        self.oddities.back_in_time += u64::from(now_s < self.now_s || time_s < start_s);
        self.now_s = self.now_s.max(now_s);
        Ok(())
    }

    /// Makes a key if that of the line has another length than the real one, or is too long for a server; returns whether
    /// it did. A made key is the hash of the other, repeated.
    fn make_key(&mut self, line: &Line<'_>) -> bool {
        let wanted = line.key_bytes.unwrap_or(line.key.len() as u64);
        self.oddities.long_keys += u64::from(wanted > KEY_BYTES_MAX as u64);
        let length = wanted.clamp(MADE_KEY_BYTES_MIN, KEY_BYTES_MAX as u64);
        if line.key.len() as u64 == wanted && wanted <= KEY_BYTES_MAX as u64 {
            return false;
        }
        self.key.clear();
        let hash = self.hasher.hash(&line.key).to_bytes();
        self.key.extend(hash.into_iter().cycle().take(length as usize));
        true
    }
}
