//! [`VirtualCpu`]: a core with its own clock, which the cost of its work moves.

use crate::cost::Book;
use crate::lines::Lines;
use crate::noise::Stalls;
use crate::run::{STEP, TIMER};
use crate::{
    AddressSpace, CostLine, CostTable, Event, LastLevel, LinePrices, Locks, Noise, Ps, Queue, Stream,
};
use drover_base::{Cost, Cpu, Line, LockId, Ns};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Time spent waiting for a lock that cores share, and for its line.
const LOCK_WAIT: Cost = Cost::new("sim.lock_wait");

/// Index of a core of a simulation, counted over all machines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CoreId(pub u32);

/// Assumed position of a parked core in its polling round when something arrives: the core notices it that much later.
/// A round takes as long as the core's last idle step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Uniformly distributed over the round, drawn from the core's seeded stream.
    #[default]
    Uniform,
    /// In the middle of the round: the delay is always half a round.
    Mean,
    /// At the start of a round: no delay.
    Start,
}

/// Options of a simulated core.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Price of each kind of work that the core charges.
    pub costs: Rc<CostTable>,
    /// Time per access to a cache line.
    pub lines: LinePrices,
    /// Last-level cache of the machine: cores of one machine get clones of one value.
    pub last_level: LastLevel,
    /// Mappings of the memory that the core touches: cores whose actors share memory get clones of one value.
    pub address_space: AddressSpace,
    /// The locks that the core shares with others: cores get clones of one value.
    pub locks: Locks,
    /// Time from when an arrival is visible until a parked core notices it, in addition to the delay of `phase`. A
    /// timer has neither delay.
    pub detect: Ps,
    /// Assumed position of a parked core in its polling round when something arrives; the resulting delay is added to
    /// `detect`.
    pub phase: Phase,
    /// Factor on the time of every charge and memory access, not on waiting: more than 1 for hyper-threads that share a
    /// core.
    pub slowdown: f64,
    /// Longest virtual time of one step: its charges and memory accesses, waiting excluded. The simulation panics if a
    /// step takes longer.
    pub step_cap: Ps,
    /// Random stalls of the core and its clock skew.
    pub noise: Noise,
}

impl Default for CpuOptions {
    fn default() -> CpuOptions {
        CpuOptions {
            costs: Rc::default(),
            lines: LinePrices::default(),
            last_level: LastLevel::default(),
            address_space: AddressSpace::default(),
            locks: Locks::default(),
            detect: Ps::ZERO,
            phase: Phase::Uniform,
            slowdown: 1.0,
            step_cap: Ps::from_ns(20_000.0),
            noise: Noise::OFF,
        }
    }
}

/// What one core has done since its creation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CoreReport {
    /// Index of the core's machine.
    pub machine: u16,
    /// Index of the core in its machine, in the order of creation; crashed cores keep theirs.
    pub index: u16,
    /// Time in steps that found work, waiting included. Stalls between such steps count neither as busy nor as idle.
    pub busy: Ps,
    /// Part of `busy` spent waiting: for locks, for space in buffers.
    pub waited: Ps,
    /// Time in steps that found no work and time parked, stalls included, from the core's creation to its last step.
    /// Time parked since then is not yet counted.
    pub idle: Ps,
    /// Steps that found work: at least one actor was busy.
    pub busy_steps: u64,
    /// Steps that found no work; polls between such a step and the next arrival are not counted.
    pub idle_steps: u64,
    /// Number of lines fetched from DRAM, by accesses and prefetches. Lines at the price [`next`](LinePrices::next),
    /// which the hardware has prefetched, are not counted.
    pub misses: u64,
    /// Spending by kind of work, in the order of first use, including waiting and work outside of steps. Accesses to
    /// memory are not included.
    pub lines: Vec<CostLine>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Hosts no actor: the holder of its handle calls it from outside.
    Free,
    /// All its actors are idle.
    Parked,
    /// Its next step is queued or running.
    Scheduled,
    /// Its machine crashed.
    Dead,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: CoreId,
    machine: u16,
    index: u16,
    options: CpuOptions,
    clock: Rc<Cell<Ps>>,
    /// The core's own time; at or ahead of the simulation's clock while it works.
    local: Cell<Ps>,
    now: Cell<Ns>,
    skew: Ns,
    pub(crate) state: Cell<State>,
    /// Time of the TIMER event that counts; other TIMER events in the queue are ignored.
    timer_at: Cell<Ps>,
    wake_at: Cell<Ps>,
    parked_at: Cell<Ps>,
    pub(crate) stalled_until: Cell<Ps>,
    /// Charge of the last idle step: the length of a polling round.
    round: Cell<Ps>,
    /// Waiting time in the current step.
    waited: Cell<Ps>,
    busy: Cell<Ps>,
    /// Waiting time in all busy steps.
    busy_waited: Cell<Ps>,
    idle: Cell<Ps>,
    steps: Cell<(u64, u64)>,
    book: RefCell<Book>,
    lines: RefCell<Lines>,
    stalls: RefCell<Stalls>,
    random: Stream,
    phase: Stream,
    slowdown: Cell<f64>,
}

/// A handle of a simulated core; clones are handles of the same core.
#[derive(Clone, Debug)]
pub struct VirtualCpu(pub(crate) Rc<Core>);

impl VirtualCpu {
    pub(crate) fn new(
        id: CoreId,
        place: (u16, u16),
        seed: u64,
        clock: Rc<Cell<Ps>>,
        options: CpuOptions,
    ) -> VirtualCpu {
        let entity = u64::from(place.0) << 16 | u64::from(place.1);
        let stream = |purpose| Stream::new(seed, entity, purpose);
        let skew = stream("skew").below(options.noise.skew_max.0 + 1);
        let now = clock.get();
        VirtualCpu(Rc::new(Core {
            id,
            machine: place.0,
            index: place.1,
            clock,
            local: Cell::new(now),
            now: Cell::new(now.floor() + Ns(skew)),
            skew: Ns(skew),
            state: Cell::new(State::Free),
            timer_at: Cell::new(Ps::MAX),
            wake_at: Cell::new(Ps::MAX),
            parked_at: Cell::new(now),
            stalled_until: Cell::new(Ps::ZERO),
            round: Cell::new(Ps::ZERO),
            waited: Cell::new(Ps::ZERO),
            busy: Cell::new(Ps::ZERO),
            busy_waited: Cell::new(Ps::ZERO),
            idle: Cell::new(Ps::ZERO),
            steps: Cell::new((0, 0)),
            book: RefCell::new(Book::default()),
            lines: RefCell::new(Lines::new(
                options.lines,
                options.last_level.clone(),
                options.address_space.clone(),
            )),
            stalls: RefCell::new(Stalls::new(options.noise, stream("stalls"), now)),
            random: stream("random"),
            phase: stream("phase"),
            slowdown: Cell::new(options.slowdown),
            options,
        }))
    }

    /// Index of the core in the simulation.
    pub fn id(&self) -> CoreId {
        self.0.id
    }

    /// Index of the core's machine.
    pub fn machine(&self) -> u16 {
        self.0.machine
    }

    /// Sets the [`slowdown`](CpuOptions::slowdown) from now on, for example when a sibling starts to share the core.
    pub fn set_slowdown(&self, factor: f64) {
        self.0.slowdown.set(factor);
    }

    /// The core's own time, at which its current actions take effect. It may be ahead of [`Sim::now`](crate::Sim::now),
    /// never behind.
    #[inline]
    pub fn local(&self) -> Ps {
        let core = &*self.0;
        let local = core.local.get().max(core.clock.get());
        core.local.set(local);
        local
    }

    /// The time before which no core will act any more: the simulation's clock, which this core's own time may be ahead of.
    #[inline]
    pub fn past(&self) -> Ps {
        self.0.clock.get()
    }

    /// Moves the core's own time to `until` and accounts for the difference as waiting under the name of `cost`: for a
    /// lock, or for space in a buffer. If `cost` has a price, the price is recorded on top but takes no time. Does
    /// nothing if `until` is not ahead of [`local`](VirtualCpu::local).
    pub fn wait_until(&self, until: Ps, cost: Cost) {
        let core = &*self.0;
        let wait = until.since(self.local());
        if wait == Ps::ZERO {
            return;
        }
        core.local.set(until);
        core.waited.set(core.waited.get() + wait);
        core.book.borrow_mut().spend(cost, wait, &core.options.costs);
    }

    /// Reports that something this core watches has become visible. If the core is parked, its next step is scheduled
    /// after [`detect`](CpuOptions::detect) and the delay of its [`Phase`], or at the end of a stall. Otherwise nothing
    /// happens.
    #[inline]
    pub fn notify(&self, queue: &mut Queue) {
        self.notify_at(queue, queue.now());
    }

    /// As [`notify`](VirtualCpu::notify), for something that becomes visible at `at`, which is not before now.
    #[inline]
    pub fn notify_at(&self, queue: &mut Queue, at: Ps) {
        let core = &*self.0;
        if core.state.get() != State::Parked {
            return;
        }
        let noticed = at + core.options.detect + core.draw_phase();
        self.schedule(queue, noticed);
    }

    /// What the core has done so far.
    pub fn report(&self) -> CoreReport {
        let core = &*self.0;
        let (busy_steps, idle_steps) = core.steps.get();
        CoreReport {
            machine: core.machine,
            index: core.index,
            busy: core.busy.get(),
            waited: core.busy_waited.get(),
            idle: core.idle.get(),
            busy_steps,
            idle_steps,
            misses: core.lines.borrow().misses,
            lines: core.book.borrow().lines().to_vec(),
        }
    }

    /// Schedules the next step at `at`, not before the core's own time.
    pub(crate) fn schedule(&self, queue: &mut Queue, at: Ps) {
        let core = &*self.0;
        core.state.set(State::Scheduled);
        let at = at.max(core.local.get()).max(core.stalled_until.get());
        queue.schedule(at, Event::new(STEP, 0, core.id.0));
    }

    /// Whether a step may begin now; false if it was put off (stall) or the core is dead.
    pub(crate) fn begin_step(&self, queue: &mut Queue) -> bool {
        let core = &*self.0;
        if core.state.get() == State::Dead {
            return false;
        }
        let now = queue.now();
        let stall = core.stalls.borrow_mut().at(now);
        let until = core.stalled_until.get().max(now + stall);
        if until > now {
            core.local.set(core.local.get().max(until));
            self.schedule(queue, until);
            return false;
        }
        if core.parked_at.get() != Ps::MAX {
            core.idle
                .set(core.idle.get() + now.since(core.parked_at.replace(Ps::MAX)));
        }
        core.local.set(now);
        core.waited.set(Ps::ZERO);
        self.refresh();
        true
    }

    /// Ends a step that began at `start`.
    pub(crate) fn end_step(&self, queue: &mut Queue, start: Ps, wake_at: Option<Ns>) {
        let core = &*self.0;
        let took = core.local.get().since(start);
        let charged = took - core.waited.get();
        assert!(
            charged <= core.options.step_cap,
            "core {} of machine {} charged {charged} in one step; the cap is {}",
            core.index,
            core.machine,
            core.options.step_cap
        );
        if core.state.get() == State::Dead {
            return;
        }
        let (busy_steps, idle_steps) = core.steps.get();
        match wake_at {
            None => {
                core.steps.set((busy_steps + 1, idle_steps));
                // An actor that is always busy and charges nothing must not stop time.
                core.local.set(core.local.get().max(start + Ps(1_000)));
                core.busy.set(core.busy.get() + core.local.get().since(start));
                core.busy_waited.set(core.busy_waited.get() + core.waited.get());
                self.schedule(queue, core.local.get());
            }
            Some(wake_at) => {
                core.steps.set((busy_steps, idle_steps + 1));
                core.idle.set(core.idle.get() + took);
                core.round.set(took);
                core.parked_at.set(core.local.get());
                core.state.set(State::Parked);
                self.set_timer(queue, wake_at);
            }
        }
    }

    fn set_timer(&self, queue: &mut Queue, wake_at: Ns) {
        let core = &*self.0;
        let at = match wake_at {
            Ns::MAX => Ps::MAX,
            wake_at => Ps::from(wake_at.since(core.skew)).max(core.local.get() + Ps(1_000)),
        };
        core.wake_at.set(at);
        if at < core.timer_at.get() {
            core.timer_at.set(at);
            queue.schedule(at, Event::new(TIMER, 0, core.id.0));
        }
    }

    /// Handles a TIMER event: wakes the core, or sets the timer again because its wake-up time has changed.
    pub(crate) fn timer(&self, queue: &mut Queue) {
        let core = &*self.0;
        if core.timer_at.get() != queue.now() {
            return;
        }
        core.timer_at.set(Ps::MAX);
        if core.state.get() != State::Parked {
            return;
        }
        let wake_at = core.wake_at.get();
        if wake_at <= queue.now() {
            self.schedule(queue, queue.now());
        } else if wake_at != Ps::MAX {
            core.timer_at.set(wake_at);
            queue.schedule(wake_at, Event::new(TIMER, 0, core.id.0));
        }
    }
}

impl Core {
    fn draw_phase(&self) -> Ps {
        let round = self.round.get();
        match self.options.phase {
            Phase::Uniform if round > Ps::ZERO => Ps(self.phase.below(round.0)),
            Phase::Mean => Ps(round.0 / 2),
            Phase::Uniform | Phase::Start => Ps::ZERO,
        }
    }

    fn slowed(&self, time: Ps) -> Ps {
        match self.slowdown.get() {
            1.0 => time,
            slowdown => Ps::from_ns(time.as_ns() * slowdown),
        }
    }

    fn pass(&self, time: Ps) {
        self.local.set(self.local.get().max(self.clock.get()) + time);
    }
}

impl Cpu for VirtualCpu {
    #[inline]
    fn now(&self) -> Ns {
        self.0.now.get()
    }

    #[inline]
    fn refresh(&self) -> Ns {
        let now = self.local().floor() + self.0.skew;
        self.0.now.set(now);
        now
    }

    #[inline]
    fn charge(&self, cost: Cost, count: u32) {
        let core = &*self.0;
        let mut book = core.book.borrow_mut();
        let time = book.charge(cost, count, &core.options.costs, |time| core.slowed(time));
        core.pass(time);
    }

    #[inline]
    fn touch(&self, line: Line) {
        let core = &*self.0;
        let time = core.lines.borrow_mut().touch(line, core.local.get());
        core.pass(core.slowed(time));
    }

    fn contend(&self, lock: LockId) {
        let core = &*self.0;
        let has_it = core.options.locks.take(lock, core.id, self.local(), self.past());
        self.wait_until(has_it, LOCK_WAIT);
    }

    fn release(&self, lock: LockId) {
        self.0.options.locks.give_back(lock, self.local());
    }

    #[inline]
    fn prefetch(&self, line: Line) {
        let core = &*self.0;
        let time = core.lines.borrow_mut().prefetch(line, core.local.get());
        core.pass(core.slowed(time));
    }

    fn random(&self) -> u64 {
        self.0.random.next()
    }
}
