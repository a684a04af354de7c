//! Both ends over memory that the tests move bytes in, so that they decide what happens first. Each hole in the paper's
//! description, and each race, has a canary: the same run without the guard, which must go wrong.

mod holes;
mod model;
mod noise;
mod pair;
mod races;
mod switching;
mod turns;

use super::guards::Guards;

/// Declares guards of which some are off.
macro_rules! without {
    ($($name:ident: $($guard:ident),+;)*) => {$(
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
        struct $name;
        impl Guards for $name {
            $(const $guard: bool = false;)+
        }
    )*};
}

without! {
    NoSequence: SEQUENCE;
    NoSum: SUM;
    NoZero: ZERO;
    NoRecheck: RECHECK;
    NoSumNoOwnArea: SUM, OWN_AREA;
}
