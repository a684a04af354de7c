//! [`Desk`]: where clients knock; and the [`Doorkeeper`] who lets them in.
//!
//! Control channels are pairs of ends in this process: they are no part of the modelled network and cost no virtual
//! time but the doorkeeper's round.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv_herd::client::Dial;
use drover_kv_herd::server::Acceptor;
use drover_rt::control::ControlStream;
use drover_sim::VirtualCpu;
use drover_verbs_sim::Sim;
use std::sync::{Arc, Mutex, PoisonError};

/// How often the doorkeeper looks up.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// The desk of one server; clones are the same one. It outlives a server that crashes: who knocks meanwhile is let in
/// by the next doorkeeper.
#[derive(Clone, Default)]
pub struct Desk(Arc<Mutex<Vec<ControlStream>>>);

impl Desk {
    /// A desk where nobody has knocked.
    pub fn new() -> Desk {
        Desk::default()
    }

    /// How a client reaches this desk's server.
    pub fn dial(&self) -> Dial {
        let desk = self.clone();
        Dial::new(move || {
            let (ours, theirs) = ControlStream::pair();
            desk.knocking().push(theirs);
            Ok(ours)
        })
    }

    fn knocking(&self) -> std::sync::MutexGuard<'_, Vec<ControlStream>> {
        // A room has one thread; nothing is half done while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's acceptor as an actor: lets in whoever knocks.
pub struct Doorkeeper {
    acceptor: Acceptor<Sim>,
    desk: Desk,
}

impl Doorkeeper {
    /// Who lets clients of `desk` in to the server of `acceptor`.
    pub fn new(acceptor: Acceptor<Sim>, desk: &Desk) -> Doorkeeper {
        let desk = desk.clone();
        Doorkeeper { acceptor, desk }
    }
}

impl Actor<VirtualCpu> for Doorkeeper {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let knocking = std::mem::take(&mut *self.desk.knocking());
        for stream in knocking {
            self.acceptor.adopt(stream);
        }
        let wake_at = cpu.now() + LOOK_EVERY;
        self.acceptor.step(cpu).and(Progress::Idle { wake_at })
    }
}
