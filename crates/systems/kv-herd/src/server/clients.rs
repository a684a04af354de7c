//! [`Client`]: a worker's state of one client; [`Lane`]: the part of it that polling needs.

use super::mail::BulkMemory;
use super::session::SessionParams;
use super::variant::{Mistake, Variant};
use crate::control::{Format, FrontEnd, Resync, Resynced};
use crate::layout::Commit;
use drover_base::Ns;
use drover_mem::MaskedRegion;
use drover_slots::server::{Hold, PlainClient, SlotState, Stripe, Turn};
use drover_verbs::{Context, Export, Provider, Qpn, UdDest};

/// Description of a new client for a worker.
#[derive(Debug)]
pub(super) struct NewClient {
    pub(super) id: u32,
    pub(super) generation: u32,
    pub(super) params: SessionParams,
    /// The client's slots for all partitions; `None` if it sends datagrams.
    pub(super) slots: Option<MaskedRegion>,
    /// The client's queue pair for replies of this worker.
    pub(super) replies: Export,
    /// The number that the client's datagrams to this worker carry; `None`: that of its queue pair.
    pub(super) sender: Option<Qpn>,
}

/// The polled part of a client that writes slots: where its next request is expected, and which word is there until it
/// comes. It takes two cache lines, mostly the handle of the client's memory: a poll that finds nothing reads them and
/// the slot, and no more of the client.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    pub(super) slots: MaskedRegion,
    /// Offset in `slots` of the commit word of the slot whose turn it is.
    pub(super) commit_at: u64,
    /// The word that is there as long as there is no new request.
    pub(super) seen: u64,
    /// Id of the client.
    pub(super) client: u32,
    /// Number of looks around in a row before which nothing was taken from the client since the previous one.
    pub(super) quiet: u16,
    /// Whether requests were taken since the last look around.
    pub(super) served: bool,
    /// Number of requests that were taken in a row the last time, at most the number of lines prefetched at once.
    pub(super) run: u8,
}

const _: () = assert!(size_of::<Lane>() == 128);

impl Lane {
    /// Whether the slot whose turn it is has a word that was not there before.
    #[inline(always)]
    pub(super) fn has_news(&self) -> bool {
        self.slots.load(self.commit_at) != self.seen
    }
}

/// A worker's state of one client.
pub(super) struct Client {
    pub(super) id: u32,
    pub(super) generation: u32,
    pub(super) params: SessionParams,
    pub(super) stripe: Stripe,
    /// Most requests taken in one visit of a sweep.
    pub(super) quota: usize,
    pub(super) dest: UdDest,
    /// The number that its datagrams carry.
    pub(super) sender: Qpn,
    pub(super) turn: Turn,
    pub(super) states: Box<[SlotState]>,
    /// Decides which of the client's conditional requests are refused.
    pub(super) hold: Hold,
    /// The client's bulk memory, if it has opened some.
    pub(super) bulk: Option<BulkMemory>,
    /// Time since which a request in its slots has had a wrong checksum; [`Ns::MAX`] if none has.
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
            sender: new.sender.unwrap_or(dest.qpn),
            turn: Turn::FIRST,
            states: vec![SlotState::UNUSED; map.window].into_boxed_slice(),
            hold: Hold::NONE,
            bulk: None,
            torn_since: Ns::MAX,
        })
    }

    /// Forgets results because the worker restarts with an empty partition: no request that was taken executes again.
    fn forget(&mut self) {
        self.torn_since = Ns::MAX;
        for state in &mut self.states {
            state.forget();
        }
    }

    /// As [`forget`](Client::forget), for a client that writes slots: requests that are in the slots now do not
    /// execute, either.
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

    /// Whether a commit word of the client may become visible byte by byte: its requests are WRITEs on a fabric that
    /// needs checksums. Datagrams arrive whole.
    pub(super) fn may_tear_words(&self) -> bool {
        self.params.rule.crc_required && self.params.front_end == FrontEnd::Slots
    }

    /// The facts about the client that are needed to take its plain requests.
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

    /// Moves the turn behind the request `commit`, which was taken from the slot whose turn it was, and points `lane`
    /// at the next slot.
    #[inline]
    pub(super) fn advance(&mut self, lane: &mut Lane, commit: Commit) {
        let here = Turn {
            slot: self.turn.slot,
            seq: commit.seq(),
        };
        self.turn = here.next(self.stripe.window()).skip_done(&self.states);
        self.aim(lane);
    }

    /// Rules out the request that [`Resync`] names, and those before its `r`, as far as they were not taken. A slot out
    /// of range, which only a faulty client names, changes nothing.
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

/// The clients of a worker: their state by id, and the lanes of those that write slots, in two groups.
pub(super) struct Clients {
    by_id: Vec<Option<Client>>,
    /// Lanes `[..hot]` are polled in every sweep, the rest, of clients silent for long, in one sweep out of eight.
    pub(super) lanes: Vec<Lane>,
    pub(super) hot: usize,
    count: usize,
    /// Number of clients without a lane, which send datagrams.
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

    /// Whether any client sends datagrams.
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

    /// Adds a client, with a hot lane if it writes slots. There must be none with its id.
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

    /// Drops a client and its lane; returns the address of its replies, which is still to be destroyed. `None` if there is no
    /// client with this id.
    pub(super) fn remove(&mut self, id: u32) -> Option<UdDest> {
        if let Some(index) = self.lanes.iter().position(|lane| lane.client == id) {
            let index = self.cool(index);
            self.lanes.swap_remove(index);
        }
        let client = self.by_id.get_mut(id as usize).and_then(Option::take)?;
        self.count -= 1;
        self.datagram_count -= usize::from(client.params.front_end == FrontEnd::Datagrams);
        Some(client.dest)
    }

    /// Makes lane `index` hot, so that it is polled in every sweep; returns its new index.
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

    /// Makes lane `index` cold, so that it is polled in one sweep out of eight; returns its new index.
    #[inline]
    pub(super) fn cool(&mut self, index: usize) -> usize {
        if index >= self.hot {
            return index;
        }
        self.hot -= 1;
        self.lanes.swap(index, self.hot);
        self.hot
    }

    /// Forgets the results of all requests because the worker restarts with an empty partition.
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

    /// Answers a client's question about a request that it gave up; `None` if there is no such client. In format P, a
    /// request that is ruled out is removed from its slot, because nothing distinguishes it from the next one there.
    pub(super) fn resync(&mut self, id: u32, resync: Resync) -> Option<Resynced> {
        let client = self.by_id.get_mut(id as usize)?.as_mut()?;
        let before: Vec<u32> = client.states.iter().map(SlotState::last_seq).collect();
        let resynced = client.resync(resync);
        if client.params.format == Format::P
            && let Some(lane) = self.lanes.iter().find(|lane| lane.client == id)
        {
            for (slot, (state, before)) in (0..).zip(client.states.iter().zip(before)) {
                if state.last_seq() != before {
                    crate::layout::paper::clear(lane.slots.place(client.stripe.commit_at(slot) - 16));
                }
            }
        }
        self.aim(id);
        Some(resynced)
    }

    /// Points the lane of client `id` at the slot whose turn it is.
    fn aim(&mut self, id: u32) {
        let (by_id, lanes) = (&self.by_id, &mut self.lanes);
        let lane = lanes.iter_mut().find(|lane| lane.client == id);
        if let (Some(lane), Some(Some(client))) = (lane, by_id.get(id as usize)) {
            client.aim(lane);
        }
    }

    /// Lane `index` and the state of its client, borrowed separately.
    #[inline(always)]
    pub(super) fn lane_and_client(&mut self, index: usize) -> Option<(&mut Lane, &mut Client)> {
        let lane = &mut self.lanes[index];
        let client = self.by_id.get_mut(lane.client as usize)?.as_mut()?;
        Some((lane, client))
    }

    /// The earliest time since which a client has had a request with a wrong checksum; [`Ns::MAX`] if none has.
    pub(super) fn torn_since(&self) -> Ns {
        let all = self.by_id.iter().flatten();
        all.map(|client| client.torn_since).min().unwrap_or(Ns::MAX)
    }
}
