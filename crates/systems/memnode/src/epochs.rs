//! Epochs of reclamation: when a freed block may be used again.
//!
//! ```text
//! node      R           advances to R + 1 when all live clients have published R or more
//! client    published   the least epoch of its threads
//! thread    announced   the oldest epoch in which one of its tasks holds pointers; nothing held: not counted
//! task      a pin       holds pointers of the epoch in which it began
//! ```
//! A block freed under a pin of epoch e may be used again at R = e + 3: see [`Limbo`](drover_mem::Limbo).

use drover_base::sync::{Arc, AtomicU64, Mutex, Ordering, fence};
use std::cell::Cell;

/// Announced by a thread that holds no pointers.
const NOTHING: u64 = u64::MAX;

/// A process's view of the epochs of one node.
#[derive(Debug)]
pub(crate) struct ProcessEpochs {
    /// The node's epoch, as last read.
    seen: AtomicU64,
    threads: Mutex<Vec<Arc<AtomicU64>>>,
}

impl ProcessEpochs {
    pub(crate) fn new(seen: u64) -> ProcessEpochs {
        ProcessEpochs {
            seen: AtomicU64::new(seen),
            threads: Mutex::new(Vec::new()),
        }
    }

    /// The node's epoch is `epoch` by now. Called by one thread only.
    pub(crate) fn learn(&self, epoch: u64) {
        // Sequentially consistent: see `ThreadEpochs::pin`.
        self.seen.store(epoch, Ordering::SeqCst);
    }

    /// The node's epoch, as last read.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        // Acquire: who pins the epoch that ends a lost node knows that it is lost.
        self.seen.load(Ordering::Acquire)
    }

    /// The epoch to publish: no thread holds pointers of an older one. Called by the thread that calls
    /// [`learn`](ProcessEpochs::learn), or when no epoch is learnt any more.
    pub(crate) fn to_publish(&self) -> u64 {
        let seen = self.seen.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let threads = self.threads.lock().expect("no thread panics with it");
        // Acquire: pairs with the Release of an announcement; what the thread read before that is over.
        let announced = threads.iter().map(|thread| thread.load(Ordering::Acquire));
        announced.fold(seen, u64::min)
    }

    pub(crate) fn thread(self: &Arc<ProcessEpochs>) -> ThreadEpochs {
        let announced = Arc::new(AtomicU64::new(NOTHING));
        let mut threads = self.threads.lock().expect("no thread panics with it");
        threads.push(announced.clone());
        ThreadEpochs {
            process: self.clone(),
            announced,
            current: Cell::new(0),
            older: Cell::new(0),
            newer: Cell::new(0),
        }
    }
}

/// A thread's pins of one node. They are of at most two epochs: the node cannot advance twice past a pin.
#[derive(Debug)]
pub(crate) struct ThreadEpochs {
    process: Arc<ProcessEpochs>,
    announced: Arc<AtomicU64>,
    /// Epoch of new pins.
    current: Cell<u64>,
    /// Pins of the epoch before the current one.
    older: Cell<u32>,
    /// Pins of the current epoch.
    newer: Cell<u32>,
}

impl ThreadEpochs {
    /// Begins to hold pointers; returns the epoch to [`unpin`](ThreadEpochs::unpin). Costs a fence if the thread has no
    /// other pin.
    #[inline]
    pub(crate) fn pin(&self) -> u64 {
        if self.older.get() + self.newer.get() == 0 {
            self.announce_first();
        } else if self.older.get() == 0 && self.process.seen() == self.current.get() + 1 {
            // The announcement stays at the older epoch.
            self.current.set(self.current.get() + 1);
            self.older.set(self.newer.take());
        }
        self.newer.set(self.newer.get() + 1);
        self.current.get()
    }

    fn announce_first(&self) {
        loop {
            let epoch = self.process.seen.load(Ordering::SeqCst);
            self.announced.store(epoch, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            // Either the thread that publishes sees the announcement, or we see the newer epoch that it is about to publish.
            if self.process.seen.load(Ordering::SeqCst) == epoch {
                self.current.set(epoch);
                return;
            }
        }
    }

    /// Ends a pin of `epoch`.
    #[inline]
    pub(crate) fn unpin(&self, epoch: u64) {
        let pins = match epoch == self.current.get() {
            true => &self.newer,
            false => &self.older,
        };
        pins.set(pins.get() - 1);
        if self.older.get() + self.newer.get() == 0 {
            // Release: pairs with the Acquire in `to_publish`; all reads under the pin are over.
            self.announced.store(NOTHING, Ordering::Release);
        } else if self.older.get() == 0 {
            self.announced.store(self.current.get(), Ordering::Release);
        }
    }

    /// The node's epoch, as the process last read it.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        self.process.seen()
    }
}

impl Drop for ThreadEpochs {
    fn drop(&mut self) {
        self.announced.store(NOTHING, Ordering::Release);
        let mut threads = self.process.threads.lock().expect("no thread panics with it");
        threads.retain(|thread| !Arc::ptr_eq(thread, &self.announced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pin_holds_its_epoch() {
        let process = Arc::new(ProcessEpochs::new(5));
        let thread = process.thread();
        assert_eq!(process.to_publish(), 5);
        let first = thread.pin();
        process.learn(6);
        let second = thread.pin();
        assert_eq!((first, second, process.to_publish()), (5, 6, 5));
        thread.unpin(first);
        assert_eq!(process.to_publish(), 6);
        thread.unpin(second);
        process.learn(9);
        assert_eq!(process.to_publish(), 9);
        let third = thread.pin();
        assert_eq!(third, 9);
        drop(thread);
        assert!(process.threads.lock().expect("alone").is_empty());
    }

    /// Threads that pin while a third advances the epoch as a node does: it never passes a pin twice.
    #[test]
    fn threads_pin_while_the_epoch_advances() {
        let process = Arc::new(ProcessEpochs::new(1));
        let common = Arc::new(AtomicU64::new(1));
        let is_over = Arc::new(AtomicU64::new(0));
        let pinning = || {
            let (process, common, is_over) = (process.clone(), common.clone(), is_over.clone());
            std::thread::spawn(move || {
                let thread = process.thread();
                let mut round = 0u64;
                while is_over.load(Ordering::Relaxed) == 0 {
                    round += 1;
                    let first = thread.pin();
                    let second = (round.is_multiple_of(3)).then(|| thread.pin());
                    for _ in 0..round % 8 {
                        let now = common.load(Ordering::SeqCst);
                        assert!(now <= first + 1, "epoch {now} under a pin of {first}");
                    }
                    thread.unpin(first);
                    if let Some(second) = second {
                        assert!(common.load(Ordering::SeqCst) <= second + 1);
                        thread.unpin(second);
                    }
                }
            })
        };
        let threads = [pinning(), pinning()];
        while common.load(Ordering::SeqCst) < 300 && !threads.iter().any(|thread| thread.is_finished()) {
            let epoch = common.load(Ordering::SeqCst);
            match process.to_publish() >= epoch {
                true => {
                    common.store(epoch + 1, Ordering::SeqCst);
                    process.learn(epoch + 1);
                }
                false => std::thread::yield_now(),
            }
        }
        is_over.store(1, Ordering::Relaxed);
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("no assertion"));
        assert_eq!(common.load(Ordering::SeqCst), 300);
    }

    proptest! {
        /// Whatever threads pin and unpin, and however late epochs are learnt: nothing is published past a pin.
        #[test]
        fn nothing_passes_a_pin(steps in proptest::collection::vec((0usize..3, 0usize..4), 1..200)) {
            let process = Arc::new(ProcessEpochs::new(1));
            let threads: Vec<_> = (0..3).map(|_| process.thread()).collect();
            let mut pins = vec![Vec::new(); 3];
            let (mut common, mut published) = (1, 1);
            for (thread, what) in steps {
                match what {
                    0 => pins[thread].push(threads[thread].pin()),
                    1 if !pins[thread].is_empty() => {
                        let last = pins[thread].len() / 2;
                        threads[thread].unpin(pins[thread].remove(last));
                    }
                    2 => {
                        published = process.to_publish();
                        if published >= common {
                            common += 1;
                        }
                    }
                    _ => process.learn(common),
                }
                let oldest = pins.iter().flatten().copied().min().unwrap_or(u64::MAX);
                prop_assert!(process.to_publish() <= oldest);
                // What was published is never passed by an older pin: a block of epoch e waits for it.
                prop_assert!(common <= oldest.saturating_add(1), "{} {}", common, oldest);
                prop_assert!(published <= common);
            }
        }
    }
}
