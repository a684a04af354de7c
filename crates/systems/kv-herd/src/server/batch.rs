//! Batch mode: gather what is there, three passes over it, one doorbell `[R16]`.
//!
//! ```text
//! pass 1 (as each is gathered)  ask for the bucket
//! pass 2                        look at the bucket's tags, ask for the items
//! pass 3                        execute, build the reply in place
//! post all replies
//! ```
//! Nothing stays under way between steps, so no no-ops are needed and a lone request is answered at once. To gather
//! the next batch between passes 2 and 3 of this one was tried: no faster, with 200,000 keys or 3 million.

use super::variant::Variant;
use super::worker::Worker;
use crate::costs::{BATCH, ITEM};
use drover_base::Cpu;
use drover_verbs::Provider;

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Gathers requests and executes them as one batch. Returns whether there were any.
    #[inline(always)]
    pub(super) fn batch(&mut self, cpu: &P::Cpu) -> bool {
        match self.clients.any_sends_datagrams() {
            false => self.sweep(cpu, 0),
            true => self.sweep_and_receive(cpu, 0),
        }
        self.finish_batch(cpu)
    }

    /// Makes passes 2 and 3 over the requests gathered, and posts the replies. Returns whether there were any.
    #[inline(always)]
    pub(super) fn finish_batch(&mut self, cpu: &P::Cpu) -> bool {
        if self.intakes[0].requests.is_empty() {
            return false;
        }
        cpu.charge(BATCH.cost, 1);
        self.prefetch_items(cpu, 0);
        self.execute_all(cpu, 0);
        self.post_unless_held(cpu);
        self.intakes[0].requests.clear();
        true
    }

    /// Looks at the buckets of the requests in intake `at`, and prefetches the items.
    #[inline(always)]
    pub(super) fn prefetch_items(&mut self, cpu: &P::Cpu, at: usize) {
        let requests = self.intakes[at].requests.all_mut().iter_mut();
        let keys = requests.map(|request| {
            cpu.charge(ITEM.cost, 1);
            (request.hash(), &mut request.hint)
        });
        self.partition.prefetch_items(cpu, keys);
    }

    /// As [`prefetch_items`](Worker::prefetch_items), for the only request in intake `at`.
    #[inline(always)]
    pub(super) fn prefetch_only(&mut self, cpu: &P::Cpu, at: usize) {
        if let Some(request) = self.intakes[at].requests.all_mut().first_mut() {
            cpu.charge(ITEM.cost, 1);
            request.hint = self.partition.prefetch_item(cpu, request.hash());
        }
    }
}
