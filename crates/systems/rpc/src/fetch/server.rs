//! [`FetchServer`]: the verbs of a server's end.

use super::callee::{BadCall, Callee, CalleeOptions, CalleeStats, Push, Taken};
use super::client::ConnParams;
use super::guards::{Guarded, Guards};
use crate::watched_export;
use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_rt::{Port, Queues, ResourceError, WHICH};
use drover_verbs::{Access, Context, Export, MemoryRegion, Provider, RemoteRegion, SendOp};
use std::rc::Rc;

/// So many slots ahead of the one that is looked at are prefetched: what a client has written is in its core's cache. They
/// will be zeroed.
const PREFETCHED: usize = 3;

/// A request that a server executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerCall {
    /// Its place, kind, and whether its time is measured.
    pub taken: Taken,
    /// When it was taken, if its time is measured.
    started: Ns,
}

impl ServerCall {
    /// How long the call has taken until now, if that is measured.
    #[inline(always)]
    fn time(&self, cpu: &impl Cpu) -> Ns {
        match self.taken.is_timed {
            true => cpu.refresh().since(self.started),
            false => Ns::ZERO,
        }
    }
}

/// A server's slots of one client. What it posts is staged in the [`Queues`] of the connection, at most one WRITE per
/// place at a time.
pub struct FetchServer<P: Provider, G: Guards = Guarded> {
    callee: Callee<G>,
    inbound: P::Mr,
    /// The results, as they are pushed: the server's registration.
    results: P::Mr,
    /// The results, as the client READs them, if that takes a registration of its own.
    fetched: Option<P::Mr>,
    /// The client's memory for pushed results.
    pushed: Option<RemoteRegion>,
    kinds: u64,
    /// WRITEs of results that have not completed.
    pushing: usize,
    /// Place that is looked at first.
    place: usize,
    ctx: Rc<P::Context>,
}

impl<P: Provider, G: Guards> FetchServer<P, G> {
    /// Creates the server's end of a connection, with its slots behind `port`.
    ///
    /// # Errors
    /// [`ResourceError`] if memory cannot be allocated or registered.
    pub fn new(
        port: &Port<P>,
        params: &ConnParams,
        options: CalleeOptions,
    ) -> Result<FetchServer<P, G>, ResourceError> {
        let (layout, ctx) = (params.layout, port.server());
        let callee = Callee::new(layout, options, params.incarnations);
        let inbound = ctx.alloc(layout.inbound_bytes(), PageWish::Small)?;
        let inbound = port.context().register(&inbound, Access::REMOTE_WRITE)?;
        callee.prepare(inbound.region());
        let results = ctx.alloc(layout.results_bytes(), PageWish::Small)?;
        let fetched = port.own().map(|own| own.register(&results, Access::REMOTE_READ));
        let for_pushes = match fetched {
            Some(_) => Access::LOCAL_READ,
            None => Access::REMOTE_READ,
        };
        Ok(FetchServer {
            callee,
            inbound,
            results: ctx.register(&results, for_pushes)?,
            fetched: fetched.transpose()?,
            pushed: None,
            kinds: u64::from(params.first_kind) << 32,
            pushing: 0,
            place: 0,
            ctx: ctx.clone(),
        })
    }

    /// The memory that the client WRITEs requests and modes into, and the memory that it READs results from. A WRITE
    /// there wakes this core, where the fabric supports it.
    ///
    /// # Errors
    /// [`ResourceError`] if one cannot be exported.
    pub fn exports(&self) -> Result<(Export, Export), ResourceError> {
        let inbound = watched_export::<P>(&self.ctx, &self.inbound)?;
        let results = self.fetched.as_ref().unwrap_or(&self.results);
        Ok((inbound, results.export(&[])?))
    }

    /// Imports the client's memory for pushed results; before that, requests are not looked at.
    ///
    /// # Errors
    /// [`ResourceError`] if it cannot be imported, or is too short.
    pub fn attach(&mut self, pushed: &Export) -> Result<(), ResourceError> {
        let pushed = self.ctx.import_region(pushed)?;
        let is_long_enough = pushed.len >= self.callee.layout().results_bytes() as u64;
        self.pushed = Some(pushed);
        match is_long_enough && pushed.access.remote_write {
            true => Ok(()),
            false => Err(ResourceError::Unusable { what: "regions" }),
        }
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> &CalleeStats {
        self.callee.stats()
    }

    /// Whether no request has arrived and no WRITE of a result is under way: then only results that were left to be fetched
    /// may need something, at [`next_look`](FetchServer::next_look).
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pushing == 0 && self.callee.find(self.place, self.inbound.region()).is_none()
    }

    /// Takes the next request that has arrived, if there is one: its payload goes to `out`. Answer it by
    /// [`reply`](FetchServer::reply), now or later; the place gets no other request before that. Looks at each place
    /// once, and begins behind the place of the request before. Reads the clock only for a call whose result is pushed.
    ///
    /// # Errors
    /// [`BadCall`] if no correct client wrote this; the connection must end.
    #[inline]
    pub fn next(&mut self, cpu: &P::Cpu, out: &mut Vec<u8>) -> Result<Option<ServerCall>, BadCall> {
        if self.pushed.is_none() {
            return Ok(None);
        }
        let count = self.callee.layout().place_count;
        let (stride, result_stride) = self.callee.strides();
        for _ in 0..count {
            let Some(place) = self.callee.find(self.place, self.inbound.region()) else {
                break;
            };
            self.place = if place + 1 == count { 0 } else { place + 1 };
            let soon = (place + PREFETCHED) * stride;
            if soon < count * stride {
                cpu.prefetch_write(self.inbound.region().line(soon));
            }
            cpu.prefetch_write(self.results.region().line(place * result_stride));
            if let Some(taken) = self.callee.take(place, self.inbound.region(), cpu.now(), out)? {
                let started = if taken.is_timed { cpu.refresh() } else { Ns::ZERO };
                return Ok(Some(ServerCall { taken, started }));
            }
        }
        Ok(None)
    }

    /// Publishes the concatenation of `pieces` as the result of `call`. What does not fit a slot is refused at the client as
    /// [`TooLarge`](crate::CallError::TooLarge). After the last result of a step, [`settle`](FetchServer::settle).
    #[inline]
    pub fn reply(&mut self, cpu: &P::Cpu, call: &ServerCall, pieces: &[&[u8]]) {
        let (time, results) = (call.time(cpu), self.results.region());
        self.callee
            .publish(call.taken.place, pieces, time, results, cpu.now());
    }

    /// As [`reply`](FetchServer::reply), with the first `size` bytes of `buffer` as the result. The byte behind them is
    /// overwritten.
    ///
    /// # Panics
    /// If the buffer ends with the result.
    #[inline]
    pub fn reply_from(&mut self, cpu: &P::Cpu, call: &ServerCall, buffer: &mut [u8], size: usize) {
        let (time, results) = (call.time(cpu), self.results.region());
        self.callee
            .publish_from(call.taken.place, (buffer, size), time, results, cpu.now());
    }

    /// Stages the WRITEs of results that were published and are to be pushed. Call it when all results of a step are
    /// published.
    #[inline]
    pub fn settle(&mut self, queues: &mut Queues<P>) {
        while let Some(push) = self.callee.settle(self.inbound.region()) {
            self.push(queues, push);
        }
    }

    fn push(&mut self, queues: &mut Queues<P>, push: Push) {
        self.pushing += 1;
        let pushed = self
            .pushed
            .expect("requests are taken from attached clients only");
        let offset = push.place * self.callee.strides().1;
        let op = SendOp::Write {
            remote: pushed.at(offset),
            imm: None,
        };
        let sge = self.results.sge(offset, push.len);
        queues.stage(self.kinds + push.place as u64, op, sge, true);
    }

    /// [Settles](FetchServer::settle), and stages the WRITEs of results that were left to be fetched and are to be pushed by
    /// now. Call it in every step, before requests are taken: it may wait until results of the step before are visible.
    #[inline]
    pub fn look_again(&mut self, queues: &mut Queues<P>, now: Ns) {
        self.settle(queues);
        while let Some(push) = self.callee.look_again(self.inbound.region(), now) {
            self.push(queues, push);
        }
    }

    /// When [`look_again`](FetchServer::look_again) has something to do; [`Ns::MAX`]: not before the next result.
    pub fn next_look(&self) -> Ns {
        self.callee.next_look()
    }

    /// Whether a completion of this end is to come.
    #[inline]
    pub fn is_pushing(&self) -> bool {
        self.pushing > 0
    }

    /// Handles the successful completion with id `wr_id`, of this end's kind: a pushed result has left its slot.
    #[inline]
    pub fn completed(&mut self, wr_id: u64) {
        self.pushing -= 1;
        self.callee.pushed((wr_id & WHICH) as usize);
    }
}

impl<P: Provider, G: Guards> Drop for FetchServer<P, G> {
    fn drop(&mut self) {
        if let Some(pushed) = &self.pushed {
            self.ctx.forget_region(pushed);
        }
    }
}
