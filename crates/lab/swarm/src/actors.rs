//! What actors of any simulated cluster are made of: the fabric, a core's actor, a client with its user.

use crate::asker::{Asker, Shared};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_sim::VirtualCpu;
use drover_verbs::Context;
use drover_verbs_sim::{Sim, World};
use drover_verbs_suite::faulty::{FaultCounts, Faulty, FaultyContext, FaultyDevice};
use std::cell::RefCell;
use std::rc::Rc;

/// The fabric: simulated machines, and a network that does worse than networks do.
pub type Fabric = Faulty<Sim>;
/// An actor's view of it.
pub type Core = Rc<FaultyContext<Sim>>;

/// A core with late messages looks at them this often, though nothing arrives.
const LATE_LOOK: Ns = Ns::from_us(20);

/// An actor on a faulty fabric: what is late goes on its way even if the actor has nothing to do.
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

/// The core steps `actor` from now on; returns a handle to it.
pub fn host<A: Actor<VirtualCpu> + 'static>(world: &World, core: &Core, actor: A) -> Rc<RefCell<A>> {
    let actor = Rc::new(RefCell::new(actor));
    let faulty_actor = FaultyActor {
        actor: Shared(actor.clone()),
        core: core.clone(),
    };
    world.spawn_on(core.cpu(), Box::new(faulty_actor));
    actor
}

/// A client that is up.
pub struct Seated<C> {
    pub asker: Rc<RefCell<Asker<C>>>,
    pub core: Core,
    pub machine: usize,
}

impl<C> Seated<C> {
    /// Somebody outside has changed what the client has to do.
    pub fn wake(&self) {
        self.core.waker().wake();
    }
}

/// What happened to the messages of all `devices`.
pub fn fault_counts(devices: &[FaultyDevice<Sim>]) -> FaultCounts {
    let mut sum = FaultCounts::default();
    for device in devices {
        let counts = device.counts();
        sum.dropped += counts.dropped;
        sum.torn += counts.torn;
        sum.delayed += counts.delayed;
        sum.reordered += counts.reordered;
        sum.duplicated += counts.duplicated;
        sum.broken += counts.broken;
        sum.overflowed += counts.overflowed;
    }
    sum
}
