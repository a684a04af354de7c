//! Requests one by one: while a shard works on one, or waits for the WRITE of its result, it looks at no other.
//!
//! For measurements: of servers whose requests take long, and of those that wait, as published. A request is taken in
//! one step and executed in the next, so that on simulated cores, where a step's stores are visible from its beginning,
//! the result is not there before the handler has ended.

use super::connection::{Connection, decode};
use super::state::ShardState;
use crate::costs;
use crate::layout::Request;
use crate::variant::Variant;
use drover_base::{Cpu, KeyHash, Ns};
use drover_kv::HANDLER;
use drover_one_sided::PeerError;
use drover_rpc::fetch::{BadCall, ServerCall};
use drover_store::Key;
use drover_verbs::Provider;

/// How far a client's request has come that keeps the core from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// There is none.
    None,
    /// It was taken.
    Taken(ServerCall, Request, KeyHash),
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
        self.begin_transfers(cpu, state, now);
        let mut is_busy = self.take_completions(cpu, state, now)?;
        match self.turn {
            Turn::None => is_busy |= self.take_one(cpu, state)?,
            Turn::Taken(call, request, hash) => {
                self.execute_taken(cpu, state, &call, (&request, hash), now)?;
                is_busy = true;
            }
            Turn::Pushing if self.calls.is_pushing() => {}
            Turn::Pushing => self.give_way(state),
        }
        self.push(cpu, state, now)?;
        Ok(is_busy)
    }

    fn take_one(&mut self, cpu: &P::Cpu, state: &mut ShardState<P, V>) -> Result<bool, PeerError> {
        self.charge_look(cpu);
        let next = self.calls.next(cpu, &mut state.batch.requests[0]);
        let Some(call) = next.map_err(|BadCall { .. }| PeerError::Nonsense)? else {
            return Ok(false);
        };
        let (request, key) = decode(&call, &state.batch.requests[0])?;
        let Key { hash, .. } = state.key(key);
        cpu.charge(costs::BATCH.cost, 1);
        if state.options.has_handler {
            cpu.charge(HANDLER, 1);
        }
        (self.turn, state.is_occupied) = (Turn::Taken(call, request, hash), true);
        Ok(true)
    }

    fn execute_taken(
        &mut self,
        cpu: &P::Cpu,
        state: &mut ShardState<P, V>,
        call: &ServerCall,
        (request, hash): (&Request, KeyHash),
        now: Ns,
    ) -> Result<(), PeerError> {
        let bytes = std::mem::take(&mut state.batch.requests[0]);
        let executed = self.execute(cpu, state, call, (request, hash, &bytes), now);
        self.push(cpu, state, now)?;
        state.batch.requests[0] = bytes;
        match V::WAITS && self.calls.is_pushing() {
            true => self.turn = Turn::Pushing,
            false => self.give_way(state),
        }
        executed
    }

    fn give_way(&mut self, state: &mut ShardState<P, V>) {
        (self.turn, state.is_occupied) = (Turn::None, false);
    }
}
