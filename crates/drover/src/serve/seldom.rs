//! [`Seldom`]: of lines about clients, which can come in masses, only so many a second are written, with the number of those left out.
//!
//! A line is known by the place in the code that writes it, whatever it says: ten thousand clients that guess passwords are ten
//! thousand lines of one place.

use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use std::sync::{Mutex, PoisonError};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of one place that are written in a [`PERIOD`].
const LINES: u32 = 20;
const PERIOD: Ns = Ns::from_s(1);

/// A layer that leaves out events of level `INFO` and above beyond so many of one place in a second. Lines that were asked
/// for with `-v` are all written.
pub(super) struct Seldom(Mutex<Callsites>);

struct Callsites {
    clock: NativeCpu,
    /// Few: those whose lines were ever written.
    known: Vec<(Identifier, Callsite)>,
}

/// Lines of a callsite since the beginning of its period.
struct Callsite {
    since: Ns,
    written: u32,
    left_out: u64,
}

/// What becomes of a line.
#[derive(PartialEq, Eq, Debug)]
enum Fate {
    /// It is written; so many were left out in the period before.
    Written(u64),
    LeftOut,
}

impl Callsite {
    fn new(now: Ns) -> Callsite {
        Callsite {
            since: now,
            written: 0,
            left_out: 0,
        }
    }

    fn judge(&mut self, now: Ns) -> Fate {
        let mut before = 0;
        if now.since(self.since) >= PERIOD {
            before = std::mem::replace(self, Callsite::new(now)).left_out;
        }
        if self.written == LINES {
            self.left_out += 1;
            return Fate::LeftOut;
        }
        self.written += 1;
        Fate::Written(before)
    }
}

impl Callsites {
    fn judge(&mut self, id: Identifier) -> Fate {
        let now = self.clock.refresh();
        let index = self.known.iter().position(|(known, _)| *known == id);
        let index = index.unwrap_or_else(|| {
            self.known.push((id, Callsite::new(now)));
            self.known.len() - 1
        });
        self.known[index].1.judge(now)
    }
}

impl Seldom {
    pub(super) fn new() -> Seldom {
        Seldom(Mutex::new(Callsites {
            clock: NativeCpu::new(0),
            known: Vec::new(),
        }))
    }
}

impl<S: Subscriber> Layer<S> for Seldom {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        // The lock is free again when the line about other lines is written.
        let fate = {
            let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sites.judge(metadata.callsite())
        };
        if let Fate::Written(count @ 1..) = fate {
            tracing::info!(
                "{count} lines like the next one were left out: at most {LINES} a second are written"
            );
        }
        fate != Fate::LeftOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_a_second_are_written_and_the_others_counted() {
        let start = Ns::from_s(7);
        let mut site = Callsite::new(start);
        for _ in 0..LINES {
            assert_eq!(site.judge(start), Fate::Written(0));
        }
        for _ in 0..7 {
            assert_eq!(site.judge(start + Ns::from_ms(500)), Fate::LeftOut);
        }
        assert_eq!(site.judge(start + PERIOD), Fate::Written(7));
        assert_eq!(site.judge(start + PERIOD), Fate::Written(0));
        let later = start + Ns::from_s(9);
        assert_eq!(site.judge(later), Fate::Written(0), "nothing was left out since");
    }
}
