//! Doorbell registers: their assignment to queue pairs, and the cost of their locks.

use super::Net;
use drover_base::Cost;
use drover_sim::{Ps, Turns, VirtualCpu, Waiting};

/// Time spent waiting for a doorbell register's lock.
const LOCK_WAIT: Cost = Cost::new("verbs.lock_wait");

/// How the queue pairs of a process get their doorbell registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doorbells {
    /// The driver's default: the first `low_registers` queue pairs that the process creates get a register each,
    /// without a lock; later ones share `shared_registers` registers round-robin, each with a lock. The profile's group
    /// `lock` has both numbers; if `shared_registers` is 0, posts take no lock.
    #[default]
    Driver,
    /// One register per context, that is, per thread: posts take no lock.
    PerContext,
}

/// The registers of one process.
#[derive(Debug)]
pub(crate) struct Registers {
    pub(crate) doorbells: Doorbells,
    qps_made: u64,
    locks: Vec<Lock>,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    turns: Turns,
    busy: Ps,
}

impl Registers {
    pub(crate) fn new(doorbells: Doorbells, shared: u64) -> Registers {
        Registers {
            doorbells,
            qps_made: 0,
            locks: vec![Lock::default(); shared as usize],
        }
    }

    /// Assigns the register of the next queue pair; `None` if it is exclusive.
    pub(crate) fn assign(&mut self, low: u64) -> Option<u32> {
        let nth = self.qps_made;
        self.qps_made += 1;
        if self.locks.is_empty() || self.doorbells == Doorbells::PerContext {
            return None;
        }
        let shared = nth.checked_sub(low)?;
        Some((shared % self.locks.len() as u64) as u32)
    }

    /// Total time that the busiest lock was held.
    pub(crate) fn busiest(&self) -> Ps {
        self.locks.iter().map(|lock| lock.busy).max().unwrap_or_default()
    }
}

impl Net {
    /// `cpu` takes the lock of the queue pair's register, holds it for one post and releases it.
    ///
    /// The number of waiters behind us is not known yet; in a steady state it equals the number before us, whose cache lines
    /// bounce in the same way.
    pub(crate) fn take_register(&mut self, cpu: &VirtualCpu, qpn: u32, fetches: bool) {
        let Some(qp) = self.qps.get(qpn) else { return };
        let (ctx, machine, Some(register)) = (qp.ctx, qp.machine, qp.card.register) else {
            return;
        };
        let far = self.ctxs.at(ctx).far_socket;
        let of = self.ctxs.at(ctx).registers;
        let prices = &self.prices;
        let lock = &mut self.registers.at(of).locks[register as usize];
        // The lock is held while the post is written, so the end of the post's own cost overlaps with it.
        let post = Ps::from_ns(prices.p.cpu.post_ns).min(prices.lock.hold);
        let now = cpu.local() - post;
        let hold = |waiting: Waiting| {
            let mut hold = prices.lock.hold + waiting.bounces(prices.lock.per_waiter);
            if fetches {
                hold += prices.lock.read_extra;
            }
            if far {
                hold += waiting.bounces(prices.lock.per_far_waiter);
            }
            hold
        };
        let (start, waiting) = lock.turns.come(cpu.id(), now, cpu.past() - post, hold);
        let (waited, until) = (start - now, start + hold(waiting));
        lock.busy += until - start;
        lock.turns.hold(start, until);
        self.nic(machine).counters.lock_wait += waited;
        cpu.wait_until(until, LOCK_WAIT);
    }
}
