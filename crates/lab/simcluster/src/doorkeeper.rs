//! [`Doorkeeper`]: accepts the clients of a HERD server.
//!
//! Control channels are pairs of streams in this process. They are not part of the modelled network: a message takes no
//! virtual time except until the doorkeeper polls next.

use drover_base::{Actor, Cpu, Ns, Progress};
use drover_control::LocalListener;
use drover_kv_herd::server::{Acceptor, Standard, Variant};
use drover_sim::VirtualCpu;
use drover_verbs::Provider;

/// Virtual time between two polls of the control channels.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// An actor that passes clients that connect to its listener to the [`Acceptor`] of a HERD server, and steps the
/// acceptor. It polls at least every 20 virtual microseconds.
pub struct Doorkeeper<P: Provider, V: Variant = Standard> {
    acceptor: Acceptor<P, V>,
    listener: LocalListener,
}

impl<P: Provider, V: Variant> Doorkeeper<P, V> {
    /// Wraps `acceptor`; clients connect to `listener`.
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
