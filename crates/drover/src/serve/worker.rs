//! [`Worker`]: a thread of a gateway, with its sockets, its sessions, and its client of the system.

use super::memcached::Memcached;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_gateway::{Answer, Backend, Errands, GatewayOptions};
use drover_kv::{ConnectOptions, OperationOffers};
use drover_mem::{NativeCpu, PageWish};
use drover_memcached::{Core, Executor, Server, Session};
use drover_net::{PendingReply, Sockets};
use drover_rt::{Idle, RunLoop, StopFlag};
use drover_shards::Hello;
use drover_store::{Exclusive, Partition, PartitionOptions};
use drover_verbs::{Context, Provider, Waker};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Most commands of a worker that are under way at a time.
const COMMANDS_MAX: usize = 1024;
/// Commands that a connection may begin in a turn: a session's batch.
const TURN_COMMANDS: usize = 32;
/// Time that connections have to end when the gateway stops.
const LEAVE_MAX: Ns = Ns::from_s(2);
/// A negative expiry becomes the first second, already over; so for clients no time is before it.
const FIRST_S: u32 = 1;

/// What all workers of a gateway start with.
#[derive(Clone)]
pub(super) struct WorkerStart {
    pub(super) memcached: Arc<Memcached>,
    pub(super) worker_count: usize,
    pub(super) offers: OperationOffers,
    pub(super) item_bytes_max: usize,
    /// Start of the gateway, on the clock of the cores and since 1970.
    pub(super) started: Ns,
    pub(super) start_unix_s: u64,
}

/// A worker of a gateway.
pub(super) struct Worker {
    sockets: Sockets<Session<NativeCpu>>,
    errands: Errands,
    /// Sessions look keys of their own core up here; a gateway has none, so it stays empty.
    partition: Partition<Exclusive>,
    core: Core,
    server: Arc<Server>,
    started: Ns,
    /// The gateway stops.
    leave: StopFlag,
    /// Time since which connections are ending.
    leaving_since: Option<Ns>,
    stop: StopFlag,
}

impl Worker {
    /// Creates worker `index`, whose commands `backend` executes, and which `waker` wakes.
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub(super) fn new(
        start: &WorkerStart,
        index: usize,
        waker: Waker,
        backend: Box<dyn Backend>,
    ) -> io::Result<Worker> {
        let options = GatewayOptions {
            worker: index,
            worker_count: start.worker_count,
            capacity: COMMANDS_MAX,
            offers: start.offers,
            item_bytes_max: start.item_bytes_max,
            start_unix_s: start.start_unix_s,
            patience: ConnectOptions::default().deadline,
            seed: NativeCpu::new(0).random(),
        };
        let partition = Partition::create(&PartitionOptions {
            log_bytes: 1 << 20,
            bucket_count: 1,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        });
        Ok(Worker {
            sockets: start.memcached.sockets(index, &waker)?,
            errands: Errands::new(backend, &options),
            partition: partition.map_err(io::Error::other)?,
            core: Core::default(),
            server: start.memcached.server(),
            started: start.started,
            leave: StopFlag::new(),
            leaving_since: None,
            stop: StopFlag::new(),
        })
    }

    /// Runs until the waker that `hello` reports asks it to end.
    pub(super) fn run<P: Provider<Cpu = NativeCpu>>(
        mut self,
        ctx: &P::Context,
        idle: Idle,
        hello: &Hello<Waker>,
    ) -> Result<(), String> {
        let fd = self
            .sockets
            .fd()
            .try_clone_to_owned()
            .map_err(|error| error.to_string())?;
        let (leave, stop, waker) = (self.leave.clone(), self.stop.clone(), ctx.waker());
        let stopper = Waker::new(move || {
            leave.set();
            waker.wake();
        });
        let mut run_loop = RunLoop::<P>::new(ctx, idle.for_memory_pollers(ctx.caps())).beside(fd.as_fd());
        if hello.say(Ok(stopper)) {
            run_loop.run(&mut [&mut self], &stop);
        }
        Ok(())
    }

    /// Ends connections once the gateway stops.
    fn look_at_end(&mut self, now: Ns) {
        if !self.leave.is_set() {
            return;
        }
        let since = *self.leaving_since.get_or_insert_with(|| {
            self.sockets.leave();
            now
        });
        if self.sockets.is_empty() || now.since(since) > LEAVE_MAX {
            self.stop.set();
        }
    }
}

/// Gives an answer to its connection.
fn fill(sockets: &mut Sockets<Session<NativeCpu>>, pending: PendingReply, answer: Answer<'_>) {
    match answer {
        Answer::Reply(bytes) => sockets.fill(pending, bytes),
        Answer::Close => sockets.give_up(pending),
    }
}

impl Actor<NativeCpu> for Worker {
    fn step(&mut self, cpu: &NativeCpu) -> Progress {
        let now = cpu.now();
        let now_s = (now.since(self.started).as_s() as u32).max(FIRST_S);
        self.errands.set_now_s(now_s);
        let sockets = &mut self.sockets;
        let answered = self
            .errands
            .poll(&mut |pending, answer| fill(sockets, pending, answer));
        // A turn without space would parse a batch of requests for nothing.
        let turns = self.errands.space().div_ceil(TURN_COMMANDS);
        self.sockets.resume_routes(turns);
        if let Some(counters) = self.errands.take_counters() {
            self.core.counters.add(&counters);
        }
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu,
            now_s,
            core: &mut self.core,
            server: &self.server,
            router: &mut self.errands,
        };
        executor.begin_step();
        let mut progress = self.sockets.step(&mut executor, now, now_s);
        if answered || progress == Progress::Busy {
            // Before the replies leave: a client that has read one finds its command counted.
            executor.publish();
        }
        let sockets = &mut self.sockets;
        self.errands
            .fill_staged(&mut |pending, answer| fill(sockets, pending, answer));
        self.sockets.flush();
        self.look_at_end(now);
        if answered || self.errands.is_busy() {
            progress = Progress::Busy;
        }
        progress.and(Progress::Idle {
            wake_at: self.errands.next_timer(),
        })
    }
}
