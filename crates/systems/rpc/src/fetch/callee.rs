//! [`Callee`]: the server's end of a connection, as decisions: which requests have arrived, and whether a result is left
//! to be fetched or must be pushed.
//!
//! ```text
//!         take              publish                       the next request arrived
//!   Idle ------> Executing --------> Parked ------------------------------------> Idle
//!                                      | settle or look_again: the mode is Reply
//!                                      v
//!                                   Pushing -----------> Idle
//!                                             pushed
//! ```
//! The order that makes it right: a request is copied before anything of it is believed, and zeroed before its result is
//! published, after which the client may WRITE the next one. The mode is looked at when a result is published, which a
//! processor may do before others see the result, and it may change right after that. So modes of parked results are looked
//! at again every microsecond, and before that look a fence makes sure that the results are visible: either the server sees
//! the mode, or the client sees the result. A fence takes as long as the slowest store before it, which by then has ended.
//!
//! A client that fetches costs no clock: `now` is the time of the step. The time of a call is measured only if its
//! mode is `Reply` when it is taken.

use super::guards::{Guarded, Guards};
use super::header::{First, Format, encode_time, next_seq, second, store_payload, store_whole, sum};
use super::layout::{Layout, Modes, has_tail};
use super::switch::{Mode, Transfer};
use drover_base::Ns;
use drover_base::sync::{Ordering, fence};
use drover_mem::{LINE_BYTES, Region};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;

/// Interval between looks at a request whose checksum is wrong: from the first to the second, doubling. One that is never
/// right must not take time from others. *(our choice)*
const DOUBT: (Ns, Ns) = (Ns::from_us(1), Ns::from_ms(1));

/// Options of a server's end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CalleeOptions {
    /// The client's [`transfer`](super::CallerOptions::transfer).
    pub transfer: Transfer,
    /// How often modes of results that may not have been fetched are looked at again.
    pub look_every: Ns,
}

impl Default for CalleeOptions {
    /// `Auto`; every microsecond.
    fn default() -> CalleeOptions {
        CalleeOptions {
            transfer: Transfer::Auto,
            look_every: Ns::from_us(1),
        }
    }
}

/// A request that was taken, to be answered by [`publish`](Callee::publish).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its place.
    pub place: usize,
    /// Kind of the call; always 0 in the paper's format.
    pub rpc_id: u16,
    /// Whether the client wants to know how long the call takes.
    pub is_timed: bool,
}

/// A result to be pushed: WRITE `len` bytes from the start of the place's result slot to the start of its pushed slot.
/// The slot changes only after [`pushed`](Callee::pushed).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Push {
    /// The place.
    pub place: usize,
    /// Length with header and tail, bytes.
    pub len: usize,
}

/// No correct client does this. Its connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed request in place {place}")]
pub struct BadCall {
    /// Place of the request.
    pub place: usize,
}

/// Counters of a server's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CalleeStats {
    /// Requests taken.
    pub calls: u64,
    /// Results left to be fetched.
    pub parked: u64,
    /// Results pushed at once.
    pub pushes: u64,
    /// Results pushed after their modes had been looked at again.
    pub late_pushes: u64,
    /// Requests found with a wrong checksum.
    pub sum_rejects: u64,
}

/// The line that a request or result begins in.
type Line = [AtomicU64; LINE_BYTES / 8];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Idle,
    Executing,
    /// The result may not have been fetched.
    Parked,
    Pushing,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Slot {
    state: State,
    /// Sequence number of the last request taken.
    seq: u16,
    rpc_id: u16,
    /// Bytes of the last result with header and tail.
    len: usize,
    /// The next request had a wrong checksum: time of the next look, and the interval before it.
    doubt: Option<(Ns, Ns)>,
}

/// The server's end of one connection: the slots of all places.
#[derive(Clone, Debug)]
pub struct Callee<G = Guarded> {
    layout: Layout,
    /// Of requests and results, bytes.
    strides: (usize, usize),
    modes: Modes,
    options: CalleeOptions,
    /// The client's, then the server's.
    incarnations: (u32, u32),
    slots: Vec<Slot>,
    /// One bit per place: whether its result is parked.
    parked: Vec<u64>,
    /// One bit per place: whether its result was published and its mode not looked at since.
    fresh: Vec<u64>,
    /// Whether all published results are visible.
    is_visible: bool,
    next_look: Ns,
    stats: CalleeStats,
    guards: PhantomData<G>,
}

impl<G: Guards> Callee<G> {
    /// Creates the server's end of a new connection between the given incarnations of client and server, whose memory
    /// is zero but for what [`prepare`](Callee::prepare) writes.
    ///
    /// # Panics
    /// If the layout is not [sound](Layout::is_sound).
    pub fn new(layout: Layout, options: CalleeOptions, incarnations: (u32, u32)) -> Callee<G> {
        assert!(layout.is_sound(), "{layout:?}");
        let slot = Slot {
            state: State::Idle,
            seq: 0,
            rpc_id: 0,
            len: 0,
            doubt: None,
        };
        Callee {
            layout,
            strides: (layout.request_stride(), layout.result_stride()),
            modes: layout.modes(),
            options,
            incarnations,
            slots: vec![slot; layout.place_count],
            parked: vec![0; layout.place_count.div_ceil(64)],
            fresh: vec![0; layout.place_count.div_ceil(64)],
            is_visible: false,
            next_look: Ns::MAX,
            stats: CalleeStats::default(),
            guards: PhantomData,
        }
    }

    /// Writes the first modes into zeroed `inbound` memory, before the client gets to know it.
    pub fn prepare(&self, inbound: &Region) {
        if self.options.transfer.first_mode() == Mode::Reply {
            for place in 0..self.layout.place_count {
                let modes = vec![Mode::Reply as u8; self.layout.rpc_count];
                inbound.copy_in(self.layout.mode_offset(place, 0), &modes);
            }
        }
    }

    /// Bytes from one request slot to the next, and from one result slot to the next.
    #[inline]
    pub fn strides(&self) -> (usize, usize) {
        self.strides
    }

    /// The connection's sizes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &CalleeStats {
        &self.stats
    }

    /// Takes the request of `place`, if one has arrived completely in `inbound`: copies its payload to `out` and zeroes
    /// it. `now` is used only for a request whose checksum is wrong.
    ///
    /// # Errors
    /// [`BadCall`] if no correct client wrote this.
    #[inline]
    pub fn take(
        &mut self,
        place: usize,
        inbound: &Region,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken>, BadCall> {
        let start = place * self.strides.0;
        // Acquire: pairs with the store that made the word visible; tail and checksum verify the rest.
        let [header] = inbound.lines::<1>(start);
        let word = header[0].load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        self.take_from(place, (start, header, word), inbound, now, out)
    }

    /// The first place from `place` on, in a round through all, that may have a request in `inbound`.
    #[inline]
    pub fn find(&self, place: usize, inbound: &Region) -> Option<usize> {
        let (count, stride) = (self.layout.place_count, self.strides.0);
        for (from, to) in [(place, count), (0, place)] {
            let mut offset = from * stride;
            for at in from..to {
                if inbound.load_u64(offset, Ordering::Relaxed) != 0 {
                    return Some(at);
                }
                offset += stride;
            }
        }
        None
    }

    #[inline]
    fn take_from(
        &mut self,
        place: usize,
        (start, header, word): (usize, &Line, u64),
        inbound: &Region,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken>, BadCall> {
        let (layout, format) = (&self.layout, self.layout.format);
        let slot = &mut self.slots[place];
        let is_in_use = matches!(slot.state, State::Executing | State::Pushing);
        if is_in_use || slot.doubt.is_some_and(|(until, _)| now < until) {
            return Ok(None);
        }
        let seq = next_seq(format, slot.seq);
        let first = First::decode(format, word);
        let is_next = !G::SEQUENCE || first.is_of(format, seq);
        if !first.is_present() || (!is_next && format == Format::Paper) {
            return Ok(None);
        }
        if first.size > layout.request_bytes {
            return Err(BadCall { place });
        }
        let header_bytes = format.request_header_bytes();
        let tail = start + header_bytes + first.size;
        if !has_tail(inbound, tail) {
            return Ok(None);
        }
        out.resize(first.size, 0);
        inbound.copy_out(start + header_bytes, out);
        let mut rpc_id = 0;
        if format == Format::V1 {
            rpc_id = first.detail;
            let there = header[1].load(Ordering::Relaxed);
            if G::SUM && there as u32 != sum(word, &[out]) {
                let (least, most) = DOUBT;
                let wait = slot.doubt.map_or(least, |(_, wait)| (wait * 2).min(most));
                slot.doubt = Some((now + wait, wait));
                self.stats.sum_rejects += 1;
                return Ok(None);
            }
            let is_its = (there >> 32) as u32 == self.incarnations.0;
            if !is_its || !is_next || usize::from(rpc_id) >= layout.rpc_count {
                return Err(BadCall { place });
            }
        }
        if G::ZERO {
            match format {
                // The checksum finds out what lies between.
                Format::V1 => inbound.store_u64(tail & !7, 0, Ordering::Relaxed),
                Format::Paper => inbound.zero(start, tail + 1 - start),
            }
        }
        header[0].store(0, Ordering::Relaxed);
        (slot.seq, slot.rpc_id, slot.doubt) = (seq, rpc_id, None);
        slot.state = State::Executing;
        self.parked[place / 64] &= !(1 << (place % 64));
        self.fresh[place / 64] &= !(1 << (place % 64));
        self.stats.calls += 1;
        // A client that never changes modes does not ask how long calls take.
        let is_timed =
            self.options.transfer == Transfer::Auto && self.modes.mode(inbound, place, rpc_id) == Mode::Reply;
        Ok(Some(Taken {
            place,
            rpc_id,
            is_timed,
        }))
    }

    /// Publishes the result of `place`, the concatenation of `pieces`, in its slot in `results`; [`settle`](Callee::settle)
    /// says whether to push it. `time`: how long the call took, if it is timed. A result that is longer than a slot is
    /// replaced by the word that it is.
    ///
    /// # Panics
    /// If no call of the place is executing.
    #[inline]
    pub fn publish(&mut self, place: usize, pieces: &[&[u8]], time: Ns, results: &Region, now: Ns) {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        let store = |start, format, first, fits| match fits {
            true => store_payload(results, start, format, first, pieces, size),
            false => store_payload(results, start, format, first, &[], 0),
        };
        self.publish_with(place, size, time, results, now, store);
    }

    /// As [`publish`](Callee::publish), with the first `size` bytes of `buffer` as the result; the byte behind them is
    /// overwritten, so that all goes to the slot in one copy.
    ///
    /// # Panics
    /// As `publish`, or if the buffer ends with the result.
    #[inline]
    pub fn publish_from(
        &mut self,
        place: usize,
        (buffer, size): (&mut [u8], usize),
        time: Ns,
        results: &Region,
        now: Ns,
    ) {
        let store = |start, format, first, fits| match fits {
            true => store_whole(results, start, format, first, &mut buffer[..=size]),
            false => store_payload(results, start, format, first, &[], 0),
        };
        self.publish_with(place, size, time, results, now, store);
    }

    /// `store` stores payload and tail where it is told, or what replaces them if the payload does not fit; it returns the
    /// end and the checksum.
    #[inline(always)]
    fn publish_with(
        &mut self,
        place: usize,
        size: usize,
        time: Ns,
        results: &Region,
        now: Ns,
        store: impl FnOnce(usize, Format, u64, bool) -> (usize, u32),
    ) {
        let (layout, format) = (&self.layout, self.layout.format);
        let slot = &mut self.slots[place];
        assert!(slot.state == State::Executing, "place {place} has no call");
        let start = place * self.strides.1;
        let mut first = First::new(size, encode_time(time), slot.seq).encode(format);
        let payload = start + format.result_header_bytes();
        let (end, sum) = store(payload, format, first, size <= layout.result_bytes);
        let [header] = results.lines::<1>(start);
        match format {
            Format::V1 => {
                header[1].store(second(sum, self.incarnations.1), Ordering::Relaxed);
            }
            // The last two bytes of the first word are payload.
            Format::Paper => first |= header[0].load(Ordering::Relaxed) & 0xffff << 48,
        }
        // Release: a reader that sees this word sees what was stored before.
        header[0].store(first, Ordering::Release);
        slot.len = end - start;
        self.fresh[place / 64] |= 1 << (place % 64);
        self.is_visible = false;
        self.park(place, now);
    }

    /// Looks at the modes of results that were published since it last returned `None`: returns one to be pushed. Call it
    /// until it returns `None`.
    #[inline]
    pub fn settle(&mut self, inbound: &Region) -> Option<Push> {
        for word in 0..self.fresh.len() {
            while self.fresh[word] != 0 {
                let place = word * 64 + self.fresh[word].trailing_zeros() as usize;
                self.fresh[word] &= self.fresh[word] - 1;
                if self.is_pushed(inbound, place) {
                    self.stats.pushes += 1;
                    return Some(self.push(place));
                }
                self.stats.parked += 1;
            }
        }
        None
    }

    /// Whether the published result of `place` is to be pushed.
    #[inline]
    fn is_pushed(&self, inbound: &Region, place: usize) -> bool {
        match self.options.transfer {
            Transfer::Fetch => false,
            Transfer::Reply => true,
            // Perhaps before others see the result: look_again makes sure.
            Transfer::Auto => self.modes.mode(inbound, place, self.slots[place].rpc_id) == Mode::Reply,
        }
    }

    #[inline]
    fn push(&mut self, place: usize) -> Push {
        let slot = &mut self.slots[place];
        slot.state = State::Pushing;
        self.parked[place / 64] &= !(1 << (place % 64));
        Push { place, len: slot.len }
    }

    /// Leaves the result of `place` to be fetched.
    #[inline]
    fn park(&mut self, place: usize, now: Ns) {
        self.slots[place].state = State::Parked;
        self.parked[place / 64] |= 1 << (place % 64);
        if self.next_look == Ns::MAX && self.options.transfer == Transfer::Auto {
            self.next_look = now + self.options.look_every;
        }
    }

    /// When to [look again](Callee::look_again); [`Ns::MAX`]: not before the next result.
    pub fn next_look(&self) -> Ns {
        self.next_look
    }

    /// Looks again at the modes of parked results, if it is time: returns one to be pushed after all. Call it until it
    /// returns `None`. Cheapest before a step takes requests: the results of the step before are likely to be visible, and
    /// waiting for that is short.
    #[inline]
    pub fn look_again(&mut self, inbound: &Region, now: Ns) -> Option<Push> {
        match now >= self.next_look && G::RECHECK {
            true => self.look_now(inbound, now),
            false => None,
        }
    }

    fn look_now(&mut self, inbound: &Region, now: Ns) -> Option<Push> {
        if !std::mem::replace(&mut self.is_visible, true) {
            results_become_visible::<G>();
        }
        let mut has_parked = false;
        for word in 0..self.parked.len() {
            let mut left = self.parked[word];
            while left != 0 {
                let place = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if self.modes.mode(inbound, place, self.slots[place].rpc_id) == Mode::Reply {
                    self.stats.late_pushes += 1;
                    return Some(self.push(place));
                }
                has_parked = true;
            }
        }
        self.next_look = match has_parked {
            true => now + self.options.look_every,
            false => Ns::MAX,
        };
        None
    }

    /// The WRITE of the pushed result of `place` has completed.
    #[inline]
    pub fn pushed(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        if slot.state == State::Pushing {
            slot.state = State::Idle;
        }
    }

    /// All that decides what happens next, without counters: what a model tells states apart by.
    #[cfg(all(test, not(loom)))]
    pub(super) fn state(&self) -> impl std::hash::Hash + std::fmt::Debug + use<G> {
        (self.slots.clone(), self.parked.clone())
    }
}

/// What was stored before is visible before any mode that is loaded after this. Pairs with the order in which
/// the client changes the mode and READs: either we see its mode, or it sees our result.
#[inline(always)]
pub(super) fn results_become_visible<G: Guards>() {
    if G::FENCE {
        fence(Ordering::SeqCst);
    }
}
