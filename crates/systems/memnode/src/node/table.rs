//! [`ClientTable`]: what a node knows of its clients, and their lines in its memory. Its only writer of lines' second
//! half, and of epoch, reclamation epoch and clock in the header.

use super::options::{FenceMode, NodeOptions};
use super::process::Process;
use crate::client::ClientId;
use crate::clients::{
    ClientInfo, ClientState, IDENTITY_AT, PREDECESSOR_AT, PROCESS_AT, PUBLISHED_AT, PURGED_AT,
    decode_identity, encode_identity,
};
use crate::control::Verdict;
use crate::header::{EPOCH_AT, Geometry, LIVE_AT, RECLAIM_AT, SWEEP_AT};
use crate::times::LeaseTimes;
use drover_base::Ns;
use drover_mem::Region;
use std::sync::atomic::Ordering;

#[derive(Debug, Default)]
struct Client {
    id: ClientId,
    state: ClientState,
    counter: u64,
    /// Time for which the counter has not changed while the node looked.
    silent: Ns,
    /// Where it is one of this machine.
    process: Option<Process>,
    /// Let in by an earlier process of this node, whose memory it may still write to by itself.
    is_earlier: bool,
    /// That it may still write was told.
    is_stuck: bool,
    /// Dead client whose place it was given, until that one is repaired.
    predecessor: ClientId,
}

impl Client {
    /// Whether its place can be given away before it is repaired: it is dead, and was not given the place that way.
    fn leaves_its_place(&self) -> bool {
        self.state == ClientState::Fenced && self.predecessor.is_none()
    }
}

/// What a node has done about its clients since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounters {
    /// Clients that were let in.
    pub entered: u64,
    /// Clients that were shut out, those that left in order included.
    pub fenced: u64,
    /// Processes that were ended because they were stopped inside a request.
    pub killed: u64,
    /// Clients whose remains were repaired.
    pub repaired: u64,
    /// Clients that did not renew their lease in time.
    pub expired: u64,
}

/// All clients of a node, by number.
pub(super) struct ClientTable {
    region: Region,
    geometry: Geometry,
    /// At index 0 that of number 1.
    clients: Vec<Client>,
    epoch: u64,
    reclaim: u64,
    live: u64,
    scanned_at: Ns,
    pub(super) counters: NodeCounters,
}

impl ClientTable {
    /// The table in a region with a header. All earlier clients are fenced: their queue pairs are
    /// gone. But those whose processes live on this machine may have the memory itself, so they are suspected until they
    /// say that they have stopped, or end.
    pub(super) fn open(region: &Region, geometry: Geometry) -> ClientTable {
        let mut table = ClientTable {
            region: region.clone(),
            geometry,
            clients: (0..geometry.client_count).map(|_| Client::default()).collect(),
            epoch: region.load_u64(EPOCH_AT, Ordering::Relaxed),
            reclaim: region.load_u64(RECLAIM_AT, Ordering::Relaxed),
            live: 0,
            scanned_at: Ns::ZERO,
            counters: NodeCounters::default(),
        };
        for index in 0..table.clients.len() {
            let line = table.line(index);
            let word = region.load_u64(line + IDENTITY_AT, Ordering::Relaxed);
            let (id, state) = decode_identity(word).unwrap_or_default();
            let predecessor = region.load_u64(line + PREDECESSOR_AT, Ordering::Relaxed);
            table.clients[index].predecessor = ClientId::from_bits(predecessor as u32);
            if state != ClientState::Free && usize::from(id.id) == index + 1 {
                let words = [0, 8].map(|word| region.load_u64(line + PROCESS_AT + word, Ordering::Relaxed));
                let process = Process::noted(words).filter(|_| state != ClientState::Fenced);
                let state = match process.is_some() {
                    true => ClientState::Suspected,
                    false => ClientState::Fenced,
                };
                let client = &mut table.clients[index];
                (client.id, client.is_earlier, client.process) = (id, process.is_some(), process);
                table.live += u64::from(state == ClientState::Suspected);
                table.set(index, state);
            }
        }
        table.raise_epoch();
        table.publish_live();
        table
    }

    fn line(&self, index: usize) -> usize {
        self.geometry.client_line(index as u16 + 1)
    }

    fn set(&mut self, index: usize, state: ClientState) {
        let client = &mut self.clients[index];
        client.state = state;
        let word = encode_identity(client.id, state);
        // Release: who reads `Fenced` sees what was stored before.
        self.region
            .store_u64(self.line(index) + IDENTITY_AT, word, Ordering::Release);
    }

    fn raise_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.region.store_u64(EPOCH_AT, self.epoch, Ordering::Release);
    }

    fn publish_live(&self) {
        self.region.store_u64(LIVE_AT, self.live, Ordering::Relaxed);
    }

    /// Lets a client in: with the identity that it has at the pool's first node, or with a new one, whose number is above
    /// `above`. `pid` is that of its process if that is one of this machine.
    pub(super) fn register(
        &mut self,
        wanted: ClientId,
        above: u16,
        pid: Option<u32>,
    ) -> Result<ClientId, Verdict> {
        let is_deserted = self.is_deserted();
        let index = match wanted.is_none() {
            true => self.place_above(above, is_deserted).ok_or(Verdict::ClientsMax)?,
            false => usize::from(wanted.id) - 1,
        };
        let client = self.clients.get_mut(index).ok_or(Verdict::ClientsMax)?;
        match client.state {
            ClientState::Free => {}
            // A free place may have one that was never repaired, if its own client left in order.
            _ if is_deserted && client.leaves_its_place() => {
                tracing::warn!(dead = %client.id, "its place is given to another client, since none is left to repair");
                client.predecessor = client.id;
            }
            _ => return Err(Verdict::ClientBusy),
        }
        client.id = match wanted.is_none() {
            true => ClientId {
                id: index as u16 + 1,
                epoch: self.epoch as u16,
            },
            false => wanted,
        };
        (client.counter, client.silent) = (0, Ns::ZERO);
        (client.is_earlier, client.is_stuck) = (false, false);
        client.process = pid.map(Process::of_peer);
        let words = client.process.as_ref().map_or([0; 2], Process::words);
        let (id, line) = (client.id, self.line(index));
        for (word, value) in words.into_iter().enumerate() {
            let at = line + PROCESS_AT + word * 8;
            self.region.store_u64(at, value, Ordering::Relaxed);
        }
        self.note_predecessor(index);
        self.region.store_u64(line, 0, Ordering::Relaxed);
        self.region
            .store_u64(line + PUBLISHED_AT, self.reclaim, Ordering::Relaxed);
        // Without threads yet, it holds nothing that could be swept.
        let sweep = self.region.load_u64(SWEEP_AT, Ordering::Acquire);
        self.region.store_u64(line + PURGED_AT, sweep, Ordering::Relaxed);
        self.set(index, ClientState::Live);
        self.live += 1;
        self.counters.entered += 1;
        self.publish_live();
        Ok(id)
    }

    /// The first place above number `above` that may be given away: a free one, or if there is none and the node is
    /// deserted, that of a dead client.
    fn place_above(&self, above: u16, is_deserted: bool) -> Option<usize> {
        let first = |may_be: fn(&Client) -> bool| {
            let mut places = self.clients.iter().enumerate().skip(usize::from(above));
            places.find_map(|(index, client)| may_be(client).then_some(index))
        };
        let dead = || first(Client::leaves_its_place).filter(|_| is_deserted);
        first(|client| client.state == ClientState::Free).or_else(dead)
    }

    /// Whether no client lives: the next one must be let in by any place, because only a client can repair. Also if some
    /// place is free: another node of the pool may have it in use, or dead, and the client has one number at all nodes.
    fn is_deserted(&self) -> bool {
        let lives = |client: &Client| client.state == ClientState::Live;
        !self.clients.iter().any(lives)
    }

    fn note_predecessor(&self, index: usize) {
        let bits = u64::from(self.clients[index].predecessor.bits());
        // Relaxed: read by those who saw the state that is stored next.
        self.region
            .store_u64(self.line(index) + PREDECESSOR_AT, bits, Ordering::Relaxed);
    }

    fn index_of(&self, id: ClientId) -> Option<usize> {
        let index = usize::from(id.id).checked_sub(1)?;
        (self.clients.get(index)?.id == id).then_some(index)
    }

    /// What the node thinks of `id`.
    pub(super) fn state(&self, id: ClientId) -> ClientState {
        self.index_of(id)
            .map_or(ClientState::Free, |index| self.clients[index].state)
    }

    /// The session of `id` has ended, or must end: it is going to be fenced. False if there is no such live client.
    pub(super) fn suspect(&mut self, id: ClientId) -> bool {
        let index = self.index_of(id);
        let live = index.filter(|&index| self.clients[index].state == ClientState::Live);
        if let Some(index) = live {
            self.set(index, ClientState::Suspected);
        }
        live.is_some()
    }

    /// Nothing of `id` lands any more. A client that has left in order leaves nothing to repair.
    pub(super) fn fenced(&mut self, id: ClientId, in_order: bool) {
        if let Some(index) = self.index_of(id) {
            self.set(
                index,
                match in_order {
                    true => ClientState::Free,
                    false => ClientState::Fenced,
                },
            );
            (self.clients[index].process, self.clients[index].is_earlier) = (None, false);
            self.live -= 1;
            self.counters.fenced += 1;
            self.publish_live();
            self.raise_epoch();
        }
    }

    /// What the fenced client `id` left was repaired: its number may be given to another, if it was not before.
    pub(super) fn recovered(&mut self, id: ClientId) {
        let of_id = |client: &Client| !id.is_none() && client.predecessor == id;
        if let Some(index) = self.clients.iter().position(of_id) {
            self.clients[index].predecessor = ClientId::NONE;
            self.note_predecessor(index);
            self.counters.repaired += 1;
        }
        if let Some(index) = self.index_of(id)
            && self.clients[index].state == ClientState::Fenced
        {
            self.set(index, ClientState::Free);
            self.counters.repaired += 1;
        }
    }

    /// The client `id` of an earlier process of this node says that it has stopped writing, or an operator vouches for it.
    /// False if there is no such client.
    pub(super) fn has_stopped(&mut self, id: ClientId) -> bool {
        let index = self.index_of(id);
        let is_earlier = index.is_some_and(|index| self.clients[index].is_earlier);
        if is_earlier {
            self.fenced(id, false);
        }
        is_earlier
    }

    /// Whether there are clients of an earlier process of this node.
    pub(super) fn any_earlier(&self) -> bool {
        self.clients.iter().any(|client| client.is_earlier)
    }

    /// Looks which of them have ended, and what is to be done about those that have said nothing for long. Returns how many
    /// have ended.
    pub(super) fn look_for_ends(&mut self, options: &NodeOptions) -> usize {
        let mut ended = Vec::new();
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            let Some(process) = client.process.as_ref().filter(|_| client.is_earlier) else {
                continue;
            };
            if process.has_ended() {
                ended.push(client.id);
            } else if client.silent > options.times.suspect_after
                && !std::mem::replace(&mut client.is_stuck, true)
            {
                self.stuck(self.clients[index].id, options.fence);
            }
        }
        ended.iter().for_each(|&id| self.fenced(id, false));
        ended.len()
    }

    /// The client `id` is in the middle of a request for too long.
    pub(super) fn stuck(&mut self, id: ClientId, mode: FenceMode) {
        let Some(index) = self.index_of(id) else { return };
        let process = self.clients[index].process.as_ref();
        let pid = process.and_then(Process::pid);
        let what =
            "a process that was shut out may still write: it is stopped inside a request, or says nothing";
        if mode == FenceMode::Wait {
            tracing::warn!(client = %id, pid, "waiting: {what}");
            return;
        }
        // The node's own process may be a client, too, while it repairs.
        let is_own = pid == Some(std::process::id());
        let is_ended = !is_own && process.is_some_and(Process::kill);
        self.counters.killed += u64::from(is_ended);
        match is_ended {
            true => tracing::warn!(client = %id, pid, "ended: {what}"),
            false => tracing::warn!(client = %id, pid, "not known here, so it cannot be ended: {what}"),
        }
    }

    /// What the node knows of its clients.
    pub(super) fn infos(&self) -> impl Iterator<Item = ClientInfo> {
        let known = self
            .clients
            .iter()
            .filter(|client| client.state != ClientState::Free);
        known.map(|client| ClientInfo {
            client: client.id,
            state: client.state,
            pid: client.process.as_ref().and_then(Process::pid),
            silent: client.silent,
        })
    }

    /// Looks at all leases: suspects clients that have not renewed theirs for `suspect_after`, and advances the epoch of
    /// reclamation if all that are not fenced have reached it. Returns the number of newly suspected ones.
    ///
    /// A node that was stopped itself counts only as much time as it should have let pass: its clients may have renewed
    /// their leases all the while, but it sees only the last renewal of each.
    pub(super) fn scan(&mut self, now: Ns, times: &LeaseTimes) -> usize {
        let passed = now.since(self.scanned_at).min(times.renew_every * 2);
        self.scanned_at = now;
        let (mut suspected, mut all_reached, mut any) = (0, true, false);
        for index in 0..self.clients.len() {
            let (line, client) = (self.line(index), &mut self.clients[index]);
            if !matches!(client.state, ClientState::Live | ClientState::Suspected) {
                continue;
            }
            any = true;
            let counter = self.region.load_u64(line, Ordering::Acquire);
            let published = self.region.load_u64(line + PUBLISHED_AT, Ordering::Acquire);
            all_reached &= published >= self.reclaim;
            client.silent += passed;
            let silent = client.silent;
            if counter != client.counter {
                (client.counter, client.silent) = (counter, Ns::ZERO);
            } else if client.state == ClientState::Live && silent > times.suspect_after {
                tracing::info!(client = %client.id, %silent, "a client does not renew its lease");
                self.set(index, ClientState::Suspected);
                self.counters.expired += 1;
                suspected += 1;
            }
        }
        if any && all_reached {
            self.reclaim = self.reclaim.wrapping_add(1);
            // Release: who reads the new epoch knows what the clients knew when they published the one before.
            self.region.store_u64(RECLAIM_AT, self.reclaim, Ordering::Release);
        }
        suspected
    }

    /// Live clients, suspected ones included.
    pub(super) fn live(&self) -> u64 {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    #[test]
    fn where_nobody_lives_each_dead_place_can_be_had_also_beside_a_free_one() {
        let bytes = 4 << 20;
        let geometry = Geometry::new(bytes as u64, 3).expect("a geometry");
        let region = Region::private(bytes, PageWish::Small).expect("memory");
        let mut table = ClientTable::open(&region, geometry);
        let enter = |table: &mut ClientTable, wanted| table.register(wanted, 0, None);
        let [first, second] = [0; 2].map(|_| enter(&mut table, ClientId::NONE).expect("a free place"));
        assert_eq!((first.id, second.id), (1, 2));
        table.fenced(first, false);
        // The second lives, and repairs.
        let next = ClientId { epoch: 77, ..first };
        assert_eq!(enter(&mut table, next), Err(Verdict::ClientBusy));
        table.fenced(second, false);
        // Another node of the pool, where nobody lives either, has no other place than this.
        assert_eq!(enter(&mut table, next), Ok(next));
        assert_eq!(table.clients[0].predecessor, first);
        assert_eq!(enter(&mut table, ClientId::NONE).map(|id| id.id), Ok(3));
        assert_eq!(enter(&mut table, ClientId::NONE), Err(Verdict::ClientsMax));
    }
}
