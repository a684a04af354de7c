//! Goal: a core spins, sleeps, wakes and stops as its policy says; two ends connect in a few lines.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::ControlStream;
use drover_control::exchange::{End, ends};
use drover_rt::{Idle, RunLoop, StopFlag, mailbox};
use drover_testkit::bounded;
use drover_verbs::{
    CompletionQueue, Context, Device, QpKind, QpState, QueuePair, RecvList, RecvWr, SendList, SendWr, Wc,
    WrId,
};
use drover_verbs_suite::loopback::{Loopback, LoopbackCpu, LoopbackDevice, LoopbackOptions, ParkMode};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::AsFd;

/// Does what it is told, step by step; idle for ever after that.
struct Script {
    steps: RefCell<VecDeque<Progress>>,
    taken: usize,
}

impl Script {
    fn new(steps: impl IntoIterator<Item = Progress>) -> Script {
        Script {
            steps: RefCell::new(steps.into_iter().collect()),
            taken: 0,
        }
    }
}

const NEVER: Progress = Progress::Idle { wake_at: Ns::MAX };

impl Actor<LoopbackCpu> for Script {
    fn step(&mut self, _: &LoopbackCpu) -> Progress {
        self.taken += 1;
        self.steps.borrow_mut().pop_front().unwrap_or(NEVER)
    }
}

fn device() -> LoopbackDevice {
    LoopbackDevice::with_options(LoopbackOptions {
        tick: Ns::from_us(1),
        ..LoopbackOptions::default()
    })
}

#[test]
fn adaptive_spins_then_looks_once_more_then_sleeps_to_the_first_timer() {
    let device = device();
    let ctx = device.context().expect("context");
    let timer = Progress::Idle {
        wake_at: Ns::from_ms(5),
    };
    let mut early = Script::new(std::iter::repeat_n(timer, 1000));
    let mut late = Script::new([Progress::Busy]);
    let stop = StopFlag::new();
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::ADAPTIVE);
    while core.stats().parks == 0 {
        core.round(&mut [&mut early, &mut late], &stop);
    }
    let stats = core.stats();
    assert_eq!(stats.busy_rounds, 1);
    // A refresh is a microsecond: 50 us of spinning are 50 rounds and yields, and one look after arming.
    assert!((45..=50).contains(&stats.idle_rounds), "{stats:?}");
    assert_eq!(early.taken as u64, stats.busy_rounds + stats.idle_rounds);
    assert!(
        (Ns::from_ms(5)..Ns::from_us(5_010)).contains(&device.now()),
        "slept until the timer, {}",
        device.now()
    );
}

#[test]
fn work_found_after_arming_is_done_before_sleeping() {
    let device = device();
    let ctx = device.context().expect("context");
    let mut actor = Script::new([NEVER, Progress::Busy]);
    let stop = StopFlag::new();
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Sleep);
    core.round(&mut [&mut actor], &stop);
    assert_eq!((core.stats().parks, core.stats().busy_rounds), (0, 1));
    core.round(&mut [&mut actor], &stop);
    assert_eq!(core.stats().parks, 1);
}

/// How long one sleep lasts that a timer ends after 5 ms and, if it is readable, a descriptor at once.
fn sleep_beside(fd_wait: bool, readable: bool) -> Ns {
    let mut options = LoopbackOptions {
        tick: Ns::from_us(1),
        ..LoopbackOptions::default()
    };
    options.caps.wakes.on_fd = fd_wait;
    let device = LoopbackDevice::with_options(options);
    let ctx = device.context().expect("context");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    if readable {
        writer.write_all(b"!").expect("room");
    }
    let timer = Progress::Idle {
        wake_at: Ns::from_ms(5),
    };
    let mut actor = Script::new(std::iter::repeat_n(timer, 2));
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Sleep).beside(reader.as_fd());
    core.round(&mut [&mut actor], &StopFlag::new());
    assert_eq!(core.stats().parks, 1);
    device.now()
}

#[test]
fn a_descriptor_ends_sleep_where_the_fabric_can_wait_for_it() {
    assert!(sleep_beside(true, true) < Ns::from_us(10), "readable");
    assert!(sleep_beside(true, false) >= Ns::from_ms(5), "quiet");
}

#[test]
fn a_core_looks_at_its_descriptor_every_millisecond_where_the_fabric_cannot() {
    for readable in [true, false] {
        let slept = sleep_beside(false, readable);
        assert!((Ns::from_ms(1)..Ns::from_us(1_010)).contains(&slept), "{slept}");
    }
}

#[test]
fn spinning_never_parks_and_a_passed_timer_is_no_sleep() {
    let device = device();
    let ctx = device.context().expect("context");
    let stop = StopFlag::new();
    let mut actor = Script::new([]);
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Spin);
    for _ in 0..10_000 {
        core.round(&mut [&mut actor], &stop);
    }
    assert_eq!(core.stats().parks, 0);
    let mut actor = Script::new(std::iter::repeat_n(Progress::Idle { wake_at: Ns::ZERO }, 100));
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Sleep);
    for _ in 0..100 {
        core.round(&mut [&mut actor], &stop);
    }
    assert_eq!(core.stats().parks, 0);
}

/// Has nothing to do but a look every millisecond.
struct LookEveryMs(Ns);

impl Actor<LoopbackCpu> for LookEveryMs {
    fn step(&mut self, cpu: &LoopbackCpu) -> Progress {
        if cpu.now() >= self.0 {
            self.0 = cpu.now() + Ns::from_ms(1);
        }
        Progress::Idle { wake_at: self.0 }
    }
}

#[test]
fn a_core_that_only_its_timers_wake_does_not_poll_after_each() {
    let device = device();
    let ctx = device.context().expect("context");
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::ADAPTIVE);
    let mut look = LookEveryMs(Ns::ZERO);
    while device.now() < Ns::from_ms(100) {
        core.round(&mut [&mut look], &StopFlag::new());
    }
    let stats = core.stats();
    assert!((90..=100).contains(&stats.parks), "{stats:?}");
    // Before the first sleep it polls; later there are a round and a look after arming for each.
    assert!(stats.idle_rounds < 50 + 4 * stats.parks, "{stats:?}");
}

#[test]
fn a_fabric_that_cannot_wake_memory_pollers_makes_them_doze() {
    let mut caps = LoopbackOptions::default().caps;
    assert_eq!(Idle::Sleep.for_memory_pollers(&caps), Idle::Sleep);
    caps.wakes.on_memory = false;
    let doze = |spin| Idle::Doze { spin };
    assert_eq!(Idle::Sleep.for_memory_pollers(&caps), doze(Ns::ZERO));
    assert_eq!(Idle::ADAPTIVE.for_memory_pollers(&caps), doze(Ns::from_us(50)));
    assert_eq!(Idle::Spin.for_memory_pollers(&caps), Idle::Spin);
}

/// Remembers when it was stepped; busy at the moments it was given.
struct Diary {
    steps: Vec<Ns>,
    busy_at: Vec<Ns>,
}

impl Actor<LoopbackCpu> for Diary {
    fn step(&mut self, cpu: &LoopbackCpu) -> Progress {
        self.steps.push(cpu.now());
        match self.busy_at.first() {
            Some(at) if *at <= cpu.now() => {
                self.busy_at.remove(0);
                Progress::Busy
            }
            _ => NEVER,
        }
    }
}

#[test]
fn a_dozing_core_looks_again_before_an_eighth_of_the_quiet_is_over() {
    let device = device();
    let ctx = device.context().expect("context");
    let stop = StopFlag::new();
    let mut diary = Diary {
        steps: Vec::new(),
        busy_at: vec![Ns::from_ms(3), Ns::from_ms(3), Ns::from_ms(40)],
    };
    let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Doze { spin: Ns::ZERO });
    while device.now() < Ns::from_ms(60) {
        core.round(&mut [&mut diary], &stop);
    }
    assert_eq!(core.stats().busy_rounds, 3);
    let tick = Ns::from_us(5);
    let mut quiet_since = diary.steps[0];
    for (earlier, later) in diary.steps.iter().zip(&diary.steps[1..]) {
        let quiet = earlier.since(quiet_since);
        let most = match quiet < Ns::from_ms(1) {
            true => tick,
            false => Ns(quiet.0 / 8).min(Ns::from_ms(1)) + tick,
        };
        assert!(later.since(*earlier) <= most, "{earlier} to {later}");
        // Something happened in between: a short interval again.
        if [Ns::from_ms(3), Ns::from_ms(40)]
            .iter()
            .any(|at| quiet_since < *at && at <= later)
        {
            quiet_since = *later;
        }
    }
    let slept = core.stats().parks;
    assert!((20..200).contains(&slept), "{slept} sleeps in 60 ms");
}

#[test]
fn the_stopper_ends_a_sleeping_core() {
    bounded::within_a_minute(|| {
        let options = LoopbackOptions {
            park: ParkMode::Block,
            ..LoopbackOptions::default()
        };
        let device = LoopbackDevice::with_options(options);
        let (out, stopper) = std::sync::mpsc::channel();
        let core = std::thread::spawn(move || {
            let ctx = device.context().expect("context");
            let stop = StopFlag::new();
            let mut core = RunLoop::<Loopback>::new(&ctx, Idle::Sleep);
            out.send(core.stopper(&stop)).expect("main waits");
            core.run(&mut [&mut Script::new([])], &stop)
        });
        stopper.recv().expect("started").wake();
        core.join().expect("stopped");
    });
}

/// Counts mail; stops at the given number.
struct Reader(drover_rt::Mailbox<u32>, u32, StopFlag);

impl Actor<LoopbackCpu> for Reader {
    fn step(&mut self, _: &LoopbackCpu) -> Progress {
        let Some(value) = self.0.recv() else { return NEVER };
        assert_eq!(value, self.1);
        self.1 += 1;
        if self.1 == 100 {
            self.2.set();
        }
        Progress::Busy
    }
}

#[test]
fn mail_wakes_a_sleeping_core() {
    bounded::within_a_minute(|| {
        let options = LoopbackOptions {
            park: ParkMode::Block,
            ..LoopbackOptions::default()
        };
        let device = LoopbackDevice::with_options(options);
        let (out, mailer) = std::sync::mpsc::channel();
        let core = std::thread::spawn(move || {
            let ctx = device.context().expect("context");
            let (mailer, mailbox) = mailbox(4, ctx.waker());
            out.send(mailer).expect("main waits");
            let stop = StopFlag::new();
            RunLoop::<Loopback>::new(&ctx, Idle::Sleep)
                .run(&mut [&mut Reader(mailbox, 0, stop.clone())], &stop)
        });
        let mailer = mailer.recv().expect("started");
        for value in 0..100 {
            while mailer.send(value).is_err() {
                std::thread::yield_now();
            }
        }
        core.join().expect("all mail read");
    });
}

/// SENDs "hello" from one end to the other.
fn greet(from: &mut End<Loopback>, to: &mut End<Loopback>) {
    let region = to.ctx.alloc(4096, drover_mem::PageWish::Small).expect("memory");
    let mr = to
        .ctx
        .register(&region, drover_verbs::Access::LOCAL)
        .expect("register");
    let mut recvs = RecvList::default();
    recvs.push(RecvWr {
        wr_id: WrId(1),
        sge: drover_verbs::MemoryRegion::sge(&mr, 0, 64),
    });
    to.qp.post_recv(to.ctx.cpu(), &recvs).expect("recv");
    let mut list = SendList::default();
    let payload = list.inline(b"hello");
    list.push(SendWr::send(payload).signaled(WrId(2)));
    from.qp.post_send(from.ctx.cpu(), &list).expect("send");
    let mut wcs = [Wc::default(); 2];
    assert_eq!(from.cq.poll(from.ctx.cpu(), &mut wcs), 1);
    assert_eq!(to.cq.poll(to.ctx.cpu(), &mut wcs), 1);
    let mut text = [0; 5];
    region.copy_out(0, &mut text);
    assert_eq!(&text, b"hello");
}

#[test]
fn two_ends_connect_in_one_line() {
    let (mut a, mut b) = ends::<Loopback>(&LoopbackDevice::new(), QpKind::Rc).expect("ends");
    greet(&mut a, &mut b);
    greet(&mut b, &mut a);
}

#[test]
fn two_threads_connect_over_a_control_channel() {
    bounded::within_a_minute(|| {
        let device = LoopbackDevice::new();
        let (mut here, mut there) = ControlStream::pair();
        let other = device.clone();
        let thread = std::thread::spawn(move || {
            let mut end = End::<Loopback>::new(&other, QpKind::Uc).expect("end");
            end.connect(&mut there, Ns::from_s(20)).expect("connect");
            assert_eq!(end.qp.state(), QpState::ReadyToSend);
            // Kept until the other side has seen the connection.
            let _ = there.recv_until(end.ctx.cpu(), Ns::from_s(40));
        });
        let mut end = End::<Loopback>::new(&device, QpKind::Uc).expect("end");
        end.connect(&mut here, Ns::from_s(20)).expect("connect");
        assert_eq!(end.qp.state(), QpState::ReadyToSend);
        drop(here);
        thread.join().expect("other end");
    });
}

#[test]
fn a_peer_that_goes_or_says_nonsense_ends_the_exchange() {
    let device = LoopbackDevice::new();
    let mut end = End::<Loopback>::new(&device, QpKind::Rc).expect("end");
    let (mut here, mut there) = ControlStream::pair();
    there.send(20, b"hello?", &[]).expect("send");
    let error = end.connect(&mut here, Ns::from_s(5)).expect_err("nonsense");
    assert!(error.to_string().contains("kind 20 where 4"), "{error}");
    let (mut here, mut there) = ControlStream::pair();
    there
        .send(drover_control::kind::EXPORT, b"\xff\xff\xff\xff", &[])
        .expect("send");
    end.connect(&mut here, Ns::from_s(5)).expect_err("no export");
    let (mut here, there) = ControlStream::pair();
    drop(there);
    end.connect(&mut here, Ns::from_s(5)).expect_err("gone");
    // Nobody there: the clock is moved by hand and never moves, the deadline comes all the same.
    let (mut here, _there) = ControlStream::pair();
    let error = end.connect(&mut here, Ns::from_ms(3)).expect_err("silence");
    assert!(error.to_string().contains("deadline"), "{error}");
    assert!(end.ctx.cpu().now() < Ns::from_s(5));
}
