//! [`UnderWay`]: keys about which a connection has requests at other cores.

use drover_base::KeyHash;
use drover_net::Output;

/// A set of keys that contains all those of the connection's requests whose replies are missing; and others, for it has a
/// bit for many keys, and forgets only when all replies of a batch have come.
///
/// A GET that is read in place would overtake a forwarded request of the same connection, which memcached executes first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct UnderWay {
    recent: Batch,
    older: Batch,
}

/// Keys of consecutive requests.
#[derive(Clone, Copy, Default, Debug)]
struct Batch {
    keys: u64,
    /// The replies are those before this number.
    end: u64,
}

impl UnderWay {
    /// Adds the key of the request whose reply has `number`.
    #[inline]
    pub(crate) fn add(&mut self, hash: KeyHash, number: u64) {
        self.add_bits(bit(hash), number);
    }

    /// Adds all keys.
    pub(crate) fn add_all(&mut self, number: u64) {
        self.add_bits(u64::MAX, number);
    }

    #[inline]
    fn add_bits(&mut self, bits: u64, number: u64) {
        if self.older.keys == 0 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.keys |= bits;
        self.recent.end = number + 1;
    }

    /// Whether a request about the key may be under way.
    #[inline]
    pub(crate) fn may_have(&mut self, hash: KeyHash, output: &Output) -> bool {
        if self.recent.keys | self.older.keys == 0 {
            return false;
        }
        let Some(missing) = output.first_missing() else {
            *self = UnderWay::default();
            return false;
        };
        if missing >= self.older.end {
            self.older = std::mem::take(&mut self.recent);
            if missing >= self.older.end {
                self.older = Batch::default();
            }
        }
        (self.recent.keys | self.older.keys) & bit(hash) != 0
    }
}

#[inline]
fn bit(hash: KeyHash) -> u64 {
    1 << (hash.tag() % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(low: u64) -> KeyHash {
        KeyHash { low, high: 0 }
    }

    #[test]
    fn a_key_is_under_way_until_its_reply_has_come() {
        let (mut output, mut under_way) = (Output::new(0, 1 << 16), UnderWay::default());
        let ask = |under_way: &mut UnderWay, output: &mut Output, key| {
            let pending = output.pending_reply();
            under_way.add(hash(key), pending.number);
            pending
        };
        assert!(!under_way.may_have(hash(1), &output));
        let first = ask(&mut under_way, &mut output, 1);
        let second = ask(&mut under_way, &mut output, 2);
        let third = ask(&mut under_way, &mut output, 3);
        for key in [1, 2, 3] {
            assert!(under_way.may_have(hash(key), &output));
        }
        assert!(!under_way.may_have(hash(4), &output));
        output.fill(first, b"");
        assert!(!under_way.may_have(hash(1), &output), "a batch of its own");
        assert!(under_way.may_have(hash(2), &output) && under_way.may_have(hash(3), &output));
        output.fill(second, b"");
        assert!(under_way.may_have(hash(3), &output));
        let fourth = ask(&mut under_way, &mut output, 4);
        output.fill(third, b"");
        assert!(!under_way.may_have(hash(3), &output) && under_way.may_have(hash(4), &output));
        output.fill(fourth, b"");
        assert!(!under_way.may_have(hash(4), &output));
    }

    #[test]
    fn a_flush_is_about_all_keys() {
        let (mut output, mut under_way) = (Output::new(0, 1 << 16), UnderWay::default());
        let pending = output.pending_reply();
        under_way.add_all(pending.number);
        assert!((0..64).all(|key| under_way.may_have(hash(key), &output)));
        output.fill(pending, b"OK");
        assert!((0..64).all(|key| !under_way.may_have(hash(key), &output)));
    }
}
