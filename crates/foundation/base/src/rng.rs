//! [`Rng`]: one seeded stream per (seed, entity, purpose); adding an entity does not change any other stream.

/// A seeded stream of random numbers: xoshiro256++ seeded by SplitMix64 *(Blackman and Vigna, public domain
/// algorithm)*. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// Starts the stream that `seed`, `entity` (for example the index of a core) and `purpose` (a constant that tells
    /// the uses of one entity apart) determine: the same three numbers give the same stream.
    pub fn new(seed: u64, entity: u64, purpose: u64) -> Rng {
        let mut x =
            seed ^ mix(entity.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(mix(purpose)).rotate_left(32);
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(x)
        };
        Rng {
            s: [next(), next(), next(), next()],
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.s;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A uniform number from 0 to `bound` - 1. `bound` is at least 1, which is checked only in debug builds.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniform number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with probability `p`. If `p` is at most 0, returns false and draws no number.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }
}

/// SplitMix64's finaliser: a bijection on 64-bit words that scatters them. About 2 ns.
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |a, b, c| Rng::new(a, b, c).next_u64();
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        let all = [
            draw(1, 2, 3),
            draw(2, 2, 3),
            draw(1, 3, 3),
            draw(1, 2, 4),
            draw(1, 3, 2),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn below_covers_its_range() {
        let mut rng = Rng::new(7, 0, 0);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
    }
}
