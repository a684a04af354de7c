//! The watch over queue pairs: one that has had signaled requests outstanding for long without any completion is told
//! of, once, with what its device says of it. A connection ought to fail instead, by its own timers; what is found here
//! are peers that never post a RECV to those who wait for ever, drivers and cards that hang, and our own mistakes.
//!
//! Posts and polls count one number each; the rest happens about once a second, when there is nothing else to do: at the
//! latest at every 65,536th vain poll of a queue, and whenever the context parks.

use crate::agree::mtu_bytes;
use crate::core::Core;
use crate::ffi;
use crate::raw::{Done, Pair};
use drover_base::{Cpu, Ns};
use drover_verbs::{QpKind, QpState, Qpn};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Between two looks, or less if that much is patience.
const EVERY: Ns = Ns::from_s(1);

/// A queue pair as its context knows it.
pub(crate) struct Link {
    pub(crate) raw: Pair,
    pub(crate) kind: QpKind,
    /// As far as we know: failures are seen in completions.
    pub(crate) state: Cell<QpState>,
    /// Signaled requests, from where the count of completions stood when it was made.
    posted: Cell<u32>,
    /// Another queue pair is, or was, counted in the same place: nothing can be said of either.
    mixed: Cell<bool>,
    /// The count of completions and the time when it was last seen to change, or to begin to matter.
    seen: Cell<Option<(u32, Ns)>>,
    told: Cell<bool>,
}

impl Link {
    /// Beside `others` of the same context.
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

    /// So many signaled requests were taken.
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
        // What was flushed was perhaps not signaled: more completions than requests are none outstanding.
        if count > u32::MAX / 2 { 0 } else { count }
    }

    /// How long it has been stuck, if it is to be told of now.
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

/// A queue pair that gets nowhere. Its text is for the log: what is stuck, for how long, and what its device says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckQp {
    /// Device and port.
    pub place: String,
    /// Its number.
    pub qpn: Qpn,
    /// Its kind.
    pub kind: QpKind,
    /// Signaled requests that have not completed.
    pub outstanding: u32,
    /// Since the last completion, or since somebody looked first.
    pub time: Ns,
    /// What the device says of it, or why it says nothing.
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
    /// Looks at every queue pair. A system call for each that is told of.
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

    /// Looks, if the last look is long ago, and logs what it finds. Reads no clock.
    #[cold]
    pub(crate) fn watch(&self) {
        let now = self.cpu.now();
        if now < self.watch_at.get() {
            return;
        }
        self.watch_at.set(now + EVERY.min(self.opening.stuck_after));
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
        "its device says: {state}, peer {:#x}, sq_psn {:#x}, rq_psn {:#x}, path MTU {}, timeout {}, retry_cnt {}, \
         rnr_retry {}, min_rnr_timer {}, rd_atomic {} out {} in",
        attr.dest_qp_num,
        attr.sq_psn,
        attr.rq_psn,
        mtu_bytes(attr.path_mtu.min(5) as u8),
        attr.timeout,
        attr.retry_cnt,
        attr.rnr_retry,
        attr.min_rnr_timer,
        attr.max_rd_atomic,
        attr.max_dest_rd_atomic,
    )
}
