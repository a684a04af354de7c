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
mod prepare;
mod reply;
mod session;
mod shrink;
mod unread;

pub use canary::{CANARIES, Canary};
pub use command::{Command, Element, End, Names, Piece};
pub use compare::{DIFFERENCES, Difference, Mismatch, Relation, compare};
pub use draw::stream;
pub use session::{Pair, Sides};
pub use shrink::shrink;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of everything.
    pub seed: u64,
    /// Number of the first stream.
    pub first: u64,
    /// Number of streams.
    pub streams: u64,
    /// Commands per stream.
    pub commands: usize,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// Commands sent to each server.
    pub commands: u64,
    /// Bytes of answers compared.
    pub bytes: u64,
    /// The servers read each piece of a batch before the next one was sent, so that a replay is exact to the byte.
    pub exact: bool,
    /// The stream with different answers, if there was one: later ones are not tried.
    pub found: Option<Found>,
}

/// A difference between the answers.
#[derive(Debug)]
pub struct Found {
    /// Number of the stream.
    pub stream: u64,
    /// The two answers.
    pub mismatch: Mismatch,
    /// The commands of the stream.
    pub elements: Vec<Element>,
}

impl Found {
    /// Shrinks the stream; returns the fewest commands that still show a difference, and that difference.
    ///
    /// # Cost
    ///
    /// Plays up to about a thousand ever shorter streams, which takes minutes: report the difference before.
    ///
    /// # Errors
    ///
    /// A server cannot be reached.
    pub fn shrink(self, sides: &Sides) -> std::io::Result<(Vec<Element>, Mismatch)> {
        shrink(self.elements, self.mismatch, |some| {
            Pair::connect_to_shrink(sides)?.play(some)
        })
    }
}

/// Number of plays that must all differ before a difference of seconds counts.
const PLAYS_OF_SECONDS: usize = 4;

/// Whether a difference counts: one of seconds must occur in every play, because on a busy machine a server may have to
/// wait for seconds.
fn is_lasting(sides: &Sides, elements: &[Element], mismatch: &Mismatch) -> std::io::Result<bool> {
    if !mismatch.only_seconds {
        return Ok(true);
    }
    for _ in 1..PLAYS_OF_SECONDS {
        if Pair::connect(sides)?.play(elements)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends streams until the answers differ.
///
/// # Errors
/// A server cannot be reached.
pub fn run(sides: &Sides, options: &Options) -> std::io::Result<Report> {
    let mut report = Report::default();
    let left_s = prepare::prepare(sides.left)?;
    let sides = &Sides {
        late_s: (left_s - prepare::prepare(sides.right)?).max(0),
        ..sides.clone()
    };
    for nth in options.first..options.first + options.streams {
        let elements = stream(options.seed, nth, options.commands);
        let mut pair = Pair::connect(sides)?;
        let mismatch = pair.play(&elements)?;
        report.exact = pair.is_exact();
        report.commands += elements.iter().filter(|element| element.is_command()).count() as u64;
        report.bytes += pair.bytes();
        if let Some(mismatch) = mismatch
            && is_lasting(sides, &elements, &mismatch)?
        {
            report.found = Some(Found {
                stream: nth,
                mismatch,
                elements,
            });
            break;
        }
    }
    Ok(report)
}
