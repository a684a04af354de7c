//! The watch over queue pairs: a queue pair that has had signaled requests outstanding for long without any completion
//! is reported once, with the attributes its device reports. Normally a connection fails by its own timers instead; the
//! watch finds peers that never post a RECV for a sender that waits for ever, drivers and cards that hang, and our own
//! bugs.
//!
//! Posts and polls count one number each. The rest happens about once a second when the context is idle: at the latest
//! at every 65,536th empty poll of a queue, and whenever the context parks.

use crate::agree::mtu_bytes;
use crate::core::Core;
use crate::ffi;
use crate::raw::{Done, Pair};
use drover_base::{Cpu, Ns};
use drover_verbs::{QpKind, QpState, Qpn};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Time between two checks; less if `patience` is shorter.
const EVERY: Ns = Ns::from_s(1);

/// A queue pair as its context sees it.
pub(crate) struct Link {
    pub(crate) raw: Pair,
    pub(crate) kind: QpKind,
    /// Last known state: failures are seen in completions.
    pub(crate) state: Cell<QpState>,
    /// Signaled requests posted, counted from the value of the completion count at creation.
    posted: Cell<u32>,
    /// Whether another queue pair shares, or shared, the count: then neither can be judged.
    mixed: Cell<bool>,
    /// Completion count, and the time when it last changed or began to matter.
    seen: Cell<Option<(u32, Ns)>>,
    told: Cell<bool>,
}

impl Link {
    /// Creates the state of a queue pair; `others` are those of the same context.
    pub(crate) fn new(raw: Pair, kind: QpKind, others: impl Iterator<Item = Rc<Link>>) -> Link {
        let qpn = raw.qpn();
        let posted = raw.send_cq().done.of(qpn);
        let mixed = Cell::new(false);
        for other in others {
            if Done::same(other.raw.qpn(), qpn) && Rc::ptr_eq(other.raw.send_cq(), raw.send_cq()) {
                other.mixed.set(true);
                mixed.set(true);
            }
        }
        Link {
            raw,
            kind,
            state: Cell::new(QpState::Init),
            posted: Cell::new(posted),
            mixed,
            seen: Cell::new(None),
            told: Cell::new(false),
        }
    }

    /// Counts `signaled` requests as posted.
    #[inline(always)]
    pub(crate) fn posted(&self, signaled: u32) {
        self.posted.set(self.posted.get().wrapping_add(signaled));
    }

    /// Signaled requests without a completion so far.
    fn outstanding(&self) -> u32 {
        let count = self
            .posted
            .get()
            .wrapping_sub(self.raw.send_cq().done.of(self.raw.qpn()));
        // Flushed requests may not have been signaled: more completions than requests mean none outstanding.
        if count > u32::MAX / 2 { 0 } else { count }
    }

    /// Time for which it has been stuck, if it is to be reported now.
    fn stuck(&self, now: Ns, patience: Ns) -> Option<Ns> {
        if self.mixed.get() || self.state.get() != QpState::ReadyToSend || self.outstanding() == 0 {
            self.seen.set(None);
            self.told.set(false);
            return None;
        }
        let done = self.raw.send_cq().done.of(self.raw.qpn());
        match self.seen.get() {
            Some((before, since)) if before == done => {
                let time = now.since(since);
                (time >= patience && !self.told.replace(true)).then_some(time)
            }
            _ => {
                self.seen.set(Some((done, now)));
                self.told.set(false);
                None
            }
        }
    }
}

/// Report about a queue pair of which no send request has completed for long. Its `Display` text is the line for the
/// log: the queue pair, the time, and what the device reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckQp {
    /// Device and port, for example `rxe0 port 1`.
    pub place: String,
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// Kind of the queue pair.
    pub kind: QpKind,
    /// Number of signaled send requests posted whose completions have not been polled.
    pub outstanding: u32,
    /// Time from the first check that found requests outstanding, with no completion of a send polled since, to the
    /// check that reports the queue pair.
    pub time: Ns,
    /// Attributes that the device reports for the queue pair (`ibv_query_qp`), as text, or why the query failed.
    pub device: String,
}

impl fmt::Display for StuckQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StuckQp {
            place,
            qpn,
            kind,
            outstanding,
            time,
            device,
        } = self;
        write!(
            f,
            "{kind:?} queue pair {:#x} of {place} is stuck: {outstanding} signaled requests outstanding, nothing \
             completed for {} ms; {device}",
            qpn.0,
            time.0 / 1_000_000
        )
    }
}

impl Core {
    /// Checks every queue pair. Costs a system call for each one reported.
    pub(crate) fn stuck(&self, patience: Ns) -> Vec<StuckQp> {
        let now = self.cpu.now();
        let told = |link: Rc<Link>| {
            let time = link.stuck(now, patience)?;
            Some(StuckQp {
                place: self.opening.place(),
                qpn: Qpn(link.raw.qpn()),
                kind: link.kind,
                outstanding: link.outstanding(),
                time,
                device: match link.raw.query() {
                    Ok(attr) => described(&attr),
                    Err(error) => format!("ibv_query_qp failed: {error}"),
                },
            })
        };
        self.links().into_iter().filter_map(told).collect()
    }

    /// Checks if the last check is long ago, and logs the result. Reads no clock.
    #[cold]
    pub(crate) fn watch(&self) {
        let now = self.cpu.now();
        if now < self.watch_at.get() {
            return;
        }
        self.watch_at.set(now + EVERY.min(self.opening.stuck_after));
        self.opening.counters.take_events(&self.opening.choice);
        for stuck in self.stuck(self.opening.stuck_after) {
            tracing::warn!("{stuck}");
        }
    }
}

/// A queue pair's attributes, for people who know verbs.
fn described(attr: &ffi::QpAttr) -> String {
    let state = match attr.qp_state {
        ffi::QPS_RESET => "RESET",
        ffi::QPS_INIT => "INIT",
        ffi::QPS_RTR => "RTR",
        ffi::QPS_RTS => "RTS",
        ffi::QPS_SQE => "SQE",
        ffi::QPS_ERR => "ERR",
        _ => "another state",
    };
    format!(
        "the device reports: {state}, peer {:#x}, sq_psn {:#x}, rq_psn {:#x}, path MTU {}, timeout {}, retry_cnt {}, \
         rnr_retry {}, min_rnr_timer {}, rd_atomic {} out {} in",
        attr.dest_qp_num,
        attr.sq_psn,
        attr.rq_psn,
        mtu_bytes(attr.path_mtu.min(5) as u8),
        attr.local.timeout,
        attr.local.retry_cnt,
        attr.local.rnr_retry,
        attr.local.min_rnr_timer,
        attr.local.max_rd_atomic,
        attr.local.max_dest_rd_atomic,
    )
}
