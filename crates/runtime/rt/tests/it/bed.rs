//! A pool of tasks on one side, memory and queue pairs on the other.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::exchange::End;
use drover_mem::{PageWish, Region};
use drover_rt::{BUFFER_CLASSES, BufferClass, PeerId, TaskCx, TaskId, TaskOptions, TaskPool};
use drover_verbs::{
    Access, Context, Device, Export, MemoryRegion, Provider, QpKind, QpOptions, QueuePair, RemoteRegion,
};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// A pool on one side, a page of memory on the other, which all destinations lead to. Fields in the order they must go.
pub struct Bed<P: Provider> {
    pub pool: TaskPool<P>,
    /// The destination of the last queue pair that was connected.
    pub peer: PeerId,
    pub far: End<P>,
    /// Far ends of further destinations.
    pub more: Vec<P::Qp>,
    pub memory: Region,
    _mr: P::Mr,
    pub remote: RemoteRegion,
    pub ctx: P::Context,
}

/// Tasks and buffers of a small pool.
pub const TASKS: usize = 40;
pub const BUFFERS: usize = 64;

/// Options of a small pool.
pub fn small() -> TaskOptions {
    let mut buffers = [BufferClass::NONE; BUFFER_CLASSES];
    buffers[0] = BufferClass {
        bytes: 64,
        count: BUFFERS,
    };
    TaskOptions {
        task_count_max: TASKS,
        peer_count_max: 2,
        send_depth: 8,
        buffers,
        atomic_count_max: 64,
        timer_tick: Ns(1),
        ..TaskOptions::default()
    }
}

impl<P: Provider> Bed<P> {
    pub fn new(device: &P::Device, kind: QpKind) -> Bed<P> {
        Bed::<P>::with(device, kind, &small())
    }

    pub fn with(device: &P::Device, kind: QpKind, options: &TaskOptions) -> Bed<P> {
        let mut bed = Bed::<P>::unconnected(device, kind, options);
        let near = bed.pool.create_qp(&bed.ctx, kind).expect("queue pair");
        bed.far
            .qp
            .connect(&near.export().expect("export"))
            .expect("connect");
        bed.connect_near(near);
        bed
    }

    pub fn unconnected(device: &P::Device, kind: QpKind, options: &TaskOptions) -> Bed<P> {
        let ctx = device.context().expect("context");
        let pool = TaskPool::new(&ctx, options).expect("pool");
        let far = End::<P>::new(device, kind).expect("end");
        let memory = far.ctx.alloc(4096, PageWish::Small).expect("memory");
        let mr = far.ctx.register(&memory, Access::ALL).expect("register");
        let remote = ctx
            .import_region(&mr.export(&[]).expect("export"))
            .expect("import");
        Bed {
            pool,
            peer: PeerId::default(),
            far,
            more: Vec::new(),
            memory,
            _mr: mr,
            remote,
            ctx,
        }
    }

    /// A queue pair of the pool, connected to the far end, which is not yet connected to it: requests wait.
    pub fn half_connected(device: &P::Device, options: &TaskOptions) -> (Bed<P>, Export) {
        let mut bed = Bed::<P>::unconnected(device, QpKind::Rc, options);
        let near = bed.pool.create_qp(&bed.ctx, QpKind::Rc).expect("queue pair");
        let export = near.export().expect("export");
        bed.connect_near(near);
        (bed, export)
    }

    pub fn connect_near(&mut self, mut near: P::Qp) {
        near.connect(&self.far.qp.export().expect("export"))
            .expect("connect");
        self.peer = self.pool.add_peer(near);
    }

    /// A far queue pair of `kind`, and a near one that is connected to it; the far one is connected if `both`.
    pub fn pair(&mut self, kind: QpKind, both: bool) -> (P::Qp, P::Qp) {
        let mut near = self.pool.create_qp(&self.ctx, kind).expect("queue pair");
        let options = QpOptions::<P>::new(kind, &self.far.cq, self.far.ctx.caps());
        let mut far = self.far.ctx.create_qp(&options).expect("queue pair");
        near.connect(&far.export().expect("export")).expect("connect");
        if both {
            far.connect(&near.export().expect("export")).expect("connect");
        }
        (near, far)
    }

    /// One more destination.
    pub fn add_peer(&mut self) -> PeerId {
        let (near, far) = self.pair(QpKind::Rc, true);
        self.more.push(far);
        self.pool.add_peer(near)
    }

    /// One more destination, whose requests wait for ever.
    pub fn add_silent_peer(&mut self) -> PeerId {
        let (near, far) = self.pair(QpKind::Rc, false);
        self.more.push(far);
        self.pool.add_peer(near)
    }

    /// Replaces the queue pairs of `peer` by new ones.
    pub fn replace(&mut self, peer: PeerId) {
        let (near, far) = self.pair(QpKind::Rc, true);
        self.more.push(far);
        self.pool.replace_peer(peer, near);
    }

    /// Replaces the queue pairs of `peer` by new ones, on which requests wait for ever.
    pub fn replace_silently(&mut self, peer: PeerId) {
        let (near, far) = self.pair(QpKind::Rc, false);
        self.more.push(far);
        self.pool.replace_peer(peer, near);
    }

    pub fn step(&mut self) -> Progress {
        self.ctx.cpu().refresh();
        self.pool.step(self.ctx.cpu())
    }

    /// Steps until nothing more happens.
    pub fn settle(&mut self) {
        while matches!(self.step(), Progress::Busy) {}
    }

    pub fn spawn<F: Future<Output = ()> + 'static>(&mut self, task: impl FnOnce(TaskCx<P>) -> F) -> TaskId {
        self.pool.spawn(task).expect("space")
    }

    /// Steps until no task is left.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            if self.pool.task_count() == 0 {
                return;
            }
            let _ = self.step();
        }
        panic!("{} tasks hang", self.pool.task_count());
    }

    /// Runs one more task to its end and returns what it returned; others may go on.
    pub fn run_beside<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        task: impl FnOnce(TaskCx<P>) -> F,
    ) -> T {
        let out = Rc::new(RefCell::new(None));
        let put = out.clone();
        self.spawn(|cx| {
            let work = task(cx);
            async move { *put.borrow_mut() = Some(work.await) }
        });
        for _ in 0..100_000 {
            if let Some(value) = out.take() {
                return value;
            }
            let _ = self.step();
        }
        panic!("the task hangs");
    }

    /// Runs one task to its end and returns what it returned.
    pub fn run_one<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        task: impl FnOnce(TaskCx<P>) -> F,
    ) -> T {
        let out = Rc::new(RefCell::new(None));
        let put = out.clone();
        self.pool
            .spawn(|cx| {
                let work = task(cx);
                async move { *put.borrow_mut() = Some(work.await) }
            })
            .expect("space");
        self.run();
        out.take().expect("the task ended")
    }
}
