//! Operations without a safe name in Rust: prefetches, the time-stamp counter, copies that may race with writers.
//!
//! x86-64 has instructions for them; on other machines, and under Miri, which cannot run assembly, `portable`
//! implements them with atomics.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as machine;

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    allow(dead_code, reason = "tests compare its copies with the instructions")
)]
mod portable;
#[cfg(any(miri, not(target_arch = "x86_64")))]
use portable as machine;

pub(crate) use machine::{
    Source, Target, bulk_copy, copy_40, copy_few_words, copy_line, copy_under_8, copy_words, crc32c_byte,
    crc32c_word, equal, has_crc32c, match_high16, own, own_mut, prefetch, prefetch_write, shared, shared_mut,
    small_copy,
};
pub use machine::{hex_digits, timestamp};

/// Hints to the core that this is a spin loop.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}
