//! [`Caller`]: the client's end of a connection, as decisions: what to READ, what to wait for, what came of a call.
//!
//! ```text
//!          begin            sent           landed: not yet           landed: complete, or the rest is
//!   Free ---------> Begun ---------> Reading ---------> Reading ---------------------------> Free
//!    |                                  |  R misses, again                                    ^
//!    |  mode Reply                      v  (WRITE the mode)            polled: pushed         |
//!    +-------------------------------> Waiting -----------------------------------------------+
//! ```
//! Where calls take [turns](Caller::take_turns), they are held before they READ, instead of `Begun`.
//!
//! The caller of these methods does what the returned [`Next`] says and reports back. Time is an argument; memory is
//! that of the landing and pushed slots.

use super::choose::Choice;
use super::guards::{Guarded, Guards};
use super::header::{First, Format, decode_time, next_seq, second, store_payload, sum};
use super::layout::{Layout, has_tail};
use super::next::{CallerOptions, CallerStats, FAILS_COUNTED_MAX, ModeChange, Next};
use super::switch::{Mode, Switch, SwitchOptions, Transfer};
use super::turns::Turns;
use crate::CallError;
use drover_base::Ns;
use drover_mem::Region;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// So many complete results in a row with a wrong checksum mean that it is not the READ that is torn.
const TORN_MAX: u32 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Free,
    /// The request's WRITE has not completed; then the first READ follows.
    Begun,
    /// Others READ first: see [`Turns`].
    Held,
    /// The READ of the header and so many bytes of payload is under way.
    Reading(usize),
    /// The READ of the rest is under way; the header's first word.
    ReadingRest(u64),
    /// The next first READ is due at this time.
    Pausing(Ns),
    /// The result will be pushed.
    Waiting,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Call {
    state: State,
    /// Whether the WRITE of the place's last request has completed.
    is_carried: bool,
    /// Whether the call was reported as failed and only its result is still waited for.
    is_given_up: bool,
    seq: u16,
    rpc_id: u16,
    fails: u32,
    torn: u32,
    deadline: Ns,
    /// First word of the pushed slot as it was last seen.
    seen: u64,
}

/// The client's end of one connection: the calls of all its places, and their modes.
#[derive(Clone, Debug)]
pub struct Caller<G = Guarded> {
    layout: Layout,
    /// Of requests and results, bytes.
    strides: (usize, usize),
    options: CallerOptions,
    /// The client's, then the server's.
    incarnations: (u32, u32),
    calls: Vec<Call>,
    /// By place, then by rpc id.
    switches: Vec<Switch>,
    /// R and F of each rpc id.
    choices: Vec<Choice>,
    turns: Turns,
    /// No deadline passes before this time.
    first_deadline: Ns,
    stats: CallerStats,
    guards: PhantomData<G>,
}

impl<G: Guards> Caller<G> {
    /// Creates the client's end of a new connection between the given incarnations of client and server, with all
    /// places free.
    ///
    /// # Panics
    /// If the layout is not [sound](Layout::is_sound).
    pub fn new(layout: Layout, options: CallerOptions, incarnations: (u32, u32)) -> Caller<G> {
        assert!(layout.is_sound(), "{layout:?}");
        let call = Call {
            state: State::Free,
            is_carried: true,
            is_given_up: false,
            seq: 0,
            rpc_id: 0,
            fails: 0,
            torn: 0,
            deadline: Ns::MAX,
            seen: 0,
        };
        let switch = Switch::new(options.transfer.first_mode());
        let choice = Choice {
            slow_reads: options.switch.slow_reads,
            first_bytes: options.first_bytes.min(layout.result_bytes),
        };
        Caller {
            layout,
            strides: (layout.request_stride(), layout.result_stride()),
            options,
            incarnations,
            calls: vec![call; layout.place_count],
            switches: vec![switch; layout.place_count * layout.rpc_count],
            choices: vec![choice; layout.rpc_count],
            turns: Turns::new(layout.place_count),
            first_deadline: Ns::MAX,
            stats: CallerStats::default(),
            guards: PhantomData,
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
    pub fn stats(&self) -> &CallerStats {
        &self.stats
    }

    /// Counters since the last call of this function, or the beginning.
    pub fn take_stats(&mut self) -> CallerStats {
        std::mem::take(&mut self.stats)
    }

    /// Whether a call can begin in `place`.
    #[inline]
    pub fn is_free(&self, place: usize) -> bool {
        let call = &self.calls[place];
        call.state == State::Free && call.is_carried
    }

    /// Whether the call in `place` goes on by [`poll`](Caller::poll).
    #[inline]
    pub fn is_waiting(&self, place: usize) -> bool {
        matches!(self.calls[place].state, State::Waiting | State::Pausing(_))
    }

    /// When [`poll`](Caller::poll) has something to do for the call in `place` though nothing has arrived;
    /// [`Ns::MAX`]: never.
    #[inline]
    pub fn next_timer(&self, place: usize) -> Ns {
        match self.calls[place].state {
            State::Pausing(until) => until,
            _ => Ns::MAX,
        }
    }

    /// The mode of calls of kind `rpc_id` in `place`.
    pub fn mode(&self, place: usize, rpc_id: u16) -> Mode {
        self.switches[self.switch_index(place, rpc_id)].mode()
    }

    /// Changes when modes change; R of all kinds of calls is that of `switch`.
    pub fn set_switch(&mut self, switch: SwitchOptions) {
        self.options.switch = switch;
        for choice in &mut self.choices {
            choice.slow_reads = switch.slow_reads;
        }
    }

    /// From now on, calls take turns with their READs: for a fabric where a READ takes less time than a call, and one that
    /// comes too early costs more than one that comes late.
    pub fn take_turns(&mut self) {
        self.turns.begin();
    }

    /// The call that is to READ now, if there is one, and its READ. Call it until there is none, whenever calls have
    /// begun or ended.
    #[inline]
    pub fn next_turn(&mut self) -> Option<(usize, Next)> {
        let place = self.turns.next()?;
        Some((place, self.read(place)))
    }

    /// Whether a call is to READ now.
    #[inline]
    pub fn has_turn(&self) -> bool {
        self.turns.has_next()
    }

    /// Whether the completion of the request that was just begun in `place` is [wanted](Caller::sent). If not, its READ
    /// completes after it.
    #[inline]
    pub fn is_signaled(&self, place: usize) -> bool {
        self.calls[place].state != State::Held
    }

    /// The options in use.
    pub fn options(&self) -> &CallerOptions {
        &self.options
    }

    /// R and F of the calls of kind `rpc_id`.
    pub fn choice(&self, rpc_id: u16) -> Choice {
        self.choices[usize::from(rpc_id)]
    }

    /// Changes R and F of the calls of kind `rpc_id` that READ from now on; F is cut to the slot.
    pub fn set_choice(&mut self, rpc_id: u16, choice: Choice) {
        self.choices[usize::from(rpc_id)] = Choice {
            first_bytes: choice.first_bytes.min(self.layout.result_bytes),
            ..choice
        };
    }

    #[inline]
    fn switch_index(&self, place: usize, rpc_id: u16) -> usize {
        place * self.layout.rpc_count + usize::from(rpc_id)
    }

    /// Begins a call: writes the request, whose payload is the concatenation of `pieces`, to its slot in `requests`,
    /// and returns its length. WRITE so many bytes of the slot to the same bytes of the inbound memory; then
    /// [`sent`](Caller::sent).
    ///
    /// # Errors
    /// [`CallError::TooLarge`] if the payload does not fit; then there is no call.
    ///
    /// # Panics
    /// If the place is not [free](Caller::is_free), or the rpc id is unknown to the layout.
    #[inline(always)]
    pub fn begin(
        &mut self,
        place: usize,
        rpc_id: u16,
        pieces: &[&[u8]],
        deadline: Ns,
        requests: &Region,
    ) -> Result<usize, CallError> {
        assert!(self.is_free(place), "place {place} has a call");
        assert!(usize::from(rpc_id) < self.layout.rpc_count, "rpc id {rpc_id}");
        let size = pieces.iter().map(|piece| piece.len()).sum();
        if size > self.layout.request_bytes {
            let bytes_max = self.layout.request_bytes;
            return Err(CallError::TooLarge {
                bytes: size,
                bytes_max,
            });
        }
        let format = self.layout.format;
        // The paper's header does not carry it, so its modes would not be found.
        let rpc_id = if format == Format::Paper { 0 } else { rpc_id };
        let is_pushed = self.mode(place, rpc_id) == Mode::Reply;
        let call = &mut self.calls[place];
        call.seq = next_seq(format, call.seq);
        (call.rpc_id, call.deadline) = (rpc_id, deadline);
        (call.fails, call.torn) = (0, 0);
        (call.is_carried, call.is_given_up) = (false, false);
        call.state = match (is_pushed, self.turns.are_taken()) {
            (true, _) => State::Waiting,
            (false, false) => State::Begun,
            (false, true) => {
                self.turns.wait(place);
                State::Held
            }
        };
        self.first_deadline = self.first_deadline.min(deadline);
        self.stats.calls += 1;

        let start = place * self.strides.0;
        let first = First::new(size, rpc_id, call.seq).encode(format);
        let header_bytes = format.request_header_bytes();
        let (end, sum) = store_payload(requests, start + header_bytes, format, first, pieces, size);
        match format {
            Format::V1 => {
                let [header] = requests.lines::<1>(start);
                header[0].store(first, Ordering::Relaxed);
                header[1].store(second(sum, self.incarnations.0), Ordering::Relaxed);
            }
            Format::Paper => requests.copy_in(start, &first.to_le_bytes()[..header_bytes]),
        }
        Ok(end - start)
    }

    /// The WRITE of the request of `place` has completed.
    #[inline]
    pub fn sent(&mut self, place: usize) -> Next {
        let call = &mut self.calls[place];
        call.is_carried = true;
        match call.state {
            State::Begun => self.read(place),
            _ => Next::Nothing,
        }
    }

    #[inline]
    fn read(&mut self, place: usize) -> Next {
        let call = &mut self.calls[place];
        let first_bytes = self.choices[usize::from(call.rpc_id)].first_bytes;
        call.state = State::Reading(first_bytes);
        self.stats.first_reads += 1;
        Next::Read {
            offset: 0,
            len: self.layout.format.result_header_bytes() + first_bytes,
        }
    }

    /// The READ for `place` has completed, into its slot in `landing`. If the call is done, its result is in the first bytes of
    /// `out`.
    ///
    /// # Panics
    /// If no READ was under way.
    #[inline]
    pub fn landed(&mut self, place: usize, landing: &Region, now: Ns, out: &mut Vec<u8>) -> Next {
        let start = place * self.strides.1;
        let format = self.layout.format;
        let call = &mut self.calls[place];
        // The request went before, on the same queue pair.
        call.is_carried = true;
        let word = match call.state {
            State::ReadingRest(word) => word,
            State::Reading(first_bytes) => {
                // Acquire: pairs with the READ's completion; the other words are loaded after it.
                let word = landing.load_u64(start, Ordering::Acquire);
                let first = First::decode(format, word);
                if !self.is_expected(place, first) {
                    return self.read_failed(place, now);
                }
                self.turns.found(place);
                if first.size > first_bytes && first.size <= self.layout.result_bytes {
                    self.calls[place].state = State::ReadingRest(word);
                    self.stats.second_reads += 1;
                    return Next::Read {
                        offset: format.result_header_bytes() + first_bytes,
                        len: first.size - first_bytes,
                    };
                }
                word
            }
            state => panic!("a READ of place {place} in state {state:?}"),
        };
        match self.open(landing, start, word, out) {
            None => {
                self.calls[place].torn += 1;
                match self.calls[place].torn {
                    TORN_MAX => self.finish(place, Err(CallError::Corrupt), None),
                    _ => self.read_failed(place, now),
                }
            }
            Some(result) => {
                let (fails, is_slow) = (self.calls[place].fails, self.is_slow(place));
                let index = self.switch_index(place, self.calls[place].rpc_id);
                self.switches[index].fetched(is_slow);
                self.stats.fails[(fails as usize).min(FAILS_COUNTED_MAX)] += 1;
                self.finish(place, result, None)
            }
        }
    }

    /// Whether the place's call has had R failed READs.
    #[inline]
    fn is_slow(&self, place: usize) -> bool {
        let call = &self.calls[place];
        call.fails >= self.choices[usize::from(call.rpc_id)].slow_reads
    }

    /// Whether a first word is that of the result of the place's call.
    #[inline]
    fn is_expected(&self, place: usize, first: First) -> bool {
        match G::SEQUENCE {
            true => first.is_of(self.layout.format, self.calls[place].seq),
            false => first.is_present(),
        }
    }

    /// Copies the result that begins at `start` with `word` to the first bytes of `out`, which never gets shorter: loading a
    /// length that was just stored takes long. `None`: it is not complete.
    #[inline]
    fn open(
        &mut self,
        memory: &Region,
        start: usize,
        word: u64,
        out: &mut Vec<u8>,
    ) -> Option<Result<usize, CallError>> {
        let format = self.layout.format;
        let (size, bytes_max) = (First::decode(format, word).size, self.layout.result_bytes);
        let fits = size <= bytes_max;
        let there = if fits { size } else { 0 };
        if out.len() < there {
            out.resize(bytes_max, 0);
        }
        let out = &mut out[..there];
        memory.copy_out(start + format.result_header_bytes(), out);
        if format == Format::V1 {
            let there = memory.load_u64(start + 8, Ordering::Relaxed);
            let wanted = match G::SUM {
                true => sum(word, &[out]),
                false => there as u32,
            };
            if there != second(wanted, self.incarnations.1) {
                self.stats.sum_rejects += 1;
                return None;
            }
        }
        Some(match fits {
            true => Ok(size),
            false => Err(CallError::TooLarge {
                bytes: size,
                bytes_max,
            }),
        })
    }

    /// Nothing was there: READs again, at once or later, or has the result pushed.
    fn read_failed(&mut self, place: usize, now: Ns) -> Next {
        let call = &mut self.calls[place];
        call.fails += 1;
        let (fails, rpc_id, is_given_up) = (call.fails, call.rpc_id, call.is_given_up);
        let index = self.switch_index(place, rpc_id);
        let may_switch = self.options.transfer == Transfer::Auto;
        let is_slow = self.is_slow(place);
        if may_switch && self.switches[index].read_failed(is_slow, now, &self.options.switch) {
            self.calls[place].state = State::Waiting;
            self.turns.leave(place);
            let mode = Some(self.change(place, rpc_id, Mode::Reply));
            return Next::Wait { mode };
        }
        let (often, pause) = self.options.backoff;
        if fails < often {
            return self.read_again(place, is_slow);
        }
        self.turns.leave(place);
        // Nobody waits for the result of a call that was given up: it is looked for ever less often.
        let pause = match is_given_up {
            false => pause,
            true => pause * (1 << (fails - often).min(9)),
        };
        self.calls[place].state = State::Pausing(now + pause);
        Next::Wait { mode: None }
    }

    /// The next READ of a call that has found nothing. A scout that is slow does not keep the others from their results,
    /// which may be there.
    #[inline]
    fn read_again(&mut self, place: usize, is_slow: bool) -> Next {
        let has_turn = !self.turns.are_taken() || self.turns.is_scout(place);
        if has_turn && !(is_slow && self.turns.has_waiting()) {
            return self.read(place);
        }
        self.turns.leave(place);
        self.turns.wait(place);
        self.calls[place].state = State::Held;
        Next::Nothing
    }

    fn change(&mut self, place: usize, rpc_id: u16, mode: Mode) -> ModeChange {
        self.stats.switches[usize::from(mode == Mode::Fetch)] += 1;
        let offset = self.layout.mode_offset(place, rpc_id);
        ModeChange { offset, mode }
    }

    /// Looks for what a call waits for: a pushed result in its slot in `pushed`, or the time of its next READ. `None`:
    /// not yet. If the call is done, its result is in the first bytes of
    /// `out`.
    #[inline]
    pub fn poll(&mut self, place: usize, pushed: &Region, now: Ns, out: &mut Vec<u8>) -> Option<Next> {
        match self.calls[place].state {
            State::Waiting => self.poll_pushed(place, pushed, now, out),
            State::Pausing(until) if now >= until => Some(self.read(place)),
            _ => None,
        }
    }

    fn poll_pushed(&mut self, place: usize, pushed: &Region, now: Ns, out: &mut Vec<u8>) -> Option<Next> {
        let start = place * self.strides.1;
        let format = self.layout.format;
        // Acquire: pairs with the store that made the word visible; tail and checksum verify the rest.
        let word = pushed.load_u64(start, Ordering::Acquire);
        let first = First::decode(format, word);
        if !self.is_expected(place, first) {
            let call = &mut self.calls[place];
            self.stats.late_pushes += u64::from(word != 0 && word != call.seen && format == Format::V1);
            call.seen = word;
            return None;
        }
        let size = if first.size > self.layout.result_bytes {
            0
        } else {
            first.size
        };
        let tail = start + format.result_header_bytes() + size;
        if !has_tail(pushed, tail) {
            return None;
        }
        let result = self.open(pushed, start, word, out)?;
        // Nothing of this result passes for the tail, or in the paper's format for the header, of a later one.
        match format {
            Format::V1 => pushed.store_u64(tail & !7, 0, Ordering::Relaxed),
            Format::Paper => pushed.zero(start, tail + 1 - start),
        }
        let call = &mut self.calls[place];
        call.seen = if format == Format::V1 { word } else { 0 };
        let rpc_id = call.rpc_id;
        let index = self.switch_index(place, rpc_id);
        self.stats.pushed += 1;
        let (time, may_switch) = (decode_time(first.detail), self.options.transfer == Transfer::Auto);
        let is_back = may_switch && self.switches[index].pushed(time, now, &self.options.switch);
        let mode = is_back.then(|| self.change(place, rpc_id, Mode::Fetch));
        Some(self.finish(place, result, mode))
    }

    #[inline(always)]
    fn finish(&mut self, place: usize, result: Result<usize, CallError>, mode: Option<ModeChange>) -> Next {
        let call = &mut self.calls[place];
        call.state = State::Free;
        match call.is_given_up {
            false => Next::Done { result, mode },
            true => Next::Late { mode },
        }
    }

    /// Gives up calls whose deadline has passed at `now`: reports their places, whose calls have ended with
    /// [`CallError::Timeout`]. A place stays in use until the result has come after all, because the server may still
    /// execute the request that is in its slot. Go on as before with whatever was under way.
    #[inline]
    pub fn expire(&mut self, now: Ns, expired: impl FnMut(usize)) {
        if now >= self.first_deadline {
            self.expire_due(now, expired);
        }
    }

    #[cold]
    fn expire_due(&mut self, now: Ns, mut expired: impl FnMut(usize)) {
        self.first_deadline = Ns::MAX;
        for (place, call) in self.calls.iter_mut().enumerate() {
            if call.state == State::Free || call.is_given_up {
                continue;
            }
            if now < call.deadline {
                self.first_deadline = self.first_deadline.min(call.deadline);
                continue;
            }
            call.is_given_up = true;
            self.stats.timeouts += 1;
            expired(place);
        }
    }

    /// The connection is lost: reports the places with calls, which have ended with [`CallError::Unknown`]: the server
    /// may have executed them or not. The next connection begins with a new `Caller`.
    pub fn lose(&mut self, mut lost: impl FnMut(usize)) {
        self.turns.clear();
        for (place, call) in self.calls.iter_mut().enumerate() {
            if call.state != State::Free && !call.is_given_up {
                lost(place);
            }
            call.state = State::Free;
        }
    }

    /// All that decides what happens next, without counters: what a model tells states apart by.
    #[cfg(all(test, not(loom)))]
    pub(super) fn state(&self) -> impl std::hash::Hash + std::fmt::Debug + use<G> {
        (self.calls.clone(), self.switches.clone(), self.turns.clone())
    }
}
