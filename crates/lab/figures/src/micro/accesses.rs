//! [`Accesses`]: what a server of echoes looks up in memory for each request, one way or the other.

use super::costs::ACCESS;
use drover_base::{Cpu, Line};

/// Random lines of a large table, per request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accesses {
    /// None.
    None,
    /// So many, one after the other as far as the core does not overlap them itself.
    Plain(usize),
    /// So many, asked for when the request arrives and touched when the next one has.
    Prefetched(usize),
}

/// Lines of a table far larger than any cache.
const TABLE_LINES: u64 = 1 << 26;
/// Where it is.
const TABLE: usize = 1 << 40;
const LINE_BYTES: usize = 64;

/// A request whose lines are on their way.
pub(super) struct Waiting<T> {
    request: T,
    lines: Vec<Line>,
}

/// A server's work between request and reply.
pub(super) struct Lookups<T> {
    accesses: Accesses,
    waiting: Option<Waiting<T>>,
}

impl<T> Lookups<T> {
    pub(super) fn new(accesses: Accesses) -> Lookups<T> {
        Lookups {
            accesses,
            waiting: None,
        }
    }

    /// A request has arrived, or not; returns the one to answer now.
    pub(super) fn turn<C: Cpu>(&mut self, cpu: &C, arrived: Option<T>) -> Option<T> {
        match (self.accesses, arrived) {
            (Accesses::Prefetched(count), Some(request)) => {
                let lines = (0..count).map(|_| ask_for_line(cpu)).collect();
                self.finish(cpu, Some(Waiting { request, lines }))
            }
            (Accesses::Prefetched(_), None) => self.finish(cpu, None),
            (Accesses::Plain(count), Some(request)) => {
                cpu.charge(ACCESS, count as u32);
                Some(request)
            }
            (_, arrived) => arrived,
        }
    }

    /// Whether a request waits for its lines.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Puts `next` in the place of the one that waits, whose turn it is.
    fn finish<C: Cpu>(&mut self, cpu: &C, next: Option<Waiting<T>>) -> Option<T> {
        let Waiting { request, lines } = std::mem::replace(&mut self.waiting, next)?;
        lines.into_iter().for_each(|line| cpu.touch(line));
        Some(request)
    }
}

fn ask_for_line<C: Cpu>(cpu: &C) -> Line {
    let line = Line(TABLE + (cpu.random() % TABLE_LINES) as usize * LINE_BYTES);
    cpu.prefetch(line);
    line
}
