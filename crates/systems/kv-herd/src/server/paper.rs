//! Taking requests of format P, that of HERD's paper: `value, len u16, key hash`, right-aligned. A slot whose last
//! byte, which belongs to the hash, is not 0 contains a request.
//!
//! The server zeroes length (a GET does not write it) and hash *when it takes the request*, not after the reply as the
//! paper words it: otherwise it would find the request again when the window wraps. A request carries no number, so
//! only turns distinguish requests, and a lost one is not sent again: its client gives it up after a while and asks
//! what became of it. Then its turn is skipped and its slot cleared, so that it is not taken for the next request
//! there.

use super::variant::Variant;
use super::worker::Worker;
use crate::costs::TAKE_PAPER;
use crate::layout::{SlotOp, paper};
use drover_base::sync::{Ordering, fence};
use drover_base::{Cpu, KeyHash};
use drover_slots::server::{About, Act};
use drover_verbs::Provider;

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Takes requests of format P from lane `index`, in turn, as far as the client's quota and the space in intake `at`
    /// allow.
    #[inline(never)]
    pub(super) fn serve_paper(&mut self, cpu: &P::Cpu, at: usize, index: usize) {
        let Some((lane, client)) = self.clients.lane_and_client(index) else {
            return;
        };
        let intake = &mut self.intakes[at];
        let window = client.stripe.window();
        let mut left = client.quota.min(intake.requests.space());
        while left > 0 {
            // The last words of the slot: its last one is that of a line.
            let end = lane.slots.place(lane.commit_at - 16);
            let word = end.load(16);
            if word >> 56 == 0 {
                break; // Bytes land left to right: until the last one is there, nothing is.
            }
            // Acquire: as for a commit word of format D.
            fence(Ordering::Acquire);
            let hash = KeyHash {
                low: end.load(8),
                high: word,
            };
            let len = (end.load(0) >> 48) as usize;
            cpu.charge(TAKE_PAPER.cost, 1);
            let act = paper::judge(intake.share, hash, len, client.stripe.slot_bytes() as usize);
            let value_len = match act {
                Act::Do(SlotOp::Put) => len,
                _ => 0,
            };
            let (turn, lens) = (client.turn, (0, value_len));
            let about = About::new(client.id, turn.slot as u8, turn.seq, lens, act);
            let value_end = lane.commit_at + 8 - paper::TRAILER_BYTES as u64;
            intake.requests.free()[0].copy_paper(&lane.slots, value_end, hash, about);
            intake.requests.add(1);
            paper::clear(end);
            // Should its client ask what became of it.
            client.states[turn.slot as usize].take_in_turn(turn.seq);
            match act {
                Act::Say(status) => self.counters.refused.note(status),
                _ => self.partition.prefetch_bucket(cpu, hash, len > 0),
            }
            client.turn = turn.next(window).skip_done(&client.states);
            client.aim(lane);
            left -= 1;
            lane.served = true;
        }
    }
}
