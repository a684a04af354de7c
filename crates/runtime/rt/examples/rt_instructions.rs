//! Runs operations of this crate so that a tool can count their instructions (or time them):
//! `valgrind --tool=cachegrind --cache-sim=no rt_instructions OP COUNT`.
//!
//! OP is `hand` (two dependent READs over shared memory, written by hand), `task` (the same as a task of a
//! pool), `tasks` (16 such tasks), `credits` (the same with 8 credits for the 16 tasks), `guard` (the same, each operation
//! inside a conflict guard), `rates` (`tasks` beside `guard` with 64 credits, in turn: prints their ratio), `retry` (a guard and one backoff of zero length), `suspend` (a suspension of one of 64
//! tasks), `timer` (arm and cancel), `mail` (looking into an empty mailbox) or `round` (a round of a run loop with
//! nothing to do). Prints nanoseconds per operation.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::exchange::{End, ends};
use drover_mem::{NativeCpu, PageWish, Region};
use drover_rt::{
    ConflictOptions, Idle, PeerId, RunLoop, StopFlag, TaskCx, TaskError, TaskOptions, TaskPool, Timers,
    mailbox,
};
use drover_verbs::{
    Access, CompletionQueue, Context, Device, MemoryRegion, Provider, QpKind, QueuePair, RemoteRegion,
    SendList, SendWr, Sge, Waker, Wc, WrId,
};
use drover_verbs_shm::{Shm, ShmDevice};
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::Ordering;

fn main() {
    let mut args = std::env::args().skip(1);
    let op = args.next().expect("an operation");
    let count: u64 = args.next().and_then(|n| n.parse().ok()).expect("a count");
    let clock = NativeCpu::new(1);
    let start = clock.refresh();
    match op.as_str() {
        "hand" => by_hand(count),
        "task" => _ = by_tasks(count, 1, None, Work::Reads),
        "tasks" => _ = by_tasks(count, 16, None, Work::Reads),
        "credits" => _ = by_tasks(count, 16, Some(8), Work::Reads),
        "guard" => _ = by_tasks(count, 16, None, Work::Guarded),
        "rates" => rates(count),
        "retry" => _ = by_tasks(count, 16, None, Work::Retry),
        "suspend" => _ = by_tasks(count, 64, None, Work::Suspension),
        "timer" => timer(count),
        "mail" => mail(count),
        "round" => round(count),
        other => panic!("no operation {other}"),
    }
    let ns = clock.refresh().since(start).0 as f64;
    println!("{op}: {:.1} ns", ns / count as f64);
}

/// A page of the far side: its first word points to the item.
fn far_memory(far: &End<Shm>) -> (Region, <Shm as Provider>::Mr) {
    let memory = far.ctx.alloc(4096, PageWish::Small).expect("memory");
    memory.store_u64(0, 512, Ordering::Relaxed);
    let mr = far.ctx.register(&memory, Access::REMOTE_READ).expect("register");
    (memory, mr)
}

fn by_hand(count: u64) {
    let (mut near, far) = ends::<Shm>(&ShmDevice::default(), QpKind::Rc).expect("ends");
    let (_memory, mr) = far_memory(&far);
    let remote = near
        .ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let local = near.ctx.alloc(4096, PageWish::Small).expect("memory");
    let local_mr = near.ctx.register(&local, Access::LOCAL).expect("register");
    let mut list = SendList::with_capacity(1, 0);
    for _ in 0..count {
        read_by_hand(&mut near, &mut list, &remote, 0, local_mr.sge(0, 8));
        let offset = local.load_u64(0, Ordering::Relaxed);
        read_by_hand(&mut near, &mut list, &remote, offset, local_mr.sge(64, 32));
        black_box(local.load_u64(64, Ordering::Relaxed));
    }
}

fn read_by_hand(near: &mut End<Shm>, list: &mut SendList, from: &RemoteRegion, offset: u64, into: Sge) {
    list.clear();
    list.push(SendWr::read(from.at(offset as usize), into).signaled(WrId(1)));
    near.qp.post_send(near.ctx.cpu(), list).expect("space");
    let mut wcs = [Wc::default(); 1];
    while near.cq.poll(near.ctx.cpu(), &mut wcs) == 0 {}
}

/// What a task repeats.
#[derive(Clone, Copy)]
enum Work {
    Reads,
    Guarded,
    Retry,
    Suspension,
}

/// Rounds of [`rates`].
const ROUNDS: usize = 101;

/// Operations per time with credits and a guard, as a share of those without, in rounds that take turns.
fn rates(count: u64) {
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        times[0].push(by_tasks(count, 16, None, Work::Reads).0);
        times[1].push(by_tasks(count, 16, Some(64), Work::Guarded).0);
    }
    let mut ratios: Vec<f64> = std::iter::zip(&times[0], &times[1])
        .map(|(&without, &with)| without as f64 / with as f64)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|nth| ratios[nth]);
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [without, with] = times.map(|times| times[ROUNDS / 2] as f64 / count as f64);
    println!("without {without:.1} ns, with credits and guard {with:.1} ns per operation");
    println!("rate with over rate without: median {median:.3}, from {least:.3} to {most:.3}");
}

/// Returns the time of the operations.
fn by_tasks(count: u64, task_count: u64, credits: Option<u32>, work: Work) -> Ns {
    let device = ShmDevice::default();
    let ctx = device.context().expect("context");
    // Limits follow the time that passes, which no count may depend on.
    let conflicts = match work {
        Work::Retry => ConflictOptions::OFF,
        _ => ConflictOptions::default(),
    };
    let options = TaskOptions {
        credits,
        conflicts,
        ..TaskOptions::default()
    };
    let mut pool = TaskPool::<Shm>::new(&ctx, &options).expect("pool");
    let mut far = End::<Shm>::new(&device, QpKind::Rc).expect("end");
    let mut near = pool.create_qp(&ctx, QpKind::Rc).expect("queue pair");
    near.connect(&far.qp.export().expect("export")).expect("connect");
    far.qp.connect(&near.export().expect("export")).expect("connect");
    let peer = pool.add_peer(near);
    let (_memory, mr) = far_memory(&far);
    let remote = ctx
        .import_region(&mr.export(&[]).expect("export"))
        .expect("import");
    let left = Rc::new(Cell::new(count));
    for _ in 0..task_count {
        let left = left.clone();
        // A body for each: what stands between a task and its suspension would be counted, too.
        let spawned = match work {
            Work::Reads => pool.spawn(move |cx| async move {
                while count_down(&left) {
                    two_reads(&cx, peer, &remote).await.expect("READs");
                }
            }),
            Work::Guarded => pool.spawn(move |cx| async move {
                while count_down(&left) {
                    let _guard = cx.conflict_guard().await;
                    two_reads(&cx, peer, &remote).await.expect("READs");
                }
            }),
            Work::Retry => pool.spawn(move |cx| async move {
                while count_down(&left) {
                    let mut guard = cx.conflict_guard().await;
                    guard.retry().await;
                    cx.yield_now().await;
                }
            }),
            Work::Suspension => pool.spawn(move |cx| async move {
                loop {
                    cx.yield_now().await;
                }
            }),
        };
        spawned.expect("space");
    }
    let steps = match work {
        Work::Suspension => count / task_count,
        _ => u64::MAX,
    };
    let start = ctx.cpu().refresh();
    run_pool(&ctx, &mut pool, steps);
    ctx.cpu().refresh() - start
}

/// The part that is measured.
#[inline(never)]
fn run_pool(ctx: &<Shm as Provider>::Context, pool: &mut TaskPool<Shm>, mut steps: u64) {
    while pool.task_count() > 0 && steps > 0 {
        steps -= 1;
        ctx.cpu().refresh();
        let _ = pool.step(ctx.cpu());
    }
}

fn count_down(left: &Cell<u64>) -> bool {
    let more = left.get() > 0;
    left.set(left.get().saturating_sub(1));
    more
}

async fn two_reads(cx: &TaskCx<Shm>, peer: PeerId, remote: &RemoteRegion) -> Result<(), TaskError> {
    let ticket = cx.read(peer, cx.buffer(8)?, remote.at(0))?;
    let pointer = cx.sync().await?.take(ticket);
    let offset = u64::from_le_bytes(pointer[..].try_into().expect("8 bytes"));
    let ticket = cx.read(peer, cx.buffer(32)?, remote.at(offset as usize))?;
    black_box(cx.sync().await?.take(ticket)[0]);
    Ok(())
}

fn timer(count: u64) {
    let mut timers = Timers::new(64, Ns::from_us(1));
    for i in 0..count {
        let (key, now) = ((i & 63) as u32, Ns(i * 100));
        timers.arm(key, now + Ns::from_ms(1));
        black_box(timers.pop(now));
        timers.cancel(key);
    }
}

fn mail(count: u64) {
    let (_mailer, mut mailbox) = mailbox::<u64>(4, Waker::new(|| ()));
    for _ in 0..count {
        black_box(mailbox.recv());
    }
}

/// Never has anything to do.
struct Nothing;

impl<C: Cpu> Actor<C> for Nothing {
    fn step(&mut self, _: &C) -> Progress {
        Progress::Idle { wake_at: Ns::MAX }
    }
}

fn round(count: u64) {
    let ctx = ShmDevice::default().context().expect("context");
    let mut core = RunLoop::<Shm>::new(&ctx, Idle::Spin);
    for _ in 0..count {
        core.round(&mut [&mut Nothing], &StopFlag::new());
    }
}
