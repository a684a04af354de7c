//! [`FetchClient`]: the verbs of a client's end.

use super::caller::Caller;
use super::choose::Choice;
use super::guards::{Guarded, Guards};
use super::known::{Over, recall, remember};
use super::layout::Layout;
use super::measure::{Measured, Probe, ProbeVerb};
use super::next::{CallerOptions, CallerStats, ModeChange, Next};
use super::switch::{Mode, SwitchOptions};
use crate::{CallError, watched_export};
use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_rt::{Queues, ResourceError, WHICH};
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, RemoteRegion, SendOp};
use std::rc::Rc;

/// Kinds of work requests of a client's end, added to the first one that it was given; the index is the place.
const REQUEST: u64 = 0;
const READ: u64 = 1 << 32;
const MODE: u64 = 2 << 32;
const PROBE: u64 = 3 << 32;

/// Imports the server's memory.
fn import<P: Provider>(
    ctx: &P::Context,
    layout: &Layout,
    (inbound, results): (&Export, &Export),
) -> Result<(RemoteRegion, RemoteRegion), ResourceError> {
    let (inbound, results) = (ctx.import_region(inbound)?, ctx.import_region(results)?);
    let is_there = inbound.len >= layout.inbound_bytes() as u64
        && results.len >= layout.results_bytes() as u64
        && results.access.remote_read
        && inbound.access.remote_write;
    match is_there {
        true => Ok((inbound, results)),
        false => Err(ResourceError::Unusable { what: "regions" }),
    }
}

/// What the ends of a connection agree on when they meet.
#[derive(Clone, Copy, Debug)]
pub struct ConnParams {
    /// Sizes of the slots.
    pub layout: Layout,
    /// Incarnations of client and server: numbers that no earlier life of either had.
    pub incarnations: (u32, u32),
    /// First of [`KIND_COUNT`] kinds of work requests that the end may use, in the upper half of their ids.
    pub first_kind: u32,
}

/// Kinds of work requests that an end uses: completions with a kind among them are its own.
pub const KIND_COUNT: u32 = 4;

/// A client's slots and calls at one server. What it posts is staged in the [`Queues`] of the connection, at most
/// [`sends_max`](FetchClient::sends_max) at a time.
pub struct FetchClient<P: Provider, G: Guards = Guarded> {
    caller: Caller<G>,
    /// The requests of all places, space for all modes, and a word with the bytes that a mode is WRITTEN from.
    requests: P::Mr,
    landing: P::Mr,
    /// Where READs that are measured land.
    probed: P::Mr,
    pushed: P::Mr,
    inbound: RemoteRegion,
    results: RemoteRegion,
    kinds: u64,
    /// Places to look at in [`poll`](FetchClient::poll).
    watched: Vec<u32>,
    is_lost: bool,
    /// A measurement under way.
    probe: Option<Box<Probe>>,
    ctx: Rc<P::Context>,
}

impl<P: Provider, G: Guards> FetchClient<P, G> {
    /// Creates the client's end for the memory that the server's end exported.
    ///
    /// # Errors
    /// [`ResourceError`] if memory cannot be allocated, registered or imported, or the parameters are unusable.
    pub fn new(
        ctx: &Rc<P::Context>,
        params: &ConnParams,
        options: CallerOptions,
        (inbound, results): (&Export, &Export),
    ) -> Result<FetchClient<P, G>, ResourceError> {
        let layout = params.layout;
        if !layout.is_sound() {
            return Err(ResourceError::Unusable { what: "layout" });
        }
        let memory = |bytes, access| -> Result<P::Mr, ResourceError> {
            Ok(ctx.register(&ctx.alloc(bytes, PageWish::Small)?, access)?)
        };
        let requests = memory(layout.inbound_bytes() + 8, Access::LOCAL_READ)?;
        for mode in [Mode::Fetch, Mode::Reply] {
            let offset = layout.inbound_bytes() + mode as usize;
            requests.region().copy_in(offset, &[mode as u8]);
        }
        let landing = memory(layout.results_bytes(), Access::REMOTE_WRITE)?;
        let pushed = memory(layout.results_bytes(), Access::REMOTE_WRITE)?;
        let (inbound, results) = import::<P>(ctx, &layout, (inbound, results))?;
        Ok(FetchClient {
            caller: Caller::new(layout, options, params.incarnations),
            requests,
            landing,
            probed: memory(layout.result_stride(), Access::REMOTE_WRITE)?,
            pushed,
            inbound,
            results,
            kinds: u64::from(params.first_kind) << 32,
            watched: Vec::with_capacity(layout.place_count),
            is_lost: false,
            probe: None,
            ctx: ctx.clone(),
        })
    }

    /// Most work requests in flight for `place_count` places: a request, a READ and a mode for each, and one that is
    /// measured.
    pub const fn sends_max(place_count: usize) -> usize {
        3 * place_count + 1
    }

    /// The memory that the server WRITEs results into. A WRITE there wakes this core, where the fabric supports it.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be exported.
    pub fn export(&self) -> Result<Export, ResourceError> {
        let memory = if G::OWN_AREA { &self.pushed } else { &self.landing };
        watched_export::<P>(&self.ctx, memory)
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &CallerStats {
        self.caller.stats()
    }

    /// Counters since the last call of this function, or the beginning.
    pub fn take_stats(&mut self) -> CallerStats {
        self.caller.take_stats()
    }

    /// The connection's sizes.
    pub fn layout(&self) -> &Layout {
        self.caller.layout()
    }

    /// The options in use.
    pub fn options(&self) -> &CallerOptions {
        self.caller.options()
    }

    /// The mode of calls of kind `rpc_id` in `place`.
    pub fn mode(&self, place: usize, rpc_id: u16) -> Mode {
        self.caller.mode(place, rpc_id)
    }

    /// Changes R and F of calls of kind `rpc_id`.
    pub fn set_choice(&mut self, rpc_id: u16, choice: Choice) {
        self.caller.set_choice(rpc_id, choice);
    }

    /// Changes R and P of all kinds of calls: when modes change.
    pub fn set_switch(&mut self, switch: SwitchOptions) {
        self.caller.set_switch(switch);
    }

    /// What was measured holds for calls from now on: when their modes change, and whether they take turns with their READs.
    pub fn use_measured(&mut self, measured: &Measured) {
        self.caller.set_switch(measured.switch());
        if measured.has_short_reads() {
            self.take_turns();
        }
    }

    /// See [`Caller::take_turns`](super::Caller::take_turns).
    pub fn take_turns(&mut self) {
        self.caller.take_turns();
    }

    /// What verbs take on the fabric, and whether this connection has measured that: the first one over a device does, for
    /// all later ones of this process, and stages one verb at a time. Call it until it returns what came of it, between
    /// other calls of this end; it reads the clock. It READs results into memory of its own, and WRITEs a byte that no
    /// server looks at.
    pub fn measure(&mut self, queues: &mut Queues<P>) -> Option<(Measured, bool)> {
        let layout = *self.caller.layout();
        if self.probe.is_none()
            && let Some(known) = self.device().and_then(|over| recall(&over))
        {
            return Some((known, false));
        }
        let now = self.ctx.cpu().refresh();
        let probe = self
            .probe
            .get_or_insert_with(|| Box::new(Probe::new(layout.result_bytes)));
        if let Some(measured) = probe.result(now) {
            self.probe = None;
            if let Some(over) = self.device() {
                remember(over, measured);
            }
            return Some((measured, true));
        }
        let (op, sge) = match probe.next(now)? {
            ProbeVerb::Write => {
                let offset = layout.unused_offset();
                let remote = self.inbound.at(offset);
                (SendOp::Write { remote, imm: None }, self.requests.sge(offset, 1))
            }
            ProbeVerb::Read { len } => {
                let remote = self.results.at(0);
                (SendOp::Read { remote }, self.probed.sge(0, len))
            }
        };
        queues.stage_to_port(self.kinds + PROBE, op, sge, true);
        None
    }

    fn device(&self) -> Option<Over> {
        Over::of::<P>(&self.ctx, self.caller.layout().result_bytes)
    }

    /// Whether a call can begin in `place`.
    #[inline]
    pub fn is_free(&self, place: usize) -> bool {
        self.caller.is_free(place)
    }

    /// Begins a call of kind `rpc_id` in a free `place`, with the concatenation of `pieces` as the request; it ends with
    /// [`CallError::Timeout`] at `deadline` if nothing else has happened.
    ///
    /// # Errors
    /// [`CallError`]: there is no call, and nothing was sent.
    ///
    /// # Panics
    /// If the place is not free, or the layout has no such rpc id.
    #[inline(always)]
    pub fn send(
        &mut self,
        queues: &mut Queues<P>,
        (place, rpc_id): (usize, u16),
        pieces: &[&[u8]],
        deadline: Ns,
    ) -> Result<(), CallError> {
        if self.is_lost {
            return Err(CallError::PeerDead);
        }
        let requests = self.requests.region();
        let len = self.caller.begin(place, rpc_id, pieces, deadline, requests)?;
        self.write_request(queues, place, len);
        Ok(())
    }

    #[inline(always)]
    fn write_request(&mut self, queues: &mut Queues<P>, place: usize, len: usize) {
        let offset = place * self.caller.strides().0;
        let op = SendOp::Write {
            remote: self.inbound.at(offset),
            imm: None,
        };
        let sge = self.requests.sge(offset, len);
        let signaled = self.caller.is_signaled(place);
        queues.stage_to_port(self.kinds + REQUEST + place as u64, op, sge, signaled);
        if self.caller.is_waiting(place) {
            self.watched.push(place as u32);
        }
    }

    /// Handles the successful completion with id `wr_id`, of one of this end's kinds. Returns the place of a call that
    /// has ended, with its result's length or why there is none; the result is in the first bytes of `out`.
    ///
    /// # Panics
    /// If no such request was staged.
    #[inline]
    pub fn completed(
        &mut self,
        queues: &mut Queues<P>,
        wr_id: u64,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Result<usize, CallError>)> {
        let place = (wr_id & WHICH) as usize;
        let next = match (wr_id - self.kinds) & !WHICH {
            REQUEST => self.caller.sent(place),
            READ => self.caller.landed(place, self.landing.region(), now, out),
            PROBE => {
                let now = self.ctx.cpu().refresh();
                if let Some(probe) = &mut self.probe {
                    probe.completed(now);
                }
                return None;
            }
            other => panic!("a completion of nothing that was posted: {other:#x}, place {place}"),
        };
        Some((place, self.act(queues, place, next)?))
    }

    /// Whether the completion with id `wr_id`, of one of this end's kinds, is that of a READ of a result. The request of its
    /// place has completed, too.
    #[inline]
    pub fn is_read(&self, wr_id: u64) -> bool {
        (wr_id - self.kinds) & !WHICH == READ
    }

    /// Does what the caller says; returns what came of a call that has ended.
    #[inline(always)]
    fn act(&mut self, queues: &mut Queues<P>, place: usize, next: Next) -> Option<Result<usize, CallError>> {
        match next {
            Next::Read { offset, len } => {
                self.read(queues, place, (offset, len));
                None
            }
            Next::Nothing => None,
            Next::Done { result, mode: None } => Some(result),
            Next::Done { result, mode } => {
                self.write_mode(queues, place, mode);
                Some(result)
            }
            Next::Wait { mode } => {
                self.watched.push(place as u32);
                self.write_mode(queues, place, mode);
                None
            }
            Next::Late { mode } => {
                self.write_mode(queues, place, mode);
                None
            }
        }
    }

    #[inline]
    fn read(&mut self, queues: &mut Queues<P>, place: usize, (offset, len): (usize, usize)) {
        let offset = place * self.caller.strides().1 + offset;
        let op = SendOp::Read {
            remote: self.results.at(offset),
        };
        let sge = self.landing.sge(offset, len);
        queues.stage_to_port(self.kinds + READ + place as u64, op, sge, true);
    }

    /// On the queue pair of the requests, so that the server sees the mode no later than the next request. Unsignaled:
    /// a later request of the place that is signaled completes after it.
    #[cold]
    #[inline(never)]
    fn write_mode(&mut self, queues: &mut Queues<P>, place: usize, change: Option<ModeChange>) {
        let Some(change) = change else { return };
        let op = SendOp::Write {
            remote: self.inbound.at(change.offset),
            imm: None,
        };
        let offset = self.caller.layout().inbound_bytes() + change.mode as usize;
        let sge = self.requests.sge(offset, 1);
        queues.stage_to_port(self.kinds + MODE + place as u64, op, sge, false);
    }

    /// Looks for pushed results, READs that are due, and deadlines; `done` gets the place of each call that has ended,
    /// with its result or why there is none.
    #[inline]
    pub fn poll(
        &mut self,
        queues: &mut Queues<P>,
        now: Ns,
        out: &mut Vec<u8>,
        mut done: impl FnMut(usize, Result<&[u8], CallError>),
    ) {
        let mut from = 0;
        while let Some((place, result)) = self.poll_next(queues, &mut from, now, out) {
            done(place, result.map(|len| &out[..len]));
        }
        self.caller
            .expire(now, |place| done(place, Err(CallError::Timeout)));
    }

    /// As [`poll`](FetchClient::poll) without deadlines, for one call: begins with number `from` (0 at first) of those
    /// that wait, and returns the place of one that has ended, with its result's length or why there is none; the
    /// result is in the first bytes of `out`. Call it until it returns `None`.
    #[inline]
    pub fn poll_next(
        &mut self,
        queues: &mut Queues<P>,
        from: &mut usize,
        now: Ns,
        out: &mut Vec<u8>,
    ) -> Option<(usize, Result<usize, CallError>)> {
        while *from < self.watched.len() {
            let place = self.watched[*from] as usize;
            let Some(next) = self.caller.poll(place, self.pushed.region(), now, out) else {
                *from += 1;
                continue;
            };
            self.watched.swap_remove(*from);
            if let Some(result) = self.act(queues, place, next) {
                return Some((place, result));
            }
        }
        while let Some((place, next)) = self.caller.next_turn() {
            self.act(queues, place, next);
        }
        None
    }

    /// When to [`poll`](FetchClient::poll) though nothing has arrived, deadlines aside; [`Ns::MAX`]: never.
    #[inline]
    pub fn next_timer(&self) -> Ns {
        if self.caller.has_turn() {
            return Ns::ZERO;
        }
        let timers = self
            .watched
            .iter()
            .map(|place| self.caller.next_timer(*place as usize));
        timers.min().unwrap_or(Ns::MAX)
    }

    /// The connection is lost: calls under way end with [`CallError::Unknown`], and no other begins.
    pub fn lose(&mut self, mut done: impl FnMut(usize, CallError)) {
        self.is_lost = true;
        self.watched.clear();
        self.caller.lose(|place| done(place, CallError::Unknown));
    }
}

impl<P: Provider, G: Guards> Drop for FetchClient<P, G> {
    fn drop(&mut self) {
        for region in [&self.inbound, &self.results] {
            self.ctx.forget_region(region);
        }
    }
}
