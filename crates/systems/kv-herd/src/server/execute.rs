//! Executing requests on the worker's partition, and building their replies.
//!
//! Nearly all are GETs and PUTs, many of one client in a row: [`StepCx`] executes them in straight-line code.
//! [`execute_any`](Worker::execute_any) executes all others.

use super::clients::Client;
use super::intake::Request;
use super::reply::Replies;
use super::stats::Counters;
use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::costs::{EXECUTE, GET, GET_HASHED, PUT};
use crate::layout::{ReplyImm, SlotOp, Status};
use drover_base::Cpu;
use drover_mem::Region;
use drover_slots::server::{About, Act, Turn};
use drover_store::{Key, Partition, PutOutcome, ValueRef};
use drover_verbs::{Provider, UdDest};

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Executes the requests in intake `at`, in order, and adds their replies to the list, which is not posted.
    #[inline(always)]
    pub(super) fn execute_all(&mut self, cpu: &P::Cpu, at: usize) {
        self.refuse_unserved(cpu, at);
        let mut k = 0;
        loop {
            k = self.execute_gets_and_puts(cpu, at, k);
            if k >= self.intakes[at].requests.len() {
                return;
            }
            self.execute_any(cpu, at, k);
            k += 1;
        }
    }

    /// As [`execute_all`](Worker::execute_all), for the only request in intake `at`: in straight-line code.
    #[inline(always)]
    pub(super) fn execute_only(&mut self, cpu: &P::Cpu, at: usize) {
        self.refuse_unserved(cpu, at);
        let Some(request) = self.intakes[at].requests.all().first() else {
            return;
        };
        match request.about.get_or_put() {
            Some(SlotOp::Get) if self.variant.paper_format() && request.about.key_len() == 0 => {
                let Some((mut cx, request, client)) = self.step_cx(at, 0) else {
                    return;
                };
                let dest = client.dest;
                cx.get::<true>(cpu, request, client, &dest);
            }
            Some(op) => self.get_or_put(cpu, at, 0, op, 0),
            None => self.execute_any(cpu, at, 0),
        }
    }

    /// What request `k` of intake `at` and its client are executed with; `None` if the client is gone.
    #[inline(always)]
    fn step_cx(&mut self, at: usize, k: usize) -> Option<(StepCx<'_, P, V>, &Request, &mut Client)> {
        let request = &self.intakes[at].requests.all()[k];
        let client = self.clients.get_mut(request.about.client)?;
        let cx = StepCx {
            partition: &mut self.partition,
            replies: &mut self.replies,
            counters: &mut self.counters,
            now_s: self.clock.now_s(),
        };
        Some((cx, request, client))
    }

    /// Executes unconditional first attempts of GETs and PUTs from request `k` of intake `at` on; returns the number of
    /// the first request that is something else.
    #[inline(never)]
    fn execute_gets_and_puts(&mut self, cpu: &P::Cpu, at: usize, mut k: usize) -> usize {
        cpu.charge(EXECUTE.cost, 1);
        let requests = self.intakes[at].requests.all();
        let mut cx = StepCx {
            partition: &mut self.partition,
            replies: &mut self.replies,
            counters: &mut self.counters,
            now_s: self.clock.now_s(),
        };
        while let Some(first) = requests.get(k) {
            let id = first.about.client;
            let Some(client) = self.clients.get_mut(id) else {
                return k;
            };
            // A copy, so that it stays where it is while replies are built.
            let dest = client.dest;
            let mut run = requests[k..].iter();
            let left = loop {
                let left = run.len();
                match run.next() {
                    Some(request) if request.about.client == id => match request.about.get_or_put() {
                        Some(SlotOp::Get) => cx.get::<false>(cpu, request, client, &dest),
                        Some(SlotOp::Put) => cx.put(cpu, request, client, &dest, 0),
                        _ => return requests.len() - left,
                    },
                    _ => break left,
                }
            };
            k = requests.len() - left;
        }
        k
    }

    /// Executes or answers request `k` of intake `at`, whatever it is.
    #[cold]
    #[inline(never)]
    fn execute_any(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        let about = self.intakes[at].requests.all()[k].about;
        let op = match about.act() {
            Act::Do(op) => op,
            Act::DoIf(_) if self.is_held(about) => {
                return self.answer(about, Status::Retry, &[], true);
            }
            Act::DoIf(op) => op,
            Act::Again(op) => match self.said_before(about, op) {
                Some(status) => return self.answer(about, status, &[], false),
                None => op,
            },
            Act::Say(status) => return self.answer(about, status, &[], true),
            Act::SayAgain(status) => return self.answer(about, status, &[], false),
        };
        match op {
            SlotOp::Get | SlotOp::Put => self.get_or_put(cpu, at, k, op, 0),
            SlotOp::PutTtl => {
                let ttl_s = self.intakes[at].requests.all()[k].ttl_s();
                self.get_or_put(cpu, at, k, op, self.clock.expire_s(ttl_s));
            }
            SlotOp::Delete => self.delete(cpu, at, k),
            SlotOp::Nop => {
                self.counters.operations.nops += 1;
                self.answer(about, Status::Ok, &[], true);
            }
            SlotOp::PutBulk | SlotOp::PutBulkExt => self.put_bulk(cpu, at, k, op),
            SlotOp::GetBulk | SlotOp::GetBulkExt => self.get_bulk(cpu, at, k, op),
            SlotOp::GetExt => self.get_extended(cpu, at, k),
            SlotOp::PutExt => self.put_extended(cpu, at, k),
            SlotOp::DeleteExt => self.delete_extended(cpu, at, k),
            SlotOp::Touch => self.touch(cpu, at, k),
        }
    }

    /// Executes request `k` of intake `at`, a GET, or else a PUT of an item that expires at `expire_s`.
    #[inline(always)]
    fn get_or_put(&mut self, cpu: &P::Cpu, at: usize, k: usize, op: SlotOp, expire_s: u32) {
        let Some((mut cx, request, client)) = self.step_cx(at, k) else {
            return;
        };
        let dest = client.dest;
        match op {
            SlotOp::Get => cx.get::<false>(cpu, request, client, &dest),
            _ => cx.put(cpu, request, client, &dest, expire_s),
        }
    }

    fn delete(&mut self, cpu: &P::Cpu, at: usize, k: usize) {
        let request = &self.intakes[at].requests.all()[k];
        let about = request.about;
        let found = self.partition.delete(cpu, key_of(request), self.clock.now_s());
        self.counters.operations.deletes += 1;
        self.counters.operations.delete_hits += u64::from(found);
        let status = if found { Status::Ok } else { Status::NotFound };
        self.answer(about, status, &[], true);
    }

    /// Whether a conditional request must be refused. If so, conditional requests less than a window behind it must be
    /// refused, too.
    fn is_held(&mut self, about: About) -> bool {
        let Some(client) = self.clients.get_mut(about.client) else {
            return false;
        };
        let position = position_of(about, client.stripe.window());
        let held = client.hold.holds(position, client.stripe.window())
            && !self.variant.makes(Mistake::IgnoresConditions);
        if held && !self.variant.makes(Mistake::ForgetsRefusals) {
            client.hold.note(position);
        }
        held
    }

    /// The status to answer a retransmission with; `None` if the request is to be executed again: see
    /// [`SlotState::again`](drover_slots::server::SlotState::again).
    fn said_before(&mut self, about: About, op: SlotOp) -> Option<Status> {
        let client = self.clients.get(about.client)?;
        let status = client.states[usize::from(about.slot)].again(op);
        self.counters.refused.stale_epoch += u64::from(status == Some(Status::StaleEpoch));
        status
    }

    /// Adds a reply to the list, and records its status as the request's result if `news`: it is the first answer, or
    /// the request was executed again. Does nothing if the client is gone.
    pub(super) fn answer(&mut self, about: About, status: Status, payload: &[u8], news: bool) {
        let epoch;
        let payload = match status {
            Status::Elsewhere => {
                epoch = self.epoch().to_le_bytes();
                &epoch
            }
            _ => payload,
        };
        let Some(client) = self.clients.get_mut(about.client) else {
            return;
        };
        if news {
            client.states[usize::from(about.slot)].finish(status);
        }
        let space = self
            .replies
            .push(&client.dest, imm_of(about, status), payload.len());
        space.copy_from_slice(payload);
    }
}

/// The parts of a worker that execute a GET or PUT, and the time.
struct StepCx<'w, P: Provider, V: Variant> {
    partition: &'w mut Partition<V::Sharing>,
    replies: &'w mut Replies<P, V>,
    counters: &'w mut Counters,
    now_s: u32,
}

impl<P: Provider, V: Variant> StepCx<'_, P, V> {
    /// Executes a GET, and adds its reply, which goes to `dest`, the client's address. `HASHED` says that its key is known to
    /// be only a hash.
    #[inline(always)]
    fn get<const HASHED: bool>(
        &mut self,
        cpu: &P::Cpu,
        request: &Request,
        client: &mut Client,
        dest: &UdDest,
    ) {
        cpu.charge(if HASHED { GET_HASHED.cost } else { GET.cost }, 1);
        self.counters.operations.gets += 1;
        let (key, hint) = (key_of(request), request.hint);
        let found = match HASHED {
            true => self.partition.get_hash_hinted(cpu, key.hash, self.now_s, hint),
            false => self.partition.get_hinted(cpu, key, self.now_s, hint),
        };
        let Some(item) = found else {
            reply(self.replies, request.about, client, dest, Status::NotFound, 0);
            return;
        };
        self.counters.operations.get_hits += 1;
        let (len, imm) = (item.value_len(), imm_of(request.about, Status::Ok));
        if len <= client.stripe.inline_bytes_max()
            && let Some(space) = self.replies.push_short(dest, imm, len)
        {
            client.states[usize::from(request.about.slot)].finish(Status::Ok);
            return item.value().copy_out(space);
        }
        long_value(
            cpu,
            client,
            self.replies,
            item.value(),
            request.about,
            self.counters,
        );
    }

    /// Executes a PUT, and adds its reply.
    #[inline(always)]
    fn put(&mut self, cpu: &P::Cpu, request: &Request, client: &mut Client, dest: &UdDest, expire_s: u32) {
        cpu.charge(PUT.cost, 1);
        self.counters.operations.puts += 1;
        let (key, value) = (key_of(request), request.value());
        let outcome = self
            .partition
            .put_hinted(cpu, key, value, expire_s, self.now_s, request.hint);
        reply(self.replies, request.about, client, dest, put_status(outcome), 0);
    }
}

/// Records the result of a request and adds its reply; returns the space for the payload of `len` bytes.
#[inline(always)]
fn reply<'r, P: Provider, V: Variant>(
    replies: &'r mut Replies<P, V>,
    about: About,
    client: &mut Client,
    dest: &UdDest,
    status: Status,
    len: usize,
) -> &'r mut [u8] {
    client.states[usize::from(about.slot)].finish(status);
    replies.push(dest, imm_of(about, status), len)
}

#[inline(always)]
pub(super) fn key_of(request: &Request) -> Key<'_> {
    Key {
        hash: request.hash(),
        bytes: request.key(),
    }
}

#[inline(always)]
pub(super) fn imm_of(about: About, status: Status) -> ReplyImm {
    ReplyImm::new(status, usize::from(about.slot), about.seq())
}

/// Position of a request among those of its client to this partition: see [`Turn::position`].
pub(super) fn position_of(about: About, window: u32) -> u32 {
    let turn = Turn {
        slot: u32::from(about.slot),
        seq: about.seq(),
    };
    turn.position(window)
}

/// Records the result of a GET whose value is not short, and adds its reply: the value, inline or copied to registered
/// memory; `Retry` if none of that is free; or, if the value is too long for any reply, `Bulk` and its length.
#[inline(never)]
fn long_value<P: Provider, V: Variant>(
    cpu: &P::Cpu,
    client: &mut Client,
    replies: &mut Replies<P, V>,
    value: ValueRef<'_>,
    about: About,
    counters: &mut Counters,
) {
    let len = value.len();
    let long = len > client.stripe.body_bytes_max();
    let state = &mut client.states[usize::from(about.slot)];
    if len <= client.stripe.inline_bytes_max() {
        state.finish(Status::Ok);
        return value.copy_out(replies.push(&client.dest, imm_of(about, Status::Ok), len));
    }
    if !long {
        let fill = |region: &Region, at| value.copy_to(region, at);
        if let Some(payload) = replies.long_payload(cpu, len, counters, fill) {
            state.finish(Status::Ok);
            return replies.push_long(client.dest, imm_of(about, Status::Ok), payload);
        }
    }
    // The client asks again, behind what it posted on this key meanwhile: that must not execute now.
    client.hold.note(position_of(about, client.stripe.window()));
    counters.operations.gets -= 1; // it counts then
    counters.operations.get_hits -= 1;
    let bytes = (len as u32).to_le_bytes();
    let (status, payload) = match long {
        true => (Status::Bulk, &bytes[..]),
        false => (Status::Retry, &[][..]),
    };
    state.finish(status);
    let space = replies.push(&client.dest, imm_of(about, status), payload.len());
    space.copy_from_slice(payload);
}

/// The status with which a PUT of this outcome is answered.
#[inline(always)]
pub(super) fn put_status(outcome: PutOutcome) -> Status {
    match outcome {
        PutOutcome::Stored { .. } => Status::Ok,
        PutOutcome::Full => Status::Full,
        PutOutcome::TooLarge => Status::TooLarge,
        PutOutcome::Present { .. } => Status::Exists,
        PutOutcome::Absent => Status::NotFound,
    }
}
