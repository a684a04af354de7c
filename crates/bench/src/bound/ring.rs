//! The bare ring: per slot a request line and a reply line, nothing else.
//!
//! ```text
//! line 0              word 0: stop (client writes)
//! line 64 + i         request of slot i: words 0-6 anything, word 7 the sequence number, stored last (client)
//! line 64 + W + i     reply of slot i: the same (server)
//! ```
//! Slots are used in order; the sequence number counts from 1. W = [`WINDOW_MAX`].

use drover_mem::{NativeCpu, Region, pause};
use std::sync::atomic::Ordering;

/// The largest window of the bare ring.
pub const WINDOW_MAX: usize = 1024;

const LINE: usize = drover_mem::LINE_BYTES;
const STOP: usize = 0;
const REQUESTS: usize = 64 * LINE;
const REPLIES: usize = REQUESTS + WINDOW_MAX * LINE;

/// Bytes of the region both processes map.
pub(super) const REGION_BYTES: usize = REPLIES + WINDOW_MAX * LINE;

/// How far ahead of the line being polled both sides ask for lines: between distant cores that gives half as much
/// again at window 16 *(measured by us: 4.6 to 7 Mops at a round trip of 400 ns)*; at small windows it would take
/// lines away from the other side while it writes them.
fn lines_ahead(window: usize) -> usize {
    (window / 4).min(8)
}

/// The slot `ahead` of `slot`.
#[inline(always)]
fn slot_ahead(slot: usize, ahead: usize, window: usize) -> usize {
    if slot + ahead < window {
        slot + ahead
    } else {
        slot + ahead - window
    }
}

/// Polls of one line between looks at the stop word or the clock.
const POLLS_PER_LOOK: u32 = 1 << 12;

#[inline(always)]
fn write_line(region: &Region, line: usize, sequence: u64) {
    for word in 0..7 {
        region.store_u64(line + word * 8, sequence ^ word as u64, Ordering::Relaxed);
    }
    // Release: pairs with the Acquire in `poll_line`; publishes the seven words before it.
    region.store_u64(line + 56, sequence, Ordering::Release);
}

/// The sum of the line's words once it carries `sequence`, so that all of it is read.
#[inline(always)]
fn poll_line(region: &Region, line: usize, sequence: u64) -> Option<u64> {
    // Acquire: pairs with the Release in `write_line`.
    if region.load_u64(line + 56, Ordering::Acquire) != sequence {
        return None;
    }
    let word = |i: usize| region.load_u64(line + i * 8, Ordering::Relaxed);
    Some((0..7).fold(sequence, |sum, i| sum.wrapping_add(word(i))))
}

/// Answers requests at `window` until the client says stop.
pub(super) fn serve(region: &Region, window: usize) {
    let (cpu, ahead) = (NativeCpu::new(0), lines_ahead(window));
    let (mut slot, mut sequence) = (0, 1u64);
    loop {
        if ahead > 0 {
            region.prefetch(&cpu, REQUESTS + slot_ahead(slot, ahead, window) * LINE);
        }
        let mut polls = 0;
        while poll_line(region, REQUESTS + slot * LINE, sequence).is_none() {
            pause();
            polls += 1;
            if polls == POLLS_PER_LOOK {
                polls = 0;
                if region.load_u64(STOP, Ordering::Acquire) != 0 {
                    return;
                }
            }
        }
        write_line(region, REPLIES + slot * LINE, sequence);
        sequence += 1;
        slot = slot_ahead(slot, 1, window);
    }
}

/// The asking side of one session.
pub(super) struct Asker<'a> {
    region: &'a Region,
    window: usize,
    cpu: NativeCpu,
    ahead: usize,
    /// Slot and sequence number of the next reply.
    slot: usize,
    next: u64,
    sum: u64,
}

impl<'a> Asker<'a> {
    /// Clears the memory. The server must not be serving yet.
    pub(super) fn prepare(region: &Region) {
        region.zero(0, REGION_BYTES);
    }

    /// Begins with a full window. The server serves the same window.
    pub(super) fn start(region: &'a Region, window: usize) -> Asker<'a> {
        for slot in 0..window {
            write_line(region, REQUESTS + slot * LINE, slot as u64 + 1);
        }
        Asker {
            region,
            window,
            cpu: NativeCpu::new(0),
            ahead: lines_ahead(window),
            slot: 0,
            next: 1,
            sum: 0,
        }
    }

    /// Takes `count` replies, asking again for each. False: the server stays silent for `give_up` looks.
    #[inline]
    pub(super) fn exchange(&mut self, count: u64, give_up: u32) -> bool {
        for _ in 0..count {
            if self.ahead > 0 {
                let slot = slot_ahead(self.slot, self.ahead, self.window);
                self.region.prefetch(&self.cpu, REPLIES + slot * LINE);
            }
            let (mut polls, mut looks) = (0, 0);
            let sum = loop {
                if let Some(sum) = poll_line(self.region, REPLIES + self.slot * LINE, self.next) {
                    break sum;
                }
                pause();
                polls += 1;
                if polls == POLLS_PER_LOOK {
                    (polls, looks) = (0, looks + 1);
                    if looks == give_up {
                        return false;
                    }
                }
            };
            self.sum = self.sum.wrapping_add(sum);
            write_line(
                self.region,
                REQUESTS + self.slot * LINE,
                self.next + self.window as u64,
            );
            self.next += 1;
            self.slot = slot_ahead(self.slot, 1, self.window);
        }
        true
    }

    /// Ends the session: the server stops once it has nothing to answer.
    pub(super) fn stop(self) {
        std::hint::black_box(self.sum);
        self.region.store_u64(STOP, 1, Ordering::Release);
    }
}
