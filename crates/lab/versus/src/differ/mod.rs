//! The same commands to two servers at once, and a look at every byte of both answers.
//!
//! A *stream* is some thousand commands over a few keys of its own, drawn from a seed, sent in *batches*: what a batch
//! learns (versions of items) the next one uses. A batch goes over one of several connections, cut into pieces at drawn
//! places, and each piece is read before the next one is sent ([`Pair::is_exact`]): a replay is the same to its byte. Where the answers differ, the stream is shrunk to the few commands
//! that still make them differ.

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

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// What everything is drawn from.
    pub seed: u64,
    /// The first stream, and how many.
    pub first: u64,
    /// Streams.
    pub streams: u64,
    /// Commands in each.
    pub commands: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Commands sent to each server.
    pub commands: u64,
    /// Bytes of answers compared.
    pub bytes: u64,
    /// Each piece of a batch was read before the next one was sent, so that a stream sent again is the same to its byte.
    pub exact: bool,
    /// The stream whose answers differed, if one did: further ones are not tried.
    pub found: Option<Found>,
}

/// A difference.
#[derive(Debug)]
pub struct Found {
    /// In which stream.
    pub stream: u64,
    /// What the two said.
    pub mismatch: Mismatch,
    /// The commands of the stream.
    pub elements: Vec<Element>,
}

impl Found {
    /// The fewest commands that still show a difference, and that difference.
    ///
    /// # Cost
    ///
    /// Plays up to about a thousand shorter and shorter streams: minutes, so report what was found before.
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

/// A stream in which nothing but seconds differ is played so often before that counts.
const PLAYS_OF_SECONDS: usize = 4;

/// Whether a difference counts: one of seconds must be there in every play, because a busy machine may keep a server
/// waiting for seconds now and then.
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

/// Sends streams until one makes the servers differ. Errors: a server cannot be reached.
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
