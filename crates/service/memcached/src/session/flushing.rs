//! `flush_all`: every other core gets a message and has its part in the reply; in a member, those of its peers, too.

use super::{Session, State, Step};
use crate::member::OnFailure;
use crate::parse::ERROR;
use crate::parse::scan::{self, Line};
use crate::request::Expiry;
use crate::{Executor, exec, forward};
use drover_base::sync::Ordering;
use drover_base::{Cpu, KeyHash};
use drover_net::{Need, Output};
use drover_store::Sharing;

/// A `flush_all` under way.
#[derive(Debug)]
pub(super) struct Flushing {
    at_s: u32,
    noreply: bool,
    /// Routes to the cores that do not have the message yet, the next one last.
    routes: Vec<usize>,
}

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// Starts a `flush_all [delay]`, or refuses it.
    pub(super) fn flush(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        words: &Line<'_>,
        noreply: bool,
    ) -> Option<&'static str> {
        if words.count > 3 {
            return Some(ERROR);
        }
        executor.core.counters.cmd_flush += 1;
        if !executor.server.settings.commands.flush {
            return Some("CLIENT_ERROR flush_all not allowed");
        }
        let mut at_s = 0;
        if words.count != if noreply { 2 } else { 1 } {
            let Some(delay) = scan::number_i32(words.word(1)) else {
                return Some("CLIENT_ERROR invalid exptime argument");
            };
            at_s = executor.expire_s(Expiry(delay.max(0)));
        }
        // Relaxed: only shown.
        executor
            .server
            .flushed_s
            .store(at_s.max(executor.now_s), Ordering::Relaxed);
        let mut routes = executor.routes_to_all();
        routes.reverse();
        self.state = State::Flushing(Flushing {
            at_s,
            noreply,
            routes,
        });
        None
    }

    /// Continues a `flush_all`.
    pub(super) fn flush_on(&mut self, executor: &mut Executor<'_, C, S>, output: &mut Output) -> Step {
        let State::Flushing(flushing) = &mut self.state else {
            return Step::On(0);
        };
        let (at_s, noreply) = (flushing.at_s, flushing.noreply);
        let is_sent = flushing.send(executor, output);
        self.under_way
            .add_all(output.next_hole().number.saturating_sub(1));
        if !is_sent {
            return Step::Wait(0, Need::Route);
        }
        executor.flush(at_s);
        if !noreply {
            exec::reply(output, "OK");
        }
        self.state = State::Idle;
        Step::On(0)
    }
}

impl Flushing {
    /// Sends the message to the cores that do not have it; returns whether all have it now.
    fn send<C: Cpu, S: Sharing>(&mut self, executor: &mut Executor<'_, C, S>, output: &mut Output) -> bool {
        while let Some(&route) = self.routes.last() {
            let is_here = route < executor.router.core_count();
            let (kind, time_s) = match is_here {
                true => (b'f', self.at_s),
                false => (b'F', self.at_s.saturating_sub(executor.now_s)),
            };
            let head = forward::head(KeyHash::default(), kind, 0);
            let pieces = [&head[..], &time_s.to_le_bytes()];
            if executor
                .send_pieces(route, OnFailure::Close, &pieces, output)
                .is_err()
            {
                return false;
            }
            self.routes.pop();
        }
        true
    }
}
