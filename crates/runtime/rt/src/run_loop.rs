//! [`RunLoop`]: steps the actors of one core, and sleeps when they all have nothing to do.

use crate::StopFlag;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_mem::pause;
use drover_verbs::{Caps, Context, Provider, Waker};
use std::os::fd::BorrowedFd;

/// What a core does when its actors have nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Poll for ever: the shortest latency, a whole core.
    Spin,
    /// Poll for a while, then sleep until something arrives.
    Adaptive {
        /// How long.
        spin: Ns,
    },
    /// Sleep at once: the least power, a wake-up (some 50 us) per request when idle.
    Sleep,
    /// For those whom the fabric cannot wake. Poll for a while, then let other threads run between polls, and from a
    /// millisecond on sleep for an eighth of the quiet so far, at most a millisecond at a time: whoever has waited for
    /// so long waits an eighth longer, and an idle core costs little.
    Doze {
        /// How long without letting others run.
        spin: Ns,
    },
}

/// What to do in a round in which nobody was busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    Pause,
    Yield,
    /// At most so long.
    Sleep(Ns),
}

/// A quiet that is worth sleeping in, where nothing ends the sleep, and the longest such sleep.
const DOZE_AFTER: Ns = Ns::from_ms(1);
const DOZE_MAX: Ns = Ns::from_ms(1);
/// The longest sleep of a core that waits for a descriptor where the fabric cannot: one without
/// [`Caps::fd_wait`]. *(our choice)*
const FD_DOZE: Ns = Ns::from_ms(1);

impl Idle {
    /// 50 us of polling: about what a wake-up costs, so that a wrong guess costs at most twice the right one.
    pub const ADAPTIVE: Idle = Idle::Adaptive {
        spin: Ns::from_us(50),
    };

    /// This policy; where the fabric cannot wake those who poll memory, [`Idle::Doze`] in place of sleeping.
    pub fn for_memory_pollers(self, caps: &Caps) -> Idle {
        match self {
            _ if caps.memory_wait => self,
            Idle::Adaptive { spin } => Idle::Doze { spin },
            Idle::Sleep => Idle::Doze { spin: Ns::ZERO },
            Idle::Spin | Idle::Doze { .. } => self,
        }
    }

    /// What to do after so much quiet.
    fn rest(self, quiet: Ns) -> Rest {
        match self {
            Idle::Spin => Rest::Pause,
            Idle::Adaptive { spin } | Idle::Doze { spin } if quiet < spin => Rest::Pause,
            Idle::Adaptive { .. } | Idle::Sleep => Rest::Sleep(Ns::MAX),
            Idle::Doze { .. } if quiet < DOZE_AFTER => Rest::Yield,
            Idle::Doze { .. } => Rest::Sleep(Ns(quiet.0 / 8).min(DOZE_MAX)),
        }
    }
}

/// How rounds went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Rounds in which an actor was busy.
    pub busy_rounds: u64,
    /// Rounds in which none was.
    pub idle_rounds: u64,
    /// Sleeps.
    pub parks: u64,
    /// Time of the busy rounds, each from its start to the start of the next.
    pub busy: Ns,
}

/// Steps actors in rounds: the clock is read once per round, every actor stepped once.
///
/// ```text
/// round: refresh the clock, step all
///   busy:                  again
///   idle, spinning:        pause, or let another thread run; again
///   idle for long enough:  arm; step all once more; nothing? park until something arrives or the first timer
/// ```
pub struct RunLoop<'a, P: Provider> {
    ctx: &'a P::Context,
    idle: Idle,
    /// Also ends sleep.
    beside: Option<BorrowedFd<'a>>,
    idle_since: Option<Ns>,
    /// The start of the last round, if it was busy.
    busy_since: Option<Ns>,
    stats: RunStats,
}

impl<'a, P: Provider> RunLoop<'a, P> {
    /// A loop on the core of `ctx`.
    pub fn new(ctx: &'a P::Context, idle: Idle) -> RunLoop<'a, P> {
        RunLoop {
            ctx,
            idle,
            beside: None,
            idle_since: None,
            busy_since: None,
            stats: RunStats::default(),
        }
    }

    /// Sleep also ends when `fd` is readable: an actor waits for sockets.
    pub fn beside(mut self, fd: BorrowedFd<'a>) -> RunLoop<'a, P> {
        self.beside = Some(fd);
        self
    }

    /// Runs until `stop` is set. Whoever sets it calls [`stopper`](RunLoop::stopper)'s waker, too.
    pub fn run(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag) -> RunStats {
        while !stop.is_set() {
            self.round(actors, stop);
        }
        self.stats
    }

    /// Sets `stop` and wakes this core when called.
    pub fn stopper(&self, stop: &StopFlag) -> Waker {
        let (stop, waker) = (stop.clone(), self.ctx.waker());
        Waker::new(move || {
            stop.set();
            waker.wake();
        })
    }

    /// One round: at most one step of every actor when busy, two and a sleep when idle.
    pub fn round(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag) {
        let cpu = self.ctx.cpu();
        let now = cpu.refresh();
        if let Some(since) = self.busy_since.take() {
            self.stats.busy += now.since(since);
        }
        let Some(wake_at) = self.step_all(actors, cpu) else {
            self.busy_since = Some(now);
            return;
        };
        let since = *self.idle_since.get_or_insert(now);
        if now >= wake_at {
            return;
        }
        match self.idle.rest(now.since(since)) {
            Rest::Pause => pause(),
            Rest::Yield => std::thread::yield_now(),
            Rest::Sleep(most) => self.sleep(actors, stop, most),
        }
    }

    /// Arms, looks once more, and parks for `most` if there is still nothing.
    fn sleep(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag, most: Ns) {
        let cpu = self.ctx.cpu();
        self.ctx.arm();
        let until = cpu.refresh() + most;
        match self.step_all(actors, cpu) {
            // The stop flag is looked at after arming: who sets it later also ends the park.
            Some(wake_at) if !stop.is_set() => {
                self.stats.parks += 1;
                let deadline = wake_at.min(until);
                match self.beside {
                    None => self.ctx.park(deadline),
                    Some(fd) if self.ctx.caps().fd_wait => self.ctx.park_beside(deadline, fd),
                    // Nothing but the next round looks at the descriptor, so that round comes soon.
                    Some(_) => self.ctx.park(deadline.min(cpu.refresh() + FD_DOZE)),
                }
                // A doze that ended says nothing of whether there is work: the quiet goes on.
                if most == Ns::MAX {
                    self.idle_since = None;
                }
            }
            _ => self.ctx.disarm(),
        }
    }

    /// `None` when somebody was busy, else the first timer.
    fn step_all(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], cpu: &P::Cpu) -> Option<Ns> {
        let idle = Progress::Idle { wake_at: Ns::MAX };
        let progress = actors
            .iter_mut()
            .fold(idle, |so_far, actor| so_far.and(actor.step(cpu)));
        match progress {
            Progress::Busy => {
                self.idle_since = None;
                self.stats.busy_rounds += 1;
                None
            }
            Progress::Idle { wake_at } => {
                self.stats.idle_rounds += 1;
                Some(wake_at)
            }
        }
    }

    /// How it went so far.
    pub fn stats(&self) -> RunStats {
        self.stats
    }
}

impl<P: Provider> std::fmt::Debug for RunLoop<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunLoop")
            .field("idle", &self.idle)
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
