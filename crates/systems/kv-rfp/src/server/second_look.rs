//! [`SecondLook`]: when a server looks again at the modes of results that were left to be fetched.
//!
//! At most once per microsecond, for all clients in the same step. The WRITE of a mode wakes a core that sleeps; if that
//! is too early, the core steps once more when it is time, and then sleeps again, however many results are never fetched.
//! Where WRITEs wake nobody, cores do not sleep for long.

use drover_base::Ns;

/// Least time between two looks. *(stated in `[RFP]`)*
const LOOK_EVERY: Ns = Ns::from_us(1);

/// When a server looks, and when it must step in order to.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecondLook {
    /// Time of the next look.
    look_at: Ns,
    /// Whether a client's results were looked at in this step.
    has_looked: bool,
    /// Whether it was too early for those of one.
    is_early: bool,
    next_timer: Ns,
}

impl Default for SecondLook {
    fn default() -> SecondLook {
        SecondLook {
            look_at: Ns::ZERO,
            has_looked: false,
            is_early: false,
            next_timer: Ns::MAX,
        }
    }
}

impl SecondLook {
    /// Whether to look, for a client that has such results.
    #[inline]
    pub(super) fn is_due(&mut self, now: Ns) -> bool {
        let is_due = now >= self.look_at;
        self.has_looked |= is_due;
        self.is_early |= !is_due;
        is_due
    }

    /// All clients were asked about.
    #[inline]
    pub(super) fn step_ends(&mut self, now: Ns) {
        if self.has_looked {
            self.look_at = now + LOOK_EVERY;
        }
        self.next_timer = if self.is_early { self.look_at } else { Ns::MAX };
        (self.has_looked, self.is_early) = (false, false);
    }

    /// When the server must step though nothing has arrived.
    pub(super) fn next_timer(&self) -> Ns {
        self.next_timer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One step with `count` clients; whether they were looked at.
    fn step(look: &mut SecondLook, now: Ns, count: usize) -> bool {
        let looks: Vec<bool> = (0..count).map(|_| look.is_due(now)).collect();
        look.step_ends(now);
        looks.contains(&true)
    }

    #[test]
    fn who_is_woken_too_early_steps_once_more_and_sleeps() {
        let mut look = SecondLook::default();
        assert!(step(&mut look, Ns(5_000), 2));
        assert_eq!(look.next_timer(), Ns::MAX);
        assert!(!step(&mut look, Ns(5_300), 2));
        assert_eq!(look.next_timer(), Ns(6_000));
        assert!(step(&mut look, Ns(6_000), 2));
        assert_eq!(look.next_timer(), Ns::MAX);
        assert!(!step(&mut look, Ns(6_100), 0), "there are no such results");
        assert_eq!(look.next_timer(), Ns::MAX);
    }
}
