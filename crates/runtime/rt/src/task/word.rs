//! Waiting for a word of memory that a peer writes: results that are pushed, rings.

use super::core::Core;
use super::cx::TaskCx;
use drover_base::Cpu;
use drover_mem::Region;
use drover_verbs::Provider;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Words that tasks wait for; the pool looks at each once per step.
#[derive(Debug, Default)]
pub(super) struct Words {
    watched: Vec<Option<Watched>>,
    free: Vec<u32>,
    count: usize,
}

#[derive(Debug)]
struct Watched {
    region: Region,
    offset: usize,
    old: u64,
    task: u32,
}

impl Words {
    fn watch(&mut self, watched: Watched) -> u32 {
        self.count += 1;
        let slot = self.free.pop().unwrap_or(self.watched.len() as u32);
        if slot as usize == self.watched.len() {
            self.watched.push(None);
        }
        self.watched[slot as usize] = Some(watched);
        slot
    }

    fn forget(&mut self, slot: u32) {
        self.count -= 1;
        self.watched[slot as usize] = None;
        self.free.push(slot);
    }
}

impl<P: Provider> Core<P> {
    /// Wakes the tasks whose words have changed. Returns whether there are any.
    #[inline]
    pub(super) fn look_at_words(&mut self, cpu: &P::Cpu) -> bool {
        if self.words.count == 0 {
            return false;
        }
        let mut any = false;
        for watched in self.words.watched.iter().flatten() {
            cpu.touch(watched.region.line(watched.offset));
            // Relaxed: the task itself loads the word again.
            if watched.region.load_u64(watched.offset, Ordering::Relaxed) != watched.old {
                self.in_flight.make_ready(watched.task);
                any = true;
            }
        }
        any
    }
}

/// Future of [`TaskCx::word_change`].
#[must_use = "it waits only when awaited"]
pub struct WordChange<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    region: &'a Region,
    offset: usize,
    old: u64,
    slot: Option<u32>,
}

impl<'a, P: Provider> WordChange<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>, region: &'a Region, offset: usize, old: u64) -> WordChange<'a, P> {
        WordChange {
            cx,
            region,
            offset,
            old,
            slot: None,
        }
    }
}

impl<P: Provider> Future for WordChange<'_, P> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        // Acquire: what the peer wrote before the word is visible to the task.
        let word = self.region.load_u64(self.offset, Ordering::Acquire);
        let mut core = self.cx.core.borrow_mut();
        if word != self.old {
            if let Some(slot) = self.slot.take() {
                core.words.forget(slot);
            }
            return Poll::Ready(word);
        }
        if self.slot.is_none() {
            self.slot = Some(core.words.watch(Watched {
                region: self.region.clone(),
                offset: self.offset,
                old: self.old,
                task: self.cx.task,
            }));
        }
        Poll::Pending
    }
}

impl<P: Provider> Drop for WordChange<'_, P> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.cx.core.borrow_mut().words.forget(slot);
        }
    }
}

impl<P: Provider> std::fmt::Debug for WordChange<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WordChange at {} from {}", self.offset, self.old)
    }
}
