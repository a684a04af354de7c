//! Maps memory: memfd or anonymous, with huge pages where available, and records the page kind obtained.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(not(miri))]
use rustix::fs::MemfdFlags;
use rustix::fs::SealFlags;
#[cfg(not(miri))]
use rustix::mm::Advice;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Page size that a caller asks for; [`PageKind`] says what it got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageWish {
    /// 4 KiB pages: control structures, small rings.
    Small,
    /// Reserved 2 MiB pages if enough are free, else 4 KiB pages that the kernel may merge (transparent huge pages).
    /// Lengths below 1 MiB always use 4 KiB pages: the kernel zeroes a page at its first touch, which takes
    /// milliseconds for a large page.
    HugeIfAny,
    /// Reserved 2 MiB pages (hugetlb), or [`AllocError`] if too few are free.
    Huge,
}

impl PageWish {
    /// The wish that applies to a mapping of `bytes`.
    fn settled(self, bytes: usize) -> PageWish {
        match self {
            PageWish::HugeIfAny if bytes < HUGE_BYTES / 2 => PageWish::Small,
            wish => wish,
        }
    }
}

/// Kind of the pages that a mapping obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// 4 KiB pages.
    Small,
    /// 4 KiB pages that the kernel was asked to merge into transparent huge pages (`madvise`); it may not have done so.
    Transparent,
    /// Reserved 2 MiB pages (hugetlb).
    Huge,
}

impl std::fmt::Display for PageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PageKind::Small => "4 KiB pages",
            PageKind::Transparent => "transparent 2 MiB pages (madvise)",
            PageKind::Huge => "reserved 2 MiB pages (hugetlb)",
        })
    }
}

/// Errors of allocating or mapping memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocError {
    /// The requested length is zero or more than 64 TiB.
    #[error("a region of {bytes} bytes cannot be mapped")]
    Length {
        /// Requested length in bytes.
        bytes: usize,
    },
    /// A memfd could not be created, examined, sealed, duplicated or passed on, or a peer's is not sealed against
    /// shrinking.
    #[error("memfd_create failed: {source}")]
    Memfd {
        /// Error of the system call, or a description of what is wrong.
        source: std::io::Error,
    },
    /// The system cannot reserve the space, in shared memory or in the file to be mapped, or cannot examine that file.
    #[error(
        "cannot reserve {bytes} bytes of shared memory: {source} (is the memory limit of this container or cgroup reached?)"
    )]
    Reserve {
        /// Requested length in bytes, rounded up to whole pages.
        bytes: usize,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// `mmap` failed.
    #[error("mmap of {bytes} bytes ({kind}) failed: {source}")]
    Map {
        /// Requested length in bytes, rounded up to whole pages.
        bytes: usize,
        /// Kind of pages of the attempt that failed.
        kind: PageKind,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// A descriptor passed by a peer, or the file to be mapped, is too short.
    #[error("the descriptor holds {actual} bytes, not {expected}")]
    WrongSize {
        /// Required length in bytes: the length to be mapped, rounded up to whole pages.
        expected: usize,
        /// Actual length in bytes; of a file, from the offset to be mapped.
        actual: u64,
    },
}

pub(crate) const HUGE_BYTES: usize = 2 << 20;
pub(crate) const PAGE_BYTES: usize = 4096;

/// An owned mapping, unmapped on drop.
pub(crate) struct Mapping {
    pub(crate) base: NonNull<u8>,
    pub(crate) len: usize,
    pub(crate) kind: PageKind,
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) writable: bool,
    /// Whether it is anonymous memory of this process alone.
    pub(crate) is_private: bool,
}

// SAFETY: a Mapping is an address range; every access to its bytes goes through atomics or `bulk_copy`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The file system of reserved pages says their length for that of a block.
fn is_huge(stat: &rustix::fs::Stat) -> bool {
    stat.st_blksize as usize >= HUGE_BYTES
}

/// Whether `fd` is memory of reserved huge pages.
pub(crate) fn is_of_huge_pages(fd: BorrowedFd<'_>) -> Result<bool, AllocError> {
    let stat = rustix::fs::fstat(fd).map_err(|e| AllocError::Memfd { source: e.into() })?;
    Ok(is_huge(&stat))
}

impl Mapping {
    /// Private anonymous memory, zeroed lazily by the kernel.
    pub(crate) fn private(bytes: usize, wish: PageWish) -> Result<Mapping, AllocError> {
        let wish = wish.settled(bytes);
        let len = checked_len(bytes)?;
        #[cfg(miri)]
        {
            let _ = wish;
            return Ok(Mapping::from_heap(len));
        }
        #[cfg(not(miri))]
        {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            if wish != PageWish::Small {
                let huge = MapFlags::PRIVATE | MapFlags::HUGETLB;
                let huge_len = crate::round_up(len, HUGE_BYTES);
                match map_anonymous(huge_len, prot, huge) {
                    Ok(base) => {
                        return Ok(Mapping {
                            base,
                            len: huge_len,
                            kind: PageKind::Huge,
                            fd: None,
                            writable: true,
                            is_private: true,
                        });
                    }
                    Err(source) if wish == PageWish::Huge => {
                        return Err(AllocError::Map {
                            bytes: huge_len,
                            kind: PageKind::Huge,
                            source,
                        });
                    }
                    Err(_) => {}
                }
            }
            // Reserve more than needed so that the range can start on a 2 MiB boundary: only whole huge pages merge. A
            // rest shorter than that has small pages, of which only those touched take memory.
            let slack = if wish == PageWish::Small { 0 } else { HUGE_BYTES };
            let raw = map_anonymous(len + slack, prot, MapFlags::PRIVATE | MapFlags::NORESERVE).map_err(
                |source| AllocError::Map {
                    bytes: len,
                    kind: PageKind::Small,
                    source,
                },
            )?;
            let base = if slack == 0 {
                raw
            } else {
                trim_to_huge(raw, len, slack)
            };
            let kind = if slack == 0 {
                PageKind::Small
            } else {
                advise_huge(base, len)
            };
            Ok(Mapping {
                base,
                len,
                kind,
                fd: None,
                writable: true,
                is_private: true,
            })
        }
    }

    /// Shared memory behind a memfd that can be passed to other processes.
    pub(crate) fn shared(bytes: usize, wish: PageWish) -> Result<Mapping, AllocError> {
        let wish = wish.settled(bytes);
        let len = checked_len(bytes)?;
        #[cfg(miri)]
        {
            let _ = wish;
            return Ok(Mapping::from_heap(len));
        }
        #[cfg(not(miri))]
        {
            if wish != PageWish::Small {
                let huge_len = crate::round_up(len, HUGE_BYTES);
                match Mapping::memfd(huge_len, MemfdFlags::HUGETLB, PageKind::Huge) {
                    Ok(mapping) => return Ok(mapping),
                    Err(error) if wish == PageWish::Huge => return Err(error),
                    Err(_) => {}
                }
            }
            let mut mapping = Mapping::memfd(len, MemfdFlags::empty(), PageKind::Small)?;
            if wish != PageWish::Small {
                mapping.kind = advise_huge(mapping.base, len);
            }
            Ok(mapping)
        }
    }

    #[cfg(not(miri))]
    fn memfd(len: usize, flags: MemfdFlags, kind: PageKind) -> Result<Mapping, AllocError> {
        let fd = rustix::fs::memfd_create("drover", flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|e| AllocError::Memfd { source: e.into() })?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(|e| AllocError::Reserve {
            bytes: len,
            source: e.into(),
        })?;
        // Seal the size: no holder of the descriptor can shrink the memory under a mapping (SIGBUS).
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(|e| AllocError::Memfd { source: e.into() })?;
        let base = map_fd(&fd, len, true).map_err(|source| AllocError::Map {
            bytes: len,
            kind,
            source,
        })?;
        Ok(Mapping {
            base,
            len,
            kind,
            fd: Some(fd),
            writable: true,
            is_private: false,
        })
    }

    /// Maps a descriptor that a peer passed. Refuses memory that is shorter than announced or that its owner could
    /// still shrink, unless the caller trusts the owner and all who may write to the file.
    pub(crate) fn from_fd(
        fd: OwnedFd,
        bytes: usize,
        writable: bool,
        is_trusted: bool,
    ) -> Result<Mapping, AllocError> {
        let len = checked_len(bytes)?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| AllocError::Memfd { source: e.into() })?;
        let actual = stat.st_size as u64;
        if actual < len as u64 {
            return Err(AllocError::WrongSize {
                expected: len,
                actual,
            });
        }
        // Files on disks have no seals at all.
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !is_trusted && !seals.contains(SealFlags::SHRINK) {
            let source = std::io::Error::other("the descriptor is not sealed against shrinking");
            return Err(AllocError::Memfd { source });
        }
        let kind = if is_huge(&stat) {
            PageKind::Huge
        } else {
            PageKind::Small
        };
        let map_len = if kind == PageKind::Huge {
            crate::round_up(len, HUGE_BYTES)
        } else {
            len
        };
        let base = map_fd(&fd, map_len, writable).map_err(|source| AllocError::Map {
            bytes: len,
            kind,
            source,
        })?;
        Ok(Mapping {
            base,
            len: map_len,
            kind,
            fd: None,
            writable,
            is_private: false,
        })
    }

    /// Maps a part of a file that is long enough.
    pub(crate) fn file(file: &std::fs::File, offset: u64, bytes: usize) -> Result<Mapping, AllocError> {
        let len = checked_len(bytes)?;
        let reserve = |source: rustix::io::Errno| AllocError::Reserve {
            bytes: len,
            source: source.into(),
        };
        let stat = rustix::fs::fstat(file).map_err(reserve)?;
        let actual = (stat.st_size as u64).saturating_sub(offset);
        if actual < len as u64 {
            return Err(AllocError::WrongSize {
                expected: len,
                actual,
            });
        }
        // A full file system fails here, not with a signal at a later store.
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len as u64) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(reserve(error)),
        }
        let kind = if stat.st_blksize as usize >= HUGE_BYTES {
            PageKind::Huge
        } else {
            PageKind::Small
        };
        let base = map_fd_at(file, offset, len, true).map_err(|source| AllocError::Map {
            bytes: len,
            kind,
            source,
        })?;
        // Who gets the descriptor maps the file from its beginning.
        let fd = match offset {
            0 => Some(rustix::io::dup(file).map_err(reserve)?),
            _ => None,
        };
        Ok(Mapping {
            base,
            len,
            kind,
            fd,
            writable: true,
            is_private: false,
        })
    }

    /// Returns whole pages of private memory to the system, so that they read as zeros; returns whether it could.
    pub(crate) fn discard(&self, offset: usize, len: usize) -> bool {
        if !self.is_private || cfg!(miri) {
            return false;
        }
        debug_assert!(offset + len <= self.len);
        // SAFETY: the range is inside the mapping, which is ours alone; its pages read as zeros afterwards, as if they
        // had been stored, and all accesses to them are atomic or opaque copies.
        unsafe {
            let start = self.base.as_ptr().wrapping_add(offset).cast();
            rustix::mm::madvise(start, len, Advice::LinuxDontNeed).is_ok()
        }
    }

    /// Asks for small pages from `offset` to the end of the huge page that it is in, if the pages are transparent.
    pub(crate) fn end_huge_page(&self, offset: usize) {
        let start = crate::round_up(offset, PAGE_BYTES);
        let end = crate::round_up(start, HUGE_BYTES).min(self.len);
        if self.kind != PageKind::Transparent || start >= end {
            return;
        }
        // SAFETY: advice changes no contents; the range is inside the mapping. If it fails, more memory is used.
        let _ = unsafe {
            let start_ptr = self.base.as_ptr().wrapping_add(start).cast();
            rustix::mm::madvise(start_ptr, end - start, Advice::LinuxNoHugepage)
        };
    }

    /// Its addresses.
    pub(crate) fn bytes(&self) -> std::ops::Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.len
    }

    /// A descriptor for peers. A read-only descriptor is sealed so that no later mapping of it can write.
    pub(crate) fn share(&self, writable: bool) -> Result<Option<OwnedFd>, AllocError> {
        let Some(fd) = &self.fd else { return Ok(None) };
        if !writable {
            rustix::fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE)
                .map_err(|e| AllocError::Memfd { source: e.into() })?;
        }
        let copy = fd.try_clone().map_err(|source| AllocError::Memfd { source })?;
        Ok(Some(copy))
    }

    #[cfg(miri)]
    fn from_heap(len: usize) -> Mapping {
        let layout = std::alloc::Layout::from_size_align(len, PAGE_BYTES).expect("checked length");
        // SAFETY: the length is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).expect("memory under Miri");
        Mapping {
            base,
            len,
            kind: PageKind::Small,
            fd: None,
            writable: true,
            is_private: false,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        crate::observe::unmapped(self);
        #[cfg(miri)]
        {
            let layout = std::alloc::Layout::from_size_align(self.len, PAGE_BYTES).expect("checked length");
            // SAFETY: made by `from_heap` with this layout; the range has no other user any more.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
        }
        #[cfg(not(miri))]
        // SAFETY: the range was mapped by this object and every user holds it through an Arc.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// `bytes` rounded up to whole small pages.
fn checked_len(bytes: usize) -> Result<usize, AllocError> {
    if bytes == 0 || bytes > 1 << 46 {
        return Err(AllocError::Length { bytes });
    }
    Ok(crate::round_up(bytes, PAGE_BYTES))
}

#[cfg(not(miri))]
fn map_anonymous(len: usize, prot: ProtFlags, flags: MapFlags) -> Result<NonNull<u8>, std::io::Error> {
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }?;
    Ok(NonNull::new(base.cast()).expect("mmap never returns null"))
}

fn map_fd(fd: &impl AsFd, len: usize, writable: bool) -> Result<NonNull<u8>, std::io::Error> {
    map_fd_at(fd, 0, len, writable)
}

fn map_fd_at(fd: &impl AsFd, offset: u64, len: usize, writable: bool) -> Result<NonNull<u8>, std::io::Error> {
    let fd: BorrowedFd<'_> = fd.as_fd();
    let prot = if writable {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    };
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, offset) }?;
    Ok(NonNull::new(base.cast()).expect("mmap never returns null"))
}

/// Unmaps the bytes before the first 2 MiB boundary and those after `len` bytes from it.
#[cfg(not(miri))]
fn trim_to_huge(raw: NonNull<u8>, len: usize, slack: usize) -> NonNull<u8> {
    let lead = raw.as_ptr().align_offset(HUGE_BYTES);
    if lead > 0 {
        // SAFETY: [raw, raw + lead) belongs to the mapping just made and has no user.
        let _ = unsafe { rustix::mm::munmap(raw.as_ptr().cast(), lead) };
    }
    // SAFETY: lead <= slack, so the aligned address lies inside the mapping.
    let base = unsafe { raw.add(lead) };
    let tail = slack - lead;
    if tail > 0 {
        // SAFETY: base + len starts the unused tail of the mapping just made.
        let end = unsafe { base.add(len) };
        // SAFETY: as above; `tail` bytes of it remain.
        let _ = unsafe { rustix::mm::munmap(end.as_ptr().cast(), tail) };
    }
    base
}

#[cfg(not(miri))]
fn advise_huge(base: NonNull<u8>, len: usize) -> PageKind {
    // SAFETY: advice changes no contents; the range is ours.
    match unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) } {
        Ok(()) => PageKind::Transparent,
        Err(_) => PageKind::Small,
    }
}
