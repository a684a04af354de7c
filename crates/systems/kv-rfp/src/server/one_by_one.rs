//! Batches of one request of all clients: while a shard works on one, or waits for the WRITE of its result, it looks at no
//! other.
//!
//! For measurements: of servers whose requests take long, and of those that wait, as published. A request is taken in
//! one step and executed in the next, so that on simulated cores, where a step's stores are visible from its beginning,
//! the result is not there before the handler has ended.

use super::connection::Connection;
use super::state::ShardState;
use crate::variant::Variant;
use drover_base::{Cpu, Ns};
use drover_kv::HANDLER;
use drover_one_sided::PeerError;
use drover_verbs::Provider;

/// How far a client's request has come that keeps the core from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// There is none.
    None,
    /// It is the shard's batch.
    Taken,
    /// The WRITE of its result has not completed.
    Pushing,
}

impl<P: Provider, V: Variant> Connection<P, V> {
    /// As [`serve`](Connection::serve), for one request at a time of all clients.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_one(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        now: Ns,
    ) -> Result<bool, PeerError> {
        if state.is_occupied && self.turn == Turn::None {
            return Ok(false);
        }
        let mut is_busy = self.take_progress(cpu, state, now)?;
        let turn = self.turn;
        match turn {
            Turn::None => {
                if self.take_requests(cpu, state, 1)? {
                    cpu.charge(HANDLER, u32::from(state.options.has_handler));
                    (self.turn, state.is_occupied) = (Turn::Taken, true);
                    is_busy = true;
                }
            }
            Turn::Taken => {
                self.execute_requests(cpu, state, now)?;
                is_busy = true;
            }
            Turn::Pushing => {}
        }
        self.push(cpu)?;
        if turn != Turn::None {
            (self.turn, state.is_occupied) = match V::WAITS && self.calls.is_pushing() {
                true => (Turn::Pushing, true),
                false => (Turn::None, false),
            };
        }
        Ok(is_busy)
    }
}
