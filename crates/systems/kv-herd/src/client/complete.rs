//! Handling completions: of RECVs with replies, of requests, of bulk transfers.

use super::session::Session;
use super::{HerdClient, RequestFormat, Sink, bulk};
use crate::layout::{Commit, ItemInfo, ReplyImm, SlotOp, Status};
use drover_base::Cpu;
use drover_kv::{Completion, Outcome, Refusal, Token};
use drover_slots::client::{SlotPhase, TICK, answered, outcome_of_update};
use drover_verbs::{Opcode, Provider, Qpn, Wc, WcStatus};
use std::hint::cold_path;

/// Most completions taken per poll of the completion queue.
const POLL_MAX: usize = 32;
/// One request of each slot in this many is a sample of the round trip.
const SAMPLE_EVERY: u32 = 64;

/// Buffers for the completions of one poll, and for the value of one reply.
pub(super) struct Received {
    pub(super) wcs: Box<[Wc; POLL_MAX]>,
    /// Buffer for the value of one reply.
    pub(super) value: Box<[u8; 1024]>,
}

impl Received {
    pub(super) fn new() -> Received {
        Received {
            wcs: Box::new([Wc::default(); POLL_MAX]),
            value: Box::new([0; 1024]),
        }
    }
}

/// Op of the request and status of the reply in one number, for one comparison instead of two.
#[inline(always)]
fn usual(commit: Commit, imm: ReplyImm) -> u32 {
    (commit.0 >> 52) as u32 & 0xf0 | imm.0 >> 28
}

const fn pair(op: SlotOp, status: Status) -> u32 {
    (op as u32) << 4 | status as u32
}

const GET_OK: u32 = pair(SlotOp::Get, Status::Ok);
const GET_MISS: u32 = pair(SlotOp::Get, Status::NotFound);
const PUT_OK: u32 = pair(SlotOp::Put, Status::Ok);
const PUT_TTL_OK: u32 = pair(SlotOp::PutTtl, Status::Ok);
const DELETE_OK: u32 = pair(SlotOp::Delete, Status::Ok);
const DELETE_MISS: u32 = pair(SlotOp::Delete, Status::NotFound);

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Handles the completions of the last poll from index `from` on, as long as they are replies that simply complete
    /// small operations. Returns how many it handled; the next one, up to `count`, is another kind of completion.
    #[inline(always)]
    pub(super) fn complete_small_replies(
        &mut self,
        cpu: &P::Cpu,
        from: usize,
        count: usize,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> usize {
        let wcs = self.received.wcs.get(from..count).unwrap_or_default();
        let Some(session) = self.session.as_deref_mut() else {
            return wcs.len();
        };
        let Session {
            window,
            routes,
            receive,
            ..
        } = session;
        let mut done = 0;
        // The sender of the previous reply, and the slots of its partition.
        let (mut sender, mut lane) = (Qpn::default(), &mut [][..]);
        for wc in wcs {
            if !wc.is_received() {
                break;
            }
            if wc.src_qpn != sender {
                let Some(partition) = routes.partition_of(wc.src_qpn.0) else {
                    break;
                };
                (sender, lane) = (wc.src_qpn, window.lane_mut(partition));
            }
            let Some(imm) = wc.imm.map(|imm| ReplyImm(imm.0)) else {
                break;
            };
            let Some(slot) = answered(lane, imm) else {
                break;
            };
            let what = usual(slot.commit, imm);
            // The most frequent case is checked first, by a branch, not by a table of jumps.
            let (outcome, write) = if what == GET_OK {
                match receive.payload(wc, &mut self.received.value[..]) {
                    Some(value) => (Outcome::Value(value), false),
                    None => break,
                }
            } else {
                cold_path();
                match what {
                    GET_MISS => (Outcome::NotFound, false),
                    DELETE_MISS => (Outcome::NotFound, true),
                    PUT_OK | PUT_TTL_OK => (Outcome::Stored, true),
                    DELETE_OK => (Outcome::Deleted, true),
                    _ => break,
                }
            };
            if slot.commit.seq().is_multiple_of(SAMPLE_EVERY) && slot.tries == 0 {
                self.timers.rto_mut().sample(cpu.now().since(slot.sent));
            }
            slot.phase = SlotPhase::Free;
            self.conflicts.remove(slot.hash, write);
            self.waiting.ended(slot.hash);
            done += 1;
            sink(Completion {
                token: slot.token,
                outcome,
            });
        }
        window.freed(done);
        receive.done(done);
        self.tally.ended(done);
        done
    }

    /// Handles completion `i` of the last poll, whatever it is.
    #[cold]
    pub(super) fn complete_any(&mut self, cpu: &P::Cpu, i: usize, sink: Sink<'_>) {
        let (Some(session), Some(wc)) = (self.session.as_deref_mut(), self.received.wcs.get(i).copied())
        else {
            return;
        };
        if wc.opcode != Opcode::Recv || wc.status != WcStatus::Success {
            return self.complete_send_or_failure(cpu, &wc, sink);
        }
        session.receive.done(1);
        match session.answered(&wc) {
            Some((at, imm)) => self.complete_refusal_or_bulk(cpu, &wc, at, imm, sink),
            None => {
                self.stats.stale_replies += 1;
                self.timers.rto_mut().was_early();
                self.timers.hurry(); // more may stand behind it: this look had a bound
            }
        }
    }

    /// Handles a reply that refuses an operation, or belongs to a bulk transfer.
    #[cold]
    fn complete_refusal_or_bulk(&mut self, cpu: &P::Cpu, wc: &Wc, at: usize, imm: ReplyImm, sink: Sink<'_>) {
        let now = cpu.now();
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        let bulk = slot.commit.op().is_some_and(SlotOp::is_bulk);
        if !bulk {
            self.timers.hurry();
        }
        let refusal = match imm.status() {
            // Sent again as soon as the operations that it was posted behind are complete.
            Some(Status::Retry) if slot.commit.is_conditional() => return self.again(at, now),
            Some(Status::Retry) => return self.again(at, now + TICK),
            Some(Status::WrongPartition) => {
                let server = self.connection.server();
                tracing::warn!(
                    server,
                    slot = at,
                    "the server has other partitions than it told us: connecting anew"
                );
                self.leave_when_idle();
                return self.again(at, now);
            }
            Some(Status::StaleEpoch) => {
                session.window.slot_mut(at).forgotten = true;
                return self.quarantine(at);
            }
            Some(Status::TooLarge) => Refusal::TooLarge,
            Some(Status::Full) => Refusal::Full,
            Some(Status::BadRequest) => Refusal::BadRequest,
            Some(Status::Elsewhere) => {
                let payload = session.receive.payload(wc, &mut self.received.value[..]);
                let epoch = payload.and_then(|bytes| bytes.try_into().ok());
                Refusal::NotServed(epoch.map_or(0, u64::from_le_bytes))
            }
            Some(Status::Bulk) if slot.commit.op().map(SlotOp::base) == Some(SlotOp::Get) => {
                return self.get_is_bulk(wc, at);
            }
            Some(Status::Ok | Status::NotFound | Status::Exists | Status::Bulk) if bulk => {
                return self.bulk_answered(cpu, wc, at, imm, sink);
            }
            Some(status @ (Status::Ok | Status::NotFound | Status::Exists)) => {
                return self.complete_extended(wc, at, status, sink);
            }
            Some(Status::Bulk) | None => {
                self.stats.garbage += 1;
                return;
            }
        };
        self.finish_slot(at, Outcome::Refused(refusal), sink);
    }

    /// Completes the extended operation or touch in slot `at`, which was answered with `status`.
    fn complete_extended(&mut self, wc: &Wc, at: usize, status: Status, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let op = session.window.slot(at).commit.op();
        if op != Some(SlotOp::GetExt) {
            return match outcome_of_update(op, Some(status)) {
                Outcome::Indeterminate => self.stats.garbage += 1,
                outcome => self.finish_slot(at, outcome, sink),
            };
        }
        if status == Status::NotFound {
            return self.finish_slot(at, Outcome::NotFound, sink);
        }
        let payload = session.receive.payload(wc, &mut self.received.value[..]);
        let found = payload.filter(|_| status == Status::Ok).and_then(ItemInfo::split);
        let Some((ItemInfo { version, flags }, value)) = found else {
            self.stats.garbage += 1;
            return;
        };
        let mut copy = std::mem::take(&mut self.bulk.value);
        copy.clear();
        copy.extend_from_slice(value);
        let outcome = Outcome::Found {
            value: &copy,
            version,
            flags,
        };
        self.finish_slot(at, outcome, sink);
        self.bulk.value = copy;
    }

    /// Completes the operation in slot `at` with `outcome`, unless its deadline has completed it already, and frees the
    /// slot.
    pub(super) fn finish_slot(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        session.window.release(at);
        if slot.commit.op().is_some_and(SlotOp::is_bulk) {
            return self.finish_bulk(slot.token as usize, outcome, sink);
        }
        self.timers.hurry();
        self.conflicts.remove(slot.hash, slot.commit.is_update());
        if slot.phase != SlotPhase::Ghost {
            self.complete(slot.token, outcome, sink);
        }
    }

    /// Reports the outcome of an operation to the caller, and counts it as complete.
    pub(super) fn complete(&mut self, token: Token, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.tally.ended(1);
        self.stats.indeterminate += u64::from(outcome == Outcome::Indeterminate);
        sink(Completion { token, outcome });
    }

    /// Handles a completion that is no reply: of a signaled request, of a bulk transfer, or of a failure, which ends
    /// the session.
    #[cold]
    fn complete_send_or_failure(&mut self, cpu: &P::Cpu, wc: &Wc, sink: Sink<'_>) {
        match (wc.status, wc.opcode) {
            (WcStatus::Success, _) if bulk::is_bulk(wc.wr_id) => self.bulk_moved(cpu, wc, sink),
            (WcStatus::Success, Opcode::Write | Opcode::Send) => {
                if let Some(session) = &mut self.session {
                    session.sends.has_left(wc.wr_id);
                }
            }
            (WcStatus::Success, _) => self.stats.garbage += 1,
            (status, _) => {
                let server = self.connection.server();
                tracing::debug!(
                    status = status.name(),
                    server,
                    request = wc.wr_id.0,
                    "a request of the session failed"
                );
                if let Some(session) = &mut self.session {
                    session.broken = true;
                }
                self.timers.hurry();
            }
        }
    }
}
