//! [`HashSeed`]: the secret of a table's key hash, and which hash that is.

use super::{KeyHash, KeyHasher};
use crate::Cpu;
use std::fmt;
use std::str::FromStr;

/// A keyed hash of keys, for [`HashSeed`]. Servers choose; clients learn it with the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HashKind {
    /// AES-CMAC, a pseudorandom function: without the seed, chosen keys flood a bucket no better than random ones do. The
    /// default of servers.
    #[default]
    Aes,
    /// XXH3-128 under a secret, about which no such claim is made. For processors without instructions for AES, where it
    /// is faster, and for simulations, whose prices were counted with it.
    Xxh3,
}

impl HashKind {
    /// All kinds.
    pub const ALL: [HashKind; 2] = [HashKind::Aes, HashKind::Xxh3];

    /// The name by which operators choose it: `aes` or `xxh3`.
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Aes => "aes",
            HashKind::Xxh3 => "xxh3",
        }
    }

    /// The number that stands for it in messages, files and shared memory: 0 for XXH3, 1 for AES.
    pub const fn number(self) -> u8 {
        match self {
            HashKind::Xxh3 => 0,
            HashKind::Aes => 1,
        }
    }

    /// The kind of this [`number`](HashKind::number), if there is one.
    pub fn from_number(number: u64) -> Option<HashKind> {
        let mut all = HashKind::ALL.into_iter();
        all.find(|kind| u64::from(kind.number()) == number)
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HashKind {
    type Err = String;

    fn from_str(text: &str) -> Result<HashKind, String> {
        let found = HashKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text}: expected aes or xxh3"))
    }
}

/// The secret that keys the hash, so that a user who does not know it cannot craft keys that flood one bucket, and the
/// kind of the hash. Clients of drover receive both, because they hash keys themselves. `Debug` does not print the
/// secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed {
    kind: HashKind,
    k0: u64,
    k1: u64,
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashSeed")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl HashSeed {
    /// A seed of [XXH3](HashKind::Xxh3) that is known in advance, for tests and simulations. Servers
    /// [draw](HashSeed::drawn) theirs.
    pub const fn new(k0: u64, k1: u64) -> HashSeed {
        HashSeed::of(HashKind::Xxh3, k0, k1)
    }

    /// The seed of this kind with these [halves](HashSeed::halves), both secret.
    pub const fn of(kind: HashKind, k0: u64, k1: u64) -> HashSeed {
        HashSeed { kind, k0, k1 }
    }

    /// Draws the seed of a table that is created now. On hardware it comes from the system's randomness, in simulations
    /// from the core's stream.
    pub fn drawn(kind: HashKind, cpu: &impl Cpu) -> HashSeed {
        HashSeed::of(kind, cpu.secret(), cpu.secret())
    }

    /// Kind of the hash.
    pub const fn kind(self) -> HashKind {
        self.kind
    }

    /// The halves `(k0, k1)`, to send the seed to a client or to store it, with its [`kind`](HashSeed::kind).
    pub const fn halves(self) -> (u64, u64) {
        (self.k0, self.k1)
    }

    /// The hash of `key`, of any length. Derives the hasher anew each time: to hash many keys, keep a
    /// [`hasher`](HashSeed::hasher).
    pub fn hash(self, key: &[u8]) -> KeyHash {
        self.hasher().hash(key)
    }

    /// Creates a hasher for this seed.
    pub fn hasher(self) -> KeyHasher {
        KeyHasher::new(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_numbers() {
        for kind in HashKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(HashKind::from_number(kind.number().into()), Some(kind));
        }
        assert_eq!(
            "md5".parse::<HashKind>(),
            Err("md5: expected aes or xxh3".to_owned())
        );
        assert_eq!(HashKind::from_number(2), None);
    }
}
