//! [`Fabric`]: everything a device knows, in plain tables.

use super::Flaw;
use super::cpu::Clock;
use super::flawed::{Kept, Late};
use super::memory::{Import, Mr};
use super::queues::{Cq, RecvQueue};
use super::request::Request;
use drover_base::Ns;
use drover_verbs::provide::Names;
use drover_verbs::{Caps, QpKind, QpState};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar};

/// The tables. Ids are drawn from one counter and never reused, so a stale one is simply unknown.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) names: Names,
    pub(super) caps: Caps,
    pub(super) flaw: Option<Flaw>,
    pub(super) clock: Clock,
    pub(super) contexts: BTreeMap<u32, Sleep>,
    pub(super) mrs: BTreeMap<u32, Mr>,
    /// By (importing context, remote key).
    pub(super) imports: BTreeMap<(u32, u32), Import>,
    /// By (creating context, handle): the context that it leads to.
    pub(super) ahs: BTreeMap<(u32, u32), u32>,
    pub(super) qps: BTreeMap<u32, Qp>,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, RecvQueue>,
    /// WRITEs so far, for a flaw.
    pub(super) writes: u64,
    /// Empty without a flaw.
    pub(super) late: Vec<Late>,
    /// Empty without a flaw.
    pub(super) kept: Vec<Kept>,
    rung: Arc<Condvar>,
    last_id: u32,
}

/// Whether a context sleeps, and whether it has reason not to.
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
    pub(super) send_depth: usize,
    pub(super) inline_bytes: usize,
    pub(super) qkey: u32,
    pub(super) rnr_timeout: Ns,
    /// Posted and not executed yet.
    pub(super) waiting: VecDeque<Request>,
    /// Since when the first of them finds no RECV.
    pub(super) rnr_since: Option<Ns>,
    /// Slots in use: posted, and no completion that covers them polled.
    pub(super) send_used: usize,
    /// Executed without completion since the last one.
    pub(super) uncovered: usize,
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
            mrs: BTreeMap::new(),
            imports: BTreeMap::new(),
            ahs: BTreeMap::new(),
            qps: BTreeMap::new(),
            cqs: BTreeMap::new(),
            srqs: BTreeMap::new(),
            writes: 0,
            late: Vec::new(),
            kept: Vec::new(),
            rung,
            last_id: 0,
        }
    }

    /// An id never given before.
    pub(super) fn fresh_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add_context(&mut self) -> u32 {
        let id = self.fresh_id();
        self.contexts.insert(id, Sleep::default());
        id
    }

    /// Whether the device was made with this bug.
    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Ends the park of `ctx`, or the next one.
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

    /// Destroys a queue pair: its requests, RECVs and completions are forgotten.
    pub(super) fn remove_qp(&mut self, qpn: u32) {
        let Some(qp) = self.qps.remove(&qpn) else {
            return;
        };
        for cq in [qp.send_cq, qp.recv_cq] {
            if let Some(cq) = self.cqs.get_mut(&cq) {
                cq.forget(qpn);
            }
        }
        self.execute_all(); // whoever waited for its RECVs learns that it is gone
    }
}
