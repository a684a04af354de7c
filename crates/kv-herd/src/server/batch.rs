//! Batch mode: gather what is there, three passes over it, one doorbell `[R16]`.
//!
//! ```text
//! pass 1 (as each is gathered)  ask for the bucket
//! pass 2                        look at the bucket's tags, ask for the items
//! pass 3                        execute, build the reply in place
//! post all replies
//! ```
//! While there is work the passes of two batches interlock, so that whatever was asked for has a pass of the other
//! batch to arrive in:
//!
//! ```text
//! this batch    1  2     3  post                 1  2     ...
//! the next             1           2     3  post
//! ```
//! Nothing stays under way between steps, so no no-ops are needed and a lone request is answered at once. A batch is
//! executed whole before the next one's first request: one client's requests stay in order.

use super::worker::Worker;
use drover_verbs::Provider;

/// Batches in a step at most: then the clock and commands have their turn.
const ROUNDS_MAX: usize = 8;

impl<P: Provider> Worker<P> {
    /// Batches as long as each finds another behind it, if there is anything. Returns whether there was.
    #[inline(always)]
    pub(super) fn batch(&mut self, cpu: &P::Cpu) -> bool {
        self.sweep(cpu, 0);
        self.receive_datagrams(cpu, 0);
        self.finish_batch(cpu)
    }

    /// Passes 2 and 3 over what was gathered in intake 0, and all of it over what comes meanwhile.
    #[inline(always)]
    pub(super) fn finish_batch(&mut self, cpu: &P::Cpu) -> bool {
        if self.intakes[0].is_empty() {
            return false;
        }
        self.finish_batches(cpu);
        true
    }

    #[inline(never)]
    fn finish_batches(&mut self, cpu: &P::Cpu) {
        // Time that stands still within a step wants short ones.
        let rounds = self.options.idle_sweeps.clamp(1, ROUNDS_MAX);
        let mut at = 0;
        for round in 1..=rounds {
            let next = at ^ 1;
            self.prefetch_items(cpu, at);
            if round < rounds {
                self.sweep(cpu, next);
            }
            self.execute_all(cpu, at);
            self.replies.post(cpu, &mut self.counters);
            self.intakes[at].clear();
            if self.intakes[next].is_empty() {
                return;
            }
            at = next;
        }
    }

    /// Looks at the buckets of the requests in intake `at` and asks for the items.
    #[inline(always)]
    pub(super) fn prefetch_items(&mut self, cpu: &P::Cpu, at: usize) {
        for request in self.intakes[at].requests_mut() {
            request.hint = self.partition.prefetch_item(cpu, request.hash());
        }
    }
}
