//! [`Mode`]: whether the results of a kind of call are fetched or pushed, and when that changes.
//!
//! ```text
//!           N slow calls in a row, each with R failed READs or more
//!   Fetch  --------------------------------------------------------->  Reply
//!          <---------------------------------------------------------
//!           two calls in a row that took less than 0.8 P
//! ```
//! One slow call in isolation is an accident and changes nothing. Between two changes of a mode there is at least a
//! millisecond, so that calls that take about P do not pay for a change each time. *(R, N, and that only the client
//! changes modes: stated in `[RFP]`; the way back and the millisecond: our choice.)*

use drover_base::Ns;

/// How the result of a call comes to the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// The client READs it.
    #[default]
    Fetch = 0,
    /// The server WRITEs it.
    Reply = 1,
}

/// Which modes a connection uses. Both ends must agree: with `Reply`, modes begin so without a word of the client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Transfer {
    /// Each kind of call begins with `Fetch` and changes as it takes more or less time.
    #[default]
    Auto,
    /// Results are always fetched.
    Fetch,
    /// Results are always pushed.
    Reply,
}

impl Transfer {
    /// The mode of every kind of call at the beginning.
    pub fn first_mode(self) -> Mode {
        match self {
            Transfer::Auto | Transfer::Fetch => Mode::Fetch,
            Transfer::Reply => Mode::Reply,
        }
    }
}

/// When a mode changes, with [`Transfer::Auto`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwitchOptions {
    /// `R`: a call with this many failed READs is slow. It depends on what a READ costs on the fabric.
    pub slow_reads: u32,
    /// `N`: so many slow calls in a row change the mode to `Reply`.
    pub slow_calls: u32,
    /// `P`: the server's time per call from which on pushing is worth it.
    pub push_time: Ns,
    /// So many calls in a row whose time is below 0.8 P change the mode back.
    pub fast_calls: u32,
    /// Least time between two changes.
    pub dwell: Ns,
}

impl Default for SwitchOptions {
    /// The paper's: R = 5, N = 2, P = 7 us; back after 2 calls; a millisecond in between.
    fn default() -> SwitchOptions {
        SwitchOptions {
            slow_reads: 5,
            slow_calls: 2,
            push_time: Ns::from_us(7),
            fast_calls: 2,
            dwell: Ns::from_ms(1),
        }
    }
}

/// The mode of one kind of call in one place, as the client has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Switch {
    mode: Mode,
    /// Slow calls in a row (`Fetch`), or fast ones (`Reply`).
    run: u32,
    /// No change before this time.
    not_before: Ns,
}

impl Switch {
    pub(super) fn new(mode: Mode) -> Switch {
        Switch {
            mode,
            run: 0,
            not_before: Ns::ZERO,
        }
    }

    #[inline]
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// A call that goes on is slow by now, if `is_slow`: whether the mode changes to `Reply` now.
    #[inline]
    pub(super) fn read_failed(&mut self, is_slow: bool, now: Ns, options: &SwitchOptions) -> bool {
        if !is_slow || self.run + 1 < options.slow_calls || now < self.not_before {
            return false;
        }
        self.change(Mode::Reply, now, options);
        true
    }

    /// A call was fetched; whether it was slow.
    #[inline]
    pub(super) fn fetched(&mut self, is_slow: bool) {
        self.run = match is_slow {
            true => self.run.saturating_add(1),
            false => 0,
        };
    }

    /// A pushed result says that its call took `time`: whether the mode changes to `Fetch` for the next one.
    #[inline]
    pub(super) fn pushed(&mut self, time: Ns, now: Ns, options: &SwitchOptions) -> bool {
        self.run = match time.0 < options.push_time.0 * 4 / 5 {
            true => self.run.saturating_add(1),
            false => 0,
        };
        if self.run < options.fast_calls || now < self.not_before {
            return false;
        }
        self.change(Mode::Fetch, now, options);
        true
    }

    fn change(&mut self, mode: Mode, now: Ns, options: &SwitchOptions) {
        *self = Switch {
            mode,
            run: 0,
            not_before: now + options.dwell,
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OPTIONS: SwitchOptions = SwitchOptions {
        slow_reads: 5,
        slow_calls: 2,
        push_time: Ns::from_us(7),
        fast_calls: 2,
        dwell: Ns::from_ms(1),
    };

    /// A fetched call with `fails` failed READs; whether the mode changed meanwhile.
    fn fetch(switch: &mut Switch, fails: u32, now: Ns) -> bool {
        let changes = (1..=fails).any(|fails| switch.read_failed(fails >= 5, now, &OPTIONS));
        if !changes {
            switch.fetched(fails >= 5);
        }
        changes
    }

    #[test]
    fn a_slow_call_between_fast_ones_changes_nothing() {
        let mut switch = Switch::new(Mode::Fetch);
        for _ in 0..100 {
            assert!(!fetch(&mut switch, 9, Ns(0)));
            assert!(!fetch(&mut switch, 4, Ns(0)));
        }
        assert_eq!(switch.mode(), Mode::Fetch);
    }

    #[test]
    fn the_second_slow_call_in_a_row_switches_at_its_rth_read() {
        let mut switch = Switch::new(Mode::Fetch);
        assert!(!fetch(&mut switch, 9, Ns(0)));
        let at = (1..10).find(|fails| switch.read_failed(*fails >= 5, Ns(0), &OPTIONS));
        assert_eq!((at, switch.mode()), (Some(5), Mode::Reply));
    }

    #[test]
    fn two_fast_calls_in_a_row_switch_back() {
        let mut switch = Switch::new(Mode::Reply);
        let time = Ns(5_500);
        for _ in 0..10 {
            assert!(!switch.pushed(time, Ns(0), &OPTIONS));
            assert!(!switch.pushed(Ns(5_600), Ns(0), &OPTIONS), "0.8 P is not fast");
        }
        assert!(!switch.pushed(time, Ns(0), &OPTIONS));
        assert!(switch.pushed(time, Ns(0), &OPTIONS));
        assert_eq!(switch.mode(), Mode::Fetch);
    }

    /// Calls that are as slow as can be in one mode and as fast as can be in the other.
    #[test]
    fn a_mode_changes_at_most_once_per_millisecond() {
        let mut switch = Switch::new(Mode::Fetch);
        let mut changes = 0;
        for us in 0..10_000 {
            let now = Ns::from_us(us);
            changes += u32::from(match switch.mode() {
                Mode::Fetch => fetch(&mut switch, 9, now),
                Mode::Reply => switch.pushed(Ns(0), now, &OPTIONS),
            });
        }
        assert!((9..=11).contains(&changes), "{changes} changes in 10 ms");
    }
}
