//! A member of a service of several: requests about keys that it does not serve now are answered `Elsewhere`.
//!
//! The question is asked right before a batch is executed, at a time that is read after its requests were taken from their slots. So a
//! process that stands still between its clock and its slots answers nothing that came meanwhile, and a worker that has begun
//! another step has executed everything that it decided before, which is what
//! [`begin_round`](drover_cluster::ServedShards::begin_round) says.
//!
//! Requests do not carry the epoch of their client's map. It would change no answer: by whatever older map a member serves a shard, no
//! other member does before that one has frozen it or its lease has ended
//! ([0045](https://github.com/drover-kv/drover/blob/main/docs/decisions/0045-who-may-answer-for-a-shard.md)).
//!
//! A retransmission is asked about if it is executed again, as a GET is. An update that was executed is answered with its result,
//! even if another member serves the key by now. Clients keep the order of their own operations on a key: a refused one is over, and they send
//! another only after it.

use super::held::HeldReplies;
use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::layout::{Commit, SlotOp, Status};
use drover_base::Cpu;
use drover_cluster::{ServedShards, Verdict};
use drover_slots::server::Act;
use drover_verbs::{Provider, Waker};
use std::sync::Arc;

/// What the worker of a member asks.
pub(super) struct Membership {
    pub(super) served: Arc<ServedShards>,
    pub(super) core: usize,
    pub(super) held: HeldReplies,
}

impl Membership {
    /// Makes the part of the worker with this core, which `waker` wakes.
    pub(super) fn new(served: Arc<ServedShards>, core: usize, waker: Waker) -> Membership {
        served.set_waker(core, Box::new(move || waker.wake()));
        Membership {
            served,
            core,
            held: HeldReplies::default(),
        }
    }
}

/// Whether an operation may change an item.
fn is_update(op: SlotOp) -> bool {
    Commit::new(op, 0, 0, 0, false).is_update()
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Has the requests in intake `at` refused that this member may not serve, before any of them is executed; notes the keys that the
    /// others may change in shards that are being copied. Nothing to do without other members.
    #[inline(always)]
    pub(super) fn refuse_unserved(&mut self, cpu: &P::Cpu, at: usize) {
        if self.membership.is_some() {
            self.ask_verdicts(cpu, at);
        }
    }

    #[inline(never)]
    fn ask_verdicts(&mut self, cpu: &P::Cpu, at: usize) {
        let Some(Membership { served, core, .. }) = &self.membership else {
            return;
        };
        let now = cpu.refresh();
        for request in self.intakes[at].requests.all_mut() {
            let op = match request.about.act() {
                Act::Say(_) | Act::SayAgain(_) | Act::Do(SlotOp::Nop) | Act::Again(SlotOp::Nop) => continue,
                // It has a result, and is not executed again.
                Act::Again(op) if is_update(op) => continue,
                Act::Again(_) if self.variant.makes(Mistake::TrustsRetransmissions) => continue,
                Act::Do(op) | Act::DoIf(op) | Act::Again(op) => op,
            };
            if op.is_bulk() && self.variant.makes(Mistake::TrustsBulk) {
                continue;
            }
            match served.verdict(request.hash(), now) {
                Verdict::Serve => {}
                Verdict::ServeNoted(shard) if is_update(op) => {
                    served.note(*core, shard, request.hash(), request.key());
                }
                Verdict::ServeNoted(_) => {}
                Verdict::Peer(_) | Verdict::Nowhere => {
                    self.counters.refused.elsewhere += 1;
                    request.about.refuse(Status::Elsewhere);
                }
            }
        }
    }

    /// Epoch of the map that the member knows; 0 without other members.
    pub(super) fn epoch(&self) -> u64 {
        self.membership
            .as_ref()
            .map_or(0, |membership| membership.served.epoch().0)
    }
}
