//! A worker that sleeps is woken once per sleep, a busy one never: server and client on shared memory, in one
//! thread, so that every sleep begins where the test says. A wake-up is a system call of the client's.

use crate::shm::pair::Pair;
use drover_base::{Cpu, Ns, Progress};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::ClientOptions;
use drover_store::PartitionOptions;
use drover_verbs::Context;
use drover_verbs_shm::ShmContext;

/// A client with one operation under way at most.
fn pair() -> Asking {
    let partition = PartitionOptions {
        log_bytes: 1 << 16,
        bucket_count: 1 << 8,
        ..PartitionOptions::default()
    };
    let wishes = ClientOptions {
        window: 1,
        ..ClientOptions::default()
    };
    Asking(Pair::new(partition, wishes))
}

struct Asking(Pair);

impl Asking {
    /// Announces the worker's sleep, as its run loop does when nothing is left to do.
    fn fall_asleep(&mut self) {
        self.0.worker.context().arm();
        assert!(
            matches!(self.0.step_worker(), Progress::Idle { .. }),
            "nothing to do"
        );
    }

    /// One GET, sent; the client polls for its reply for a while, without result.
    fn ask(&mut self) {
        self.0.ctx.cpu().refresh();
        let submitted = self.0.client.submit(self.0.ctx.cpu(), &Op::Get { key: b"k" }, 0);
        submitted.expect("nothing is under way");
        for _ in 0..100 {
            assert_eq!(self.0.client.poll(self.0.ctx.cpu(), &mut |_| {}), 0);
        }
    }

    fn take_reply(&mut self) {
        let mut ended = 0;
        self.0.client.poll(self.0.ctx.cpu(), &mut |completion| {
            assert_eq!(completion.outcome, Outcome::NotFound);
            ended += 1;
        });
        assert_eq!(ended, 1);
    }

    fn wakes(&self) -> u64 {
        self.0.ctx.stats().wakes_sent
    }
}

#[test]
fn a_get_wakes_a_sleeping_worker_once() {
    let mut pair = pair();
    for _ in 0..10 {
        pair.fall_asleep();
        let before = pair.wakes();
        pair.ask();
        assert_eq!(pair.wakes() - before, 1);
        let ctx = pair.0.worker.context();
        // Were there no wake-up, the sleep would last as long as a sleep may.
        ctx.park(Ns::MAX);
        assert_eq!(pair.0.step_worker(), Progress::Busy);
        pair.take_reply();
        assert_eq!(pair.wakes() - before, 1, "and no more");
        assert_eq!(ctx.stats().wakes_sent, 0, "the client never slept");
    }
}

/// Wake-ups that ten GETs cost while the worker has something to do; `after` is what it does after each.
fn wakes_of_a_busy_worker(after: impl Fn(&ShmContext)) -> u64 {
    let mut pair = pair();
    let before = pair.wakes();
    for _ in 0..10 {
        pair.ask();
        assert_eq!(pair.0.step_worker(), Progress::Busy);
        after(&pair.0.worker.context());
        pair.take_reply();
    }
    pair.wakes() - before
}

#[test]
fn a_busy_worker_is_never_woken() {
    assert_eq!(wakes_of_a_busy_worker(|_| {}), 0);
}

/// The canary: a worker that announces sleep after every batch, whether it is idle or not.
#[test]
fn a_worker_that_announces_sleep_too_early_is_caught() {
    assert_eq!(wakes_of_a_busy_worker(|worker| worker.arm()), 9);
}
