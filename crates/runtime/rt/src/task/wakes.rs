//! [`Wakes`]: wake-ups from outside the pool (other threads, foreign futures): one bit per task.

use crate::signal::Signal;
use drover_base::sync::{AtomicU64, Ordering};
use drover_verbs::Waker;
use std::sync::Arc;
use std::task::Wake;

/// The tasks woken.
#[derive(Debug)]
pub(super) struct Wakes {
    bits: Vec<AtomicU64>,
    any: Signal,
    /// Ends the sleep of the pool's core.
    core: Waker,
}

impl Wakes {
    pub(super) fn new(task_count: usize, core: Waker) -> Wakes {
        Wakes {
            bits: (0..task_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            any: Signal::new(),
            core,
        }
    }

    /// The waker of task `index`; created once per slot, so that waking and polling do not allocate.
    pub(super) fn waker(self: &Arc<Wakes>, index: u32) -> std::task::Waker {
        let wakes = self.clone();
        Arc::new(TaskWaker { wakes, index }).into()
    }

    /// Calls `woken` with every task woken since the last call. Costs one load if there is none.
    pub(super) fn take(&self, mut woken: impl FnMut(u32)) {
        if !self.any.is_raised() {
            return;
        }
        self.any.take();
        for (word, bits) in self.bits.iter().enumerate() {
            let mut bits = bits.swap(0, Ordering::AcqRel);
            while bits != 0 {
                woken(word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[derive(Debug)]
struct TaskWaker {
    wakes: Arc<Wakes>,
    index: u32,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<TaskWaker>) {
        let (word, bit) = (self.index as usize / 64, self.index % 64);
        // Release: publishes the waker's earlier writes to the task that it wakes.
        self.wakes.bits[word].fetch_or(1 << bit, Ordering::Release);
        self.wakes.any.raise();
        self.wakes.core.wake();
    }
}
