//! [`RunLoop`]: steps the actors of one core, and sleeps when they all have nothing to do.

use crate::StopFlag;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_mem::pause;
use drover_verbs::{Caps, Context, Provider, Waker};

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
}

impl Idle {
    /// 50 us of polling: about what a wake-up costs, so that a wrong guess costs at most twice the right one.
    pub const ADAPTIVE: Idle = Idle::Adaptive {
        spin: Ns::from_us(50),
    };

    /// This policy, or [`Idle::Spin`] where the fabric cannot wake those who poll memory.
    pub fn for_memory_pollers(self, caps: &Caps) -> Idle {
        if caps.memory_wait { self } else { Idle::Spin }
    }

    fn spin(self) -> Ns {
        match self {
            Idle::Spin => Ns::MAX,
            Idle::Adaptive { spin } => spin,
            Idle::Sleep => Ns::ZERO,
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
}

/// Steps actors in rounds: the clock is read once per round, every actor stepped once.
///
/// ```text
/// round: refresh the clock, step all
///   busy:                  again
///   idle, spinning:        pause, again
///   idle for long enough:  arm; step all once more; nothing? park until something arrives or the first timer
/// ```
pub struct RunLoop<'a, P: Provider> {
    ctx: &'a P::Context,
    idle: Idle,
    idle_since: Option<Ns>,
    stats: RunStats,
}

impl<'a, P: Provider> RunLoop<'a, P> {
    /// A loop on the core of `ctx`.
    pub fn new(ctx: &'a P::Context, idle: Idle) -> RunLoop<'a, P> {
        RunLoop {
            ctx,
            idle,
            idle_since: None,
            stats: RunStats::default(),
        }
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
        let Some(wake_at) = self.step_all(actors, cpu) else {
            return;
        };
        let since = *self.idle_since.get_or_insert(now);
        if now >= wake_at {
            return;
        }
        if now.since(since) < self.idle.spin() {
            pause();
            return;
        }
        self.sleep(actors, stop);
    }

    /// Arms, looks once more, and parks if there is still nothing.
    fn sleep(&mut self, actors: &mut [&mut dyn Actor<P::Cpu>], stop: &StopFlag) {
        let cpu = self.ctx.cpu();
        self.ctx.arm();
        cpu.refresh();
        match self.step_all(actors, cpu) {
            // The stop flag is looked at after arming: who sets it later also ends the park.
            Some(wake_at) if !stop.is_set() => {
                self.stats.parks += 1;
                self.ctx.park(wake_at);
                self.idle_since = None;
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
