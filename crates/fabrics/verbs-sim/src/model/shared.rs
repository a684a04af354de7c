//! Queue pairs and completion queues that several cores use, each under a lock.

use super::Net;
use super::objects::Ctx;
use super::prices::LockPrices;
use super::table::Table;
use drover_base::{Cost, Cpu};
use drover_sim::{HeldLock, Ps, Queue, VirtualCpu};
use drover_verbs::{PostError, SendList, Wc};

/// Time spent waiting for the lock of a shared queue, and for the lines of the queue.
const QUEUE_WAIT: Cost = Cost::new("verbs.queue_wait");

/// What a queue has that cores share.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    lock: HeldLock,
    /// A context of each core that has used the queue.
    users: Vec<u32>,
    /// Time when the last post reaches the card: those of several cores do not overtake each other.
    pub(crate) posted_at: Ps,
}

impl Sharing {
    /// The context on whose account `cpu` uses the queue: the first of that core.
    fn user(&mut self, ctxs: &Table<Ctx>, cpu: &VirtualCpu) -> u32 {
        let is_core = |ctx: &Ctx| ctx.cpu.id() == cpu.id();
        let known = |&&id: &&u32| ctxs.get(id).is_some_and(is_core);
        if let Some(&known) = self.users.iter().find(known) {
            return known;
        }
        let found = ctxs.iter().find(|(_, ctx)| is_core(ctx));
        let (user, _) = found.expect("a core has a context");
        self.users.push(user);
        user
    }

    /// `cpu` takes the lock, and waits until it has the lock and the lines of the queue.
    fn take(&mut self, cpu: &VirtualCpu, prices: &LockPrices) {
        let taken = self.lock.take(cpu.id(), cpu.local(), cpu.past());
        cpu.wait_until(taken.free_at + prices.queue(taken), QUEUE_WAIT);
    }

    /// Total time for which it was locked.
    pub(crate) fn busy(&self) -> Ps {
        self.lock.busy()
    }
}

impl Net {
    /// Lets all cores use a queue pair and a completion queue from now on.
    pub(crate) fn share(&mut self, qpn: u32, cq: u32) {
        self.qps.at(qpn).queues.sharing = Some(Box::default());
        self.cqs.at(cq).sharing = Some(Box::default());
    }

    /// As [`post_send`](Net::post_send) to a shared queue pair.
    pub(crate) fn post_shared(
        &mut self,
        cpu: &VirtualCpu,
        qpn: u32,
        list: &SendList,
        queue: &mut Queue,
    ) -> Result<(), PostError> {
        let sharing = self.qps.at(qpn).queues.sharing.as_mut().expect("it is shared");
        let user = sharing.user(&self.ctxs, cpu);
        if self.options.ablations.locks {
            return self.post_from(cpu, user, qpn, list, queue);
        }
        sharing.take(cpu, &self.prices.lock);
        let posted = self.post_from(cpu, user, qpn, list, queue);
        let sharing = self.qps.at(qpn).queues.sharing.as_mut().expect("it is shared");
        sharing.lock.give_back(cpu.local());
        posted
    }

    /// As [`poll`](Net::poll) of a shared completion queue, charged to `cpu`. An empty poll looks before it locks.
    pub(crate) fn poll_shared(
        &mut self,
        cpu: &VirtualCpu,
        cq: u32,
        wcs: &mut [Wc],
        costs: [Cost; 2],
    ) -> usize {
        let [some, none] = costs;
        let found = self.cqs.at(cq);
        let sharing = found.sharing.as_mut().expect("it is shared");
        sharing.user(&self.ctxs, cpu);
        if found.entries.is_empty() {
            cpu.charge(none, 1);
            return self.poll(cq, wcs);
        }
        let locks = !self.options.ablations.locks;
        if locks {
            sharing.take(cpu, &self.prices.lock);
        }
        let count = self.poll(cq, wcs);
        cpu.charge(some, count as u32);
        if locks {
            let sharing = self.cqs.at(cq).sharing.as_mut().expect("it is shared");
            sharing.lock.give_back(cpu.local());
        }
        count
    }

    /// Notifies the cores that poll a completion queue.
    pub(crate) fn ring_pollers(&mut self, cq: u32, queue: &mut Queue) {
        let Some(found) = self.cqs.get_mut(cq) else { return };
        let Some(sharing) = &found.sharing else {
            let ctx = found.ctx;
            return self.ring(ctx, queue);
        };
        for &user in &sharing.users {
            super::memory::ring(&mut self.ctxs, user, queue);
        }
    }

    /// Total time for which the busiest lock of a shared queue was held.
    pub(crate) fn busiest_queue(&self) -> Ps {
        let pairs = self.qps.iter().filter_map(|(_, qp)| qp.queues.sharing.as_deref());
        let completions = self.cqs.iter().filter_map(|(_, cq)| cq.sharing.as_deref());
        let busy = pairs.chain(completions).map(Sharing::busy);
        busy.max().unwrap_or_default()
    }
}
