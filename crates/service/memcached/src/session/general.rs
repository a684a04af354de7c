//! Commands without a key.

use super::{Session, State};
use crate::parse::scan::{self, Line, Words};
use crate::parse::{BAD_FORMAT, ERROR};
use crate::watch::{self, Watching, kind};
use crate::{Executor, exec, stats};
use drover_base::Cpu;
use drover_base::sync::Ordering;
use drover_net::{Need, Output};
use drover_store::Sharing;

const OK: &str = "OK";
const MEMLIMIT_REFUSED: &str = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// Answers the command in `line`.
    ///
    /// # Errors
    /// The command must wait; nothing was done.
    pub(super) fn general(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        line: &[u8],
        output: &mut Output,
    ) -> Result<(), Need> {
        let words = Line::new(line);
        let noreply = words.count > 1 && words.last == b"noreply";
        let reply = match words.word(0) {
            b"mn" => "MN",
            b"version" => {
                output.push(b"VERSION ");
                &executor.server.settings.version
            }
            b"quit" => {
                self.state = State::Over;
                return Ok(());
            }
            b"stats" if words.word(1) == b"cachedump" => match self.cachedump(executor, &words) {
                Some(reply) => reply,
                None => return Ok(()),
            },
            b"stats" => return stats::answer(executor, &words, output).map_err(|_| Need::Replies),
            // A gateway's system may flush before it executes what this connection has asked for; and in a member a request may be
            // parked.
            b"flush_all"
                if output.has_holes()
                    && (executor.server.settings.gateway.is_some() || executor.is_member()) =>
            {
                return Err(Need::Replies);
            }
            b"flush_all" => match self.flush(executor, &words, noreply) {
                Some(refusal) => refusal,
                None => return Ok(()),
            },
            b"verbosity" => verbosity(executor, &words),
            b"cache_memlimit" => memlimit(executor, &words),
            b"lru_crawler" => match self.crawler(executor, &words) {
                Some(reply) => reply,
                None => return Ok(()),
            },
            b"slabs" => slabs(&words),
            b"watch" => self.watch(executor, line),
            b"shutdown" => match self.shutdown(executor, &words) {
                Some(refusal) => refusal,
                None => return Ok(()),
            },
            b"refresh_certs" => match executor.server.host.refresh_certificates() {
                Ok(()) => OK,
                Err(line) => {
                    exec::reply(output, &line);
                    return Ok(());
                }
            },
            _ => ERROR,
        };
        if !(noreply && heeds_noreply(&words)) {
            exec::reply(output, reply);
        }
        Ok(())
    }

    /// `watch`: subscribes the connection to the named events, by default fetches.
    fn watch(&mut self, executor: &Executor<'_, C, S>, line: &[u8]) -> &'static str {
        if !executor.server.settings.commands.watch {
            return "CLIENT_ERROR watch commands not allowed";
        }
        let mut names = Words::new(line).skip(1).peekable();
        let kinds = match names.peek() {
            None => Some(kind::FETCHERS),
            Some(_) => names.try_fold(0, |kinds, name| Some(kinds | watch::kind_of(name)?)),
        };
        let Some(kinds) = kinds else { return ERROR };
        let token = self.presence.as_ref().map_or(0, |presence| presence.guest.token);
        let own = executor.router.own();
        self.state = State::Watching(Watching::new(executor.server.watchers.clone(), kinds, own, token));
        OK
    }

    fn shutdown(&mut self, executor: &Executor<'_, C, S>, words: &Line<'_>) -> Option<&'static str> {
        if !executor.server.settings.commands.shutdown {
            return Some("ERROR: shutdown not enabled");
        }
        let graceful = match (words.count, words.word(1)) {
            (1, _) => false,
            (2, b"graceful") => true,
            _ => return Some("CLIENT_ERROR invalid shutdown mode"),
        };
        self.state = State::Over;
        executor.server.host.shutdown(graceful);
        None
    }
}

/// Whether a last word `noreply` suppresses the reply: most commands count their words first.
fn heeds_noreply(words: &Line<'_>) -> bool {
    match words.word(0) {
        b"flush_all" => words.count <= 3,
        b"verbosity" | b"cache_memlimit" => (2..=3).contains(&words.count),
        b"lru" | b"slabs" | b"watch" | b"refresh_certs" | b"extstore" => true,
        _ => false,
    }
}

fn verbosity<C: Cpu, S: Sharing>(executor: &Executor<'_, C, S>, words: &Line<'_>) -> &'static str {
    const VERBOSITY_MAX: u32 = 2;
    if !(2..=3).contains(&words.count) {
        return ERROR;
    }
    let Some(level) = scan::number_u32(words.word(1)) else {
        return BAD_FORMAT;
    };
    executor.server.host.set_verbosity(level.min(VERBOSITY_MAX));
    OK
}

/// `cache_memlimit`: from half of `-m` up to all of it, because memory for more is not there. The other cores follow when
/// they next do something; their partitions are like this one, so they can.
fn memlimit<C: Cpu, S: Sharing>(executor: &mut Executor<'_, C, S>, words: &Line<'_>) -> &'static str {
    if !(2..=3).contains(&words.count) {
        return ERROR;
    }
    let bytes = match scan::number_u32(words.word(1)) {
        None => return ERROR,
        Some(0..8) => return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(1_000_000_001..) => return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(mib) => u64::from(mib) << 20,
    };
    if executor.server.settings.gateway.is_some() {
        return MEMLIMIT_REFUSED;
    }
    if bytes != executor.server.memory_bytes() {
        if !executor.limit_memory(bytes) {
            return MEMLIMIT_REFUSED;
        }
        executor.server.memory_bytes.store(bytes, Ordering::Relaxed);
    }
    OK
}

/// `slabs`: there are no slabs to move.
fn slabs(words: &Line<'_>) -> &'static str {
    match (words.word(1), words.count) {
        (b"reassign", 4) => "CLIENT_ERROR slab reassignment disabled",
        (b"automove", 3..) => match (words.word(2), scan::number_u32(words.word(2))) {
            (b"ratio", _) if words.count >= 4 => OK,
            (b"ratio", _) => ERROR,
            (_, None) => BAD_FORMAT,
            (_, Some(0..=2)) => OK,
            _ => ERROR,
        },
        _ => ERROR,
    }
}
