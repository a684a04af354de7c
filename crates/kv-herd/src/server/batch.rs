//! Batch mode: gather what is there, three passes over it, one doorbell `[R16]`.
//!
//! ```text
//! pass 1 (as each is gathered)  ask for the bucket
//! pass 2                        look at the bucket's tags, ask for the items
//! pass 3                        execute, build the reply in place
//! post all replies
//! ```
//! Nothing stays under way between steps, so no no-ops are needed and a lone request is answered at once.

use super::worker::Worker;
use drover_verbs::Provider;

impl<P: Provider> Worker<P> {
    /// One batch, if there is anything. Returns whether there was.
    #[inline(always)]
    pub(super) fn batch(&mut self, cpu: &P::Cpu) -> bool {
        self.sweep(cpu, 0);
        self.receive_datagrams(cpu, 0);
        self.finish_batch(cpu)
    }

    /// Passes 2 and 3 over what was gathered.
    #[inline(always)]
    pub(super) fn finish_batch(&mut self, cpu: &P::Cpu) -> bool {
        let count = self.intakes[0].requests.len();
        if count == 0 {
            return false;
        }
        if count > 1 {
            for request in &self.intakes[0].requests {
                self.partition.prefetch_item(cpu, request.hash);
            }
        }
        for k in 0..count {
            let request = self.intakes[0].requests[k];
            self.execute(cpu, 0, &request);
        }
        self.replies.post(cpu, &mut self.counters);
        self.intakes[0].clear();
        true
    }
}
