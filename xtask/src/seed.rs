//! Fresh seeds, so that every run of a random chore explores something new.

use std::fs::File;
use std::io::Read;

/// Seeds are below this number, so that they are easy to type.
const SEED_MAX: u64 = 1_000_000_000;

/// A seed from the system's randomness. The caller prints it, so that a failure can be repeated.
///
/// # Panics
///
/// The system has no `/dev/urandom`.
pub fn fresh() -> u64 {
    let mut bytes = [0; 8];
    let mut file = File::open("/dev/urandom").expect("the system has /dev/urandom");
    file.read_exact(&mut bytes).expect("/dev/urandom never ends");
    u64::from_ne_bytes(bytes) % SEED_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_are_short() {
        let seeds: Vec<u64> = (0..8).map(|_| fresh()).collect();
        assert!(seeds.iter().all(|seed| *seed < SEED_MAX));
        assert!(seeds.windows(2).any(|two| two[0] != two[1]));
    }
}
