//! [`Doorkeeper`]: lets clients in.
//!
//! Control channels are pairs of ends in this process: they are no part of the modelled network and cost no virtual
//! time but the doorkeeper's round.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::LocalListener;
use drover_kv_herd::server::{Acceptor, Standard, Variant};
use drover_sim::VirtualCpu;
use drover_verbs::Provider;

/// How often the doorkeeper looks up.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// The server's acceptor as an actor: accepts the clients that connect.
pub struct Doorkeeper<P: Provider, V: Variant = Standard> {
    acceptor: Acceptor<P, V>,
    listener: LocalListener,
}

impl<P: Provider, V: Variant> Doorkeeper<P, V> {
    /// Who lets clients of `listener` in to the server of `acceptor`.
    pub fn new(acceptor: Acceptor<P, V>, listener: &LocalListener) -> Doorkeeper<P, V> {
        let listener = listener.clone();
        Doorkeeper { acceptor, listener }
    }
}

impl<P: Provider<Cpu = VirtualCpu>, V: Variant> Actor<VirtualCpu> for Doorkeeper<P, V> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.acceptor.adopt(stream);
        }
        let wake_at = cpu.now() + LOOK_EVERY;
        self.acceptor.step(cpu).and(Progress::Idle { wake_at })
    }
}
