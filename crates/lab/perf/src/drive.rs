//! [`drive`]: steps an actor on a real core until it is done, and checks occasionally that the other end is alive.

use crate::{Outcome, PerfError};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{Context, Provider};

/// Idle steps between two checks of the control channel: each is a system call, and would delay polling.
const LOOK_EVERY: u32 = 1 << 12;
/// Idle steps between two clock reads.
const CLOCK_EVERY: u32 = 1 << 6;
/// Polling time before the core is yielded between polls, because the other end may need it. Cards answer earlier; a
/// yield is a system call, which would affect the measurement.
const SPIN: Ns = Ns::from_us(50);
/// Longest sleep: a dead peer sends no wake-up.
const NAP: Ns = Ns::from_ms(20);

/// How to wait for progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// Sleep for events instead of polling.
    pub(crate) events: bool,
    /// Give up after this time without progress.
    pub(crate) patience: Option<Ns>,
}

/// Steps `actor` until its outcome is there or `look` (called with the time) says to stop.
pub(crate) fn drive<P: Provider, A: Actor<P::Cpu>>(
    ctx: &P::Context,
    actor: &mut A,
    outcome: &Outcome,
    waiting: Waiting,
    look: &mut dyn FnMut(Ns) -> Result<bool, PerfError>,
) -> Result<(), PerfError> {
    let cpu = ctx.cpu();
    let mut heard = cpu.refresh();
    let (mut idle, mut was_busy) = (0u32, false);
    // Start of the present idle period, and whether it is still short.
    let (mut quiet_since, mut young) = (heard, true);
    loop {
        if actor.step(cpu) == Progress::Busy {
            (idle, was_busy, young) = (0, true, true);
            continue;
        }
        if outcome.is_done() {
            return Ok(());
        }
        idle += 1;
        if waiting.events {
            if sleep::<P, A>(ctx, actor) {
                was_busy = true;
                continue;
            }
        } else if !idle.is_multiple_of(LOOK_EVERY) {
            if idle == CLOCK_EVERY {
                quiet_since = cpu.refresh();
            } else if young && idle.is_multiple_of(CLOCK_EVERY) {
                young = cpu.refresh().since(quiet_since) < SPIN;
            }
            if !young {
                std::thread::yield_now();
            }
            continue;
        }
        let now = cpu.refresh();
        if look(now)? {
            return Ok(());
        }
        if was_busy {
            (heard, was_busy) = (now, false);
        }
        if let Some(patience) = waiting.patience.filter(|patience| now.since(heard) > *patience) {
            return Err(PerfError::Silent { patience });
        }
        // The other end may need this core.
        std::thread::yield_now();
    }
}

/// Announces sleep, steps once more, and sleeps if there is still nothing to do. Returns whether there was something.
fn sleep<P: Provider, A: Actor<P::Cpu>>(ctx: &P::Context, actor: &mut A) -> bool {
    let cpu = ctx.cpu();
    ctx.arm();
    if actor.step(cpu) == Progress::Busy {
        ctx.disarm();
        return true;
    }
    ctx.park(cpu.refresh() + NAP);
    actor.step(cpu) == Progress::Busy
}
