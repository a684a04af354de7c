//! A worker that sleeps is woken once per sleep, a busy one never: server and client on shared memory, in one
//! thread, so that every sleep begins where the test says. A wake-up is a system call of the client's.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server, ServerOptions, Worker};
use drover_rt::control::ControlStream;
use drover_store::PartitionOptions;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use std::rc::Rc;
use std::sync::mpsc::channel;

struct Pair {
    acceptor: Acceptor<Shm>,
    worker: Worker<Shm>,
    client: HerdClient<Shm>,
    ctx: Rc<ShmContext>,
}

impl Pair {
    /// A client with one operation under way at most, connected.
    fn new() -> Pair {
        let device = ShmDevice::default();
        let options = ServerOptions {
            partition: PartitionOptions {
                log_bytes: 1 << 16,
                bucket_count: 1 << 8,
                ..PartitionOptions::default()
            },
            idle_sweeps: 1,
            ..ServerOptions::default()
        };
        let (mut acceptor, mut workers) = Server::<Shm>::in_pieces(&device, &options).expect("a server");
        let ctx = Rc::new(device.context().expect("a context"));
        let (knock, knocking) = channel();
        let dial = Dial::new(move || {
            let (ours, theirs) = ControlStream::pair();
            knock.send(theirs).expect("the test waits for it");
            Ok(ours)
        });
        let options = ClientOptions {
            window: 1,
            ..ClientOptions::default()
        };
        let mut client = HerdClient::new(ctx.clone(), dial, options);
        client.poll(ctx.cpu(), &mut |_| {});
        acceptor.adopt(knocking.recv().expect("the first poll dials"));
        let mut pair = Pair {
            acceptor,
            worker: workers.remove(0),
            client,
            ctx,
        };
        for _ in 0..1_000_000 {
            pair.ctx.cpu().refresh();
            pair.client.poll(pair.ctx.cpu(), &mut |_| {});
            if pair.client.is_ready() {
                return pair;
            }
            let control = pair.acceptor.context();
            control.cpu().refresh();
            pair.acceptor.step(control.cpu());
            pair.step();
        }
        panic!("no session: {:?}", pair.client.take_error());
    }

    fn step(&mut self) -> Progress {
        let ctx = self.worker.context();
        ctx.cpu().refresh();
        self.worker.step(ctx.cpu())
    }

    /// Announces the worker's sleep, as its run loop does when nothing is left to do.
    fn fall_asleep(&mut self) {
        self.worker.context().arm();
        assert!(matches!(self.step(), Progress::Idle { .. }), "nothing to do");
    }

    /// One GET, sent; the client looks for its reply for a while, in vain.
    fn ask(&mut self) {
        self.ctx.cpu().refresh();
        let submitted = self.client.submit(self.ctx.cpu(), &Op::Get { key: b"k" }, 0);
        submitted.expect("nothing is under way");
        for _ in 0..100 {
            assert_eq!(self.client.poll(self.ctx.cpu(), &mut |_| {}), 0);
        }
    }

    fn take_reply(&mut self) {
        let mut ended = 0;
        self.client.poll(self.ctx.cpu(), &mut |completion| {
            assert_eq!(completion.outcome, Outcome::NotFound);
            ended += 1;
        });
        assert_eq!(ended, 1);
    }

    fn wakes(&self) -> u64 {
        self.ctx.stats().wakes_sent
    }
}

#[test]
fn a_get_wakes_a_sleeping_worker_once() {
    let mut pair = Pair::new();
    for _ in 0..10 {
        pair.fall_asleep();
        let before = pair.wakes();
        pair.ask();
        assert_eq!(pair.wakes() - before, 1);
        let ctx = pair.worker.context();
        // Were there no wake-up, the sleep would last as long as a sleep may.
        ctx.park(Ns::MAX);
        assert_eq!(pair.step(), Progress::Busy);
        pair.take_reply();
        assert_eq!(pair.wakes() - before, 1, "and no more");
        assert_eq!(ctx.stats().wakes_sent, 0, "the client never slept");
    }
}

/// Wake-ups that ten GETs cost while the worker has something to do; `after` is what it does after each.
fn wakes_of_a_busy_worker(after: impl Fn(&ShmContext)) -> u64 {
    let mut pair = Pair::new();
    let before = pair.wakes();
    for _ in 0..10 {
        pair.ask();
        assert_eq!(pair.step(), Progress::Busy);
        after(&pair.worker.context());
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
