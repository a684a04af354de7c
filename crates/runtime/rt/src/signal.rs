//! [`Signal`]: a flag that many threads raise and one polling thread takes.

use drover_base::sync::{AtomicU32, Ordering};

/// A flag for a container that may have been filled. Writers fill first and then raise; the reader takes the flag first
/// and then checks the container. So data added after the check raises the flag again: none is missed.
#[derive(Debug)]
pub(crate) struct Signal(AtomicU32);

impl Signal {
    pub(crate) fn new() -> Signal {
        Signal(AtomicU32::new(0))
    }

    /// Raises the flag; call it after filling.
    pub(crate) fn raise(&self) {
        // Release: pairs with the Acquire in `take`; publishes the data added before.
        self.0.store(1, Ordering::Release);
    }

    /// Whether a check is needed. Costs a load of a line that is not written while nothing arrives.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Takes the flag; call it before checking.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) != 0
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};

    /// Two writers fill a queue and raise; the reader drains whenever the flag is up, until it has both items.
    fn everything_is_found(take_first: bool) {
        loom::model(move || {
            let shared = Arc::new((Signal::new(), Mutex::new(0)));
            let writer = |shared: Arc<(Signal, Mutex<u32>)>| {
                loom::thread::spawn(move || {
                    *shared.1.lock().expect("queue") += 1;
                    shared.0.raise();
                })
            };
            let writers = [writer(shared.clone()), writer(shared.clone())];
            let (signal, queue) = &*shared;
            let mut found = 0;
            while found < 2 {
                if !signal.is_raised() {
                    loom::thread::yield_now();
                    continue;
                }
                if take_first {
                    signal.take();
                }
                found += std::mem::take(&mut *queue.lock().expect("queue"));
                if !take_first {
                    signal.take();
                }
            }
            for writer in writers {
                writer.join().expect("writer");
            }
        });
    }

    #[test]
    fn loom_a_signal_misses_nothing() {
        everything_is_found(true);
    }

    #[test]
    #[should_panic]
    fn loom_a_flag_taken_after_the_look_is_caught() {
        everything_is_found(false);
    }
}
