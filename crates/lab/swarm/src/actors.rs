//! Parts of every simulated cluster: the fabric, the actor on a core, a client with its load.

use crate::asker::{Asker, Shared};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_sim::VirtualCpu;
use drover_verbs::Context;
use drover_verbs_sim::{Sim, World};
use drover_verbs_suite::faulty::{Faulty, FaultyContext};
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// The fabric: simulated machines, and a network with injected faults.
pub type Fabric = Faulty<Sim>;
/// A core's context of the fabric.
pub type Core = Rc<FaultyContext<Sim>>;

/// Interval at which a core with delayed messages checks them although nothing arrives.
const LATE_LOOK: Ns = Ns::from_us(20);

/// An actor on a faulty fabric: delivers delayed messages even if the actor is idle.
struct FaultyActor<A> {
    actor: Shared<A>,
    core: Core,
}

impl<A: Actor<VirtualCpu>> Actor<VirtualCpu> for FaultyActor<A> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let progress = self.actor.step(cpu);
        match self.core.deliver_late() {
            false => progress,
            true => progress.and(Progress::Idle {
                wake_at: cpu.now() + LATE_LOOK,
            }),
        }
    }
}

/// Lets `core` step `actor` from now on, and returns a handle to the actor.
pub fn host<A: Actor<VirtualCpu> + 'static>(world: &World, core: &Core, actor: A) -> Rc<RefCell<A>> {
    let actor = Rc::new(RefCell::new(actor));
    let faulty_actor = FaultyActor {
        actor: Shared(actor.clone()),
        core: core.clone(),
    };
    world.spawn_on(core.cpu(), Box::new(faulty_actor));
    actor
}

/// An actor that ends, with all that it has, when the last handle of it is dropped: as a process does that dies.
pub struct Mortal<A>(Weak<RefCell<A>>);

impl<A> Mortal<A> {
    /// The actor behind `handle`.
    pub fn new(handle: &Rc<RefCell<A>>) -> Mortal<A> {
        Mortal(Rc::downgrade(handle))
    }
}

impl<C: Cpu, A: Actor<C>> Actor<C> for Mortal<A> {
    fn step(&mut self, cpu: &C) -> Progress {
        match self.0.upgrade() {
            Some(actor) => actor.borrow_mut().step(cpu),
            None => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}

/// A running client of a cluster: a handle to its actor, its core and its machine.
pub struct Seated<C> {
    /// The client and its load.
    pub asker: Rc<RefCell<Asker<C>>>,
    /// Context of the client's core.
    pub core: Core,
    /// Index of the client's machine.
    pub machine: usize,
}

impl<C> Seated<C> {
    /// Wakes the client's core after its work was changed from outside.
    pub fn wake(&self) {
        self.core.waker().wake();
    }
}
