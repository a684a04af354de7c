//! [`Results`]: whether what READs and atomics asked for is there when they complete.
//!
//! Software RoCE of Linux 6.1 repeats requests in one context of the kernel while it takes answers in another one, and may send a
//! request again under the number of the one before: the answer to that one then completes it, without a result. On a wire that
//! loses packets this happens about once in a million requests. No system can know; a test can, and must not count it as a fault of
//! the system.

use super::context::Shared;
use drover_mem::Region;
use drover_verbs::{Opcode, Payload, Provider, Qpn, SendList, SendOp, SendWr, Sge, Wc, WcStatus};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes at the end of a result that are marked before it comes.
const MARK_BYTES: usize = 8;

/// Results that never came, in this process.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many READs and atomics completed without their results, in all contexts of this process that
/// [look for that](super::FaultOptions::checks_results). Each has ended its thread by a panic.
pub fn lost_results() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// What is outstanding at a queue pair, in the order of posting.
#[derive(Default)]
pub(super) struct Results(VecDeque<Outstanding>);

/// A request that has not completed.
pub(super) struct Outstanding {
    is_signaled: bool,
    mark: Option<Mark>,
}

/// Bytes that the result replaces.
struct Mark {
    region: Region,
    offset: usize,
    bytes: [u8; MARK_BYTES],
}

impl Mark {
    fn is_there(&self) -> bool {
        let mut found = [0; MARK_BYTES];
        self.region.copy_out(self.offset, &mut found);
        found == self.bytes
    }
}

impl Results {
    /// Takes what a successful completion says: all requests up to the first signaled one have completed.
    fn complete(&mut self) {
        while let Some(request) = self.0.pop_front() {
            if request.mark.is_some_and(|mark| mark.is_there()) {
                LOST.fetch_add(1, Ordering::Relaxed);
                panic!("the device has completed a READ or an atomic without its result");
            }
            if request.is_signaled {
                return;
            }
        }
    }
}

impl<P: Provider> Shared<P> {
    /// Marks where the results of a list will be. Before it is posted.
    pub(super) fn mark_results(&self, list: &SendList) -> Vec<Outstanding> {
        let requests = list.wrs().iter().map(|wr| Outstanding {
            is_signaled: wr.signaled,
            mark: self.mark(list, wr),
        });
        requests.collect()
    }

    /// These requests were posted to queue pair `qpn`.
    pub(super) fn expect_results(&self, qpn: Qpn, requests: impl Iterator<Item = Outstanding>) {
        let mut results = self.results.borrow_mut();
        results.entry(qpn).or_default().0.extend(requests);
    }

    /// Takes a completion.
    pub(super) fn check_results(&self, wc: &Wc) {
        if matches!(wc.opcode, Opcode::Recv) || std::thread::panicking() {
            return;
        }
        let mut results = self.results.borrow_mut();
        match (results.get_mut(&wc.qpn), wc.status) {
            (Some(results), WcStatus::Success) => results.complete(),
            // The rest is flushed: nobody looks for its results.
            _ => drop(results.remove(&wc.qpn)),
        }
    }

    fn mark(&self, list: &SendList, wr: &SendWr) -> Option<Mark> {
        if matches!(wr.op, SendOp::Send { .. } | SendOp::Write { .. }) {
            return None;
        }
        let last: Sge = match wr.payload {
            Payload::Region(sge) => sge,
            Payload::Gather { start, count } => *list.sges(start, count).last()?,
            Payload::Inline { .. } => return None,
        };
        let (offset, len) = (last.offset as usize, last.len as usize);
        let region = self.region(last.lkey)?;
        if len < MARK_BYTES || !region.contains(offset, len) {
            return None;
        }
        let mark = Mark {
            region,
            offset: offset + len - MARK_BYTES,
            bytes: self.rng.borrow_mut().next_u64().to_ne_bytes(),
        };
        mark.region.copy_in(mark.offset, &mark.bytes);
        Some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    fn outstanding(region: &Region, offset: usize, is_signaled: bool) -> Outstanding {
        let mark = Mark {
            region: region.clone(),
            offset,
            bytes: *b"nothing!",
        };
        region.copy_in(offset, &mark.bytes);
        Outstanding {
            is_signaled,
            mark: Some(mark),
        }
    }

    #[test]
    fn a_completion_vouches_for_the_requests_before_it_and_no_others() {
        let region = Region::private(4096, PageWish::Small).expect("memory");
        let places = [(0, false), (8, true), (16, true)];
        let mut results = Results(
            places
                .map(|(at, signaled)| outstanding(&region, at, signaled))
                .into(),
        );
        region.copy_in(0, b"a result");
        region.copy_in(8, b"a result");
        results.complete();
        assert_eq!(results.0.len(), 1, "the last one has not completed");
        let lost = lost_results();
        let complete = std::panic::AssertUnwindSafe(|| results.complete());
        assert!(
            std::panic::catch_unwind(complete).is_err(),
            "its mark is still there"
        );
        assert_eq!(lost_results(), lost + 1);
    }
}
