//! [`RunLoop`]: steps the actors of one core, and sleeps when all of them are idle.

use crate::{StopFlag, Waiting};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{Caps, Context, Provider, Waker};
use std::os::fd::BorrowedFd;

/// Behaviour of a core when its actors are idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Poll without ever sleeping: lowest latency, uses a whole core.
    Spin,
    /// Poll for a while, then sleep until something arrives or a timer is due.
    Adaptive {
        /// Time without work for which the core keeps polling before it sleeps.
        spin: Ns,
    },
    /// Sleep at once: lowest power, a wake-up (some 50 us) per request when idle.
    Sleep,
    /// For actors that the fabric cannot wake. Poll for a while, then yield the core to other threads between polls,
    /// and after a millisecond without work sleep for an eighth of the quiet time so far, at most a millisecond at a
    /// time. A request after a quiet period is delayed by at most an eighth of that period and at most a millisecond,
    /// and an idle core costs little.
    Doze {
        /// Time without work for which the core keeps polling before it yields.
        spin: Ns,
    },
}

/// Action after a round in which all actors were idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    Pause,
    Yield,
    /// Sleep for at most this time.
    Sleep(Ns),
}

/// Quiet time before sleeping where events cannot end the sleep, and longest such sleep.
const DOZE_AFTER: Ns = Ns::from_ms(1);
const DOZE_MAX: Ns = Ns::from_ms(1);
/// Longest sleep of a core that waits for a descriptor on a fabric without
/// [`WakeCaps::on_fd`](drover_verbs::WakeCaps::on_fd). *(our choice)*
const FD_DOZE: Ns = Ns::from_ms(1);

impl Idle {
    /// [`Idle::Adaptive`] with 50 us of polling: about the cost of a wake-up, so that a wrong guess costs at most twice
    /// the right one.
    pub const ADAPTIVE: Idle = Idle::Adaptive {
        spin: Ns::from_us(50),
    };

    /// Returns the policy to use for actors that poll memory: this one, but on a fabric that cannot wake such actors
    /// (without [`WakeCaps::on_memory`](drover_verbs::WakeCaps::on_memory)) [`Idle::Doze`] in place of
    /// [`Idle::Adaptive`], with the same `spin`, and of [`Idle::Sleep`], with no `spin`.
    pub fn for_memory_pollers(self, caps: &Caps) -> Idle {
        match self {
            _ if caps.wakes.on_memory => self,
            Idle::Adaptive { spin } => Idle::Doze { spin },
            Idle::Sleep => Idle::Doze { spin: Ns::ZERO },
            Idle::Spin | Idle::Doze { .. } => self,
        }
    }

    /// Action after the given quiet time.
    pub(crate) fn rest(self, quiet: Ns) -> Rest {
        match self {
            Idle::Spin => Rest::Pause,
            Idle::Adaptive { spin } | Idle::Doze { spin } if quiet < spin => Rest::Pause,
            Idle::Adaptive { .. } | Idle::Sleep => Rest::Sleep(Ns::MAX),
            Idle::Doze { .. } if quiet < DOZE_AFTER => Rest::Yield,
            Idle::Doze { .. } => Rest::Sleep(Ns(quiet.0 / 8).min(DOZE_MAX)),
        }
    }
}

/// Counters of a [`RunLoop`] since its creation. A round that is about to sleep steps all actors again, and counts
/// twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Rounds in which at least one actor was busy.
    pub busy_rounds: u64,
    /// Rounds in which all actors were idle.
    pub idle_rounds: u64,
    /// Number of times that the core slept, however briefly.
    pub parks: u64,
    /// Total time of the busy rounds, each from its start to the start of the next round. A round that found work only
    /// in its last check before sleep is not included.
    pub busy: Ns,
}

/// Steps actors in rounds: per round the clock is read once and every actor steps once.
///
/// ```text
/// round: refresh the clock, step all
///   busy:                  again
///   idle, spinning:        pause, or let another thread run; again
///   idle for long enough:  arm; step all once more; still idle? park until something arrives or the first timer
/// ```
pub struct RunLoop<'a, P: Provider> {
    ctx: &'a P::Context,
    waiting: Waiting,
    /// A descriptor that also ends sleep.
    beside: Option<BorrowedFd<'a>>,
    /// Start of the last round, if it was busy.
    busy_since: Option<Ns>,
    stats: RunStats,
}

impl<'a, P: Provider> RunLoop<'a, P> {
    /// Creates a loop on the core of `ctx`; `idle` says what the core does when all actors are idle.
    pub fn new(ctx: &'a P::Context, idle: Idle) -> RunLoop<'a, P> {
        RunLoop {
            ctx,
            waiting: Waiting::new(idle).serving(),
            beside: None,
            busy_since: None,
            stats: RunStats::default(),
        }
    }

    /// Makes sleep also end when `fd` is readable, for an actor that waits for sockets. On a fabric without
    /// [`WakeCaps::on_fd`](drover_verbs::WakeCaps::on_fd), `fd` is not looked at; instead the core sleeps for at most a
    /// millisecond at a time.
    pub fn beside(mut self, fd: BorrowedFd<'a>) -> RunLoop<'a, P> {
        self.beside = Some(fd);
        self
    }

    /// Runs rounds until `stop` is set, and returns the counters since the loop was created. To stop it from another
    /// thread, call the waker of [`stopper`](RunLoop::stopper), which also ends a sleep.
    pub fn run(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag) -> RunStats {
        while !stop.is_set() {
            self.round(actors, stop);
        }
        self.stats
    }

    /// A waker that sets `stop` and wakes this core.
    pub fn stopper(&self, stop: &StopFlag) -> Waker {
        let (stop, waker) = (stop.clone(), self.ctx.waker());
        Waker::new(move || {
            stop.set();
            waker.wake();
        })
    }

    /// Runs one round: steps every actor once. If all are idle and no timer of theirs is due, pauses or yields; or,
    /// when [`Idle`] asks for sleep, steps them once more and sleeps if they are still idle and `stop` is not set.
    pub fn round(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag) {
        let cpu = self.ctx.cpu();
        let now = cpu.refresh();
        if let Some(since) = self.busy_since.take() {
            self.stats.busy += now.since(since);
        }
        let Some(wake_at) = self.step_all(actors, cpu) else {
            match self.waiting.worked(now) {
                false => self.busy_since = Some(now),
                true => self.give_way(now),
            }
            return;
        };
        if now >= wake_at {
            return;
        }
        if let Some(most) = self.waiting.rest::<P>(self.ctx, now) {
            self.sleep(actors, stop, most);
        }
    }

    /// Ends a busy round that began at `began`, and lets other threads run.
    #[cold]
    fn give_way(&mut self, began: Ns) {
        let now = self.ctx.cpu().refresh();
        self.stats.busy += now.since(began);
        self.waiting.give_way::<P>(self.ctx, now);
    }

    /// Arms, steps all actors once more, and parks for `most` if they are still idle.
    fn sleep(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag, most: Ns) {
        let cpu = self.ctx.cpu();
        self.ctx.arm();
        let until = cpu.refresh() + most;
        match self.step_all(actors, cpu) {
            // The stop flag is checked after arming: a thread that sets it later also ends the park.
            Some(wake_at) if !stop.is_set() => {
                self.stats.parks += 1;
                let deadline = wake_at.min(until);
                match self.beside {
                    None => self.ctx.park(deadline),
                    Some(fd) if self.ctx.caps().wakes.on_fd => self.ctx.park_beside(deadline, fd),
                    // Only the next round polls the descriptor, so that round must come soon.
                    Some(_) => self.ctx.park(deadline.min(cpu.refresh() + FD_DOZE)),
                }
                // The end of a sleep does not mean that there is work: the quiet time continues. A core that is woken by its timers alone
                // would otherwise poll after each of them.
            }
            Some(_) => self.ctx.disarm(),
            None => {
                self.waiting.quiet_ended();
                self.ctx.disarm();
            }
        }
    }

    /// `None` if an actor was busy, else the earliest timer.
    fn step_all(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], cpu: &P::Cpu) -> Option<Ns> {
        let idle = Progress::Idle { wake_at: Ns::MAX };
        let progress = actors
            .iter_mut()
            .fold(idle, |so_far, actor| so_far.and(actor.step(cpu)));
        match progress {
            Progress::Busy => {
                self.stats.busy_rounds += 1;
                None
            }
            Progress::Idle { wake_at } => {
                self.stats.idle_rounds += 1;
                Some(wake_at)
            }
        }
    }

    /// Counters since the loop was created.
    pub fn stats(&self) -> RunStats {
        self.stats
    }
}

impl<P: Provider> std::fmt::Debug for RunLoop<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunLoop")
            .field("waiting", &self.waiting)
            .field("stats", &self.stats)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doze_is_an_eighth_of_the_quiet_and_bounded() {
        let doze = Idle::Doze {
            spin: Ns::from_us(50),
        };
        assert_eq!(doze.rest(Ns::from_us(49)), Rest::Pause);
        assert_eq!(doze.rest(Ns::from_us(50)), Rest::Yield);
        assert_eq!(doze.rest(Ns::from_us(999)), Rest::Yield);
        assert_eq!(doze.rest(Ns::from_ms(1)), Rest::Sleep(Ns::from_us(125)));
        assert_eq!(doze.rest(Ns::from_ms(4)), Rest::Sleep(Ns::from_us(500)));
        assert_eq!(doze.rest(Ns::from_s(9)), Rest::Sleep(Ns::from_ms(1)));
    }
}
