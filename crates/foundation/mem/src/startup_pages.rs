//! [`release_startup_pages`]: removes file pages that only the program's start needed from resident memory.

use libc::{PF_W, PT_LOAD};
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Removes unmodified pages of the program's file and of its libraries from the resident memory of this process. A page
/// that is used again is mapped again from the page cache, with the same content. Call it once, when a server has
/// started: the start touches most of the pages that are ever resident, and serving needs a tenth of them. Changes
/// nothing where the system does not support it, or where pages are locked (`mlockall`).
///
/// **Cost:** one read of `/proc/self/smaps`, for which the kernel visits all resident pages: 0.3 ms, and about 20 ms per
/// GiB that is resident in 4 KiB pages. Afterwards a page fault without I/O at the first use of each 64 KiB that are
/// needed again: some 25 until every kind of request has come. Under memory pressure the kernel first evicts file pages
/// that no process maps, so the first request of a kind may then wait for the disk.
pub fn release_startup_pages() {
    let Ok(smaps) = File::open("/proc/self/smaps") else {
        return;
    };
    let mut unmodified = unmodified_mappings(BufReader::new(smaps));
    let data: *mut Vec<Range<usize>> = &mut unmodified;
    // SAFETY: `release_object` expects a pointer to such a list, which nothing else uses during the call.
    unsafe { libc::dl_iterate_phdr(Some(release_object), data.cast()) };
}

/// Releases the pages of one loaded object, as far as its segments are not writable and lie in one of the mappings of
/// `data`. Returns 0, which asks for the next object.
///
/// # Safety
/// `info` must be what `dl_iterate_phdr` passes, and `data` must point to a `Vec<Range<usize>>` that is not changed
/// during the call.
unsafe extern "C" fn release_object(
    info: *mut libc::dl_phdr_info,
    _info_bytes: usize,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let (info, unmodified) = unsafe { (&*info, &*data.cast::<Vec<Range<usize>>>()) };
    for index in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the object has `dlpi_phnum` headers from `dlpi_phdr` on.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        if header.p_type != PT_LOAD || header.p_flags & PF_W != 0 || header.p_memsz == 0 {
            continue;
        }
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let last = start.wrapping_add(header.p_memsz as usize - 1);
        let is_whole_in = |pages: &Range<usize>| pages.contains(&start) && pages.contains(&last);
        if !unmodified.iter().any(is_whole_in) {
            continue;
        }
        let first_page = start - start % page_size();
        let bytes = last + 1 - first_page;
        // The next access to a page reads what the last one read, because the process has no copy of its own:
        // - The segment stays mapped: the object is in the loader's list, which is locked during this callback, so no
        //   other thread can unload the object and map something else here.
        // - `unmodified_mappings` saw no copy, and a copy takes a store. Without `PF_W` nobody stores to the segment, not
        //   even the loader (a segment that is writable for relocation only, RELRO, has `PF_W`; text relocations, which
        //   linkers refuse by default, are made before the library that has them is used).
        // SAFETY: so no byte changes its value, and nothing else is mapped at these addresses.
        let _ = unsafe { madvise(first_page as *mut c_void, bytes, Advice::LinuxDontNeed) };
    }
    0
}

/// Reads a text like `/proc/self/smaps`. Returns the address ranges of the mappings of files that are private, readable
/// and not writable, and of which the process has no page of its own, neither in memory (`Anonymous`) nor in swap.
/// Leaves out what it does not understand.
fn unmodified_mappings(smaps: impl BufRead) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    let mut none_in_memory = false;
    for line in smaps.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line); // a path may be anything
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some(addresses) = address_range(first) {
            candidate = is_read_only_file(words).then_some(addresses);
            none_in_memory = false;
            continue;
        }
        let is_zero = words.eq(["0", "kB"]);
        match first {
            "Anonymous:" => none_in_memory = is_zero,
            "Swap:" if is_zero && none_in_memory => found.extend(candidate.take()),
            _ => {}
        }
    }
    found
}

/// Parses `start-end`, the first word of a mapping's first line.
fn address_range(word: &str) -> Option<Range<usize>> {
    let (start, end) = word.split_once('-')?;
    let addr = |digits| usize::from_str_radix(digits, 16).ok();
    Some(addr(start)?..addr(end)?)
}

/// Judges the other words of that line: permissions, offset, device, inode (0: no file), path.
fn is_read_only_file<'a>(mut words: impl Iterator<Item = &'a str>) -> bool {
    let permissions = words.next().map(str::as_bytes);
    let inode = words.nth(2).and_then(|word| word.parse::<u64>().ok());
    matches!(permissions, Some([b'r', b'-', b'-' | b'x', b'p'])) && inode.is_some_and(|inode| inode != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(smaps: &[u8]) -> Vec<(usize, usize)> {
        let ranges = unmodified_mappings(smaps).into_iter();
        ranges.map(|range| (range.start, range.end)).collect()
    }

    /// A mapping with `first` as its first line and pages of its own, in KiB.
    fn mapping(first: &str, anonymous: &str, swap: &str) -> String {
        format!(
            "{first}\nSize:   4 kB\nRss:    4 kB\nAnonymous:    {anonymous}\nLazyFree:  0 kB\nAnonHugePages: 0 kB\n\
             Swap:   {swap}\nSwapPss:   0 kB\nTHPeligible:    0\nVmFlags: rd ex mr mw me\n"
        )
    }

    #[test]
    fn only_unmodified_read_only_mappings_of_files() {
        let one = |first: &str| found(mapping(first, "0 kB", "0 kB").as_bytes());
        assert_eq!(
            one("1000-3000 r-xp 00001000 fe:00 77 /usr/bin/a"),
            [(0x1000, 0x3000)]
        );
        assert_eq!(one("1000-3000 r--p 00001000 fe:00 77"), [(0x1000, 0x3000)]);
        let others = [
            "1000-3000 rw-p 00001000 fe:00 77 /usr/bin/a",
            "1000-3000 rwxp 00001000 fe:00 77 /usr/bin/a",
            "1000-3000 r--s 00001000 fe:00 77 /usr/bin/a",
            "1000-3000 ---p 00001000 fe:00 77 /usr/bin/a",
            "1000-3000 --xp 00001000 fe:00 77 /usr/bin/a",
            "1000-3000 r-xp 00000000 00:00 0 [vdso]",
            "1000-3000 r--p 00000000 00:00 0",
            "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]",
        ];
        for first in others {
            assert_eq!(one(first), [], "{first}");
        }
    }

    #[test]
    fn pages_of_the_process_itself_in_memory_or_in_swap() {
        let one = |anonymous: &str, swap: &str| {
            found(mapping("1000-3000 r--p 0 fe:00 77 /lib/a", anonymous, swap).as_bytes())
        };
        assert_eq!(one("0 kB", "0 kB"), [(0x1000, 0x3000)]);
        for (anonymous, swap) in [
            ("4 kB", "0 kB"),
            ("0 kB", "4 kB"),
            ("", "0 kB"),
            ("0 kB", ""),
            ("0", "0"),
            ("00 MB", "0 kB"),
        ] {
            assert_eq!(one(anonymous, swap), [], "{anonymous:?}, {swap:?}");
        }
    }

    #[test]
    fn awkward_lines() {
        let relro = mapping("5000-6000 r--p 0 fe:00 77 /lib/a", "4 kB", "0 kB");
        let mut text = b"\n\nAnonymous: 0 kB\nSwap: 0 kB\n-\nzz-10 r--p 0 fe:00 77\n".to_vec();
        // A path with blanks, a forged field, and bytes that are no UTF-8.
        text.extend(b"1000-2000 r-xp 0 fe:00 77   /a b\xff/Anonymous: 4 kB (deleted)\n");
        text.extend(b"Anonymous: 0 kB\r\nSwap:0 kB\nAnonymous: 0 kB\nSwap: 0 kB\nSwap: 0 kB\n");
        text.extend(relro.as_bytes());
        // Without its fields, the next mapping's are not taken for its own.
        text.extend(b"7000-8000 r-xp 0 fe:00 77 /lib/b\n");
        text.extend(mapping("8000-9000 rw-p 0 fe:00 77 /lib/b", "0 kB", "0 kB").as_bytes());
        text.extend(b"11112222333344445-2 r-xp 0 fe:00 77\nAnonymous: 0 kB\nSwap: 0 kB\n");
        text.extend(b"a000-b000 r-xp 0 fe:00\nAnonymous: 0 kB\nSwap: 0 kB\n");
        text.extend(b"b000-c000 r-xp 0 fe:00 77 /lib/c\nAnonymous: 0 kB");
        assert_eq!(found(&text), [(0x1000, 0x2000)]);
        assert_eq!(found(b""), []);
    }

    fn file_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"));
        let number = line.and_then(|line| line.split_ascii_whitespace().next());
        number.expect("the line RssFile").parse().expect("a number")
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter has no pages")]
    fn the_process_has_fewer_file_pages_and_goes_on() {
        let before = file_kib();
        release_startup_pages();
        let after = file_kib();
        assert!(after < before * 3 / 4, "{before} KiB before, {after} KiB after");
        // Program text, constants, libraries, relocated tables, and what unwinding reads.
        let sum = std::thread::spawn(|| (1..=100).map(|n| format!("{n:e}").len()).sum::<usize>());
        assert_eq!(sum.join().expect("no panic"), 462);
        let panicked = std::thread::spawn(|| std::panic::resume_unwind(Box::new(7))).join();
        assert_eq!(panicked.expect_err("a panic").downcast_ref(), Some(&7));
        release_startup_pages();
    }
}
