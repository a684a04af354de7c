//! [`Waiting`]: what a thread does between polls that bring nothing.
//!
//! A thread with a core of its own polls: nothing is faster. On a core that others want, polling keeps from running
//! the very thread that it waits for, or somebody else's work. So a quiet thread asks, every few microseconds, whether
//! others want its core: it yields, and looks how long that took. If nobody else ran, it polls on. If somebody did, it
//! yields after every poll without result, and a thread that has work does so once in a while.
//!
//! ```text
//! quiet:   poll, poll, yield (0.4 us: alone), poll, poll, yield ...                     sleep after `spin` of own time
//! shared:  poll, yield (others run), poll, yield (others run) ...                       likewise
//! busy:    work for a millisecond, or 50 us if a peer waits for this core; yield; work ...
//! ```
//! A client whose server has another core polls for a round trip before it yields, and works for 20 us at a time while it
//! shares its own: its answers come sooner than the core would come back, and a switch costs as much as ten of them.
//!
//! Others that keep the core for milliseconds are many, or compute. A server that is quiet does not yield to them for a
//! while, and sleeps: sleepers are woken sooner than threads that yielded get their turn. A client polls for a round trip
//! first: its server may run elsewhere. (To make it sleep was tried: then hundreds of clients on two cores do nothing but
//! sleep and wake.)
//!
//! A yield gives the core only to threads of the same scheduling group (autogroup, container). A peer that waits for
//! our core and does not run in a yield must be in another one: then the thread sleeps at once.

use crate::Idle;
use crate::run_loop::Rest;
use drover_base::{Cpu, Ns};
use drover_mem::pause;
use drover_verbs::{Context, Provider};

/// Quiet time before a thread asks for the first time whether others want its core: longer than a round trip between
/// threads that have a core each. Doubled with every answer that nobody does.
const FIRST_PROBE: Ns = Ns::from_us(3);
/// Time of work between two yields: they cost less than a thousandth of it.
const BUSY: Ns = Ns::from_ms(1);
/// The same while a peer waits for the core: some batches of requests.
const BUSY_BEFORE_PEERS: Ns = Ns::from_us(50);
/// The same for a client that shares its core: what a switch costs is a tenth of it.
const BUSY_BESIDE_OTHERS: Ns = Ns::from_us(20);
/// Others that keep the core for longer in one yield are many, or do not wait but compute.
const LONG: Ns = Ns::from_ms(1);
/// Time for which a server does not yield after a long yield.
const NO_YIELD: Ns = Ns::from_ms(100);
/// A yield that took less than twice the shortest one so far, and this, was one in which nobody else ran.
const MARGIN: Ns = Ns(200);

/// How a thread waits for work: how long it polls, when it lets other threads use its core, when it sleeps. One place
/// for servers and clients: a [`RunLoop`](crate::RunLoop) has one, and so has every client that blocks.
///
/// Call [`worked`](Waiting::worked) after polls that brought something, [`rest`](Waiting::rest) after each that did
/// not. Neither makes a system call while the thread has its core to itself and has work, but once in a millisecond.
#[derive(Clone, Debug)]
pub struct Waiting {
    idle: Idle,
    /// Whether this thread waits for a core whenever it is awake.
    serves: bool,
    /// Quiet time for which a thread only polls.
    eager: Ns,
    /// Start of the time without work, moved on by the time in which other threads had the core.
    quiet_since: Option<Ns>,
    /// Quiet time at which to ask next whether others want the core.
    probe: Ns,
    /// When a thread that has work yields next.
    yield_at: Ns,
    /// Whether others ran during the last yield.
    shared: bool,
    /// Whether a peer waited for this core that did not run during the last yield.
    unyielding: bool,
    /// Until when the thread does not yield.
    no_yield_until: Ns,
    /// Quiet time before a yield on a shared core.
    shared_probe: Ns,
    /// Shortest yield so far.
    shortest: Ns,
}

impl Waiting {
    /// Waits as `idle` says; only [`Idle::Spin`] never lets others use the core.
    pub fn new(idle: Idle) -> Waiting {
        Waiting {
            idle,
            serves: false,
            eager: match idle {
                Idle::Adaptive { spin } | Idle::Doze { spin } => spin.min(FIRST_PROBE),
                Idle::Spin => FIRST_PROBE,
                Idle::Sleep => Ns::ZERO,
            },
            quiet_since: None,
            probe: FIRST_PROBE,
            yield_at: match idle {
                Idle::Spin => Ns::MAX,
                _ => Ns::ZERO,
            },
            shared: false,
            unyielding: false,
            no_yield_until: Ns::ZERO,
            shared_probe: Ns::ZERO,
            shortest: Ns::from_us(1),
        }
    }

    /// For a thread that does nothing else: it runs or waits for a core, whenever it is awake.
    pub(crate) fn serving(mut self) -> Waiting {
        self.serves = true;
        self
    }

    /// Whether others wanted this core when the thread last let them have it.
    pub fn is_shared(&self) -> bool {
        self.shared || self.unyielding
    }

    /// Notes that a poll brought something, at `now`. Returns whether it is time to [`give_way`](Waiting::give_way).
    #[inline(always)]
    pub fn worked(&mut self, now: Ns) -> bool {
        self.quiet_since = None;
        now >= self.yield_at
    }

    /// After a poll that brought nothing: polls on, or lets other threads run. Returns
    /// the longest sleep if the thread should sleep instead: it must then [arm](Context::arm), poll once more, and park.
    #[inline]
    pub fn rest<P: Provider>(&mut self, ctx: &P::Context, now: Ns) -> Option<Ns> {
        let quiet = match self.quiet_since {
            Some(since) => now.since(since),
            None => {
                (self.quiet_since, self.probe) = (Some(now), FIRST_PROBE);
                Ns::ZERO
            }
        };
        // Most waits end here. A pause would make them longer by tens of nanoseconds.
        let gives_way = self.unyielding || (self.shared && self.shared_probe == Ns::ZERO);
        if quiet < self.eager && !gives_way {
            return None;
        }
        self.rest_longer::<P>(ctx, now, quiet)
    }

    #[cold]
    fn rest_longer<P: Provider>(&mut self, ctx: &P::Context, now: Ns, quiet: Ns) -> Option<Ns> {
        match self.idle.rest(quiet) {
            Rest::Sleep(most) => return Some(most),
            Rest::Yield => std::thread::yield_now(),
            Rest::Pause if self.idle == Idle::Spin => pause(),
            Rest::Pause if self.unyielding && ctx.core_is_wanted(self.serves) => return Some(Ns::MAX),
            Rest::Pause if now < self.no_yield_until => pause(),
            Rest::Pause if quiet >= self.probe || (self.shared && quiet >= self.shared_probe) => {
                self.give_way::<P>(ctx, now);
                if self.unyielding {
                    return Some(Ns::MAX);
                }
            }
            Rest::Pause => pause(),
        }
        None
    }

    /// Notes that the thread has slept, or that a poll brought something and the caller does not know the time: it then calls
    /// [`worked`](Waiting::worked) once in some such polls.
    #[inline(always)]
    pub fn quiet_ended(&mut self) {
        self.quiet_since = None;
    }

    /// Lets other threads of this core run, from `now` on, and learns whether there are any.
    #[cold]
    pub fn give_way<P: Provider>(&mut self, ctx: &P::Context, now: Ns) {
        std::thread::yield_now();
        let after = ctx.cpu().refresh();
        let peer_waits = ctx.core_is_wanted(self.serves);
        self.learn(after, after.since(now), peer_waits);
    }

    /// Learns from a yield that ended at `after`. `peer_waits`: a peer still waited for the core then.
    fn learn(&mut self, after: Ns, took: Ns, peer_waits: bool) {
        self.shortest = self.shortest.min(took);
        self.shared = took > self.shortest * 2 + MARGIN;
        self.unyielding = peer_waits && !self.shared;
        self.probe = self.probe * 2;
        // A server with work gets its share of the core. Clients that did likewise would work longer and longer.
        self.yield_at = after
            + match self.serves {
                _ if peer_waits => BUSY_BEFORE_PEERS,
                true => BUSY.max(took),
                false if self.shared => BUSY_BESIDE_OTHERS,
                false => BUSY,
            };
        if self.shared {
            self.quiet_since = self.quiet_since.map(|since| since + (took - self.shortest));
        }
        // The answers of a server that runs elsewhere come within a round trip, sooner than the core comes back.
        let elsewhere = !self.serves && !peer_waits;
        self.shared_probe = if took > LONG || elsewhere {
            FIRST_PROBE
        } else {
            Ns::ZERO
        };
        if took > LONG && self.serves {
            self.no_yield_until = after + NO_YIELD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Ns = Ns(400);

    fn waiting() -> Waiting {
        let mut waiting = Waiting::new(Idle::ADAPTIVE);
        waiting.learn(Ns(1000), ALONE, false);
        waiting
    }

    #[test]
    fn a_thread_that_works_yields_once_a_millisecond_more_often_before_peers_and_never_if_it_spins() {
        let mut waiting = waiting();
        assert!(!waiting.is_shared());
        assert!(!waiting.worked(Ns(1000) + BUSY - Ns(1)));
        assert!(waiting.worked(Ns(1000) + BUSY));
        waiting.learn(Ns::from_ms(10), Ns::from_us(30), true);
        assert!(waiting.is_shared());
        assert!(!waiting.worked(Ns::from_ms(10) + BUSY_BEFORE_PEERS - Ns(1)));
        assert!(waiting.worked(Ns::from_ms(10) + BUSY_BEFORE_PEERS));
        waiting.learn(Ns::from_ms(20), ALONE, false);
        assert!(!waiting.is_shared(), "the others are gone");
        assert!(!Waiting::new(Idle::Spin).worked(Ns::from_s(1000)));
    }

    #[test]
    fn only_own_time_counts_as_quiet() {
        let mut waiting = waiting();
        waiting.quiet_since = Some(Ns::from_us(100));
        waiting.learn(Ns::from_us(300), Ns::from_us(190), false);
        assert_eq!(waiting.quiet_since, Some(Ns::from_us(290) - ALONE));
    }

    #[test]
    fn a_client_polls_for_a_round_trip_before_it_yields_unless_its_server_waits_for_the_core() {
        let mut waiting = waiting();
        waiting.learn(Ns::from_ms(9), Ns::from_us(900), true);
        assert_eq!(waiting.shared_probe, Ns::ZERO);
        assert!(!waiting.worked(Ns::from_ms(9) + BUSY_BEFORE_PEERS - Ns(1)));
        waiting.learn(Ns::from_ms(9), Ns::from_us(900), false);
        assert_eq!(waiting.shared_probe, FIRST_PROBE);
        assert!(
            waiting.worked(Ns::from_ms(9) + BUSY_BESIDE_OTHERS),
            "others wait for the core"
        );
        waiting.learn(Ns::from_ms(9), Ns::from_ms(3), true);
        assert_eq!(waiting.shared_probe, FIRST_PROBE, "others compute");
    }

    #[test]
    fn a_server_does_not_yield_to_others_that_compute_for_a_while() {
        let mut waiting = waiting().serving();
        waiting.learn(Ns::from_ms(9), Ns::from_ms(3), false);
        assert_eq!(waiting.no_yield_until, Ns::from_ms(109));
        assert!(
            !waiting.worked(Ns::from_ms(11)),
            "it works for as long as they did"
        );
        assert!(waiting.worked(Ns::from_ms(12)));
    }

    #[test]
    fn a_peer_that_does_not_run_in_a_yield_makes_us_sleep() {
        let mut waiting = waiting();
        waiting.learn(Ns::from_ms(9), ALONE, true);
        assert!(waiting.unyielding);
        waiting.learn(Ns::from_ms(9), Ns::from_us(5), true);
        assert!(!waiting.unyielding, "others ran: it may be next");
    }
}
