//! [`LineLimits`]: how many lines each limited dump may still write, shared by the cores that write its lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Dumps with a limit that are under way, on all cores.
#[derive(Debug, Default)]
pub(crate) struct LineLimits(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    /// Number of the dump that began last.
    last: u64,
    /// Lines that each may still write, by the number of the dump.
    lines: BTreeMap<u64, u64>,
}

impl LineLimits {
    /// Begins a dump of at most `lines` lines.
    pub(crate) fn begin(self: &Arc<LineLimits>, lines: u64) -> LineLimit {
        let mut under_way = self.lock();
        under_way.last += 1;
        let number = under_way.last;
        under_way.lines.insert(number, lines);
        LineLimit {
            all: self.clone(),
            number,
        }
    }

    /// Lines that dump `number` may still write; 0 if it is over.
    pub(crate) fn remaining(&self, number: u64) -> u64 {
        self.lock().lines.get(&number).copied().unwrap_or(0)
    }

    /// Notes that dump `number` has written `lines` more.
    pub(crate) fn spend(&self, number: u64, lines: u64) {
        if let Some(remaining) = self.lock().lines.get_mut(&number) {
            *remaining = remaining.saturating_sub(lines);
        }
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        // A panic elsewhere leaves whole numbers.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limit of one dump; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct LineLimit {
    all: Arc<LineLimits>,
    /// Number of the dump, from 1.
    pub(crate) number: u64,
}

impl LineLimit {
    /// Whether the dump has written all lines that it may.
    pub(crate) fn is_reached(&self) -> bool {
        self.all.remaining(self.number) == 0
    }
}

impl Drop for LineLimit {
    fn drop(&mut self) {
        self.all.lock().lines.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dump_has_lines_of_its_own_until_it_is_dropped() {
        let all = Arc::new(LineLimits::default());
        let (first, second) = (all.begin(3), all.begin(1));
        all.spend(first.number, 2);
        assert_eq!(
            (all.remaining(first.number), all.remaining(second.number)),
            (1, 1)
        );
        all.spend(first.number, 5);
        assert!(first.is_reached() && !second.is_reached());
        let number = second.number;
        drop(second);
        assert_eq!(all.remaining(number), 0);
    }
}
