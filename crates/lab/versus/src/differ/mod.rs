//! Sends the same commands to two servers and compares every byte of the answers.
//!
//! A *stream* is some thousand commands over a few keys of its own, drawn from a seed, sent in *batches*: a batch uses
//! what earlier ones learned (versions of items). A batch is sent over one of several connections, cut into pieces at
//! drawn places, and the server reads each piece before the next one is sent ([`Pair::is_exact`]), so a replay is exact
//! to the byte. If the answers differ, the stream is shrunk to the few commands that still cause a difference.

mod canary;
mod command;
mod compare;
mod cut;
mod draw;
mod gateway;
mod prepare;
mod reply;
mod session;
mod shrink;
mod unread;

pub use canary::{CANARIES, Canary};
pub use command::{Command, Element, End, Names, Piece};
pub use compare::{DIFFERENCES, Difference, Mismatch, Relation, compare};
pub use draw::stream;
pub use gateway::{REFUSALS, Refusal};
pub use session::{Pair, Sides};
pub use shrink::shrink;

/// Choice of the streams (sequences of random commands) that a run sends.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all streams.
    pub seed: u64,
    /// Number of the first stream.
    pub first: u64,
    /// Maximum number of streams; a run ends earlier at the first difference that counts.
    pub streams: u64,
    /// Approximate number of commands per stream.
    pub commands: usize,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of commands in the streams sent to each server, without repetitions. A stream with a difference counts in
    /// full, though its rest after the difference was not sent.
    pub commands: u64,
    /// Bytes of the left server's answers in all batches without a difference, plus one per batch.
    pub bytes: u64,
    /// Whether the servers read each piece of a batch before the next one was sent, so that a replay is exact to the
    /// byte. False if no stream was sent.
    pub exact: bool,
    /// Streams with a difference that did not recur, and so does not count.
    pub passing: u64,
    /// The first stream with a difference that counts, which ended the run; `None` if no stream has one.
    pub found: Option<Found>,
}

/// A stream to which the two servers gave different answers.
#[derive(Debug)]
pub struct Found {
    /// Number of the stream.
    pub stream: u64,
    /// The first two answers that differ.
    pub mismatch: Mismatch,
    /// All commands and batch ends of the stream.
    pub elements: Vec<Element>,
    /// The servers, with what was measured and asked of them.
    sides: Sides,
}

impl Found {
    /// Shrinks the stream to a few commands that still cause a difference, by sending ever smaller parts of it to both
    /// servers. Returns these commands and the difference that they cause.
    ///
    /// # Cost
    ///
    /// Up to about a thousand streams are sent, which takes minutes: report the difference before.
    ///
    /// # Errors
    ///
    /// If a server cannot be reached or a connection fails.
    pub fn shrink(self) -> std::io::Result<(Vec<Element>, Mismatch)> {
        let sides = self.sides;
        shrink(self.elements, self.mismatch, |some| {
            Pair::connect_to_shrink(&sides)?.play(some)
        })
    }
}

/// Number of times that a stream must differ, in a row, before a difference counts that a busy machine may cause.
const PLAYS_OF_DOUBTFUL: usize = 4;

/// Whether a difference counts. On a busy machine a server may have to wait for seconds, so a difference of seconds only must
/// occur every time the stream is sent; so must a failure of a gateway, whose system may have taken it, or a part of itself, for
/// dead.
fn is_lasting(sides: &Sides, elements: &[Element], mismatch: &Mismatch) -> std::io::Result<bool> {
    let is_gateway = !sides.refused.is_empty();
    if !(mismatch.only_seconds || is_gateway && mismatch.is_failure()) {
        return Ok(true);
    }
    for _ in 1..PLAYS_OF_DOUBTFUL {
        if Pair::connect(sides)?.play(elements)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends the streams of `options` to both servers, until a difference counts. Every difference counts, except one in
/// numbers of seconds only, and a failure of a gateway: these count if some difference recurs each of three more times that the
/// stream is sent. [`Report::passing`] is how many did not.
/// Both servers must have been started freshly: first 8,000 items are stored in each. [`Sides::late_s`] is measured, and
/// the right server is asked for [`Sides::refused`]; those given are ignored.
///
/// # Errors
/// If a server cannot be reached, a connection fails, or a server does not answer a simple request as memcached does.
pub fn run(sides: &Sides, options: &Options) -> std::io::Result<Report> {
    let mut report = Report::default();
    let refused = gateway::refused_by(sides.right)?;
    let (left_s, right_s) = (prepare::prepare(sides.left)?, prepare::prepare(sides.right)?);
    let sides = &Sides {
        // A server that shows no times needs no allowance for them.
        late_s: left_s
            .zip(right_s)
            .map_or(0, |(left_s, right_s)| (left_s - right_s).max(0)),
        refused,
        ..sides.clone()
    };
    for nth in options.first..options.first + options.streams {
        let mut elements = stream(options.seed, nth, options.commands);
        gateway::adapt(&mut elements, &sides.refused, (options.seed, nth));
        let mut pair = Pair::connect(sides)?;
        let mismatch = pair.play(&elements)?;
        report.exact = pair.is_exact();
        report.commands += elements.iter().filter(|element| element.is_command()).count() as u64;
        report.bytes += pair.bytes();
        let Some(mismatch) = mismatch else { continue };
        if is_lasting(sides, &elements, &mismatch)? {
            report.found = Some(Found {
                stream: nth,
                mismatch,
                elements,
                sides: sides.clone(),
            });
            break;
        }
        report.passing += 1;
    }
    Ok(report)
}
