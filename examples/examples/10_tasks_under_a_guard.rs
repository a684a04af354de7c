//! Tasks that race for one counter, each by two dependent READs and a CAS. One that loses backs off under a conflict guard,
//! and the pool lets fewer race at once while many lose. Over shared memory and between two simulated machines.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::exchange::End;
use drover_examples::Outcome;
use drover_mem::{PageWish, Region};
use drover_rt::{PeerId, Posting, TaskCx, TaskError, TaskOptions, TaskPool, TaskStats};
use drover_verbs::{Access, Context, Device, MemoryRegion, Provider, QpKind, QueuePair, RemoteRegion};
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_sim::{Sim, World, profile::Profile};
use std::{cell::Cell, rc::Rc, sync::atomic::Ordering};

const TASKS: u64 = 8;
const ADDS: u64 = 100;
const COUNTER_OFFSET: usize = 512;

/// Adds 1 to the counter that the first word of `node` points to.
async fn add_one<P: Provider>(cx: &TaskCx<P>, peer: PeerId, node: &RemoteRegion) -> Result<(), TaskError> {
    let mut guard = cx.conflict_guard().await;
    loop {
        let ticket = cx.read(peer, cx.buffer(8)?, node.at(0))?;
        let pointer = cx.sync().await?.take(ticket);
        let counter = node.at(u64::from_le_bytes(pointer[..].try_into().expect("8 bytes")) as usize);
        let ticket = cx.read(peer, cx.buffer(8)?, counter)?;
        let value = cx.sync().await?.take(ticket);
        let value = u64::from_le_bytes(value[..].try_into().expect("8 bytes"));
        let ticket = cx.cas(peer, counter, value, value + 1)?;
        if cx.sync().await?.value(ticket) == value {
            return Ok(());
        }
        guard.retry().await;
    }
}

/// A pool whose tasks use the memory of another context; it says when it has finished, and with which counters.
struct Adders<P: Provider> {
    pool: TaskPool<P>,
    stats: Rc<Cell<Option<TaskStats>>>,
    memory: Region,
    _far: (End<P>, P::Mr),
}

impl<P: Provider> Adders<P> {
    fn new(here: &P::Context, there: &P::Device) -> Outcome<Adders<P>> {
        let mut far = End::<P>::new(there, QpKind::Rc)?;
        let memory = far.ctx.alloc(4096, PageWish::Small)?;
        let mr = far.ctx.register(&memory, Access::ALL)?;
        memory.store_u64(0, COUNTER_OFFSET as u64, Ordering::Relaxed);
        // At most 16 requests are outstanding; a task posts as soon as it suspends.
        let options = TaskOptions { credits: Some(16), posting: Posting::PerSync, ..TaskOptions::default() };
        let mut pool = TaskPool::<P>::new(here, &options)?;
        let mut near = pool.create_qp(here, QpKind::Rc)?;
        near.connect(&far.qp.export()?)?;
        far.qp.connect(&near.export()?)?;
        let (peer, node) = (pool.add_peer(near), here.import_region(&mr.export(&[])?)?);
        for _ in 0..TASKS {
            pool.spawn(move |cx| async move {
                for _ in 0..ADDS {
                    add_one(&cx, peer, &node).await.expect("nothing fails here");
                }
            })?;
        }
        Ok(Adders { pool, stats: Rc::default(), memory, _far: (far, mr) })
    }
}

impl<P: Provider> Actor<P::Cpu> for Adders<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let progress = self.pool.step(cpu);
        self.stats.set((self.pool.task_count() == 0).then(|| self.pool.stats()));
        progress
    }
}

fn report(fabric: &str, memory: &Region, stats: &TaskStats) {
    assert_eq!(memory.load_u64(COUNTER_OFFSET, Ordering::Acquire), TASKS * ADDS, "each addition counts once");
    let (posted, lost) = (stats.requests.posted, stats.conflicts.retries);
    println!("{fabric}: {posted} requests, {lost} attempts lost their race");
}

fn main() -> Outcome {
    let device = ShmDevice::default();
    let here = device.context()?;
    let mut adders = Adders::<Shm>::new(&here, &device)?;
    while adders.stats.get().is_none() {
        here.cpu().refresh();
        let _ = adders.step(here.cpu());
    }
    report("shm", &adders.memory, &adders.pool.stats());
    let world = World::new(Profile::named("apt")?, 2, 7);
    let here = world.device(0).context()?;
    let adders = Adders::<Sim>::new(&here, &world.device(1))?;
    let (memory, stats) = (adders.memory.clone(), adders.stats.clone());
    world.spawn(&here, Box::new(adders));
    world.run_while(Ns::from_s(1), || stats.get().is_none());
    report("sim", &memory, &stats.get().ok_or("the tasks hang")?);
    Ok(())
}
