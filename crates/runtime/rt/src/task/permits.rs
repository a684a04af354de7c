//! [`Permits`]: local locks of a pool's tasks.

use super::core::Core;
use super::cx::TaskCx;
use super::fifo::Fifo;
use drover_verbs::Provider;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A number of permits that the tasks of one pool share: a lock, if it is one. Tasks get permits in the order in which
/// they ask. Clones share the permits.
pub struct Permits<P: Provider> {
    core: Rc<RefCell<Core<P>>>,
    state: Rc<RefCell<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: Fifo,
}

impl<P: Provider> Permits<P> {
    pub(super) fn new(core: Rc<RefCell<Core<P>>>, count: usize, task_count_max: usize) -> Permits<P> {
        let waiting = Fifo::new(task_count_max);
        let state = State { free: count, waiting };
        let state = Rc::new(RefCell::new(state));
        Permits { core, state }
    }

    /// Returns a future of a permit for the task of `cx`.
    ///
    /// # Panics
    /// If the task is of another pool.
    pub fn acquire<'a>(&self, cx: &'a TaskCx<P>) -> Acquire<'a, P> {
        assert!(Rc::ptr_eq(&self.core, &cx.core), "permits of another pool");
        let (permits, waiter) = (self.clone(), None);
        Acquire { permits, cx, waiter }
    }

    /// Number of tasks that wait.
    pub fn waiting_count(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// Passes a permit to the next task, or keeps it if none waits.
    fn release(&self) {
        let mut state = self.state.borrow_mut();
        match state.waiting.grant() {
            Some(task) => self.core.borrow_mut().in_flight.make_ready(task),
            None => state.free += 1,
        }
    }
}

impl<P: Provider> Clone for Permits<P> {
    fn clone(&self) -> Permits<P> {
        Permits {
            core: self.core.clone(),
            state: self.state.clone(),
        }
    }
}

/// A permit of [`Permits`]; dropping it passes it on.
pub struct Permit<'a, P: Provider> {
    permits: Permits<P>,
    cx: &'a TaskCx<P>,
}

impl<P: Provider> Drop for Permit<'_, P> {
    fn drop(&mut self) {
        self.cx.core.borrow_mut().in_flight.tasks[self.cx.task as usize].holds -= 1;
        self.permits.release();
    }
}

/// Future of [`Permits::acquire`].
#[must_use = "it waits only when awaited"]
pub struct Acquire<'a, P: Provider> {
    permits: Permits<P>,
    cx: &'a TaskCx<P>,
    waiter: Option<u64>,
}

impl<'a, P: Provider> Future for Acquire<'a, P> {
    type Output = Permit<'a, P>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.permits.state.borrow_mut();
        match self.waiter {
            Some(number) if !state.waiting.is_granted(number) => return Poll::Pending,
            Some(_) => {}
            None if state.free > 0 => state.free -= 1,
            None => {
                let number = state.waiting.enter(self.cx.task);
                drop(state);
                self.waiter = Some(number);
                return Poll::Pending;
            }
        }
        drop(state);
        self.waiter = None;
        let cx = self.cx;
        cx.core.borrow_mut().in_flight.tasks[cx.task as usize].holds += 1;
        let permits = self.permits.clone();
        Poll::Ready(Permit { permits, cx })
    }
}

impl<P: Provider> Drop for Acquire<'_, P> {
    fn drop(&mut self) {
        let Some(number) = self.waiter else { return };
        let was_granted = !self.permits.state.borrow_mut().waiting.leave(number);
        if was_granted {
            self.permits.release();
        }
    }
}

impl<P: Provider> std::fmt::Debug for Permits<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permits({:?})", self.state)
    }
}

impl<P: Provider> std::fmt::Debug for Permit<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permit")
    }
}

impl<P: Provider> std::fmt::Debug for Acquire<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Acquire(waiter {:?})", self.waiter)
    }
}
