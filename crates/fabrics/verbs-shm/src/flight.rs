//! The in-flight word of a connection, by which a receiver that shuts its peer out knows when the peer has stopped.
//!
//! ```text
//! initiator                               fencer
//!   in flight = 1                           gone = 1
//!   (nothing, or a full fence)              barrier on all running threads
//!   gone? then refuse                       in flight = 0? then done
//!   copy                                    else ask again, unless the peer is dead
//!   in flight = 0 (Release)
//! ```
//! The initiator's store may wait in its store buffer while it loads `gone`. The fencer's barrier is run by the kernel on
//! the initiator's core (`membarrier`, as for bells): what the initiator stored before is visible then, and what it loads
//! after is no older than `gone`. So either the fencer sees the request, or the request sees the fencer. Where the call
//! is forbidden, at either end, the initiator has a full fence of its own in every post.
//!
//! The word covers a whole list, so it costs two stores per post. It is on a line that the receiver does not read otherwise.

use crate::lane::IN_FLIGHT;
use crate::ring::Memory;
use drover_base::sync::{Ordering, fence};
use std::sync::atomic::compiler_fence;

/// One-sided requests of a connection are being executed, until this is dropped.
pub(crate) struct Flight<'m, M: Memory>(&'m M);

/// Announces one-sided requests. Whether the peer is gone must be looked at afterwards.
#[inline(always)]
pub(crate) fn take_off<M: Memory>(memory: &M, with_fence: bool) -> Flight<'_, M> {
    // Relaxed: publishes nothing; the fencer's barrier orders it before the loads that follow.
    memory.store(IN_FLIGHT, 1, Ordering::Relaxed);
    match with_fence {
        true => full_fence(),
        false => compiler_fence(std::sync::atomic::Ordering::SeqCst),
    }
    Flight(memory)
}

#[cold]
fn full_fence() {
    fence(Ordering::SeqCst);
}

impl<M: Memory> Drop for Flight<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `has_landed`; what the requests wrote is visible to a fencer that sees 0.
        self.0.store(IN_FLIGHT, 0, Ordering::Release);
    }
}

/// Whether no request is being executed. To be called after the barrier.
pub(crate) fn has_landed<M: Memory>(memory: &M) -> bool {
    memory.load(IN_FLIGHT, Ordering::Acquire) == 0
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;
    use crate::lane::STATE;
    use drover_base::sync::AtomicU64;
    use std::sync::Arc;

    /// The words of a lane that matter here, and a word of memory that the initiator writes.
    struct Words {
        in_flight: AtomicU64,
        state: AtomicU64,
        data: AtomicU64,
    }

    impl Memory for Words {
        fn load(&self, word: usize, order: Ordering) -> u64 {
            match word {
                IN_FLIGHT => self.in_flight.load(order),
                _ => self.state.load(order),
            }
        }

        fn store(&self, word: usize, value: u64, order: Ordering) {
            match word {
                IN_FLIGHT => self.in_flight.store(value, order),
                _ => self.state.store(value, order),
            }
        }
    }

    /// Two requests against a fencer. A fence of the initiator stands for the one that the kernel runs on its core.
    fn fence_in_flight(with_fence: bool) {
        loom::model(move || {
            let words = Arc::new(Words {
                in_flight: AtomicU64::new(0),
                state: AtomicU64::new(0),
                data: AtomicU64::new(0),
            });
            let theirs = words.clone();
            let initiator = loom::thread::spawn(move || {
                for value in 1..=2 {
                    let _flight = take_off(&*theirs, with_fence);
                    if theirs.load(STATE, Ordering::Relaxed) != 0 {
                        return;
                    }
                    theirs.data.store(value, Ordering::Relaxed);
                }
            });
            words.store(STATE, 1, Ordering::Release);
            fence(Ordering::SeqCst);
            let done = has_landed(&*words).then(|| words.data.load(Ordering::Relaxed));
            initiator.join().expect("the initiator");
            if let Some(seen) = done {
                let last = words.data.load(Ordering::Relaxed);
                assert_eq!(seen, last, "memory changed after the fence was done");
            }
        });
    }

    #[test]
    fn loom_nothing_lands_after_the_fence_is_done() {
        fence_in_flight(true);
    }

    /// The canary: without the barrier a request starts that the fencer does not see.
    #[test]
    #[should_panic(expected = "memory changed after the fence was done")]
    fn loom_a_fence_without_the_barrier_is_caught() {
        fence_in_flight(false);
    }
}
