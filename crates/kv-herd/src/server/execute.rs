//! Executing one request on the worker's partition, and building its reply.

use super::clients::Client;
use super::intake::{Act, Request};
use super::worker::Worker;
use crate::layout::{ReplyImm, SlotOp, Status};
use drover_store::{ItemRef, Key, PutOutcome};
use drover_verbs::{MemoryRegion, Payload, Provider, SendList};

impl<P: Provider> Worker<P> {
    /// Executes `request`, whose bytes are in intake `at`, and adds its reply to the list.
    #[inline(always)]
    pub(super) fn execute(&mut self, cpu: &P::Cpu, at: usize, request: &Request) {
        match request.act {
            Act::Do(SlotOp::Get) => self.get(cpu, at, request),
            Act::Do(SlotOp::Put) => self.put(cpu, at, request, 0),
            _ => self.execute_other(cpu, at, request),
        }
    }

    #[inline(never)]
    fn execute_other(&mut self, cpu: &P::Cpu, at: usize, request: &Request) {
        let op = match request.act {
            Act::Do(op) => op,
            Act::Again(op) => match self.said_before(request, op) {
                Some(status) => return self.answer(request, status, Payload::EMPTY, false),
                None => op,
            },
            Act::Say(status) => return self.answer(request, status, Payload::EMPTY, true),
            Act::SayAgain(status) => return self.answer(request, status, Payload::EMPTY, false),
        };
        match op {
            SlotOp::Get => self.get(cpu, at, request),
            SlotOp::Put => self.put(cpu, at, request, 0),
            SlotOp::PutTtl => {
                let expire_s = self.expire_s(self.intakes[at].ttl_s(request));
                self.put(cpu, at, request, expire_s);
            }
            SlotOp::Delete => {
                let key = self.intakes[at].key(request);
                let found = self.partition.delete(
                    cpu,
                    Key {
                        hash: request.hash,
                        bytes: key,
                    },
                    self.now_s,
                );
                self.counters.deletes += 1;
                self.counters.delete_hits += u64::from(found);
                let status = if found { Status::Ok } else { Status::NotFound };
                self.answer(request, status, Payload::EMPTY, true);
            }
            SlotOp::Nop => {
                self.counters.nops += 1;
                self.answer(request, Status::Ok, Payload::EMPTY, true);
            }
            SlotOp::PutBulk => self.put_bulk(cpu, at, request),
            SlotOp::GetBulk => self.get_bulk(cpu, at, request),
        }
    }

    /// What was answered to this request the first time, if it must not be executed again.
    fn said_before(&mut self, request: &Request, op: SlotOp) -> Option<Status> {
        let client = self.clients.get(request.client)?;
        let status = client.states[usize::from(request.slot)].again(op);
        self.counters.stale_epoch += u64::from(status == Some(Status::StaleEpoch));
        status
    }

    /// When something stored now with `ttl_s` expires, in seconds since the server started.
    pub(super) fn expire_s(&self, ttl_s: u32) -> u32 {
        if ttl_s == 0 {
            0
        } else {
            self.now_s.saturating_add(ttl_s)
        }
    }

    #[inline(always)]
    fn get(&mut self, cpu: &P::Cpu, at: usize, request: &Request) {
        let Some(client) = self.clients.get_mut(request.client) else {
            return;
        };
        self.counters.gets += 1;
        let key = Key {
            hash: request.hash,
            bytes: self.intakes[at].key(request),
        };
        let mut payload = Payload::EMPTY;
        let mut status = Status::NotFound;
        if let Some(item) = self.partition.get(cpu, key, self.now_s) {
            self.counters.get_hits += 1;
            let len = item.value_len();
            if len <= client.inline_bytes_max {
                status = Status::Ok;
                payload = self.replies.list.inline_with(len, |out| {
                    item.copy_value(out);
                });
            } else {
                (status, payload) =
                    long_value(client, &mut self.replies.list, &item, usize::from(request.slot));
            }
        }
        client.states[usize::from(request.slot)].finish(status);
        let imm = ReplyImm::new(status, usize::from(request.slot), request.seq);
        self.replies.push(client.dest, imm, payload);
    }

    #[inline(always)]
    fn put(&mut self, cpu: &P::Cpu, at: usize, request: &Request, expire_s: u32) {
        self.counters.puts += 1;
        let intake = &self.intakes[at];
        let key = Key {
            hash: request.hash,
            bytes: intake.key(request),
        };
        let outcome = self
            .partition
            .put(cpu, key, intake.value(request), expire_s, self.now_s);
        self.answer(request, put_status(outcome), Payload::EMPTY, true);
    }

    /// Adds the reply; remembers how the request ended if that was `news`.
    #[inline(always)]
    pub(super) fn answer(&mut self, request: &Request, status: Status, payload: Payload, news: bool) {
        let Some(client) = self.clients.get_mut(request.client) else {
            return;
        };
        if news {
            client.states[usize::from(request.slot)].finish(status);
        }
        let imm = ReplyImm::new(status, usize::from(request.slot), request.seq);
        let dest = client.dest;
        self.replies.push(dest, imm, payload);
    }
}

/// The payload of a value that cannot be inline: in the reply area, or only its length.
#[cold]
#[inline(never)]
fn long_value<P: Provider>(
    client: &Client<P>,
    list: &mut SendList,
    item: &ItemRef<'_>,
    slot: usize,
) -> (Status, Payload) {
    let len = item.value_len();
    match client.area_piece(slot) {
        Some((area, piece)) if len <= client.body_bytes_max => {
            item.copy_value_to(area.region(), piece);
            (Status::Ok, Payload::Region(area.sge(piece, len)))
        }
        _ => (Status::Bulk, list.inline(&(len as u32).to_le_bytes())),
    }
}

/// How a PUT's outcome is told.
#[inline(always)]
pub(super) fn put_status(outcome: PutOutcome) -> Status {
    match outcome {
        PutOutcome::Stored { .. } => Status::Ok,
        PutOutcome::Full => Status::Full,
        PutOutcome::TooLarge => Status::TooLarge,
        // Ours are unconditional.
        PutOutcome::Present { .. } | PutOutcome::Absent => Status::BadRequest,
    }
}
