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
