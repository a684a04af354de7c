//! Doorbell registers: their assignment to queue pairs, and the cost of their locks.

use super::Net;
use drover_base::Cost;
use drover_sim::{Ps, Turns, VirtualCpu, Waiting};
use drover_verbs::{DomainOptions, DoorbellReport, DoorbellSource, Doorbells};
use std::collections::BTreeMap;

/// Time spent waiting for a doorbell register's lock.
const LOCK_WAIT: Cost = Cost::new("verbs.lock_wait");

/// Registers that a device gives one process. `[SMART s3.1]`
const REGISTERS_MAX: usize = 512;

/// The registers of one process or domain: first those with one user each and without a lock, then those that queue
/// pairs share.
#[derive(Debug)]
pub(crate) struct Registers {
    doorbells: Doorbells,
    low: usize,
    registers: Vec<Register>,
    /// Under [`Doorbells::PerContext`]: register of each context that has queue pairs, and their number.
    contexts: BTreeMap<u32, (usize, usize)>,
}

#[derive(Clone, Debug, Default)]
struct Register {
    users: usize,
    lock: Lock,
}

#[derive(Clone, Debug, Default)]
struct Lock {
    turns: Turns,
    busy: Ps,
}

/// Index of the register with the fewest users; of several the first.
fn least_used(registers: &[Register]) -> Option<usize> {
    (0..registers.len()).min_by_key(|&index| registers[index].users)
}

impl Registers {
    /// `low` and `shared` are the numbers of registers without and with a lock that the driver uses; without shared
    /// ones there are no locks at all.
    pub(crate) fn new(options: &DomainOptions, low: u64, shared: u64) -> Registers {
        let low = low as usize;
        let count = match options.doorbells {
            _ if shared == 0 => 0,
            Doorbells::Driver => (low + shared as usize).min(REGISTERS_MAX),
            Doorbells::PerContext => options.registers.unwrap_or(REGISTERS_MAX).clamp(1, REGISTERS_MAX),
        };
        Registers {
            doorbells: options.doorbells,
            low,
            registers: vec![Register::default(); count],
            contexts: BTreeMap::new(),
        }
    }

    /// Assigns the register of a new queue pair of `ctx`; `None` if registers have no locks. The driver's order: the
    /// unused ones without a lock, then the one with the fewest users.
    pub(crate) fn assign(&mut self, ctx: u32) -> Option<u32> {
        if self.doorbells == Doorbells::PerContext {
            return self.assign_to_context(ctx);
        }
        let low = self.low.min(self.registers.len());
        let (alone, shared) = self.registers.split_at(low);
        let index = match alone.iter().position(|register| register.users == 0) {
            Some(index) => index,
            None => low + least_used(shared)?,
        };
        self.registers[index].users += 1;
        Some(index as u32)
    }

    fn assign_to_context(&mut self, ctx: u32) -> Option<u32> {
        if let Some((index, queue_pairs)) = self.contexts.get_mut(&ctx) {
            *queue_pairs += 1;
            return Some(*index as u32);
        }
        let index = least_used(&self.registers)?;
        self.registers[index].users += 1;
        self.contexts.insert(ctx, (index, 1));
        Some(index as u32)
    }

    /// A queue pair of `ctx` that used `register` is destroyed.
    pub(crate) fn release(&mut self, ctx: u32, register: u32) {
        if let Some((_, queue_pairs)) = self.contexts.get_mut(&ctx) {
            *queue_pairs -= 1;
            if *queue_pairs > 0 {
                return;
            }
            self.contexts.remove(&ctx);
        }
        self.registers[register as usize].users -= 1;
    }

    /// The lock that a post to `register` takes, if several users may need it.
    fn lock_of(&mut self, register: u32) -> Option<&mut Lock> {
        let index = register as usize;
        let register = &mut self.registers[index];
        let is_locked = match self.doorbells {
            Doorbells::Driver => index >= self.low,
            Doorbells::PerContext => register.users > 1,
        };
        is_locked.then_some(&mut register.lock)
    }

    /// What a domain reports.
    pub(crate) fn report(&self) -> DoorbellReport {
        let users = self.registers.iter().map(|register| register.users);
        DoorbellReport {
            doorbells: self.doorbells,
            users: users.filter(|&users| users > 0).collect(),
            source: DoorbellSource::Exact,
        }
    }

    /// Total time that the busiest lock was held.
    pub(crate) fn busiest(&self) -> Ps {
        let busy = self.registers.iter().map(|register| register.lock.busy);
        busy.max().unwrap_or_default()
    }
}

impl Net {
    /// `cpu` takes the lock of the queue pair's register, holds it for one post and releases it.
    ///
    /// The number of waiters behind us is not known yet; in a steady state it equals the number before us, whose cache lines
    /// bounce in the same way.
    pub(crate) fn take_register(&mut self, cpu: &VirtualCpu, (qpn, ctx): (u32, u32), fetches: bool) {
        let Some(qp) = self.qps.get(qpn) else { return };
        let (owner, machine, Some(register)) = (qp.ctx, qp.machine, qp.card.register) else {
            return;
        };
        let far = self.ctxs.at(ctx).far_socket;
        let of = self.ctxs.at(owner).registers;
        let prices = &self.prices;
        let Some(lock) = self.registers.at(of).lock_of(register) else {
            return;
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn driver() -> Registers {
        Registers::new(&DomainOptions::default(), 4, 11)
    }

    #[test]
    fn the_driver_gives_four_alone_and_shares_the_rest_in_turn() {
        let mut registers = driver();
        let assigned: Vec<u32> = (0..27).map_while(|ctx| registers.assign(ctx)).collect();
        let expected: Vec<u32> = (0..15).chain(4..15).chain([4]).collect();
        assert_eq!(assigned, expected);
        assert!((0..4).all(|alone| registers.lock_of(alone).is_none()));
        assert!((4..15).all(|shared| registers.lock_of(shared).is_some()));
        let report = registers.report();
        assert_eq!((report.users[0], report.users[4], report.users[5]), (1, 3, 2));
        assert!(report.is_shared());
    }

    #[test]
    fn threads_beyond_the_registers_share_them_and_are_reported() {
        let cx6 = crate::profile::Profile::named("cx6").expect("a profile");
        let lock = &cx6.parameters().lock;
        let of = |options: &DomainOptions| {
            let mut registers = Registers::new(options, lock.low_registers, lock.shared_registers);
            (0..96).for_each(|ctx| assert!(registers.assign(ctx).is_some()));
            let report = registers.report();
            assert!(report.is_shared());
            assert_eq!(report.users.iter().sum::<usize>(), 96);
            report.users
        };
        let users = of(&DomainOptions::default());
        assert_eq!(users[..4], [1; 4], "low-latency ones, without a lock");
        assert_eq!(users[4..].len(), 11, "register 0 is reserved");
        assert!(users[4..].iter().all(|users| [8, 9].contains(users)), "{users:?}");
        let mut few = DomainOptions::with(Doorbells::PerContext);
        few.registers = Some(95);
        assert_eq!(of(&few).iter().filter(|users| **users > 1).count(), 1);
    }

    #[test]
    fn the_register_of_a_destroyed_queue_pair_is_the_next_one_assigned() {
        let mut registers = driver();
        (0..26).for_each(|ctx| assert!(registers.assign(ctx).is_some()));
        registers.release(0, 9);
        assert_eq!((registers.assign(0), registers.assign(0)), (Some(9), Some(4)));
        registers.release(0, 2);
        assert_eq!(registers.assign(0), Some(2), "alone again");
    }

    #[test]
    fn a_context_has_one_register_until_there_are_more_contexts_than_registers() {
        let mut registers = Registers::new(&DomainOptions::with(Doorbells::PerContext), 4, 11);
        for ctx in 0..513 {
            let first = registers.assign(ctx);
            assert_eq!(registers.assign(ctx), first, "two queue pairs of one context");
            assert_eq!(first, Some(ctx % 512));
        }
        assert!(
            registers.lock_of(0).is_some(),
            "the 513th context shares the first register"
        );
        assert!(registers.lock_of(1).is_none());
        let report = registers.report();
        assert_eq!((report.users.len(), report.users[0]), (512, 2));
        registers.release(512, 0);
        assert!(
            registers.lock_of(0).is_some(),
            "its second queue pair is still there"
        );
        registers.release(512, 0);
        assert!(registers.lock_of(0).is_none());
    }

    #[test]
    fn a_profile_without_locks_assigns_nothing() {
        for doorbells in [Doorbells::Driver, Doorbells::PerContext] {
            let mut registers = Registers::new(&DomainOptions::with(doorbells), 4, 0);
            assert_eq!(registers.assign(1), None);
        }
    }
}
