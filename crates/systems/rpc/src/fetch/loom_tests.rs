//! Two threads, every interleaving and every allowed reordering: the server publishes a result, looks at its mode, and looks
//! again; the client changes the mode and READs. Run by `cargo xtask loom`.

use super::callee::results_become_visible;
use super::guards::{Guarded, Guards};
use drover_base::sync::{Arc, AtomicU64, Ordering, fence, thread};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct NoFence;

impl Guards for NoFence {
    const FENCE: bool = false;
}

/// First word and payload of a result, and a word of modes.
#[derive(Default)]
struct Shared([AtomicU64; 3]);

impl Shared {
    fn load(&self, offset: usize, order: Ordering) -> u64 {
        self.0[offset / 8].load(order)
    }

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.0[offset / 8].store(value, order);
    }
}

const MODE: usize = 16;

fn publish_and_fetch<G: Guards>() {
    loom::model(|| {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let client = thread::spawn(move || {
            // One queue pair: the WRITE of the mode is executed before the READ.
            theirs.store(MODE, 1, Ordering::Release);
            fence(Ordering::SeqCst);
            let is_there = theirs.load(0, Ordering::Acquire) == 7;
            assert!(
                !is_there || theirs.load(8, Ordering::Relaxed) == 9,
                "half a result"
            );
            is_there
        });
        shared.store(8, 9, Ordering::Relaxed);
        shared.store(0, 7, Ordering::Release);
        let mode = shared.load(MODE, Ordering::Acquire);
        results_become_visible::<G>();
        let later = shared.load(MODE, Ordering::Acquire);
        let is_fetched = client.join().expect("the client");
        assert!(
            mode == 1 || later == 1 || is_fetched,
            "neither pushed nor fetched"
        );
    });
}

#[test]
fn loom_a_result_is_seen_or_its_mode_is() {
    publish_and_fetch::<Guarded>();
}

#[test]
#[should_panic(expected = "neither pushed nor fetched")]
fn loom_a_mode_that_is_looked_at_too_early_is_caught() {
    publish_and_fetch::<NoFence>();
}
