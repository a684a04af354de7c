//! [`SingleFlight`]: one task does what several of them want at the same time.

use super::core::Core;
use super::cx::TaskCx;
use super::fifo::Fifo;
use drover_verbs::Provider;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Work of a pool's tasks, by key. The first task that [joins](SingleFlight::join) the work on a key does it; those that
/// join before it has finished get a clone of its result. Clones share the work.
pub struct SingleFlight<P: Provider, K, V> {
    core: Rc<RefCell<Core<P>>>,
    flights: Rc<RefCell<Vec<Flight<K, V>>>>,
}

/// Work on one key. Its place is used again for other work.
#[derive(Debug)]
struct Flight<K, V> {
    /// Until the work has finished.
    key: Option<K>,
    value: Option<V>,
    /// Number of tasks that have not yet taken the value.
    readers: usize,
    waiting: Fifo,
}

impl<K, V> Flight<K, V> {
    fn is_free(&self) -> bool {
        self.key.is_none() && self.readers == 0
    }

    /// A waiter has taken the value, or does not want it any more.
    fn read(&mut self) {
        self.readers -= 1;
        if self.readers == 0 {
            self.value = None;
        }
    }
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> SingleFlight<P, K, V> {
    pub(super) fn new(core: Rc<RefCell<Core<P>>>) -> SingleFlight<P, K, V> {
        let flights = Rc::default();
        SingleFlight { core, flights }
    }

    /// Returns a future that is ready when the task of `cx` is to do the work on `key`, or another has done it.
    ///
    /// # Panics
    /// If the task is of another pool.
    pub fn join<'a>(&self, cx: &'a TaskCx<P>, key: K) -> Join<'a, P, K, V> {
        assert!(
            Rc::ptr_eq(&self.core, &cx.core),
            "the work of another pool's tasks"
        );
        Join {
            all: self.clone(),
            cx,
            key,
            waiter: None,
        }
    }

    /// Passes the work on to the next waiter; without any, it ends.
    fn pass_on(&self, index: usize) {
        let flight = &mut self.flights.borrow_mut()[index];
        match flight.waiting.grant() {
            Some(task) => self.core.borrow_mut().in_flight.make_ready(task),
            None => flight.key = None,
        }
    }
}

impl<P: Provider, K, V> Clone for SingleFlight<P, K, V> {
    fn clone(&self) -> SingleFlight<P, K, V> {
        SingleFlight {
            core: self.core.clone(),
            flights: self.flights.clone(),
        }
    }
}

/// Part of a task in the work on a key.
#[derive(Debug)]
pub enum Joined<P: Provider, K: PartialEq + Clone, V: Clone> {
    /// The task does the work.
    Lead(Lead<P, K, V>),
    /// Another task did it, with this result.
    Value(V),
}

/// The work on a key, to be done by the task that has this. If it is dropped, the next task that waits gets it.
pub struct Lead<P: Provider, K: PartialEq + Clone, V: Clone> {
    all: SingleFlight<P, K, V>,
    index: usize,
    finished: bool,
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> Lead<P, K, V> {
    /// Gives the result to all tasks that wait for it.
    pub fn finish(mut self, value: V) {
        self.finished = true;
        let flight = &mut self.all.flights.borrow_mut()[self.index];
        flight.key = None;
        flight.readers = flight.waiting.len();
        flight.value = (flight.readers > 0).then_some(value);
        let core = self.all.core.borrow();
        while let Some(task) = flight.waiting.grant() {
            core.in_flight.make_ready(task);
        }
    }
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> Drop for Lead<P, K, V> {
    fn drop(&mut self) {
        if !self.finished {
            self.all.pass_on(self.index);
        }
    }
}

/// Future of [`SingleFlight::join`].
#[must_use = "it waits only when awaited"]
pub struct Join<'a, P: Provider, K: PartialEq + Clone, V: Clone> {
    all: SingleFlight<P, K, V>,
    cx: &'a TaskCx<P>,
    key: K,
    /// Index of the work that the task waits for, and its number there.
    waiter: Option<(usize, u64)>,
}

impl<P: Provider, K: PartialEq + Clone + Unpin, V: Clone> Future for Join<'_, P, K, V> {
    type Output = Joined<P, K, V>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut flights = this.all.flights.borrow_mut();
        let index = match this.waiter {
            Some((index, number)) => {
                let flight = &mut flights[index];
                if !flight.waiting.is_granted(number) {
                    return Poll::Pending;
                }
                this.waiter = None;
                if let Some(value) = flight.value.clone() {
                    flight.read();
                    return Poll::Ready(Joined::Value(value));
                }
                index
            }
            None => {
                let with_key = |flight: &Flight<K, V>| flight.key.as_ref() == Some(&this.key);
                if let Some(index) = flights.iter().position(with_key) {
                    let number = flights[index].waiting.enter(this.cx.task);
                    this.waiter = Some((index, number));
                    return Poll::Pending;
                }
                let free = flights.iter().position(Flight::is_free);
                let index = free.unwrap_or(flights.len());
                if index == flights.len() {
                    flights.push(Flight {
                        key: None,
                        value: None,
                        readers: 0,
                        waiting: Fifo::new(4),
                    });
                }
                flights[index].key = Some(this.key.clone());
                index
            }
        };
        drop(flights);
        Poll::Ready(Joined::Lead(Lead {
            all: this.all.clone(),
            index,
            finished: false,
        }))
    }
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> Drop for Join<'_, P, K, V> {
    fn drop(&mut self) {
        let Some((index, number)) = self.waiter else {
            return;
        };
        let mut flights = self.all.flights.borrow_mut();
        let flight = &mut flights[index];
        if flight.waiting.leave(number) {
            return;
        }
        match flight.value.is_some() {
            true => flight.read(),
            false => {
                drop(flights);
                self.all.pass_on(index);
            }
        }
    }
}

impl<P: Provider, K, V> std::fmt::Debug for SingleFlight<P, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SingleFlight({} places)", self.flights.borrow().len())
    }
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> std::fmt::Debug for Lead<P, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lead({})", self.index)
    }
}

impl<P: Provider, K: PartialEq + Clone, V: Clone> std::fmt::Debug for Join<'_, P, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Join({:?})", self.waiter)
    }
}
