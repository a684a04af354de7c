//! Finding requests: one line per client and sweep, and now and then a look at every slot.
//!
//! ```text
//! sweep:   for each hot lane, from where the last one stopped:      (cold lanes: an eighth of them per sweep)
//!            while the slot whose turn it is has news and the client's quota and the batch have room: take it
//! around:  for each lane: every slot. Finds retransmissions (their turn is over) and requests behind a lost one.
//! ```
//! A look around comes after 64 sweeps (more for large windows), before a worker says that it is idle, and
//! skips clients that were served since the last one.

use super::clients::Client;
use super::intake::{TORN_NS_MAX, Taken};
use super::options::Flaw;
use super::worker::Worker;
use crate::control::Format;
use crate::layout::Commit;
use drover_base::{Cost, Cpu, Ns};
use drover_verbs::Provider;

/// One look at one slot.
const POLL: Cost = Cost::new("herd.poll");
/// Looks around without a find after which a lane is cold: about a thousand sweeps.
const QUIET_MAX: u16 = 16;
/// Slots whose lines are asked for at once.
const LOOK_AHEAD: usize = 8;
/// A cold lane is polled in one sweep of so many.
const COLD_SHARE: usize = 8;

/// Which lanes a look around includes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// Those that were silent since the last one.
    Silent,
    /// All.
    All,
}

impl<P: Provider> Worker<P> {
    /// One sweep into intake `at`. Stops when that is full; the next sweep goes on behind the last lane served.
    #[inline(always)]
    pub(super) fn sweep(&mut self, cpu: &P::Cpu, at: usize) {
        self.sweeps = self.sweeps.wrapping_add(1);
        let hot = self.clients.hot;
        cpu.charge(POLL, hot as u32);
        let mut index = if self.cursor < hot { self.cursor } else { 0 };
        for _ in 0..hot {
            let lane = &self.clients.lanes[index];
            if lane.slots.load(lane.commit_at) != lane.seen {
                self.serve(cpu, at, index);
                if self.intakes[at].is_full() {
                    self.cursor = index + 1;
                    return;
                }
            }
            index += 1;
            if index == hot {
                index = 0;
            }
        }
        if self.clients.lanes.len() > hot {
            self.sweep_cold(cpu, at);
        }
        if self.sweeps & self.around_mask == 0 {
            self.look_around(cpu, at, Around::Silent);
        }
    }

    /// Polls an eighth of the cold lanes.
    #[inline(never)]
    fn sweep_cold(&mut self, cpu: &P::Cpu, at: usize) {
        let cold = self.clients.lanes.len() - self.clients.hot;
        let share = cold.div_ceil(COLD_SHARE);
        cpu.charge(POLL, share as u32);
        for _ in 0..share {
            if self.intakes[at].is_full() {
                return;
            }
            self.cold_cursor += 1;
            let mut index = self.clients.hot + self.cold_cursor % cold;
            if index >= self.clients.lanes.len() {
                index = self.clients.hot;
            }
            if index >= self.clients.lanes.len() {
                return; // all have become hot
            }
            let lane = &self.clients.lanes[index];
            if lane.slots.load(lane.commit_at) != lane.seen {
                self.serve(cpu, at, index);
                self.clients.heat(index);
            }
        }
    }

    /// Takes requests of lane `index`, in turn, as far as quota and intake allow.
    #[inline(always)]
    fn serve(&mut self, cpu: &P::Cpu, at: usize, index: usize) {
        let Some((lane, client)) = self.clients.lane_and_client(index) else {
            return;
        };
        if client.format == Format::P {
            return self.serve_paper(cpu, at, index);
        }
        let intake = &mut self.intakes[at];
        let mut left = client.quota;
        // Where one request stands there are often more, each in a line of the client's cache: ask for all at
        // once instead of waiting for one after the other. If nothing new is there the line is ours already.
        for ahead in 1..left.min(LOOK_AHEAD) {
            let slot = (client.turn.slot + ahead as u32) & (client.window - 1);
            lane.slots.prefetch(cpu, client.commit_at(slot));
        }
        loop {
            let word = lane.slots.load(lane.commit_at);
            if word == lane.seen {
                break;
            }
            let (slot, commit) = (client.turn.slot, Commit(word));
            match intake.take(
                client,
                &lane.slots,
                slot,
                lane.commit_at,
                commit,
                &mut self.counters,
            ) {
                Taken::New => {
                    let taken = intake.requests.last().expect("just pushed");
                    self.partition.prefetch_bucket(cpu, taken.hash, false);
                    client.advance(lane, commit);
                    left -= 1;
                    if left == 0 || intake.is_full() {
                        break;
                    }
                }
                Taken::Again => {
                    client.aim(lane); // the turn of what follows in this slot is still to come
                    break;
                }
                Taken::Noted => client.aim(lane),
                Taken::Torn => {
                    if torn_too_long(client, slot, commit, self.now) {
                        self.counters.crc_dropped += 1;
                        client.aim(lane);
                    }
                    return;
                }
            }
        }
        lane.served = true;
        client.torn_since = Ns::MAX;
    }

    /// Looks at every slot of the lanes that `which` says. Returns whether anything was found.
    #[inline(never)]
    pub(super) fn look_around(&mut self, cpu: &P::Cpu, at: usize, which: Around) -> bool {
        if self.options.flaw == Some(Flaw::NeverLooksAround) {
            return false;
        }
        let before = self.intakes[at].requests.len();
        let mut index = 0;
        while index < self.clients.lanes.len() && !self.intakes[at].is_full() {
            let lane = &mut self.clients.lanes[index];
            let silent = !std::mem::take(&mut lane.served);
            if which == Around::All || (silent && index < self.clients.hot) {
                self.look_at_all_slots(cpu, at, index);
            }
            self.note_silence(index, silent);
            index += 1;
        }
        self.intakes[at].requests.len() > before
    }

    /// Counts looks around that a lane was silent for; moves it between hot and cold.
    fn note_silence(&mut self, index: usize, silent: bool) {
        let lane = &mut self.clients.lanes[index];
        if !silent || lane.served {
            lane.quiet = 0;
            self.clients.heat(index);
            return;
        }
        lane.quiet = lane.quiet.saturating_add(1);
        // One or two lanes are not worth telling apart.
        if lane.quiet >= QUIET_MAX && self.clients.lanes.len() > COLD_SHARE {
            self.clients.cool(index);
        }
    }

    fn look_at_all_slots(&mut self, cpu: &P::Cpu, at: usize, index: usize) {
        let Some((lane, client)) = self.clients.lane_and_client(index) else {
            return;
        };
        if client.format == Format::P {
            // Requests of the paper's format carry no number: only turns tell them apart.
            return self.serve_paper(cpu, at, index);
        }
        cpu.charge(POLL, client.window);
        let intake = &mut self.intakes[at];
        let mut turn = client.turn;
        for _ in 0..client.window {
            if intake.is_full() {
                break;
            }
            let slot = turn.slot;
            let commit_at = client.commit_at(slot);
            let commit = Commit(lane.slots.load(commit_at));
            if commit.0 != client.states[slot as usize].last_commit() {
                match intake.take(client, &lane.slots, slot, commit_at, commit, &mut self.counters) {
                    Taken::New | Taken::Again => {
                        lane.served = true;
                        let taken = intake.requests.last().expect("just pushed");
                        self.partition.prefetch_bucket(cpu, taken.hash, false);
                        self.counters.out_of_turn += u64::from(slot != client.turn.slot);
                        client.turn = client.turn.skip_done(&client.states);
                    }
                    Taken::Noted => {}
                    Taken::Torn => {
                        if torn_too_long(client, slot, commit, self.now) {
                            self.counters.crc_dropped += 1;
                        }
                    }
                }
            }
            turn = turn.next(client.window);
        }
        client.aim(lane);
    }
}

/// Whether a torn request is given up: then its word is no news any more, and a retransmission is waited for.
#[cold]
fn torn_too_long<P: Provider>(client: &mut Client<P>, slot: u32, commit: Commit, now: Ns) -> bool {
    if client.torn_since == Ns::MAX {
        client.torn_since = now;
    }
    let given_up = now.since(client.torn_since) >= TORN_NS_MAX;
    if given_up {
        client.states[slot as usize].note(commit);
        client.torn_since = Ns::MAX;
    }
    given_up
}
