//! [`Contended`]: what several threads change, behind a lock whose use is counted, so that a simulator can price it.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::{Cpu, LockId};
use std::ops::{Deref, DerefMut};
use std::sync::TryLockError;

/// A value behind a lock, in cache lines of its own. Nearly everything belongs to one thread; the rest says so by this
/// type: the core it runs on is told when the lock is [taken](Cpu::contend) and [released](Cpu::release), and the lock
/// counts its uses. On hardware that costs no more than the lock itself.
///
/// ```
/// # use drover_base::{Contended, TimelessCpu as Core};
/// # let cpu = Core;
/// let items = Contended::new(3);
/// *items.lock(&cpu) += 1;
/// assert_eq!(*items.lock(&cpu), 4);
/// assert_eq!((items.counts().acquisitions, items.counts().waits), (2, 0));
/// ```
#[derive(Debug)]
#[repr(align(64))]
pub struct Contended<T> {
    counted: Mutex<Counted<T>>,
    /// Attempts that found the lock held. Written only then, so the usual case has no write but the lock's own.
    waits: AtomicU64,
    id: LockId,
}

/// The number of the next lock. Always of the hardware: which number a lock has makes no difference to anything.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[derive(Debug)]
struct Counted<T> {
    value: T,
    acquisitions: u64,
}

/// How often a lock was used.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LockCounts {
    /// Times it was taken.
    pub acquisitions: u64,
    /// Times it was held by another thread when one came to take it.
    pub waits: u64,
}

impl LockCounts {
    /// Adds those of another lock.
    pub fn add(&mut self, other: LockCounts) {
        self.acquisitions += other.acquisitions;
        self.waits += other.waits;
    }
}

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct Held<'a, T, C: Cpu> {
    counted: MutexGuard<'a, Counted<T>>,
    cpu: &'a C,
    id: LockId,
}

/// A value that is only looked at; its lock is released when this is dropped.
#[derive(Debug)]
pub struct Glance<'a, T>(MutexGuard<'a, Counted<T>>);

impl<T> Contended<T> {
    /// A value that no thread holds.
    pub fn new(value: T) -> Contended<T> {
        Contended {
            counted: Mutex::new(Counted {
                value,
                acquisitions: 0,
            }),
            waits: AtomicU64::new(0),
            // Relaxed: nothing follows from one number about another.
            id: LockId(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Takes the lock; waits while another thread holds it.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock: the value may be half changed, so nobody may use it any more.
    #[inline]
    pub fn lock<'a, C: Cpu>(&'a self, cpu: &'a C) -> Held<'a, T, C> {
        match self.try_lock(cpu) {
            Some(held) => held,
            None => self.held(self.wait(), cpu),
        }
    }

    /// Takes the lock if no other thread holds it.
    ///
    /// # Panics
    /// As [`lock`](Contended::lock).
    #[inline]
    pub fn try_lock<'a, C: Cpu>(&'a self, cpu: &'a C) -> Option<Held<'a, T, C>> {
        cpu.contend(self.id);
        match self.counted.try_lock() {
            Ok(counted) => Some(self.held(counted, cpu)),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => broken(),
        }
    }

    #[inline]
    fn held<'a, C: Cpu>(&self, mut counted: MutexGuard<'a, Counted<T>>, cpu: &'a C) -> Held<'a, T, C> {
        counted.acquisitions += 1;
        let id = self.id;
        Held { counted, cpu, id }
    }

    /// Takes the lock for a look at the value that is no part of any work: for statistics. It is neither counted nor
    /// reported.
    ///
    /// # Panics
    /// As [`lock`](Contended::lock).
    pub fn inspect(&self) -> Glance<'_, T> {
        match self.counted.lock() {
            Ok(counted) => Glance(counted),
            Err(_) => broken(),
        }
    }

    /// How often the lock was used until now, without such [looks](Contended::inspect).
    pub fn counts(&self) -> LockCounts {
        LockCounts {
            acquisitions: self.inspect().0.acquisitions,
            waits: self.waits.load(Ordering::Relaxed),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> MutexGuard<'_, Counted<T>> {
        // Relaxed: a statistic.
        self.waits.fetch_add(1, Ordering::Relaxed);
        match self.counted.lock() {
            Ok(counted) => counted,
            Err(_) => broken(),
        }
    }
}

impl<T: Default> Default for Contended<T> {
    fn default() -> Contended<T> {
        Contended::new(T::default())
    }
}

#[cold]
#[inline(never)]
fn broken() -> ! {
    panic!("what several threads share is broken: one of them panicked while it changed it");
}

impl<T, C: Cpu> Deref for Held<'_, T, C> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.counted.value
    }
}

impl<T, C: Cpu> DerefMut for Held<'_, T, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.counted.value
    }
}

impl<T, C: Cpu> Drop for Held<'_, T, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.cpu.release(self.id);
    }
}

impl<T> Deref for Glance<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Ns, TimelessCpu as Core};
    use std::sync::mpsc;

    /// Notes which locks it was told to be taken (true) and released.
    #[derive(Default)]
    struct Notes(std::cell::RefCell<Vec<(LockId, bool)>>);

    impl Cpu for Notes {
        fn now(&self) -> Ns {
            Ns::ZERO
        }

        fn refresh(&self) -> Ns {
            Ns::ZERO
        }

        fn contend(&self, lock: LockId) {
            self.0.borrow_mut().push((lock, true));
        }

        fn release(&self, lock: LockId) {
            self.0.borrow_mut().push((lock, false));
        }

        fn prefetch(&self, _: crate::Line) {}

        fn random(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_core_is_told_of_each_use_and_of_no_glance() {
        let (outer, inner, core) = (Contended::new(1), Contended::new(2), Notes::default());
        {
            let _outer = outer.lock(&core);
            let _inner = inner.lock(&core);
        }
        assert_eq!(*outer.inspect(), 1);
        let (a, b) = (outer.id, inner.id);
        assert_ne!(a, b);
        assert_eq!(
            core.0.into_inner(),
            [(a, true), (b, true), (b, false), (a, false)]
        );
    }

    #[test]
    fn threads_count_together_and_waits_are_counted() {
        let value = Contended::new(0u64);
        let (to_waiter, from_holder) = mpsc::channel();
        std::thread::scope(|scope| {
            let held = value.lock(&Core);
            let waiter = scope.spawn(|| {
                assert!(value.try_lock(&Core).is_none());
                to_waiter.send(()).expect("the holder");
                *value.lock(&Core) += 1;
            });
            from_holder.recv().expect("the waiter");
            // Until it has found the lock held for the second time.
            while value.waits.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            drop(held);
            waiter.join().expect("the waiter");
        });
        assert_eq!(*value.lock(&Core), 1);
        let counts = value.counts();
        assert_eq!((counts.acquisitions, counts.waits), (3, 1));
    }

    #[test]
    fn what_a_thread_left_half_changed_is_used_by_nobody() {
        let value = Contended::new(0u64);
        let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        panics(&|| {
            let _held = value.lock(&Core);
            panic!("in the middle of a change");
        })
        .expect_err("a panic");
        for attempt in [
            &(|| _ = value.lock(&Core)) as &dyn Fn(),
            &|| _ = value.try_lock(&Core),
            &|| {
                _ = value.counts();
            },
        ] {
            let panic = panics(attempt).expect_err("a broken value");
            let text = panic.downcast_ref::<&str>().copied().unwrap_or_default();
            assert!(text.contains("is broken"), "{text}");
        }
    }
}
