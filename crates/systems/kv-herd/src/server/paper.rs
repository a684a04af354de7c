//! Taking requests of format P, that of HERD's paper: `value, len u16, key hash`, right-aligned. A slot whose last
//! byte, which belongs to the hash, is not 0 contains a request.
//!
//! The server zeroes length (a GET does not write it) and hash *when it takes the request*, not after the reply as the
//! paper words it: otherwise it would find the request again when the window wraps. A request carries no number, so
//! only turns distinguish requests, and a lost one is not sent again: its client gives it up after a while and asks
//! what became of it. Then its turn is skipped and its slot cleared, so that it is not taken for the next request
//! there.

use super::clients::{Client, Lane};
use super::intake::{Intake, Request};
use super::stats::Counters;
use super::variant::Variant;
use crate::costs::TAKE_PAPER;
use crate::layout::{SlotOp, paper};
use drover_base::sync::{Ordering, fence};
use drover_base::{Cpu, KeyHash};
use drover_slots::server::{About, Act, Share};
use drover_store::Partition;

/// Takes requests of format P from a client's slots, in turn, as far as the client's quota and the space in the intake
/// allow.
#[inline(always)]
pub(super) fn take_paper<C: Cpu, V: Variant>(
    cpu: &C,
    partition: &Partition<V::Sharing>,
    intake: &mut Intake<V>,
    client: &mut Client,
    lane: &mut Lane,
    counters: &mut Counters,
) {
    let most = client.quota.min(intake.requests.space());
    for _ in 0..most {
        if !take_next(cpu, partition, intake, client, lane, counters) {
            return;
        }
    }
}

/// Takes the request whose turn it is, if it is there and there is space for it in the intake; else returns false.
#[inline(never)]
fn take_next<C: Cpu, V: Variant>(
    cpu: &C,
    partition: &Partition<V::Sharing>,
    intake: &mut Intake<V>,
    client: &mut Client,
    lane: &mut Lane,
    counters: &mut Counters,
) -> bool {
    let Some(place) = intake.requests.next_free() else {
        return false;
    };
    // The last words of the slot: its last one is that of a line.
    let end = lane.slots.place(lane.commit_at - 16);
    let word = end.load(16);
    if word >> 56 == 0 {
        return false; // Bytes land left to right: until the last one is there, nothing is.
    }
    // Acquire: as for a commit word of format D.
    fence(Ordering::Acquire);
    let hash = KeyHash {
        low: end.load(8),
        high: word,
    };
    let len = (end.load(0) >> 48) as usize;
    cpu.charge(TAKE_PAPER.cost, 1);
    let turn = client.turn;
    // Most are GETs.
    if len == 0 && paper::owns(intake.share, hash) {
        place.copy_paper_get(hash, client.id, turn.slot as u8, turn.seq);
        partition.prefetch_bucket(cpu, hash, false);
    } else if copy_other(place, intake.share, client, lane, hash, len, counters) {
        partition.prefetch_bucket(cpu, hash, len > 0);
    }
    intake.requests.add_next();
    paper::clear(end);
    // Should its client ask what became of it.
    client.states[turn.slot as usize].take_in_turn(turn.seq);
    client.turn = turn.next(client.stripe.window()).skip_done(&client.states);
    // The word there without a request is 0, whichever slot it is: no commit word is ever noted.
    lane.commit_at = client.stripe.commit_at(client.turn.slot);
    lane.served = true;
    true
}

/// Copies a request that is no GET to be executed. Returns whether it is to be executed.
#[inline(never)]
fn copy_other(
    place: &mut Request,
    share: Share,
    client: &Client,
    lane: &Lane,
    hash: KeyHash,
    len: usize,
    counters: &mut Counters,
) -> bool {
    let act = paper::judge(share, hash, len, client.stripe.slot_bytes() as usize);
    let value_len = match act {
        Act::Do(SlotOp::Put) => len,
        _ => 0,
    };
    let turn = client.turn;
    let about = About::new(client.id, turn.slot as u8, turn.seq, (0, value_len), act);
    let value_end = lane.commit_at + 8 - paper::TRAILER_BYTES as u64;
    place.copy_paper(&lane.slots, value_end, hash, about);
    if let Act::Say(status) = act {
        counters.refused.note(status);
        return false;
    }
    true
}
