//! [`Accesses`]: random memory accesses of an echo server for each request.

use super::costs::ACCESS;
use drover_base::{Cpu, Line};

/// How many random cache lines of a large table an echo server reads for each request, and whether it prefetches them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accesses {
    /// No lines.
    None,
    /// This many lines, without prefetching; only the core itself overlaps the reads.
    Plain(usize),
    /// This many lines, prefetched when the request arrives and read when the next one has arrived, or at the next poll
    /// that finds none.
    Prefetched(usize),
}

/// Number of lines of the table, which is far larger than any cache.
const TABLE_LINES: u64 = 1 << 26;
/// Address of the table.
const TABLE: usize = 1 << 40;
const LINE_BYTES: usize = 64;

/// A request whose lines are being prefetched.
pub(super) struct Waiting<T> {
    request: T,
    lines: Vec<Line>,
}

/// A server's memory accesses between request and reply.
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

    /// Handles an arrived request, if any; returns the request to answer now.
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

    /// Replaces the waiting request by `next`; returns the waiting one after its accesses.
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
