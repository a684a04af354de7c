//! [`Server`]: a server thread. It answers PUTs; GETs do not involve it.

use super::port::{Port, Queues, Slots, charge_looks};
use drover_base::{Actor, Ns, Progress};
use drover_verbs::{MemoryRegion, Provider, Qpn};

/// A server thread: its queues, its memory, and a port to each client whose PUTs it answers.
pub struct Server<P: Provider> {
    /// Queue pairs and completion queues for PUTs and answers.
    pub queues: Queues<P>,
    /// Memory that clients READ, followed by the slots for their PUTs.
    pub mr: P::Mr,
    /// RECVs of all clients, if PUTs are datagrams.
    pub recvs: Option<Slots>,
    /// Ports to the clients, one each.
    pub ports: Vec<Port>,
    /// Numbers of the clients' datagram queue pairs, in the order of `ports`; empty if PUTs are WRITEs.
    pub senders: Vec<Qpn>,
    /// Passive queue pairs, the targets of clients' WRITEs and READs.
    pub passive: Vec<P::Qp>,
    /// Index of the client at which the next scan starts.
    pub cursor: usize,
}

impl<P: Provider> Server<P> {
    /// Polls for a PUT; returns its client.
    fn receive(&mut self, cpu: &P::Cpu) -> Option<usize> {
        let Some(slots) = &self.recvs else {
            return self.scan(cpu);
        };
        let sender = self.queues.take_datagram(cpu, &self.mr, slots)?;
        self.senders.iter().position(|known| *known == sender)
    }

    /// Polls the next slot of every client once, starting where the last scan ended.
    fn scan(&mut self, cpu: &P::Cpu) -> Option<usize> {
        let count = self.ports.len();
        for looked in 0..count {
            let client = (self.cursor + looked) % count;
            if self.ports[client].take(self.mr.region()) {
                charge_looks(cpu, looked + 1);
                self.cursor = (client + 1) % count;
                return Some(client);
            }
        }
        charge_looks(cpu, count);
        None
    }
}

impl<P: Provider> Actor<P::Cpu> for Server<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.queues.reap(cpu);
        let Some(client) = self.receive(cpu) else {
            return Progress::Idle { wake_at: Ns::MAX };
        };
        self.queues.send(cpu, &mut self.ports[client]);
        Progress::Busy
    }
}
