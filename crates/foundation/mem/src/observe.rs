//! [`MapObserver`]: receives the address ranges of mapped and unmapped [`Region`](crate::Region)s.

use crate::map::Mapping;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::{Rc, Weak};

/// Receives a call whenever a [`Region`](crate::Region) is mapped or unmapped by the thread that passed this observer
/// to [`observe_mappings`]; other threads are not observed. For models of caches, which identify memory by its address.
/// Clones of a region share its mapping, which ends with the last of them.
pub trait MapObserver {
    /// A region has been mapped at the addresses `bytes`.
    fn mapped(&self, bytes: Range<usize>);
    /// The region at the addresses `bytes` is about to be unmapped; later mappings may get the same addresses.
    fn unmapped(&self, bytes: Range<usize>);
}

thread_local! {
    static OBSERVERS: RefCell<Vec<Weak<dyn MapObserver>>> = const { RefCell::new(Vec::new()) };
}

/// Registers `observer` on the calling thread, for regions mapped and unmapped from now on. It is held weakly: dropping
/// its last `Rc` ends the registration.
pub fn observe_mappings(observer: &Rc<dyn MapObserver>) {
    OBSERVERS.with_borrow_mut(|observers| {
        observers.retain(|other| other.strong_count() > 0);
        observers.push(Rc::downgrade(observer));
    });
}

/// Calls all observers of this thread; only simulations have any.
fn notify(call: impl Fn(&dyn MapObserver)) {
    // A thread that ends may unmap memory when its observers are gone.
    let _ = OBSERVERS.try_with(|observers| {
        let observers = observers.borrow();
        observers
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|observer| call(&*observer));
    });
}

pub(crate) fn mapped(mapping: &Mapping) {
    notify(|observer| observer.mapped(mapping.bytes()));
}

pub(crate) fn unmapped(mapping: &Mapping) {
    notify(|observer| observer.unmapped(mapping.bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageWish, Region};

    #[derive(Default)]
    struct Log(RefCell<Vec<(bool, Range<usize>)>>);

    impl MapObserver for Log {
        fn mapped(&self, bytes: Range<usize>) {
            self.0.borrow_mut().push((true, bytes));
        }

        fn unmapped(&self, bytes: Range<usize>) {
            self.0.borrow_mut().push((false, bytes));
        }
    }

    #[test]
    fn an_observer_is_told_of_its_threads_mappings_once_each() {
        let log = Rc::new(Log::default());
        let observer: Rc<dyn MapObserver> = log.clone();
        observe_mappings(&observer);
        let region = Region::private(100, PageWish::Small).expect("memory");
        let bytes = region.addr()..region.addr() + 4096;
        let other = region.clone();
        drop(region);
        assert_eq!(
            *log.0.borrow(),
            [(true, bytes.clone())],
            "a clone keeps it mapped"
        );
        let elsewhere = std::thread::spawn(|| drop(Region::shared(100, PageWish::Small)));
        elsewhere.join().expect("no panic");
        drop(other);
        assert_eq!(*log.0.borrow(), [(true, bytes.clone()), (false, bytes)]);
    }

    #[test]
    fn an_observer_that_is_gone_is_told_nothing() {
        let log = Rc::new(Log::default());
        let observer: Rc<dyn MapObserver> = log.clone();
        observe_mappings(&observer);
        drop((log, observer));
        drop(Region::private(100, PageWish::Small));
    }
}
