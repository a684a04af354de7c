//! Commands that list items, and `lru_crawler` with them: a dump goes from core to core, piece by piece.

use super::{Session, State, Step};
use crate::dump::limit::LineLimit;
use crate::dump::{Dump, Kind};
use crate::member::OnFailure;
use crate::parse::scan::{self, Line};
use crate::parse::{BAD_FORMAT, ERROR};
use crate::{Executor, exec, forward};
use drover_base::{Cpu, KeyHash};
use drover_net::{Need, Output};
use drover_store::Sharing;

/// Number of the slab class of all items.
const CLASS: u32 = 1;
/// memcached's classes have numbers below this.
const CLASSES_MAX: u32 = 64;
const BAD_CLASS: &str = "BADCLASS invalid class id";

/// A dump under way.
#[derive(Debug)]
pub(super) struct Dumping {
    /// Core of the next piece.
    core: usize,
    /// The next piece.
    piece: Dump,
    limit: Option<LineLimit>,
}

impl Dumping {
    fn new<C: Cpu, S: Sharing>(
        executor: &Executor<'_, C, S>,
        kind: Kind,
        limit: Option<LineLimit>,
    ) -> Dumping {
        let number = limit.as_ref().map_or(0, |limit| limit.number);
        let (_, held) = executor.totals();
        let item_count = held.curr_items / executor.router.core_count() as u64;
        Dumping {
            core: 0,
            piece: Dump::new(kind, number, executor.server.settings.bucket_count, item_count),
            limit,
        }
    }

    fn is_over(&self, core_count: usize) -> bool {
        self.core >= core_count || self.limit.as_ref().is_some_and(LineLimit::is_reached)
    }

    fn advance(&mut self) {
        match self.piece.next() {
            Some(next) => self.piece = next,
            None => {
                self.core += 1;
                self.piece.from = 0;
            }
        }
    }
}

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// `lru_crawler`: there is no crawler, but its commands work; expired items are reclaimed anyway. `None`: a dump has
    /// begun.
    pub(super) fn crawler(
        &mut self,
        executor: &Executor<'_, C, S>,
        words: &Line<'_>,
    ) -> Option<&'static str> {
        let argument = words.word(2);
        Some(match (words.word(1), words.count) {
            (b"enable" | b"disable", 2) => "OK",
            (b"crawl", 3) if has_class(argument).is_some() => "OK",
            (b"tocrawl", 3) => scan::number_u32(argument).map_or(BAD_FORMAT, |_| "OK"),
            (b"sleep", 3) => match scan::number_u32(argument) {
                None => BAD_FORMAT,
                Some(1_000_001..) => "CLIENT_ERROR sleep must be one second or less",
                Some(_) => "OK",
            },
            (b"metadump", 3) if !executor.server.settings.commands.dump => "ERROR metadump not allowed",
            (b"mgdump", 3) if !executor.server.settings.commands.dump => "ERROR mgdump not allowed",
            (b"metadump", 3) => return self.dump(executor, Kind::Meta, argument),
            (b"mgdump", 3) => return self.dump(executor, Kind::Keys, argument),
            (b"crawl", 3) => BAD_CLASS,
            _ => ERROR,
        })
    }

    /// Begins a dump of the `classes`. Some reply: there is nothing to list.
    fn dump(&mut self, executor: &Executor<'_, C, S>, kind: Kind, classes: &[u8]) -> Option<&'static str> {
        match has_class(classes) {
            None => Some(BAD_CLASS),
            Some(false) => Some(kind.end()),
            Some(true) => {
                self.state = State::Dumping(Dumping::new(executor, kind, None));
                None
            }
        }
    }

    /// `stats cachedump <class> <limit>`: at most `limit` items, 0 for all; no order. `None`: a dump has begun.
    pub(super) fn cachedump(
        &mut self,
        executor: &Executor<'_, C, S>,
        words: &Line<'_>,
    ) -> Option<&'static str> {
        if !executor.server.settings.commands.dump {
            return Some("CLIENT_ERROR stats cachedump not allowed");
        }
        if words.count < 4 {
            return Some("CLIENT_ERROR bad command line");
        }
        let limit = match (scan::number_u32(words.word(2)), scan::number_u32(words.word(3))) {
            (Some(CLASS), Some(limit)) => limit,
            (Some(0..CLASSES_MAX), Some(_)) => return Some(Kind::Items.end()),
            (Some(_), Some(_)) => return Some("CLIENT_ERROR Illegal slab id"),
            _ => return Some(BAD_FORMAT),
        };
        let limit = (limit > 0).then(|| executor.server.line_limits.begin(limit.into()));
        self.state = State::Dumping(Dumping::new(executor, Kind::Items, limit));
        None
    }

    /// Continues a dump, piece by piece and core by core, while there is space. A piece of this core ends the turn:
    /// many buckets may hold few items, which fill no output.
    pub(super) fn dump_on(&mut self, executor: &mut Executor<'_, C, S>, output: &mut Output) -> Step {
        let State::Dumping(dumping) = &mut self.state else {
            return Step::On(0);
        };
        loop {
            // What remains of a limit is known, and the limit may be forgotten, when other cores have written their pieces.
            if dumping.limit.is_some() && output.has_holes() {
                return Step::Wait(0, Need::Replies);
            }
            if dumping.is_over(executor.router.core_count()) {
                break;
            }
            if output.is_full() {
                return Step::Wait(0, Need::OutputSpace);
            }
            let is_own = dumping.core == executor.router.own();
            if is_own {
                dumping.piece.write(executor, output);
            } else {
                // One piece at a time: pieces on other cores are not yet in any output, so no limit bounds them.
                if output.has_holes() {
                    return Step::Wait(0, Need::Replies);
                }
                let pieces = [
                    &forward::head(KeyHash::default(), b'd', 0)[..],
                    &dumping.piece.to_bytes(),
                ];
                if executor
                    .send_pieces(dumping.core, OnFailure::Close, &pieces, output)
                    .is_err()
                {
                    return Step::Wait(0, Need::Route);
                }
            }
            dumping.advance();
            if is_own {
                return Step::Wait(0, Need::Turn);
            }
        }
        exec::reply(output, dumping.piece.kind.end());
        self.state = State::Idle;
        Step::On(0)
    }
}

/// Whether a list of classes has ours: `all`, `hash`, or numbers with commas between them. `None`: it is no such list.
fn has_class(list: &[u8]) -> Option<bool> {
    if matches!(list, b"all" | b"hash") {
        return Some(true);
    }
    let mut has = false;
    for class in list.split(|&byte| byte == b',') {
        let class = scan::number_u32(class).filter(|class| (1..CLASSES_MAX).contains(class))?;
        has |= class == CLASS;
    }
    Some(has)
}
