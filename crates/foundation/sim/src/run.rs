//! [`Sim`]: the loop that runs events, and the step rule of cores.

use crate::cpu::{CoreId, State, VirtualCpu};
use crate::{CpuOptions, Event, Ps, Queue};
use drover_base::{Actor, Ns, Progress};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Event kind: a core steps.
pub(crate) const STEP: u16 = 0;
/// Event kind: a timer of a core expires.
pub(crate) const TIMER: u16 = 1;

/// The simulated parts other than cores; it handles the events that it scheduled.
pub trait Model {
    /// Handles `event`, whose time is [`Queue::now`], and may schedule further events in `queue`. The [`Sim`] is
    /// borrowed meanwhile: its methods that need the model or the queue panic, and [`Sim::now`] is the time of the last
    /// event of a core.
    fn handle(&mut self, event: Event, queue: &mut Queue);
}

type BoxedActor = Box<dyn Actor<VirtualCpu>>;

struct CoreSlot {
    cpu: VirtualCpu,
    /// Empty while they step.
    actors: Vec<BoxedActor>,
}

/// A simulation: owns the model, the cores with their actors, and the queue of events. Clones are handles of the same
/// simulation. It stays on one thread.
pub struct Sim<M>(Rc<Inner<M>>);

struct Inner<M> {
    seed: u64,
    clock: Rc<Cell<Ps>>,
    queue: RefCell<Queue>,
    model: RefCell<M>,
    hosts: RefCell<Vec<CoreSlot>>,
    wakes: Arc<Wakes>,
}

/// Cores woken by a [`Sim::waker`]. Wakers may be called on any thread, so they share only this.
#[derive(Default)]
struct Wakes {
    any: AtomicBool,
    cores: Mutex<Vec<CoreId>>,
}

impl<M> Clone for Sim<M> {
    fn clone(&self) -> Sim<M> {
        Sim(self.0.clone())
    }
}

impl<M: Model> Sim<M> {
    /// Creates a simulation of `model` from `seed`, at time zero and without cores.
    pub fn new(model: M, seed: u64) -> Sim<M> {
        Sim(Rc::new(Inner {
            seed,
            clock: Rc::default(),
            queue: RefCell::default(),
            model: RefCell::new(model),
            hosts: RefCell::default(),
            wakes: Arc::default(),
        }))
    }

    /// Adds a core to `machine` and returns its handle. The core does not step until it [hosts](Sim::host) an actor.
    pub fn add_core(&self, machine: u16, options: CpuOptions) -> VirtualCpu {
        let mut hosts = self.0.hosts.borrow_mut();
        let index = hosts.iter().filter(|host| host.cpu.machine() == machine).count();
        let id = CoreId(hosts.len() as u32);
        let place = (machine, index as u16);
        let cpu = VirtualCpu::new(id, place, self.0.seed, self.0.clock.clone(), options);
        hosts.push(CoreSlot {
            cpu: cpu.clone(),
            actors: Vec::new(),
        });
        cpu
    }

    /// Adds `actor` to those of `cpu`; in each step of the core it steps after the actors hosted earlier. A core that
    /// is idle, or had no actor, steps now. An actor that is hosted from a step of the same core first steps in the
    /// core's next step, whenever that comes. On a crashed core it never steps.
    pub fn host(&self, cpu: &VirtualCpu, actor: BoxedActor) {
        self.0.hosts.borrow_mut()[cpu.id().0 as usize].actors.push(actor);
        if matches!(cpu.0.state.get(), State::Free | State::Parked) {
            let mut queue = self.0.queue.borrow_mut();
            let now = queue.now();
            cpu.schedule(&mut queue, now);
        }
    }

    /// Applies `act` to the model from outside an event, for example from a step of a core, and returns its result.
    ///
    /// # Panics
    /// If called from [`Model::handle`] or from another `with`.
    #[inline]
    pub fn with<R>(&self, act: impl FnOnce(&mut M, &mut Queue) -> R) -> R {
        act(&mut self.0.model.borrow_mut(), &mut self.0.queue.borrow_mut())
    }

    /// The virtual time of the current event of a core or, between runs, of the end of the last run. A core's own time
    /// may be ahead of it ([`VirtualCpu::local`]). Within [`Model::handle`] use [`Queue::now`]: this clock does not
    /// follow the events of the model.
    pub fn now(&self) -> Ps {
        self.0.clock.get()
    }

    /// The seed given to [`new`](Sim::new).
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// A hash over all events so far: two runs of one program with equal seeds give equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.0.queue.borrow().hash()
    }

    /// Number of events handled so far, including steps and timers of cores.
    pub fn events(&self) -> u64 {
        self.0.queue.borrow().taken()
    }

    /// Handles of all cores, crashed ones included, in the order of their creation.
    pub fn cores(&self) -> Vec<VirtualCpu> {
        self.0
            .hosts
            .borrow()
            .iter()
            .map(|host| host.cpu.clone())
            .collect()
    }

    /// Returns a function that [notifies](VirtualCpu::notify) `cpu` and that any thread may call. The simulation
    /// notices calls after each step of any core and at the start of a run, not while it handles events of the model.
    pub fn waker(&self, cpu: &VirtualCpu) -> impl Fn() + Send + Sync + 'static {
        let (wakes, id) = (self.0.wakes.clone(), cpu.id());
        move || {
            let mut cores = wakes
                .cores
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            if !cores.contains(&id) {
                cores.push(id);
            }
            // Release: pairs with the swap in `hear_wakers`.
            wakes.any.store(true, Ordering::Release);
        }
    }

    /// Lets no step of `cpu` begin until `time` after [`now`](Sim::now). Never shortens a stall in progress.
    pub fn stall(&self, cpu: &VirtualCpu, time: Ns) {
        let until = self.now() + Ps::from(time);
        let stalled_until = &cpu.0.stalled_until;
        stalled_until.set(stalled_until.get().max(until));
    }

    /// Stops all cores of `machine` for good and drops their actors (those of a core that is in a step, after the
    /// step). The model is not told: crash its parts of the machine as well. Cores added to the machine later run.
    pub fn crash(&self, machine: u16) {
        let mut gone = Vec::new();
        for host in self.0.hosts.borrow_mut().iter_mut() {
            if host.cpu.machine() == machine {
                host.cpu.0.state.set(State::Dead);
                gone.append(&mut host.actors);
            }
        }
        drop(gone); // the destructors of actors may call the model
    }

    /// Runs all events up to and including time `until`, and sets the time to `until`. A past time does nothing.
    pub fn run_until(&self, until: Ns) {
        self.run_while(until, || true);
    }

    /// As [`run_until`](Sim::run_until), with a time in picoseconds.
    pub fn run_until_ps(&self, until: Ps) {
        self.run(until, &mut || true);
    }

    /// Time of the next scheduled event; `None` if there is none.
    pub fn next_at(&self) -> Option<Ps> {
        self.0.queue.borrow().next_at()
    }

    /// Drops the actors of all cores, except of one that is in a step: actors may hold handles of this simulation,
    /// which would keep it alive.
    pub fn dismiss(&self) {
        let gone: Vec<_> = self
            .0
            .hosts
            .borrow_mut()
            .iter_mut()
            .map(|host| std::mem::take(&mut host.actors))
            .collect();
        drop(gone); // the destructors of actors may call the model
    }

    /// Runs all events up to and including `time` from now, and sets the time to that.
    pub fn run_for(&self, time: Ns) {
        let until = self.now() + Ps::from(time);
        self.run(until, &mut || true);
    }

    /// As [`run_until`](Sim::run_until), but ends early if `going` returns false; `going` is called after every step of
    /// a core. Returns false if the run ended early (the time is then that of the last step), else true.
    pub fn run_while(&self, until: Ns, mut going: impl FnMut() -> bool) -> bool {
        self.run(Ps::from(until), &mut going)
    }

    fn run(&self, until: Ps, going: &mut dyn FnMut() -> bool) -> bool {
        self.hear_wakers();
        while let Some(event) = self.run_model(until) {
            let cpu = self.0.hosts.borrow()[event.arg as usize].cpu.clone();
            match event.kind {
                STEP => {
                    self.step(&cpu);
                    self.hear_wakers();
                    if !going() {
                        return false;
                    }
                }
                _ => cpu.timer(&mut self.0.queue.borrow_mut()),
            }
        }
        true
    }

    /// Runs model events up to the next event of a core, which it returns; else up to `until`.
    fn run_model(&self, until: Ps) -> Option<Event> {
        let mut queue = self.0.queue.borrow_mut();
        let mut model = self.0.model.borrow_mut();
        while let Some(event) = queue.take(until) {
            if event.kind < Event::FIRST_KIND {
                self.0.clock.set(queue.now());
                return Some(event);
            }
            model.handle(event, &mut queue);
        }
        queue.pass(until);
        self.0.clock.set(queue.now());
        None
    }

    /// Steps every actor that `cpu` hosts once.
    fn step(&self, cpu: &VirtualCpu) {
        if !cpu.begin_step(&mut self.0.queue.borrow_mut()) {
            return;
        }
        let (start, at) = (self.now(), cpu.id().0 as usize);
        let mut actors = std::mem::take(&mut self.0.hosts.borrow_mut()[at].actors);
        let idle = Progress::Idle { wake_at: Ns::MAX };
        let progress = actors
            .iter_mut()
            .fold(idle, |so_far, actor| so_far.and(actor.step(cpu)));
        if cpu.0.state.get() == State::Dead {
            return;
        }
        let hosted = &mut self.0.hosts.borrow_mut()[at].actors;
        actors.append(hosted); // actors hosted during the step
        *hosted = actors;
        let wake_at = match progress {
            Progress::Busy => None,
            Progress::Idle { wake_at } => Some(wake_at),
        };
        cpu.end_step(&mut self.0.queue.borrow_mut(), start, wake_at);
    }

    /// Notifies the cores that wakers have named since the last call.
    fn hear_wakers(&self) {
        let wakes = &self.0.wakes;
        // Acquire: pairs with the waker's store. The plain load first avoids a swap, which would cost every step twenty
        // cycles.
        if !wakes.any.load(Ordering::Relaxed) || !wakes.any.swap(false, Ordering::Acquire) {
            return;
        }
        let mut cores = wakes
            .cores
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        for id in cores.drain(..) {
            let cpu = self.0.hosts.borrow()[id.0 as usize].cpu.clone();
            cpu.notify(&mut self.0.queue.borrow_mut());
        }
    }
}

impl<M> std::fmt::Debug for Sim<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sim(seed {} at {})", self.0.seed, self.0.clock.get())
    }
}
