//! [`ConflictGuard`]: held by an operation that may lose races and try again.

use super::conflict::Conflicts;
use super::core::Core;
use super::cx::TaskCx;
use super::fifo::Fifo;
use super::sleep::Sleep;
use drover_base::Rng;
use drover_verbs::Provider;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What tasks that may lose races share.
#[derive(Debug)]
pub(super) struct Races {
    pub(super) slots: Slots,
    pub(super) conflicts: Conflicts,
    /// For waits before retries.
    pub(super) rng: Rng,
}

/// Slots of the tasks inside a guard.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of guards that exist.
    pub(super) inside: u32,
    pub(super) waiting: Fifo,
}

impl Slots {
    pub(super) fn new(task_count_max: usize) -> Slots {
        Slots {
            inside: 0,
            waiting: Fifo::new(task_count_max),
        }
    }
}

impl<P: Provider> Core<P> {
    /// Gives free slots to the tasks that wait, in the order in which they asked.
    pub(super) fn grant_slots(&mut self) {
        while self.races.slots.inside < self.races.conflicts.tasks_max() {
            let Some(task) = self.races.slots.waiting.grant() else {
                return;
            };
            self.races.slots.inside += 1;
            self.in_flight.make_ready(task);
        }
    }

    fn leave_slot(&mut self) {
        self.races.slots.inside -= 1;
        self.grant_slots();
    }
}

/// An operation that may lose races. While it exists, the task holds one of the pool's conflict slots, and each
/// [`retry`](ConflictGuard::retry) waits as [`ConflictOptions`](super::ConflictOptions) say. Dropping it ends the
/// operation.
///
/// A plain lookup needs none: only operations that retry after losing a race should hold one.
#[must_use = "dropping it ends the operation"]
pub struct ConflictGuard<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    retries: u32,
}

impl<'a, P: Provider> ConflictGuard<'a, P> {
    /// Notes that the operation lost a race; returns a future to await before it tries again.
    pub fn retry(&mut self) -> Sleep<'a, P> {
        self.retries = self.retries.saturating_add(1);
        let mut core = self.cx.core.borrow_mut();
        let Races { conflicts, rng, .. } = &mut core.races;
        let wait = conflicts.retry(self.retries, rng);
        let until = core.now + wait;
        drop(core);
        Sleep::new(self.cx, until)
    }

    /// Number of retries so far.
    pub fn retries(&self) -> u32 {
        self.retries
    }
}

impl<P: Provider> Drop for ConflictGuard<'_, P> {
    fn drop(&mut self) {
        let mut core = self.cx.core.borrow_mut();
        if core.races.conflicts.finish(self.retries) {
            core.do_chores_soon();
        }
        core.in_flight.tasks[self.cx.task as usize].holds -= 1;
        core.leave_slot();
    }
}

/// Future of [`TaskCx::conflict_guard`].
#[must_use = "it waits only when awaited"]
pub struct Entry<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    waiter: Option<u64>,
}

impl<'a, P: Provider> Entry<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>) -> Entry<'a, P> {
        Entry { cx, waiter: None }
    }
}

impl<'a, P: Provider> Future for Entry<'a, P> {
    type Output = ConflictGuard<'a, P>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let cx = self.cx;
        let mut core = cx.core.borrow_mut();
        match self.waiter {
            Some(number) if !core.races.slots.waiting.is_granted(number) => return Poll::Pending,
            // The slot was taken for this task when it was granted.
            Some(_) => {}
            None => {
                // Slots are granted as soon as they are free: none waits while one is.
                let free = core.races.slots.inside < core.races.conflicts.tasks_max();
                // Others may wait for what this task holds, so it must not wait for them.
                let must_not_wait = core.in_flight.tasks[cx.task as usize].holds > 0;
                if !free && !must_not_wait {
                    core.stats.conflicts.slot_waits += 1;
                    let number = core.races.slots.waiting.enter(cx.task);
                    drop(core);
                    self.waiter = Some(number);
                    return Poll::Pending;
                }
                core.races.slots.inside += 1;
            }
        }
        core.in_flight.tasks[cx.task as usize].holds += 1;
        drop(core);
        self.waiter = None;
        Poll::Ready(ConflictGuard { cx, retries: 0 })
    }
}

impl<P: Provider> Drop for Entry<'_, P> {
    fn drop(&mut self) {
        let Some(number) = self.waiter else { return };
        let mut core = self.cx.core.borrow_mut();
        if !core.races.slots.waiting.leave(number) {
            core.leave_slot();
        }
    }
}

impl<P: Provider> std::fmt::Debug for ConflictGuard<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConflictGuard({} retries)", self.retries)
    }
}

impl<P: Provider> std::fmt::Debug for Entry<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry(waiter {:?})", self.waiter)
    }
}
