//! Finding requests: one line per client and sweep, and now and then a look at every slot.
//!
//! ```text
//! sweep:   for each hot lane, from where the last one stopped:      (cold lanes: an eighth of them per sweep)
//!            while the slot whose turn it is has a new word and the client's quota and the batch have space: take it
//! around:  for each lane: every slot. Finds retransmissions (their turn is over) and requests behind a lost one.
//! ```
//! A look around comes after 64 sweeps (more for large windows) and then skips clients that were served since the last
//! one; another one comes before a worker reports that it is idle, and skips none.

use super::clients::{Client, Lane};
use super::intake::{Intake, TORN_NS_MAX, Taken};
use super::paper::take_paper;
use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::control::Format;
use crate::costs::{POLL, SWEEP, TAKE};
use crate::layout::Commit;
use drover_base::{Cpu, Ns};
use drover_slots::server::{Found, LookAround};
use drover_store::Partition;
use drover_verbs::Provider;

/// Looks around in a row that find nothing of a client, after which its lane is cold: about a thousand sweeps.
const QUIET_MAX: u16 = 16;
/// Most slots whose lines are prefetched at once.
const LOOK_AHEAD: usize = 8;
/// A cold lane is polled in one sweep out of this many.
const COLD_SHARE: usize = 8;

/// Fewest sweeps between looks around *(our choice)*: then a look costs a quarter of the polls before it.
const AROUND_EVERY: usize = 64;

/// Position of a worker's sweeps among the lanes, and their number.
pub(super) struct Sweeper {
    sweeps: u32,
    /// A look around comes when these bits of `sweeps` are 0.
    around_mask: u32,
    /// Index of the hot lane that the next sweep begins with.
    cursor: usize,
    cold_cursor: usize,
    /// Number of sweeps that filled the intake.
    full: u32,
}

impl Sweeper {
    /// For clients with windows of up to `window_max` slots: looks around come every 64 sweeps, or every `4 *
    /// window_max` if that is more.
    pub(super) fn new(window_max: usize) -> Sweeper {
        Sweeper {
            sweeps: 0,
            around_mask: AROUND_EVERY.max(4 * window_max).next_power_of_two() as u32 - 1,
            cursor: 0,
            cold_cursor: 0,
            full: 0,
        }
    }

    /// Whether the number of the next sweep is odd.
    pub(super) fn next_is_odd(&self) -> bool {
        self.sweeps & 1 == 0
    }

    /// Counts a sweep that is not made.
    pub(super) fn skip(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
    }

    /// Whether a look around follows this sweep.
    #[inline(always)]
    fn looks_around(&self) -> bool {
        self.sweeps & self.around_mask == 0
    }
}

/// Which lanes a look around includes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// The hot lanes of clients from which nothing was taken since the last look.
    Silent,
    /// All lanes.
    All,
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Makes one sweep, which puts requests into intake `at`. It stops when that is full; the next sweep goes on behind
    /// the last lane served.
    #[inline(always)]
    pub(super) fn sweep(&mut self, cpu: &P::Cpu, at: usize) {
        self.sweeper.sweeps = self.sweeper.sweeps.wrapping_add(1);
        let hot = self.clients.hot;
        cpu.charge(SWEEP.cost, 1);
        let cursor = self.sweeper.cursor;
        let mut index = if cursor < hot { cursor } else { 0 };
        let mut left = hot;
        while left > 0 {
            // As far as they are in a row.
            let lanes = &self.clients.lanes[index..hot.min(index + left)];
            let Some(quiet) = lanes.iter().position(Lane::has_news) else {
                cpu.charge(POLL.cost, lanes.len() as u32);
                left -= lanes.len();
                index = 0;
                continue;
            };
            cpu.charge(POLL.cost, quiet as u32 + 1);
            left -= quiet + 1;
            self.serve(cpu, at, index + quiet);
            index += quiet + 1;
            if self.intakes[at].requests.is_full() {
                self.sweeper.cursor = index;
                self.sweeper.full = self.sweeper.full.wrapping_add(1);
                if self.sweeper.full.is_multiple_of(COLD_SHARE as u32) {
                    self.heat_cold(cpu);
                }
                return;
            }
            if index == hot {
                index = 0;
            }
        }
        if self.clients.lanes.len() > hot {
            self.sweep_cold(cpu, at);
        }
        if self.sweeper.looks_around() {
            self.look_around(cpu, at, Around::Silent);
        }
    }

    /// Polls an eighth of the cold lanes, after sweeps that filled the intake; those with requests are hot from now on. Hot
    /// lanes that fill every sweep must not starve the cold ones.
    #[inline(never)]
    fn heat_cold(&mut self, cpu: &P::Cpu) {
        let share = self.cold_share();
        cpu.charge(POLL.cost, share as u32);
        for _ in 0..share {
            let Some(index) = self.next_cold() else { return };
            if self.clients.lanes[index].has_news() {
                self.clients.heat(index);
            }
        }
    }

    /// An eighth of the number of cold lanes, rounded up.
    fn cold_share(&self) -> usize {
        (self.clients.lanes.len() - self.clients.hot).div_ceil(COLD_SHARE)
    }

    /// Index of the cold lane whose turn it is; `None` if there is none.
    fn next_cold(&mut self) -> Option<usize> {
        self.sweeper.cold_cursor = self.sweeper.cold_cursor.wrapping_add(1);
        let nth = self
            .sweeper
            .cold_cursor
            .checked_rem(self.clients.lanes.len() - self.clients.hot)?;
        Some(self.clients.hot + nth)
    }

    /// Polls an eighth of the cold lanes.
    #[inline(never)]
    fn sweep_cold(&mut self, cpu: &P::Cpu, at: usize) {
        let share = self.cold_share();
        cpu.charge(POLL.cost, share as u32);
        for _ in 0..share {
            if self.intakes[at].requests.is_full() {
                return;
            }
            let Some(index) = self.next_cold() else { return };
            if self.clients.lanes[index].has_news() {
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
        let intake = &mut self.intakes[at];
        if self.variant.paper_format() && client.params.format == Format::P {
            return take_paper(cpu, &self.partition, intake, client, lane, &mut self.counters);
        }
        let mut left = client.quota.min(intake.requests.space());
        look_ahead(cpu, client, lane, left.min(usize::from(lane.run)));
        let space = left;
        loop {
            // Straight through what is usual; then one look at what stopped that.
            left -= take_plain_run(cpu, &self.partition, intake, client, lane, left);
            let word = lane.slots.load(lane.commit_at);
            if left == 0 || word == lane.seen {
                break;
            }
            let found = Found {
                slots: &lane.slots,
                slot: client.turn.slot,
                commit_at: lane.commit_at,
                commit: Commit(word),
            };
            match intake.take(client, found, &mut self.counters) {
                Taken::New => {
                    cpu.charge(TAKE.cost, 1);
                    self.partition
                        .prefetch_bucket(cpu, intake.requests.last_hash(), false);
                    client.advance(lane, Commit(word));
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
                Taken::Again => {
                    client.aim(lane); // the turn of what follows in this slot is still to come
                    break;
                }
                Taken::Noted => {
                    client.aim(lane);
                    left -= 1; // a rogue could write such words without end
                    if left == 0 {
                        break;
                    }
                }
                Taken::Torn => {
                    if torn_too_long(client, found.slot, found.commit, self.clock.now()) {
                        self.counters.irregular.crc_dropped += 1;
                        client.aim(lane);
                    }
                    return;
                }
            }
        }
        lane.served = true;
        // Those behind have a batch's time to come.
        let run = space - left;
        lane.run = run.min(LOOK_AHEAD) as u8;
        lane.slots.prefetch(cpu, lane.commit_at);
        look_ahead(cpu, client, lane, run);
        client.torn_since = Ns::MAX;
    }

    /// Checks every slot of the lanes that `which` selects, until intake `at` is full. Returns whether any request was
    /// put into it.
    #[inline(never)]
    pub(super) fn look_around(&mut self, cpu: &P::Cpu, at: usize, which: Around) -> bool {
        if self.variant.makes(Mistake::NeverLooksAround) {
            return false;
        }
        let before = self.intakes[at].requests.len();
        let mut index = 0;
        while index < self.clients.lanes.len() && !self.intakes[at].requests.is_full() {
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
        let intake = &mut self.intakes[at];
        if self.variant.paper_format() && client.params.format == Format::P {
            // Requests of the paper's format carry no number: only turns distinguish them.
            return take_paper(cpu, &self.partition, intake, client, lane, &mut self.counters);
        }
        cpu.charge(POLL.cost, client.stripe.window());
        let mut around = LookAround::from(client.turn);
        while !intake.requests.is_full() {
            let word = |slot| lane.slots.load(client.stripe.commit_at(slot));
            let Some((slot, commit)) = around.next(client.turn, &client.states, word) else {
                break;
            };
            let commit_at = client.stripe.commit_at(slot);
            let found = Found {
                slots: &lane.slots,
                slot,
                commit_at,
                commit,
            };
            match intake.take(client, found, &mut self.counters) {
                Taken::New | Taken::Again => {
                    cpu.charge(TAKE.cost, 1);
                    lane.served = true;
                    // Else the worker would wake up for a torn request that is whole by now, again and again.
                    client.torn_since = Ns::MAX;
                    self.partition
                        .prefetch_bucket(cpu, intake.requests.last_hash(), false);
                    self.counters.irregular.out_of_turn += u64::from(slot != client.turn.slot);
                    client.turn = client.turn.skip_done(&client.states);
                }
                Taken::Noted => {}
                Taken::Torn => {
                    around.go_on();
                    if torn_too_long(client, slot, commit, self.clock.now()) {
                        self.counters.irregular.crc_dropped += 1;
                    }
                }
            }
        }
        client.aim(lane);
    }
}

/// Prefetches the lines of the `most` slots whose turn is next, at most [`LOOK_AHEAD`]. Where there is one request
/// there are often more, each in a line of the client's cache, and it is faster to fetch all at once than one after the
/// other. Callers ask for as many as there were the last time: more would take lines from a client that is just writing
/// them.
#[inline(always)]
fn look_ahead<C: Cpu>(cpu: &C, client: &Client, lane: &Lane, most: usize) {
    // Not around the end of the window: it comes once in a window, and the first slots seldom have news then.
    let count = most
        .min(LOOK_AHEAD)
        .min((client.stripe.window() - client.turn.slot) as usize);
    let mut commit_at = lane.commit_at;
    let end = commit_at + client.stripe.slot_bytes() * (count.max(1) - 1) as u64;
    while commit_at < end {
        commit_at += client.stripe.slot_bytes();
        lane.slots.prefetch(cpu, commit_at);
    }
}

/// Takes up to `most` requests of a client in turn, as long as they are
/// [plain](drover_slots::server::Request::copy_plain) and nothing was done out of turn; returns how many. The inner loop
/// goes to the end of the window at most, so that all of its requests have the same seq.
#[inline(always)]
fn take_plain_run<C: Cpu, V: Variant>(
    cpu: &C,
    partition: &Partition<V::Sharing>,
    intake: &mut Intake<V>,
    client: &mut Client,
    lane: &mut Lane,
    most: usize,
) -> usize {
    let (share, buckets, whose) = (intake.share, partition.bucket_lines(), client.plain());
    let (step, window) = (client.stripe.slot_bytes(), client.stripe.window());
    let mut left = most;
    while left > 0 {
        let (turn, mut commit_at) = (client.turn, lane.commit_at);
        let states = &mut client.states[turn.slot as usize..];
        let in_a_row = left.min(states.len());
        let mut slot = turn.slot;
        for (request, state) in intake.requests.free()[..in_a_row].iter_mut().zip(states) {
            let place = lane.slots.place(commit_at);
            let commit = Commit(place.load(0));
            let found = Found {
                slots: &lane.slots,
                slot,
                commit_at,
                commit,
            };
            if commit.0 == state.last_commit()
                || !request.copy_plain(share, whose, turn.seq, state, place, found)
            {
                break;
            }
            cpu.charge(TAKE.cost, 1);
            cpu.prefetch(buckets.of(request.hash()));
            slot += 1;
            commit_at += step;
        }
        let taken = slot - turn.slot;
        intake.requests.add(taken as usize);
        client.turn = turn.after(taken, window).skip_done(&client.states);
        client.aim(lane);
        left -= taken as usize;
        if (taken as usize) < in_a_row {
            break;
        }
    }
    most - left
}

/// Whether the client's requests have been torn for a millisecond: then this one is given up, and its word counts as
/// seen until a retransmission changes it.
#[cold]
fn torn_too_long(client: &mut Client, slot: u32, commit: Commit, now: Ns) -> bool {
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
