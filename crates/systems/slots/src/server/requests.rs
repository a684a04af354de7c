//! [`Requests`]: a batch of requests copied out of slots, which wait for execution.

use super::{About, Request};
use drover_base::KeyHash;

/// A batch of requests that wait for execution, in the order in which they were found, with memory for a fixed maximum.
#[derive(Debug)]
pub struct Requests<H> {
    places: Box<[Request<H>]>,
    len: usize,
}

impl<H: Copy> Requests<H> {
    /// Creates an empty batch with space for `limit` requests, all with `hint`.
    pub fn new(limit: usize, hint: H) -> Requests<H> {
        Requests {
            places: (0..limit).map(|_| Request::new(hint)).collect(),
            len: 0,
        }
    }
}

impl<H> Requests<H> {
    /// Number of requests.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no requests.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there is no space for another request.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len >= self.places.len()
    }

    /// Number of further requests for which there is space.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.places.len() - self.len
    }

    /// Removes all requests.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// All requests.
    #[inline(always)]
    pub fn all(&self) -> &[Request<H>] {
        &self.places[..self.len]
    }

    /// All requests, to be changed.
    #[inline(always)]
    pub fn all_mut(&mut self) -> &mut [Request<H>] {
        &mut self.places[..self.len]
    }

    /// The key hash of the request added last.
    ///
    /// # Panics
    /// If there are no requests.
    pub fn last_hash(&self) -> KeyHash {
        self.places[self.len - 1].hash()
    }

    /// Space for the next request: fill it, then call [`add_next`](Requests::add_next). `None` if there is none.
    #[inline(always)]
    pub fn next_free(&mut self) -> Option<&mut Request<H>> {
        self.places.get_mut(self.len)
    }

    /// Adds the [next free](Requests::next_free) request, which was filled in. There must be space.
    #[inline(always)]
    pub fn add_next(&mut self) {
        debug_assert!(!self.is_full());
        self.len += 1;
    }

    /// Space for further requests: fill it from the start, then call [`add`](Requests::add) with the number filled.
    #[inline(always)]
    pub fn free(&mut self) -> &mut [Request<H>] {
        &mut self.places[self.len..]
    }

    /// Adds the first `count` requests of the [free](Requests::free) space, which were filled in, or as many as there is
    /// space for.
    #[inline(always)]
    pub fn add(&mut self, count: usize) {
        self.len = (self.len + count).min(self.places.len());
    }

    /// Adds the first request of the [free](Requests::free) space, whose bytes were filled in, with `about`.
    ///
    /// # Panics
    /// If there is no space.
    #[inline(always)]
    pub fn push(&mut self, about: About) {
        self.places[self.len].about = about;
        self.len += 1;
    }
}
