//! The bare ring: per slot a request line and a reply of one or more lines, nothing else.
//!
//! ```text
//! line 0              word 0: stop (client writes)
//! line 64 + i         request in slot i: the sequence number in every word, in word 7 last (client)
//! line 64 + W + i     first line of the reply in slot i: the same (server)
//! line 64 + 2 W + ... the other lines of all replies, slot by slot: the same, written before the first line (server)
//! ```
//! Sequence numbers count from 1; the slot is the sequence number modulo the slots, which are the window rounded up to
//! a power of two. W = [`WINDOW_MAX`].

use drover_base::{Cpu as _, Line};
use drover_mem::{NativeCpu, Region, pause};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of requests in flight in the bare ring of an [`Echo`](super::Echo).
pub const WINDOW_MAX: usize = 1024;

const LINE: usize = drover_mem::LINE_BYTES;
const STOP: usize = 0;
const REQUESTS: usize = 64 * LINE;
const REPLIES: usize = REQUESTS + WINDOW_MAX * LINE;

const MORE: usize = REPLIES + WINDOW_MAX * LINE;
/// Lines behind the first ones, of all replies together.
const MORE_MAX: usize = 1 << 15;

/// Bytes of the region that both processes map.
pub(super) const REGION_BYTES: usize = MORE + MORE_MAX * LINE;

/// Number of requests in flight, and length of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    window: usize,
    /// Lines of a reply behind the first one.
    more: usize,
}

impl Shape {
    /// A ring for `window` requests, 1 to [`WINDOW_MAX`], with replies of `lines`, at least 1 and so many that all fit.
    pub(super) fn new(window: usize, lines: usize) -> Shape {
        let window = window.clamp(1, WINDOW_MAX);
        let more_max = MORE_MAX / (slot_mask(window) + 1);
        Shape {
            window,
            more: (lines.max(1) - 1).min(more_max),
        }
    }

    /// Lines of a reply.
    pub(super) fn lines(self) -> usize {
        1 + self.more
    }

    /// As one number, for the other process.
    pub(super) fn to_word(self) -> u64 {
        (self.lines() as u64) << 32 | self.window as u64
    }

    /// The inverse of [`to_word`](Shape::to_word).
    pub(super) fn from_word(word: u64) -> Shape {
        Shape::new(word as u32 as usize, (word >> 32) as usize)
    }

    /// The lines behind the first one of the reply in `slot`.
    #[inline(always)]
    fn more_of(self, more: &Rest, slot: usize) -> &[Words] {
        let start = slot * self.more;
        more.get(start..start + self.more).unwrap_or_default()
    }
}

/// A line of the ring.
type Words = [AtomicU64; LINE / 8];
/// All requests or all replies. A masked slot index is always in bounds, so the loops contain no checks and cost what
/// the ring costs.
type Lines = [Words; WINDOW_MAX];
/// The lines of replies behind the first ones.
type Rest = [Words; MORE_MAX];

/// Distance of prefetches before the polled line, on both sides. Between distant cores prefetching raises throughput by
/// half at window 16 *(measured by us with an earlier, slower form of this ring: 4.6 to 7 Mops at a round trip of 400
/// ns)*; at small windows it would take lines away from the other side while it writes them.
fn lines_ahead(window: usize) -> usize {
    (window / 4).min(8)
}

/// Mask that maps a sequence number to its slot.
fn slot_mask(window: usize) -> usize {
    // The last mask is redundant, but tells the compiler the bound.
    (window.next_power_of_two() - 1) & (WINDOW_MAX - 1)
}

/// Prefetches a line that will be polled soon.
#[inline(always)]
fn prefetch(cpu: &NativeCpu, line: &Words) {
    cpu.prefetch(Line(std::ptr::from_ref(line).addr()));
}

/// Polls before the first pause instruction: between near cores the line comes earlier, and a pause would delay it
/// *(measured by us in C at window 16: 42 to 70 Mops without, 43 with)*. Later the other side is absent or runs on this
/// core.
const POLLS_WITHOUT_PAUSE: u32 = 64;
/// Polls of one line between checks of the stop word or the clock.
const POLLS_PER_LOOK: u32 = 1 << 12;

#[inline(always)]
fn write_line(line: &Words, sequence: u64) {
    let [rest @ .., last] = line;
    for word in rest {
        word.store(sequence, Ordering::Relaxed);
    }
    // Release: pairs with the Acquire in `await_line`; publishes the seven words before it.
    last.store(sequence, Ordering::Release);
}

/// Waits for `sequence` and returns the sum of the line's words, so that the whole line is read.
#[inline(always)]
fn read_line(line: &Words, sequence: u64) -> u64 {
    let [rest @ .., _] = line;
    let mut sum = sequence;
    for word in rest {
        sum = sum.wrapping_add(word.load(Ordering::Relaxed));
    }
    debug_assert_eq!(sum, sequence.wrapping_mul(8), "words of another message");
    sum
}

/// Polls `line` until it carries `sequence`. Returns false if `gone` returned true at a check.
#[inline(always)]
fn await_line(line: &Words, sequence: u64, mut gone: impl FnMut() -> bool) -> bool {
    let mut polls = 0;
    // Acquire: pairs with the Release in `write_line`.
    while line[7].load(Ordering::Acquire) != sequence {
        polls += 1;
        if polls > POLLS_WITHOUT_PAUSE {
            pause();
        }
        if polls == POLLS_PER_LOOK {
            polls = POLLS_WITHOUT_PAUSE;
            if gone() {
                return false;
            }
        }
    }
    true
}

/// Answers requests until the client sets the stop word.
pub(super) fn serve(region: &Region, shape: Shape) {
    let (ahead, mask) = (lines_ahead(shape.window), slot_mask(shape.window));
    let (cpu, more): (_, &Rest) = (NativeCpu::new(0), region.lines(MORE));
    let (requests, replies): (&Lines, &Lines) = (region.lines(REQUESTS), region.lines(REPLIES));
    let (mut sequence, mut sum) = (1, 0u64);
    let stopped = || region.load_u64(STOP, Ordering::Acquire) != 0;
    loop {
        prefetch(&cpu, &requests[(sequence as usize + ahead) & mask]);
        let slot = sequence as usize & mask;
        if !await_line(&requests[slot], sequence, stopped) {
            break;
        }
        sum = sum.wrapping_add(read_line(&requests[slot], sequence));
        for line in shape.more_of(more, slot) {
            write_line(line, sequence);
        }
        write_line(&replies[slot], sequence);
        sequence += 1;
    }
    std::hint::black_box(sum);
}

/// The client side of one session.
pub(super) struct Asker<'a> {
    region: &'a Region,
    requests: &'a Lines,
    replies: &'a Lines,
    more: &'a Rest,
    shape: Shape,
    cpu: NativeCpu,
    /// Sequence number of the next reply.
    next: u64,
    sum: u64,
}

impl<'a> Asker<'a> {
    /// Clears the memory. Called before the server starts to serve.
    pub(super) fn prepare(region: &Region) {
        // Nothing is read of a reply before its first line has come.
        region.zero(0, MORE);
    }

    /// Starts with a full window. The server serves a ring of the same shape.
    pub(super) fn start(region: &'a Region, shape: Shape) -> Asker<'a> {
        let requests: &Lines = region.lines(REQUESTS);
        for sequence in 1..=shape.window {
            write_line(&requests[sequence & slot_mask(shape.window)], sequence as u64);
        }
        Asker {
            region,
            requests,
            replies: region.lines(REPLIES),
            more: region.lines(MORE),
            shape,
            cpu: NativeCpu::new(0),
            next: 1,
            sum: 0,
        }
    }

    /// Takes `count` replies and sends a new request for each. Returns false if the server stays silent for `give_up`
    /// checks.
    pub(super) fn exchange(&mut self, count: u64, give_up: u32) -> bool {
        // Locals: the compiler must assume that writes to lines may change what `self` refers to.
        let (requests, replies, more, shape) = (self.requests, self.replies, self.more, self.shape);
        let window = shape.window;
        let (ahead, mask) = (lines_ahead(window), slot_mask(window));
        let (mut next, mut sum) = (self.next, self.sum);
        let end = next + count;
        while next < end {
            prefetch(&self.cpu, &replies[(next as usize + ahead) & mask]);
            let slot = next as usize & mask;
            let mut looks = 0;
            let silent = || {
                looks += 1;
                looks == give_up
            };
            if !await_line(&replies[slot], next, silent) {
                break;
            }
            sum = sum.wrapping_add(read_line(&replies[slot], next));
            for line in shape.more_of(more, slot) {
                sum = sum.wrapping_add(read_line(line, next));
            }
            let asked = next + window as u64;
            write_line(&requests[asked as usize & mask], asked);
            next += 1;
        }
        (self.next, self.sum) = (next, sum);
        next == end
    }

    /// Ends the session: the server stops once it has answered all requests.
    pub(super) fn stop(self) {
        std::hint::black_box(self.sum);
        self.region.store_u64(STOP, 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    #[test]
    fn every_request_is_answered_and_a_silent_server_given_up() {
        let region = Region::private(REGION_BYTES, PageWish::Small).expect("memory");
        for (window, lines) in [(1, 1), (3, 1), (16, 1), (1, 5), (16, 70), (1024, 1000)] {
            let shape = Shape::new(window, lines);
            assert_eq!(Shape::from_word(shape.to_word()), shape);
            assert_eq!(
                shape.lines(),
                lines.min(1 + MORE_MAX / window.next_power_of_two())
            );
            Asker::prepare(&region);
            std::thread::scope(|threads| {
                threads.spawn(|| serve(&region, shape));
                let mut asker = Asker::start(&region, shape);
                // Reading a line checks its sum.
                assert!(asker.exchange(100, u32::MAX) && asker.exchange(7, u32::MAX));
                assert_eq!(asker.next, 108);
                asker.stop();
            });
            Asker::prepare(&region);
            let mut alone = Asker::start(&region, shape);
            assert!(!alone.exchange(1, 2), "nobody answers");
            assert_eq!(alone.next, 1);
        }
    }
}
