//! [`Instructions`]: AES-128 by the instructions of x86-64.

use crate::Cipher;
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_aeskeygenassist_si128, _mm_shuffle_epi32, _mm_slli_si128, _mm_xor_si128,
};
use std::fmt;
use std::mem::transmute;

/// AES-128 by the processor's own instructions. That the value exists proves that the processor has them. A block takes
/// eleven instructions, which are inlined. `Debug` does not print the key.
#[derive(Clone)]
pub struct Instructions {
    /// Of each round, and of the exclusive-or before the first. They are operands in memory, which must be aligned to 16,
    /// as `u128` is.
    round_keys: [u128; 11],
}

const _: () = assert!(align_of::<u128>() == 16);

impl Instructions {
    /// The cipher under `key`; `None` if the processor lacks the instructions.
    pub fn new(key: u128) -> Option<Instructions> {
        if !std::arch::is_x86_feature_detected!("aes") {
            return None;
        }
        // SAFETY: the processor has the instructions, checked above.
        let round_keys = unsafe { round_keys(key) };
        Some(Instructions { round_keys })
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instructions").finish_non_exhaustive()
    }
}

impl Cipher for Instructions {
    /// Assembly, because a function with the feature is not inlined into those without it.
    #[inline(always)]
    fn encrypt(&self, block: u128) -> u128 {
        // SAFETY: 16 bytes in both types, of which every value is valid.
        let mut state = unsafe { transmute::<u128, __m128i>(block) };
        // SAFETY: `new` found the instructions; they read the eleven keys, which are aligned, and change one register.
        unsafe {
            asm!(
                "pxor {state}, [{keys}]",
                "aesenc {state}, [{keys} + 16]",
                "aesenc {state}, [{keys} + 32]",
                "aesenc {state}, [{keys} + 48]",
                "aesenc {state}, [{keys} + 64]",
                "aesenc {state}, [{keys} + 80]",
                "aesenc {state}, [{keys} + 96]",
                "aesenc {state}, [{keys} + 112]",
                "aesenc {state}, [{keys} + 128]",
                "aesenc {state}, [{keys} + 144]",
                "aesenclast {state}, [{keys} + 160]",
                state = inout(xmm_reg) state,
                keys = in(reg) self.round_keys.as_ptr(),
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        unsafe { transmute::<__m128i, u128>(state) }
    }
}

/// The key schedule of `[FIPS197 §5.2]`.
///
/// # Safety
/// The processor must have the instructions.
#[target_feature(enable = "aes")]
unsafe fn round_keys(key: u128) -> [u128; 11] {
    // SAFETY: 16 bytes in both types, of which every value is valid.
    let mut round_key = unsafe { transmute::<u128, __m128i>(key) };
    let mut all = [round_key; 11];
    // The instruction takes the round's constant as part of itself.
    macro_rules! round {
        ($number:literal, $constant:literal) => {
            let word = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(round_key));
            // Each word of the key becomes the exclusive-or of itself and all words before it.
            let pairs = _mm_xor_si128(round_key, _mm_slli_si128::<4>(round_key));
            let sums = _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs));
            round_key = _mm_xor_si128(sums, word);
            all[$number] = round_key;
        };
    }
    round!(1, 0x01);
    round!(2, 0x02);
    round!(3, 0x04);
    round!(4, 0x08);
    round!(5, 0x10);
    round!(6, 0x20);
    round!(7, 0x40);
    round!(8, 0x80);
    round!(9, 0x1b);
    round!(10, 0x36);
    // SAFETY: as above, eleven times.
    unsafe { transmute::<[__m128i; 11], [u128; 11]>(all) }
}
