//! The same operations as x86-64 assembly, opaque to the compiler: prefetch, the time-stamp counter, copies.

/// Source of a copy. An address is enough: to opaque assembly, racing bytes are plain values.
pub(crate) type Source = *const u8;

/// Memory of a mapping, which others may write meanwhile.
#[inline(always)]
pub(crate) fn shared(ptr: *const u8) -> Source {
    ptr
}

/// Memory without concurrent writers.
#[inline(always)]
pub(crate) fn own(ptr: *const u8) -> Source {
    ptr
}

/// Target of a copy; see [`Source`].
pub(crate) type Target = *mut u8;

/// Memory of a mapping, which others may use meanwhile.
#[inline(always)]
pub(crate) fn shared_mut(ptr: *mut u8) -> Target {
    ptr
}

/// Memory without other users meanwhile.
#[inline(always)]
pub(crate) fn own_mut(ptr: *mut u8) -> Target {
    ptr
}

/// Prefetches the line at `addr` into all cache levels. Any address is allowed: a bad one is ignored.
#[inline(always)]
pub(crate) fn prefetch(addr: usize) {
    // SAFETY: PREFETCHT0 never faults, whatever the address, and changes no architectural state.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(addr as *const i8);
    }
}

/// Prefetches the line at `addr` for writing: other cores lose their copies of it. Any address is allowed.
#[inline(always)]
pub fn prefetch_write(addr: usize) {
    // SAFETY: PREFETCHW never faults, whatever the address (processors that lack it do nothing), and changes no
    // architectural state.
    unsafe {
        core::arch::asm!("prefetchw [{addr}]", addr = in(reg) addr, options(nostack, preserves_flags, readonly));
    }
}

/// Reads the time-stamp counter, which ticks at a constant rate on every machine we run on. About 10 ns. The processor
/// may read it before earlier loads and stores are done. [`NativeCpu::ticks_to_ns`](crate::NativeCpu::ticks_to_ns)
/// converts differences. On machines other than x86-64 it counts nanoseconds of the monotonic clock.
#[inline(always)]
pub fn timestamp() -> u64 {
    // SAFETY: RDTSC is available on every x86-64 and reads no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The 16 lowercase hexadecimal digits of `word` in ASCII, most significant first: eight digits per returned word, the
/// first in its lowest byte. A dozen instructions.
#[inline(always)]
pub fn hex_digits(word: u64) -> [u64; 2] {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { hex_digits_by_bytes(word) }
}

#[target_feature(enable = "sse2")]
#[inline]
fn hex_digits_by_bytes(word: u64) -> [u64; 2] {
    use core::arch::x86_64::*;
    let bytes = _mm_cvtsi64_si128(word.swap_bytes() as i64);
    let pairs = _mm_unpacklo_epi8(_mm_srli_epi64::<4>(bytes), bytes);
    let nibbles = _mm_and_si128(pairs, _mm_set1_epi8(0x0f));
    let letters = _mm_cmpgt_epi8(nibbles, _mm_set1_epi8(9));
    let gap = _mm_and_si128(letters, _mm_set1_epi8((b'a' - b'9' - 1) as i8));
    let text = _mm_add_epi8(_mm_add_epi8(nibbles, _mm_set1_epi8(b'0' as i8)), gap);
    let second = _mm_unpackhi_epi64(text, text);
    [_mm_cvtsi128_si64(text) as u64, _mm_cvtsi128_si64(second) as u64]
}

/// Whether the processor has the instruction for CRC-32C.
#[inline(always)]
pub(crate) fn has_crc32c() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
}

/// The state of a CRC-32C after `word`, from `state`. Only if [`has_crc32c`]. Assembly, because a function with the feature
/// is not inlined into those without it.
#[inline(always)]
pub(crate) fn crc32c_word(state: u64, word: u64) -> u64 {
    let mut state = state;
    // SAFETY: the instruction exists, says the caller; it computes with registers only.
    unsafe {
        core::arch::asm!("crc32 {state}, {word}", state = inout(reg) state, word = in(reg) word,
            options(pure, nomem, nostack, preserves_flags));
    }
    state
}

/// As [`crc32c_word`], for a byte.
#[inline(always)]
pub(crate) fn crc32c_byte(state: u64, byte: u8) -> u64 {
    let mut state = state;
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("crc32 {state}, {byte}", state = inout(reg) state, byte = in(reg_byte) byte,
            options(pure, nomem, nostack, preserves_flags));
    }
    state
}

/// Copies `len` bytes with the string instruction, opaque to the compiler: the one bulk copy that may race with
/// writers. Bytes may be torn; the copy itself orders nothing.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
#[inline]
pub(crate) unsafe fn bulk_copy(to: Target, from: Source, len: usize) {
    // SAFETY: the caller promises both ranges; the assembly is opaque, so racing bytes are values, not UB.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Words at `line` whose upper 16 bits equal `high`: bit i of the result for word i.
///
/// # Safety
/// `line` must be aligned to 64 and readable for 64 bytes during the call. Concurrent writers are allowed.
#[inline(always)]
pub(crate) unsafe fn match_high16(line: *const u8, high: u16) -> u32 {
    use core::arch::x86_64::__m128i;
    let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
    // SAFETY: the caller promises an aligned, readable line; the assembly is opaque, so words that change
    // meanwhile are values, not UB.
    unsafe {
        core::arch::asm!(
            "movdqa {a}, [{line}]",
            "movdqa {b}, [{line} + 16]",
            "movdqa {c}, [{line} + 32]",
            "movdqa {d}, [{line} + 48]",
            line = in(reg) line,
            a = lateout(xmm_reg) a, b = lateout(xmm_reg) b, c = lateout(xmm_reg) c, d = lateout(xmm_reg) d,
            options(nostack, readonly, preserves_flags)
        );
    }
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { match_highs([a, b, c, d], high) }
}

/// [`match_high16`] of a line held in registers.
#[target_feature(enable = "sse2")]
#[inline]
fn match_highs([a, b, c, d]: [core::arch::x86_64::__m128i; 4], high: u16) -> u32 {
    use core::arch::x86_64::*;
    // The upper halves of four words each, arithmetically shifted so that the saturating pack keeps them.
    const UPPER: i32 = 0b11_01_11_01;
    let ab = _mm_shuffle_ps::<UPPER>(_mm_castsi128_ps(a), _mm_castsi128_ps(b));
    let cd = _mm_shuffle_ps::<UPPER>(_mm_castsi128_ps(c), _mm_castsi128_ps(d));
    let ab = _mm_srai_epi32::<16>(_mm_castps_si128(ab));
    let cd = _mm_srai_epi32::<16>(_mm_castps_si128(cd));
    let equal = _mm_cmpeq_epi16(_mm_packs_epi32(ab, cd), _mm_set1_epi16(high as i16));
    _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
}

/// Copies `len` bytes, a multiple of 8, in steps of 8 (of 64 and 16 from 128 bytes on), none of which splits a word.
/// Opaque to the compiler like [`bulk_copy`], but without the string instruction's start-up cost, and with
/// steps that a load can forward from the stores just before it: about 3 ns for 48 bytes.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
#[inline(always)]
pub(crate) unsafe fn copy_words(to: Target, from: Source, len: usize) {
    let mut at = 0;
    if len >= 128 {
        while len - at >= 64 {
            // SAFETY: 64 more bytes remain on both sides.
            unsafe { copy_4x16(to, from, at) };
            at += 64;
        }
        while len - at >= 16 {
            // SAFETY: 16 more bytes remain on both sides.
            unsafe { copy_16(to.add(at), from.add(at)) };
            at += 16;
        }
    }
    while at + 32 <= len {
        // SAFETY: 32 more bytes remain on both sides, at `at`.
        unsafe { copy_4x8(to, from, at) };
        at += 32;
    }
    while at < len {
        // SAFETY: 8 more bytes remain on both sides.
        unsafe { copy_8(to.add(at), from.add(at)) };
        at += 8;
    }
}

/// As [`copy_words`], for at most 64 bytes: without a loop from 32 on, where bytes in the middle may be copied twice.
///
/// # Safety
/// As [`copy_words`].
#[inline(always)]
pub(crate) unsafe fn copy_few_words(to: Target, from: Source, len: usize) {
    if len < 32 {
        // SAFETY: the caller's promise.
        return unsafe { copy_words(to, from, len) };
    }
    // SAFETY: the first 32 of at least 32 bytes.
    unsafe { copy_4x8(to, from, 0) };
    if len > 32 {
        // SAFETY: the last 32 of more than 32 bytes.
        unsafe { copy_4x8(to, from, len - 32) };
    }
}

/// Copies the 64 bytes at `from`, a multiple of 16, without a branch. Splits no word.
///
/// # Safety
/// `from` must be aligned to 16 and readable, `to` writable for 64 bytes, both mapped for the whole call.
#[inline(always)]
pub(crate) unsafe fn copy_line(to: Target, from: Source) {
    // SAFETY: the caller promises both ranges; opaque, so racing bytes are values, not UB.
    unsafe {
        core::arch::asm!(
            "movaps {a}, [{from}]", "movaps {b}, [{from} + 16]",
            "movaps {c}, [{from} + 32]", "movaps {d}, [{from} + 48]",
            "movups [{to}], {a}", "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}", "movups [{to} + 48], {d}",
            from = in(reg) from, to = in(reg) to,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies 40 bytes without a branch.
///
/// # Safety
/// 40 bytes readable at `from`, writable at `to`, both mapped for the whole call.
#[inline(always)]
pub(crate) unsafe fn copy_40(to: Target, from: Source) {
    // SAFETY: the caller promises both ranges; opaque, so racing bytes are values, not UB.
    unsafe {
        core::arch::asm!(
            "movups {a}, [{from}]", "movups {b}, [{from} + 16]", "mov {c}, [{from} + 32]",
            "movups [{to}], {a}", "movups [{to} + 16], {b}", "mov [{to} + 32], {c}",
            from = in(reg) from, to = in(reg) to, a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies four words in eight instructions.
///
/// # Safety
/// 32 bytes readable at `from + at`, writable at `to + at`.
#[inline(always)]
unsafe fn copy_4x8(to: *mut u8, from: *const u8, at: usize) {
    // SAFETY: the caller promises both ranges.
    unsafe {
        core::arch::asm!(
            "mov {x}, [{from} + {at}]", "mov {y}, [{from} + {at} + 8]",
            "mov [{to} + {at}], {x}", "mov [{to} + {at} + 8], {y}",
            "mov {x}, [{from} + {at} + 16]", "mov {y}, [{from} + {at} + 24]",
            "mov [{to} + {at} + 16], {x}", "mov [{to} + {at} + 24], {y}",
            from = in(reg) from, to = in(reg) to, at = in(reg) at, x = out(reg) _, y = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Eight words in eight instructions, loaded and stored in rising order of address.
///
/// # Safety
/// 64 bytes readable at `from + at`, writable at `to + at`.
#[inline(always)]
unsafe fn copy_4x16(to: *mut u8, from: *const u8, at: usize) {
    // SAFETY: the caller promises both ranges; SSE2 is part of x86-64.
    unsafe {
        core::arch::asm!(
            "movups {a}, [{from} + {at}]", "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]", "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}", "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}", "movups [{to} + {at} + 48], {d}",
            from = in(reg) from, to = in(reg) to, at = in(reg) at,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// # Safety
/// 16 bytes readable at `from`, writable at `to`.
#[inline(always)]
unsafe fn copy_16(to: *mut u8, from: *const u8) {
    // SAFETY: the caller promises both ranges; SSE2 is part of x86-64.
    unsafe {
        core::arch::asm!(
            "movups {x}, [{from}]", "movups [{to}], {x}",
            from = in(reg) from, to = in(reg) to, x = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// # Safety
/// 8 bytes readable at `from`, writable at `to`.
#[inline(always)]
unsafe fn copy_8(to: *mut u8, from: *const u8) {
    // SAFETY: the caller promises both ranges.
    unsafe {
        core::arch::asm!(
            "mov {x}, [{from}]", "mov [{to}], {x}",
            from = in(reg) from, to = in(reg) to, x = out(reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// Copies fewer than 8 bytes in at most three steps of 4, 2 and 1, in rising order of address.
///
/// # Safety
/// `from` must be readable and `to` writable for `len & 7` bytes, both mapped for the whole call.
#[inline(always)]
pub(crate) unsafe fn copy_under_8(to: Target, from: Source, len: usize) {
    let mut at = 0;
    if len & 4 != 0 {
        // SAFETY: 4 bytes at 0, inside what the caller promises.
        unsafe {
            core::arch::asm!(
                "mov {x:e}, [{from}]", "mov [{to}], {x:e}",
                from = in(reg) from, to = in(reg) to, x = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        at = 4;
    }
    if len & 2 != 0 {
        // SAFETY: 2 bytes at `at`, inside what the caller promises.
        unsafe {
            core::arch::asm!(
                "movzx {x:e}, word ptr [{from}]", "mov word ptr [{to}], {x:x}",
                from = in(reg) from.wrapping_add(at), to = in(reg) to.wrapping_add(at), x = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        at += 2;
    }
    if len & 1 != 0 {
        // SAFETY: 1 byte at `at`, inside what the caller promises.
        unsafe {
            core::arch::asm!(
                "movzx {x:e}, byte ptr [{from}]", "mov byte ptr [{to}], {x:l}",
                from = in(reg) from.wrapping_add(at), to = in(reg) to.wrapping_add(at), x = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// Moves the first and the last N bytes of a range, which may overlap; opaque to the compiler.
macro_rules! move_ends {
    ($name:ident, $class:ident, $load:literal, $load_last:literal, $store:literal, $store_last:literal) => {
        /// # Safety
        /// As [`bulk_copy`] for the N bytes at `to` and `from` and for the N bytes `last` after each.
        #[inline(always)]
        unsafe fn $name(to: *mut u8, from: *const u8, last: usize) {
            // SAFETY: the caller promises both ranges; opaque, so racing bytes are values, not UB.
            unsafe {
                core::arch::asm!($load, $load_last, $store, $store_last,
                    to = in(reg) to, from = in(reg) from, last = in(reg) last,
                    x = out($class) _, y = out($class) _, options(nostack, preserves_flags))
            }
        }
    };
}
move_ends!(
    ends_16,
    xmm_reg,
    "movups {x}, [{from}]",
    "movups {y}, [{from} + {last}]",
    "movups [{to}], {x}",
    "movups [{to} + {last}], {y}"
);
move_ends!(
    ends_8,
    reg,
    "mov {x}, [{from}]",
    "mov {y}, [{from} + {last}]",
    "mov [{to}], {x}",
    "mov [{to} + {last}], {y}"
);
move_ends!(
    ends_4,
    reg,
    "mov {x:e}, [{from}]",
    "mov {y:e}, [{from} + {last}]",
    "mov [{to}], {x:e}",
    "mov [{to} + {last}], {y:e}"
);
move_ends!(
    ends_1,
    reg_byte,
    "mov {x}, [{from}]",
    "mov {y}, [{from} + {last}]",
    "mov [{to}], {x}",
    "mov [{to} + {last}], {y}"
);

/// [`bulk_copy`] for short lengths: the string instruction takes tens of cycles to start. Both ends are moved whole and
/// may overlap, which avoids a loop over the rest.
///
/// # Safety
/// As [`bulk_copy`].
#[inline(always)]
pub(crate) unsafe fn small_copy(to: Target, from: Source, len: usize) {
    let mut i = 16;
    while i + 16 < len {
        // SAFETY: 16 bytes from i end before len.
        unsafe { ends_16(to.wrapping_add(i), from.wrapping_add(i), 0) };
        i += 16;
    }
    match len {
        // SAFETY: the first and last 16 of at least 16 bytes.
        16.. => unsafe { ends_16(to, from, len - 16) },
        // SAFETY: the first and last 8 of at least 8 bytes.
        8.. => unsafe { ends_8(to, from, len - 8) },
        // SAFETY: the first and last 4 of at least 4 bytes.
        4.. => unsafe { ends_4(to, from, len - 4) },
        1.. => {
            // SAFETY: the byte in the middle, twice.
            unsafe { ends_1(to.wrapping_add(len / 2), from.wrapping_add(len / 2), 0) };
            // SAFETY: the first and last of at least 1 byte.
            unsafe { ends_1(to, from, len - 1) };
        }
        0 => {}
    }
}

/// Whether `len` bytes at `shared` are those at `own`.
///
/// # Safety
/// Both readable for `len` bytes. Concurrent writers are allowed at `shared`.
#[inline(always)]
pub(crate) unsafe fn equal(shared: *const u8, own: *const u8, len: usize) -> bool {
    if len < 16 {
        // SAFETY: the caller's promise.
        return unsafe { equal_short(shared, own, len) };
    }
    let block = |i: usize| {
        // SAFETY: i + 16 <= len in all three uses below.
        unsafe { equal_16(shared.wrapping_add(i), own.wrapping_add(i)) }
    };
    block(0) && (len == 16 || (block(len - 16) && (1..(len - 1) / 16).all(|i| block(16 * i))))
}

/// [`equal`] for fewer than 16 bytes.
///
/// # Safety
/// As [`equal`], and `len` < 16.
#[inline]
unsafe fn equal_short(shared: *const u8, own: *const u8, len: usize) -> bool {
    let (mut copy, mut want) = ([0; 16], [0; 16]);
    // SAFETY: the caller promises `len` < 16 bytes.
    unsafe { small_copy(copy.as_mut_ptr(), shared, len) };
    // SAFETY: as above.
    unsafe { small_copy(want.as_mut_ptr(), own, len) };
    copy == want
}

/// Whether 16 bytes are equal.
///
/// # Safety
/// Both readable for 16 bytes.
#[inline(always)]
unsafe fn equal_16(shared: *const u8, own: *const u8) -> bool {
    let mask: u32;
    // SAFETY: the caller promises both ranges; opaque, so racing bytes are values, not UB.
    unsafe {
        core::arch::asm!(
            "movdqu {a}, [{shared}]", "movdqu {b}, [{own}]", "pcmpeqb {a}, {b}", "pmovmskb {mask:e}, {a}",
            shared = in(reg) shared, own = in(reg) own, a = out(xmm_reg) _, b = out(xmm_reg) _, mask = lateout(reg) mask,
            options(nostack, readonly, preserves_flags)
        );
    }
    mask == 0xffff
}
