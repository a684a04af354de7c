//! The instructions Rust has no safe name for: prefetch, pause, the time-stamp counter, string copy.

/// Asks for the line at `addr` in all cache levels. Any address is allowed: a bad one is ignored.
#[inline(always)]
pub(crate) fn prefetch(addr: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHT0 never faults, whatever the address, and changes no architectural state.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(addr as *const i8);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = addr;
}

/// Tells the core that we spin.
#[inline(always)]
pub fn pause() {
    std::hint::spin_loop();
}

/// The time-stamp counter: about 10 ns, ticks at a constant rate on every machine we run on.
/// Elsewhere than x86-64, nanoseconds of the monotonic clock.
#[inline(always)]
pub fn timestamp() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC is available on every x86-64 and reads no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    crate::native::monotonic_ns()
}

/// Copies `len` bytes as the hardware does it, invisible to the compiler: the one bulk copy that may run
/// against concurrent writers. Bytes may be torn; nothing is ordered except by what comes before and after.
///
/// # Safety
/// `from` must be readable and `to` writable for `len` bytes, both mapped for the whole call.
#[inline]
pub(crate) unsafe fn bulk_copy(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the caller promises both ranges; the assembly is opaque, so racing bytes are values, not UB.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    for i in 0..len {
        // SAFETY: i < len, and the caller promises both ranges.
        let byte = unsafe { core::sync::atomic::AtomicU8::from_ptr(from.add(i).cast_mut()) }
            .load(core::sync::atomic::Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { core::sync::atomic::AtomicU8::from_ptr(to.add(i)) }
            .store(byte, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Which of the 8 words at `line` have `high` as their upper 16 bits: bit i for word i.
///
/// # Safety
/// `line` must be aligned to 64 and readable for 64 bytes during the call. Concurrent writers are allowed.
#[inline(always)]
pub(crate) unsafe fn match_high16(line: *const u8, high: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
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
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let mut mask = 0;
        for i in 0..8 {
            // SAFETY: word i of a line that the caller promises readable and aligned; the access is atomic.
            let word =
                unsafe { core::sync::atomic::AtomicU64::from_ptr(line.cast_mut().cast::<u64>().add(i)) };
            let value = u64::from_le(word.load(core::sync::atomic::Ordering::Relaxed));
            mask |= u32::from((value >> 48) as u16 == high) << i;
        }
        mask
    }
}

/// [`match_high16`] of a line in registers.
#[cfg(all(target_arch = "x86_64", not(miri)))]
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
