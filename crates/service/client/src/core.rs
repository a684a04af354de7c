//! [`Core`]: how a client's thread spends the time without results, whatever its fabric.

use crate::session::Ready;
use drover_base::{Cpu, Ns};
use drover_rt::{Idle, Waiting};
use drover_verbs::{Context, Provider, Waker};
use std::rc::Rc;

/// The context on which a client's thread sleeps, for any provider.
pub(crate) trait Rest {
    /// Reads the clock.
    fn refresh(&self) -> Ns;
    /// Does what is due after a poll with results: lets other threads use the core for a while.
    fn worked(&mut self);
    /// Does what is due after a poll without results: goes on polling, lets others use the core, or sleeps. Before it sleeps, calls
    /// `poll`, which returns the number of operations that finished and the time of the next timer, and asks `ready` whether
    /// there is other work. Returns the number of operations that finished.
    fn rest(&mut self, poll: &mut dyn FnMut() -> (usize, Ns), ready: &mut dyn FnMut() -> Ready) -> usize;
    /// Ends a sleep.
    fn waker(&self) -> Waker;
}

/// A context, and how long its thread has polled without a result.
pub(crate) struct Core<P: Provider> {
    pub(crate) ctx: Rc<P::Context>,
    waiting: Waiting,
}

impl<P: Provider> Core<P> {
    pub(crate) fn new(ctx: Rc<P::Context>) -> Core<P> {
        let waiting = Waiting::new(Idle::ADAPTIVE);
        Core { ctx, waiting }
    }
}

impl<P: Provider> Rest for Core<P> {
    fn refresh(&self) -> Ns {
        self.ctx.cpu().refresh()
    }

    fn worked(&mut self) {
        let now = self.refresh();
        if self.waiting.worked(now) {
            self.waiting.give_way::<P>(&self.ctx, now);
        }
    }

    fn rest(&mut self, poll: &mut dyn FnMut() -> (usize, Ns), ready: &mut dyn FnMut() -> Ready) -> usize {
        let now = self.refresh();
        if self.waiting.rest::<P>(&self.ctx, now).is_none() {
            return 0;
        }
        self.ctx.arm();
        let (finished, until) = poll();
        let now = self.refresh();
        if finished == 0
            && until > now
            && let Ready::Nothing(most) = ready()
        {
            self.ctx.park(until.min(now + most));
        } else {
            self.ctx.disarm();
        }
        self.waiting.quiet_ended();
        finished
    }

    fn waker(&self) -> Waker {
        self.ctx.waker()
    }
}
