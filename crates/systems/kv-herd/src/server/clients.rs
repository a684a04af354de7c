//! [`Client`] and [`Lane`]: what a worker knows of one client, and the one line of it that is polled.

use super::mail::BulkMemory;
use super::session::SessionParams;
use super::variant::{Mistake, Variant};
use crate::control::{Format, FrontEnd, Resync, Resynced};
use crate::layout::Commit;
use drover_base::Ns;
use drover_mem::{MaskedRegion, Region};
use drover_slots::server::{Hold, PlainClient, SlotState, Stripe, Turn};
use drover_verbs::{Context, Export, Provider, UdDest};

/// What a worker is told of a new client.
#[derive(Debug)]
pub(super) struct NewClient {
    pub(super) id: u32,
    pub(super) generation: u32,
    pub(super) params: SessionParams,
    /// All slots of the client; `None` with datagrams.
    pub(super) slots: Option<MaskedRegion>,
    /// Where replies go.
    pub(super) replies: Export,
}

/// The polled part of a client that writes slots: where the next request is expected, and what stands there
/// if it has not come. Two lines, most of them the handle of its memory: a poll that finds nothing reads them and the
/// slot, and no more of the client.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    pub(super) slots: MaskedRegion,
    /// The commit word whose turn it is.
    pub(super) commit_at: u64,
    /// What stands there when there is nothing new.
    pub(super) seen: u64,
    pub(super) client: u32,
    /// Looks around in a row that found the client silent since the one before.
    pub(super) quiet: u16,
    /// Something was found since the last look around.
    pub(super) served: bool,
    /// How many requests were found in a row the last time, as far as it matters.
    pub(super) run: u8,
}

const _: () = assert!(size_of::<Lane>() == 128);

/// One client as one worker sees it.
pub(super) struct Client {
    pub(super) id: u32,
    pub(super) generation: u32,
    pub(super) params: SessionParams,
    pub(super) stripe: Stripe,
    /// Requests taken at a time.
    pub(super) quota: usize,
    pub(super) dest: UdDest,
    pub(super) turn: Turn,
    pub(super) states: Box<[SlotState]>,
    /// Which of its conditional requests are refused.
    pub(super) hold: Hold,
    pub(super) bulk: Option<BulkMemory>,
    /// Since when a request's checksum has not fitted; `MAX`: it does.
    pub(super) torn_since: Ns,
}

impl Client {
    /// A client that has sent nothing yet.
    pub(super) fn new<P: Provider>(
        ctx: &P::Context,
        partition_index: usize,
        new: &NewClient,
        quota: usize,
        inline_bytes_max: usize,
    ) -> Result<Client, String> {
        let map = &new.params.map;
        let dest = ctx.create_ah(&new.replies).map_err(|error| error.to_string())?;
        Ok(Client {
            id: new.id,
            generation: new.generation,
            params: new.params,
            stripe: Stripe::new(
                map,
                partition_index,
                new.params.rule.crc_required,
                inline_bytes_max,
            ),
            quota,
            dest,
            turn: Turn::FIRST,
            states: vec![SlotState::UNUSED; map.window].into_boxed_slice(),
            hold: Hold::NONE,
            bulk: None,
            torn_since: Ns::MAX,
        })
    }

    /// The worker restarts with an empty partition: nothing that has been taken executes again.
    fn forget(&mut self) {
        self.torn_since = Ns::MAX;
        for state in &mut self.states {
            state.forget();
        }
    }

    /// As [`forget`](Client::forget), of a client that writes slots: what stands there does not execute, either.
    fn forget_slots(&mut self, slots: &MaskedRegion, variant: impl Variant) {
        for slot in 0..self.stripe.window() {
            let word = slots.load(self.stripe.commit_at(slot));
            let state = &mut self.states[slot as usize];
            if variant.makes(Mistake::RestartBelievesSlots) {
                *state = SlotState::UNUSED;
            }
            state.forget_at(word);
        }
        self.turn = self.turn.skip_done(&self.states);
    }

    /// What its plain requests must know.
    #[inline(always)]
    pub(super) fn plain(&self) -> PlainClient {
        PlainClient {
            id: self.id,
            plain_bytes_max: self.stripe.plain_bytes_max(),
        }
    }

    /// Points `lane` at the slot whose turn it is.
    #[inline(always)]
    pub(super) fn aim(&self, lane: &mut Lane) {
        lane.commit_at = self.stripe.commit_at(self.turn.slot);
        // In the paper's format 0: no commit word is ever noted there.
        lane.seen = self.states[self.turn.slot as usize].last_commit();
    }

    /// The request `commit` in the slot whose turn it is was taken: points `lane` at the next one.
    #[inline]
    pub(super) fn advance(&mut self, lane: &mut Lane, commit: Commit) {
        let here = Turn {
            slot: self.turn.slot,
            seq: commit.seq(),
        };
        self.turn = here.next(self.stripe.window()).skip_done(&self.states);
        self.aim(lane);
    }

    /// See [`Resync`]. Numbers out of range are a rogue client's and change nothing.
    fn resync(&mut self, resync: Resync) -> Resynced {
        let mut resynced = Resynced {
            partition: resync.partition,
            slot: resync.slot,
            seq: resync.seq,
            executed: false,
            status: 0,
            last_seq: 0,
        };
        let Some(state) = self.states.get_mut(usize::from(resync.slot)) else {
            return resynced;
        };
        let judgement = state.rule_out(resync.seq);
        resynced.executed = judgement.executed;
        resynced.status = judgement.status as u8;
        resynced.last_seq = judgement.last_seq;
        let open = Turn::of(resync.r, self.stripe.window().trailing_zeros());
        for (slot, state) in (0..self.stripe.window()).zip(self.states.iter_mut()) {
            state.rule_out_silently(open.last_before(slot));
        }
        self.turn = self.turn.skip_done(&self.states);
        resynced
    }
}

impl BulkMemory {
    /// Where chunk `index` starts; `None` if the client names one it does not have.
    pub(super) fn chunk_at(&self, index: u32) -> Option<usize> {
        let index = index as usize;
        (index < self.chunk_count).then_some(index * self.chunk_bytes)
    }

    /// Bytes of `chunk_count` chunks for values of `item_bytes_max`.
    pub(super) fn chunk_bytes_for(item_bytes_max: usize) -> usize {
        drover_mem::round_up(item_bytes_max.max(1), 4096)
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }
}

/// The clients of a worker: state by id, and the polled lanes in two groups.
pub(super) struct Clients {
    by_id: Vec<Option<Client>>,
    /// `[..hot]` are polled in every sweep, the rest (silent for long) in one of eight.
    pub(super) lanes: Vec<Lane>,
    pub(super) hot: usize,
    count: usize,
    /// Those without a lane: they send datagrams.
    datagram_count: usize,
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients {
            by_id: Vec::new(),
            lanes: Vec::new(),
            hot: 0,
            count: 0,
            datagram_count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether anybody sends datagrams.
    #[inline(always)]
    pub(super) fn any_sends_datagrams(&self) -> bool {
        self.datagram_count > 0
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> Option<&Client> {
        self.by_id.get(id as usize)?.as_ref()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Client> {
        self.by_id.get_mut(id as usize)?.as_mut()
    }

    /// Adds a client, with a hot lane if it writes slots.
    pub(super) fn insert(&mut self, client: Client, slots: Option<MaskedRegion>) {
        let id = client.id as usize;
        self.datagram_count += usize::from(client.params.front_end == FrontEnd::Datagrams);
        if self.by_id.len() <= id {
            self.by_id.resize_with(id + 1, || None);
        }
        if let Some(slots) = slots {
            let mut lane = Lane {
                slots,
                commit_at: 0,
                seen: 0,
                client: client.id,
                quiet: 0,
                served: false,
                run: 0,
            };
            client.aim(&mut lane);
            self.lanes.push(lane);
            self.heat(self.lanes.len() - 1);
        }
        self.by_id[id] = Some(client);
        self.count += 1;
    }

    /// Drops a client and its lane.
    pub(super) fn remove<P: Provider>(&mut self, ctx: &P::Context, id: u32) {
        if let Some(index) = self.lanes.iter().position(|lane| lane.client == id) {
            let index = self.cool(index);
            self.lanes.swap_remove(index);
        }
        if let Some(client) = self.by_id.get_mut(id as usize).and_then(Option::take) {
            ctx.destroy_ah(&client.dest);
            self.count -= 1;
            self.datagram_count -= usize::from(client.params.front_end == FrontEnd::Datagrams);
        }
    }

    /// Polls lane `index` in every sweep from now on; returns where it is.
    #[inline]
    pub(super) fn heat(&mut self, index: usize) -> usize {
        if index < self.hot {
            return index;
        }
        self.lanes[index].quiet = 0;
        self.lanes.swap(index, self.hot);
        self.hot += 1;
        self.hot - 1
    }

    /// Polls lane `index` only now and then from now on; returns where it is.
    #[inline]
    pub(super) fn cool(&mut self, index: usize) -> usize {
        if index >= self.hot {
            return index;
        }
        self.hot -= 1;
        self.lanes.swap(index, self.hot);
        self.hot
    }

    /// The worker restarts with an empty partition.
    pub(super) fn forget_all(&mut self, variant: impl Variant) {
        for client in self.by_id.iter_mut().flatten() {
            client.forget();
        }
        for lane in &mut self.lanes {
            if let Some(client) = self.by_id[lane.client as usize].as_mut() {
                if client.params.format == Format::D {
                    client.forget_slots(&lane.slots, variant);
                }
                client.aim(lane);
            }
        }
    }

    /// What a client asks of a request that it gave up; `None`: it has gone. In format P what is ruled out goes from
    /// its slot: nothing else tells it from the next request there.
    pub(super) fn resync(&mut self, id: u32, resync: Resync) -> Option<Resynced> {
        let client = self.by_id.get_mut(id as usize)?.as_mut()?;
        let before: Vec<u32> = client.states.iter().map(SlotState::last_seq).collect();
        let resynced = client.resync(resync);
        if client.params.format == Format::P
            && let Some(lane) = self.lanes.iter().find(|lane| lane.client == id)
        {
            for (slot, (state, before)) in (0..).zip(client.states.iter().zip(before)) {
                if state.last_seq() != before {
                    crate::layout::paper::clear(&lane.slots, client.stripe.commit_at(slot));
                }
            }
        }
        self.aim(id);
        Some(resynced)
    }

    /// Aims the lane of client `id` anew.
    fn aim(&mut self, id: u32) {
        let (by_id, lanes) = (&self.by_id, &mut self.lanes);
        let lane = lanes.iter_mut().find(|lane| lane.client == id);
        if let (Some(lane), Some(Some(client))) = (lane, by_id.get(id as usize)) {
            client.aim(lane);
        }
    }

    /// A lane and its client, apart from each other.
    #[inline(always)]
    pub(super) fn lane_and_client(&mut self, index: usize) -> Option<(&mut Lane, &mut Client)> {
        let lane = &mut self.lanes[index];
        let client = self.by_id.get_mut(lane.client as usize)?.as_mut()?;
        Some((lane, client))
    }

    /// The earliest time at which a torn request is given up.
    pub(super) fn torn_since(&self) -> Ns {
        let all = self.by_id.iter().flatten();
        all.map(|client| client.torn_since).min().unwrap_or(Ns::MAX)
    }
}
