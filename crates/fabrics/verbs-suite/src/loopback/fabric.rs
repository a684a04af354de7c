//! [`Fabric`]: the state of a device, in plain tables.

use super::Flaw;
use super::cpu::Clock;
use super::flawed::FlawState;
use super::memory::{Import, Mr};
use super::queues::{Cq, RecvQueue};
use super::send_queue::SendQueue;
use drover_verbs::provide::Names;
use drover_verbs::{Caps, QpKind, QpState};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar};

/// The tables. Ids come from one counter and are never reused, so a stale one is unknown.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) names: Names,
    pub(super) caps: Caps,
    pub(super) flaw: Option<Flaw>,
    pub(super) clock: Clock,
    pub(super) contexts: BTreeMap<u32, Sleep>,
    /// Domain of each context; contexts that are gone, too, because their queue pairs may still be there.
    domains: BTreeMap<u32, u32>,
    pub(super) mrs: BTreeMap<u32, Mr>,
    /// Imports by importing domain and remote key.
    pub(super) imports: BTreeMap<(u32, u32), Import>,
    /// Address handles by creating context and handle: the context of the receiver.
    pub(super) ahs: BTreeMap<(u32, u32), u32>,
    pub(super) qps: BTreeMap<u32, Qp>,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, RecvQueue>,
    pub(super) flawed: FlawState,
    rung: Arc<Condvar>,
    last_id: u32,
}

/// Whether a context sleeps, and whether an event prevents its next sleep.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    pub(super) armed: bool,
    pub(super) rung: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) ctx: u32,
    pub(super) kind: QpKind,
    pub(super) state: QpState,
    pub(super) peer: Option<u32>,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) srq: Option<u32>,
    pub(super) recvs: RecvQueue,
    pub(super) sends: SendQueue,
    pub(super) inline_bytes: usize,
    pub(super) qkey: u32,
}

impl Fabric {
    pub(super) fn new(caps: Caps, flaw: Option<Flaw>, clock: Clock, rung: Arc<Condvar>) -> Fabric {
        static FABRICS: AtomicU64 = AtomicU64::new(1);
        Fabric {
            names: Names {
                magic: *b"LOOP",
                fabric: FABRICS.fetch_add(1, Ordering::Relaxed),
            },
            caps,
            flaw,
            clock,
            contexts: BTreeMap::new(),
            domains: BTreeMap::new(),
            mrs: BTreeMap::new(),
            imports: BTreeMap::new(),
            ahs: BTreeMap::new(),
            qps: BTreeMap::new(),
            cqs: BTreeMap::new(),
            srqs: BTreeMap::new(),
            flawed: FlawState::default(),
            rung,
            last_id: 0,
        }
    }

    /// A new id.
    pub(super) fn fresh_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds a context of `domain`, or in a new one, whose id is that of the context. Returns the ids of both.
    pub(super) fn add_context(&mut self, domain: Option<u32>) -> (u32, u32) {
        let id = self.fresh_id();
        self.contexts.insert(id, Sleep::default());
        let domain = domain.unwrap_or(id);
        self.domains.insert(id, domain);
        (id, domain)
    }

    /// The domain of a context.
    pub(super) fn domain_of(&self, ctx: u32) -> u32 {
        self.domains.get(&ctx).copied().unwrap_or(ctx)
    }

    /// Whether the device has this flaw.
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Ends the current or next park of `ctx`.
    pub(super) fn ring(&mut self, ctx: u32) {
        if let Some(sleep) = self.contexts.get_mut(&ctx) {
            sleep.rung = true;
            self.rung.notify_all();
        }
    }

    /// A queue pair that its handle keeps alive.
    pub(super) fn qp(&mut self, qpn: u32) -> &mut Qp {
        self.qps
            .get_mut(&qpn)
            .expect("the handle keeps the queue pair alive")
    }

    /// Destroys a queue pair: its requests, RECVs and completions are dropped.
    pub(super) fn remove_qp(&mut self, qpn: u32) {
        let Some(qp) = self.qps.remove(&qpn) else {
            return;
        };
        for cq in [qp.send_cq, qp.recv_cq] {
            if let Some(cq) = self.cqs.get_mut(&cq) {
                cq.forget(qpn);
            }
        }
        self.execute_all(); // requests that waited for its RECVs now fail
    }
}
