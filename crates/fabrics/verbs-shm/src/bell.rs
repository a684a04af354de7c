//! Bells: a peer that has written something wakes a sleeping context; while the context is awake this costs nothing.
//!
//! ```text
//! bell page (one memfd per context)
//!    0 8  epoch, written by the owner: even = awake, odd = sleeping
//!    8 4  number of the core that the owner ran on, plus 1, as of its last look; 0: unknown. Written rarely, by an owner
//!         that waits for a core whenever it is awake
//!   12 4  1: a peer waits for that core; set by the peer, reset by the owner
//!   64 4  wake count, written by peers; the owner's futex
//! ```
//! The owner stores an odd epoch, then has the kernel run a memory barrier on every running thread of every process
//! that registered for it (`membarrier`), then checks for work once more, then waits for the wake count to change from
//! its earlier value. A writer stores its data, then loads the epoch, with no fence in between. Either its store
//! precedes the barrier, and the owner's last check sees the data; or its load follows the barrier, and it sees the odd
//! epoch and wakes the owner. Waking changes the futex word, so a wake between check and wait is not lost. A writer
//! killed half-way cannot suppress another writer's wake, because only the owner changes the epoch.
//!
//! The barrier interrupts the other cores, which costs microseconds there and tens of them on a virtual machine. So the
//! first sleep after a wake-up is a *short* one, without it: the owner stores the epoch, waits for longer than a
//! processor keeps a store to itself, checks for work, and sleeps for at most two milliseconds. No known processor
//! delays a store so long; if one did, the two milliseconds would be the price. If nobody has woken the owner by then,
//! it is idle, and its next sleep has the barrier and no end.
//!
//! A hostile peer can write to the page: it can cause useless wakes, or delay wakes by at most
//! [`ShmOptions::park_max`](crate::ShmOptions::park_max). *(our choice: one page per peer would need a wait on many
//! futexes)*

use crate::domain::{Identity, map};
use crate::wire;
use drover_base::Ns;
use drover_mem::{AllocError, PageWish, Region, pause};
use drover_verbs::{Export, ImportError, OpenError, Waker};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, futex, membarrier};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence, fence};

const EPOCH: usize = 0;
const CORE: usize = 8;
const WANTED: usize = 12;
const WAKE: usize = 64;
const PAGE_BYTES: usize = 4096;

/// Whether this process may have the kernel run barriers on other threads, and takes part in those of others.
pub(crate) fn can_run_barriers() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// Longest sleep without `membarrier`, where a wake may be missed.
const NAP: Ns = Ns::from_ms(1);

/// Longest short sleep.
const SHORT_MAX: Ns = Ns::from_ms(2);
/// Pauses before the last check for work of a short sleep: several hundred nanoseconds, in which a store reaches the
/// other cores. *(our choice)*
const SHORT_PAUSES: u32 = 32;

/// The bell of one context.
pub(crate) struct OwnBell {
    region: Region,
    fd: Arc<OwnedFd>,
    epoch: Cell<u64>,
    wake_seen: Cell<u32>,
    barrier: bool,
    /// Whether the next sleep is a short one.
    short: Cell<bool>,
}

impl OwnBell {
    pub(crate) fn new() -> Result<OwnBell, OpenError> {
        let region = Region::shared(PAGE_BYTES, PageWish::Small)?;
        let fd = Arc::new(region.share(true)?.expect("shared memory has a descriptor"));
        let barrier = can_run_barriers();
        Ok(OwnBell {
            region,
            fd,
            epoch: 0.into(),
            wake_seen: 0.into(),
            barrier,
            short: true.into(),
        })
    }

    pub(crate) fn export(&self) -> Export {
        Export {
            bytes: wire::encode_bell(),
            fds: vec![self.fd.clone()],
        }
    }

    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    pub(crate) fn arm(&self) {
        self.wake_seen
            .set(self.region.atomic_u32(WAKE).load(Ordering::Acquire));
        // Odd, and different for every sleep: a peer that rang for an earlier sleep must see that this is a new one.
        self.epoch.set((self.epoch.get() + 1) | 1);
        self.region.store_u64(EPOCH, self.epoch.get(), Ordering::SeqCst);
        let short = self.short.get() && self.barrier;
        if short || !self.barrier || membarrier(MembarrierCommand::GlobalExpedited).is_err() {
            fence(Ordering::SeqCst);
        }
        if short {
            (0..SHORT_PAUSES).for_each(|_| pause());
        }
    }

    /// Whether the kernel can run barriers on other threads, and runs theirs on us.
    pub(crate) fn has_barrier(&self) -> bool {
        self.barrier
    }

    /// Has the kernel run a memory barrier on every running thread of every process that registered for it. Where that
    /// is not possible, peers were told to have fences of their own.
    pub(crate) fn barrier_everywhere(&self) {
        fence(Ordering::SeqCst);
        if self.barrier {
            let _ = membarrier(MembarrierCommand::GlobalExpedited);
        }
    }

    /// Writes down that this thread runs on core `here`. Returns whether a peer has said that it wants that core, since
    /// the last call.
    pub(crate) fn is_wanted(&self, here: u32) -> bool {
        // Relaxed: hints, about nothing else in memory. Stored only if they change, to leave the line to the peers.
        let (core, wanted) = (self.region.atomic_u32(CORE), self.region.atomic_u32(WANTED));
        if core.load(Ordering::Relaxed) != here + 1 {
            core.store(here + 1, Ordering::Relaxed);
        }
        let is_wanted = wanted.load(Ordering::Relaxed) != 0;
        if is_wanted {
            wanted.store(0, Ordering::Relaxed);
        }
        is_wanted
    }

    pub(crate) fn disarm(&self) {
        if self.epoch.get() & 1 == 1 {
            self.epoch.set(self.epoch.get() + 1);
            self.region.store_u64(EPOCH, self.epoch.get(), Ordering::Release);
        }
    }

    /// Sleeps for at most `time`; only after [`arm`](OwnBell::arm).
    pub(crate) fn park(&self, time: Ns) {
        let time = match (self.barrier, self.short.get()) {
            (false, _) => time.min(NAP),
            (true, true) => time.min(SHORT_MAX),
            (true, false) => time,
        };
        let timeout = futex::Timespec {
            tv_sec: (time.0 / 1_000_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (time.0 % 1_000_000_000) as _,
        };
        // The caller checks for work whatever the result. Not PRIVATE: the wakers are other processes.
        let ended = futex::wait(
            self.region.atomic_u32(WAKE),
            futex::Flags::empty(),
            self.wake_seen.get(),
            Some(&timeout),
        );
        // A caller whose deadline comes earlier wakes often anyway, and may go on so.
        self.short.set(ended != Err(Errno::TIMEDOUT) || time < SHORT_MAX);
        self.disarm();
    }

    pub(crate) fn waker(&self) -> Waker {
        let region = self.region.clone();
        Waker::new(move || {
            fence(Ordering::SeqCst);
            if region.load_u64(EPOCH, Ordering::Relaxed) & 1 == 1 {
                wake(&region);
            }
        })
    }
}

#[cold]
fn wake(page: &Region) {
    let word = page.atomic_u32(WAKE);
    word.fetch_add(1, Ordering::Release);
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

/// A peer's bell page, mapped once per domain: bells are in many exports.
pub(crate) struct BellPage {
    region: Region,
    pub(crate) identity: Identity,
}

impl BellPage {
    /// Maps the page behind `fd`.
    pub(crate) fn map(fd: &OwnedFd, identity: Identity) -> Result<BellPage, ImportError> {
        let region = map(fd, PAGE_BYTES, true)?;
        Ok(BellPage { region, identity })
    }
}

/// A peer's bell, as one context rings it.
pub(crate) struct RemoteBell {
    region: Region,
    /// Tells the domain that the page is in use.
    page: Arc<BellPage>,
    /// Epoch of the last sleep that was woken: one wake per sleep.
    woken: Cell<u64>,
    wakes: Rc<Cell<u64>>,
}

impl RemoteBell {
    /// Wakes the owner if it sleeps. Call it after storing the data that the owner should find. Costs one load of a
    /// line that rarely changes, and a system call once per sleep.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        // The processor may delay our stores beyond this load, for which `arm`'s barrier accounts. The compiler must
        // not.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the first word of a region that `import` mapped, of a page.
        let epoch = unsafe { self.region.raw().word(EPOCH) }.load(Ordering::Relaxed);
        if epoch & 1 == 1 && epoch != self.woken.get() {
            self.woken.set(epoch);
            self.wakes.set(self.wakes.get() + 1);
            wake(&self.region);
        }
    }
}

/// The bells of peers that a context has imported.
#[derive(Default)]
pub(crate) struct RemoteBells {
    known: Vec<Weak<RemoteBell>>,
    /// Number of wakes sent.
    pub(crate) wakes: Rc<Cell<u64>>,
}

impl RemoteBells {
    /// Whether the owner of a bell is awake and ran last on core `here`. It is told that its core is wanted.
    pub(crate) fn want(&self, here: u32) -> bool {
        // Relaxed: hints, about nothing else in memory.
        let is_here = |bell: &RemoteBell| {
            bell.region.load_u64(EPOCH, Ordering::Relaxed) & 1 == 0
                && bell.region.atomic_u32(CORE).load(Ordering::Relaxed) == here + 1
        };
        let bells = self.known.iter().filter_map(Weak::upgrade);
        bells.filter(|bell| is_here(bell)).fold(false, |_, bell| {
            let wanted = bell.region.atomic_u32(WANTED);
            if wanted.load(Ordering::Relaxed) == 0 {
                wanted.store(1, Ordering::Relaxed);
            }
            true
        })
    }

    /// This context's handle of a peer's bell.
    pub(crate) fn adopt(&mut self, page: &Arc<BellPage>) -> Rc<RemoteBell> {
        self.known.retain(|bell| bell.strong_count() > 0);
        let mut known = self.known.iter().filter_map(Weak::upgrade);
        if let Some(bell) = known.find(|bell| Arc::ptr_eq(&bell.page, page)) {
            return bell;
        }
        let bell = Rc::new(RemoteBell {
            region: page.region.clone(),
            page: page.clone(),
            woken: 0.into(),
            wakes: self.wakes.clone(),
        });
        self.known.push(Rc::downgrade(&bell));
        bell
    }
}

/// Bells to ring after a list; consecutive requests to one destination ring once.
pub(crate) struct Ringing<'a> {
    last: Option<&'a RemoteBell>,
}

impl<'a> Ringing<'a> {
    #[inline(always)]
    pub(crate) fn new() -> Ringing<'a> {
        Ringing { last: None }
    }

    #[inline(always)]
    pub(crate) fn note(&mut self, bell: &'a RemoteBell) {
        if let Some(last) = self.last
            && !std::ptr::eq(last, bell)
        {
            last.ring();
        }
        self.last = Some(bell);
    }
}

impl Drop for Ringing<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(last) = self.last {
            last.ring();
        }
    }
}

/// The error for running out of descriptors, where the API offers only allocation errors.
pub(crate) fn too_many_descriptors() -> AllocError {
    AllocError::Memfd {
        source: std::io::Error::other("too many bells or watches for one export"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Ns = Ns::from_s(3600);

    /// The page of a bell as a peer maps it.
    fn page(own: &OwnBell) -> Arc<BellPage> {
        Arc::new(BellPage::map(&own.fd(), (0, 0)).expect("mapped"))
    }

    /// A bell and a peer's view of it; `None` where the kernel offers no barrier, so that all sleeps are naps.
    fn bells() -> Option<(OwnBell, Rc<RemoteBell>)> {
        let own = OwnBell::new().expect("bell");
        let remote = RemoteBells::default().adopt(&page(&own));
        if !own.barrier {
            eprintln!("skipped: membarrier is not available");
        }
        own.barrier.then_some((own, remote))
    }

    #[test]
    fn nobody_wakes_a_short_sleep_and_it_ends_and_the_next_is_long() {
        let Some((own, remote)) = bells() else { return };
        own.arm();
        own.park(HOUR);
        assert!(!own.short.get());
        // The long one ends only because it is woken.
        own.arm();
        remote.ring();
        own.park(HOUR);
        assert!(own.short.get(), "the sleep after a wake-up is short again");
    }

    #[test]
    fn a_peer_that_rings_between_arming_and_parking_wakes_a_short_sleep_once() {
        let Some((own, remote)) = bells() else { return };
        own.arm();
        remote.ring();
        remote.ring();
        own.park(HOUR);
        assert!(own.short.get(), "woken, not timed out");
        assert_eq!(remote.wakes.get(), 1);
        remote.ring();
        assert_eq!(remote.wakes.get(), 1, "the owner is awake");
    }

    #[test]
    fn a_caller_whose_deadline_comes_first_keeps_to_short_sleeps() {
        let Some((own, _remote)) = bells() else { return };
        for _ in 0..3 {
            own.arm();
            own.park(Ns::from_us(100));
            assert!(own.short.get());
        }
    }

    #[test]
    fn a_peer_that_wants_the_core_of_a_sleeper_does_not_say_so() {
        let Some((own, _remote)) = bells() else { return };
        let mut bells = RemoteBells::default();
        let _kept = bells.adopt(&page(&own));
        assert!(!own.is_wanted(3), "it has written down its core now");
        assert!(bells.want(3));
        assert!(!bells.want(4), "another core");
        assert!(own.is_wanted(3));
        assert!(!own.is_wanted(3), "said once");
        own.arm();
        assert!(!bells.want(3));
        own.disarm();
        assert!(!own.is_wanted(3));
    }
}
