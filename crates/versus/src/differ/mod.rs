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
mod reply;
mod session;
mod shrink;
mod unread;

pub use canary::{CANARIES, Canary};
pub use command::{Command, Element, End, Names, Piece};
pub use compare::{CasPairs, DIFFERENCES, Difference, Mismatch, compare};
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
    /// What they said to the fewest commands.
    pub shrunk_mismatch: Mismatch,
    /// The fewest commands found that show it.
    pub shrunk: Vec<Element>,
}

/// Sends streams until one makes the servers differ. Errors: a server cannot be reached.
pub fn run(sides: &Sides, options: &Options) -> std::io::Result<Report> {
    let mut report = Report::default();
    for nth in options.first..options.first + options.streams {
        let elements = stream(options.seed, nth, options.commands);
        let mut pair = Pair::connect(sides)?;
        let mismatch = pair.play(&elements)?;
        report.exact = pair.is_exact();
        report.commands += elements.iter().filter(|element| element.is_command()).count() as u64;
        report.bytes += pair.bytes();
        if let Some(mismatch) = mismatch {
            let (shrunk, shrunk_mismatch) = shrink(elements, mismatch.clone(), |some| {
                Pair::connect(sides)?.play(some)
            })?;
            report.found = Some(Found {
                stream: nth,
                mismatch,
                shrunk_mismatch,
                shrunk,
            });
            break;
        }
    }
    Ok(report)
}
