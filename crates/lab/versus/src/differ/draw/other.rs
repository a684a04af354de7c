//! Commands without a key.

use super::{COUNTERS, Draw, KEYS, text};
use crate::differ::command::{Command, Piece};

/// Lines with the same answers on both servers in any state.
const LINES: &[&str] = &[
    "flush_all",
    "flush_all 0",
    "flush_all noreply",
    "flush_all 0 noreply",
    "flush_all -1",
    "flush_all x",
    "flush_all x noreply",
    "flush_all 0 0 noreply",
    "verbosity",
    "verbosity 0",
    "verbosity 0 noreply",
    "verbosity 0 0",
    "verbosity 0 0 noreply",
    "verbosity x",
    "verbosity x noreply",
    "cache_memlimit",
    "cache_memlimit 1024",
    "cache_memlimit 1024 noreply",
    "cache_memlimit 7",
    "cache_memlimit 2000000000",
    "cache_memlimit x",
    "cache_memlimit 1024 0 noreply",
    "lru_crawler",
    "lru_crawler bogus",
    "lru_crawler sleep 100",
    "lru_crawler sleep 1000001",
    "lru_crawler sleep x",
    "lru_crawler tocrawl 0",
    "lru_crawler tocrawl x",
    "lru_crawler crawl x",
    "shutdown x",
    "shutdown graceful x",
    "stats bogus",
    "stats reset",
    "stats detail",
    "stats detail bogus",
    "stats cachedump",
    "stats cachedump x 1",
    "slabs",
    "lru",
    "",
    " ",
    "m",
    "mx",
    "GET",
];

impl Draw {
    pub(super) fn other(&mut self) -> Command {
        let words = match self.rng.below(10) {
            0..3 => vec![text("me"), Piece::Key(self.rng.below(KEYS - COUNTERS) as u8)],
            3 => vec![
                text("me"),
                Piece::Key64(self.rng.below(KEYS - COUNTERS) as u8),
                text("b"),
            ],
            4..6 => vec![text("mn")],
            _ => vec![self.word(LINES)],
        };
        self.line(words)
    }
}
