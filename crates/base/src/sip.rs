//! SipHash-1-3 with 128 bits of output, over a whole key at once.
//!
//! One round per word and three at the end, as in the hash tables of Rust, Python and Ruby *(our choice)*: what it
//! has to withstand is clients that craft keys for one bucket or partition without knowing the seed, and it costs
//! half of the 2-4 variant, which was a fifth of a client's instructions per GET.
//!
//! Every operation hashes one short key, and the `siphasher` crate's streaming state costs a third more
//! instructions for those, so this one is ours. The crate is the oracle of its test.
//! Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", and the reference code's 128-bit variant
//! (public domain algorithm).

/// The four words of state.
struct State(u64, u64, u64, u64);

impl State {
    #[inline(always)]
    fn round(&mut self) {
        let State(v0, v1, v2, v3) = self;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }

    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.3 ^= word;
        self.round();
        self.0 ^= word;
    }

    #[inline(always)]
    fn finish(&mut self) -> u64 {
        (0..3).for_each(|_| self.round());
        self.0 ^ self.1 ^ self.2 ^ self.3
    }

    #[inline(always)]
    fn new(k0: u64, k1: u64) -> State {
        State(
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        )
    }

    /// Both halves, after the word that ends with the length.
    #[inline(always)]
    fn halves(mut self, last: u64) -> (u64, u64) {
        self.word(last);
        self.2 ^= 0xee;
        let low = self.finish();
        self.1 ^= 0xdd;
        (low, self.finish())
    }
}

/// The hash of 16 bytes, given as two little-endian words.
#[inline(always)]
pub(crate) fn sip_hash_128_words(k0: u64, k1: u64, words: [u64; 2]) -> (u64, u64) {
    let mut state = State::new(k0, k1);
    state.word(words[0]);
    state.word(words[1]);
    state.halves(16 << 56)
}

/// The hash of `bytes` under the key (`k0`, `k1`): first and second half of its 16 bytes, little-endian.
#[inline]
pub(crate) fn sip_hash_128(k0: u64, k1: u64, bytes: &[u8]) -> (u64, u64) {
    let mut state = State::new(k0, k1);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.word(u64::from_le_bytes(*word));
    }
    let mut last = (bytes.len() as u64) << 56;
    for (i, &byte) in rest.iter().enumerate() {
        last |= u64::from(byte) << (8 * i);
    }
    state.halves(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip128::SipHasher13;

    #[test]
    fn agrees_with_the_siphasher_crate() {
        let mut rng = crate::Rng::new(3, 0, 0);
        let (rounds, by_one) = if cfg!(miri) { (20, 18) } else { (2000, 300) };
        for round in 0..rounds {
            let len = if round < by_one {
                round
            } else {
                rng.below(300) as usize
            };
            let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let (k0, k1) = (rng.next_u64(), rng.next_u64());
            let want = SipHasher13::new_with_keys(k0, k1).hash(&bytes);
            assert_eq!(sip_hash_128(k0, k1, &bytes), (want.h1, want.h2), "{len} bytes");
        }
    }
}
