//! What a process's threads know of sweeps: see `recovery`.

use drover_base::sync::{Arc, AtomicU64, Mutex, Ordering};

/// A process's view of the sweeps of one node.
#[derive(Debug)]
pub(crate) struct ProcessSweeps {
    /// The node's word, as last read. Odd: a sweep is under way.
    seen: AtomicU64,
    threads: Mutex<Vec<Arc<AtomicU64>>>,
}

impl ProcessSweeps {
    pub(crate) fn new(seen: u64) -> ProcessSweeps {
        ProcessSweeps {
            seen: AtomicU64::new(seen),
            threads: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn learn(&self, sweep: u64) {
        self.seen.store(sweep, Ordering::Relaxed);
    }

    /// The node's word, as last read.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// The sweep that all threads know of.
    pub(crate) fn to_publish(&self) -> u64 {
        let threads = self.threads.lock().expect("no thread panics with it");
        // Acquire: pairs with the Release in `ThreadSweep::reach`; what the thread held of swept chunks is forgotten.
        let known = threads.iter().map(|thread| thread.load(Ordering::Acquire));
        known.fold(self.seen(), u64::min)
    }

    pub(crate) fn thread(self: &Arc<ProcessSweeps>) -> ThreadSweep {
        let mut threads = self.threads.lock().expect("no thread panics with it");
        let seen = self.seen();
        // In the middle of a sweep it does not know yet which chunks are swept.
        let known = Arc::new(AtomicU64::new(seen & !1));
        threads.push(known.clone());
        ThreadSweep {
            process: self.clone(),
            known,
        }
    }
}

/// The sweep that one thread knows of.
#[derive(Debug)]
pub(crate) struct ThreadSweep {
    process: Arc<ProcessSweeps>,
    known: Arc<AtomicU64>,
}

impl ThreadSweep {
    /// The sweep that the process knows of and this thread does not, if there is one.
    #[inline]
    pub(crate) fn unknown(&self) -> Option<u64> {
        let seen = self.process.seen();
        (seen != self.known.load(Ordering::Relaxed)).then_some(seen)
    }

    /// The last sweep that this thread knows of.
    pub(crate) fn reached(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// This thread knows of `sweep`.
    pub(crate) fn reach(&self, sweep: u64) {
        self.known.store(sweep, Ordering::Release);
    }
}

impl Drop for ThreadSweep {
    fn drop(&mut self) {
        let mut threads = self.process.threads.lock().expect("no thread panics with it");
        threads.retain(|thread| !Arc::ptr_eq(thread, &self.known));
    }
}
