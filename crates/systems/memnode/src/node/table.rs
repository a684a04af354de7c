//! [`ClientTable`]: what a node knows of its clients, and their lines in its memory. Its only writer of lines' second
//! half, and of epoch, reclamation epoch and clock in the header.

use crate::client::ClientId;
use crate::clients::{ClientState, IDENTITY_AT, PUBLISHED_AT, PURGED_AT, decode_identity, encode_identity};
use crate::control::Verdict;
use crate::header::{EPOCH_AT, Geometry, LIVE_AT, RECLAIM_AT, SWEEP_AT};
use crate::times::LeaseTimes;
use drover_base::Ns;
use drover_mem::Region;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    id: ClientId,
    state: ClientState,
    counter: u64,
    /// Time for which the counter has not changed while the node looked.
    silent: Ns,
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
}

impl ClientTable {
    /// The table in a region with a header. All earlier clients are fenced: their queue pairs are
    /// gone.
    pub(super) fn open(region: &Region, geometry: Geometry) -> ClientTable {
        let mut table = ClientTable {
            region: region.clone(),
            geometry,
            clients: vec![Client::default(); geometry.client_count as usize],
            epoch: region.load_u64(EPOCH_AT, Ordering::Relaxed),
            reclaim: region.load_u64(RECLAIM_AT, Ordering::Relaxed),
            live: 0,
            scanned_at: Ns::ZERO,
        };
        for index in 0..table.clients.len() {
            let line = table.line(index);
            let word = region.load_u64(line + IDENTITY_AT, Ordering::Relaxed);
            let (id, state) = decode_identity(word).unwrap_or_default();
            if state != ClientState::Free && usize::from(id.id) == index + 1 {
                table.clients[index].id = id;
                table.set(index, ClientState::Fenced);
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

    /// Lets a client in: with the identity that it has at the pool's first node, or with a new one.
    pub(super) fn register(&mut self, wanted: ClientId) -> Result<ClientId, Verdict> {
        let index = match wanted.is_none() {
            true => self
                .clients
                .iter()
                .position(|client| client.state == ClientState::Free)
                .ok_or(Verdict::ClientsMax)?,
            false => usize::from(wanted.id) - 1,
        };
        let client = self.clients.get_mut(index).ok_or(Verdict::ClientsMax)?;
        if client.state != ClientState::Free {
            return Err(Verdict::ClientBusy);
        }
        client.id = match wanted.is_none() {
            true => ClientId {
                id: index as u16 + 1,
                epoch: self.epoch as u16,
            },
            false => wanted,
        };
        (client.counter, client.silent) = (0, Ns::ZERO);
        let (id, line) = (client.id, self.line(index));
        self.region.store_u64(line, 0, Ordering::Relaxed);
        self.region
            .store_u64(line + PUBLISHED_AT, self.reclaim, Ordering::Relaxed);
        // Without threads yet, it holds nothing that could be swept.
        let sweep = self.region.load_u64(SWEEP_AT, Ordering::Acquire);
        self.region.store_u64(line + PURGED_AT, sweep, Ordering::Relaxed);
        self.set(index, ClientState::Live);
        self.live += 1;
        self.publish_live();
        Ok(id)
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
            self.live -= 1;
            self.publish_live();
            self.raise_epoch();
        }
    }

    /// What the fenced client `id` left was repaired: its number may be given to another.
    pub(super) fn recovered(&mut self, id: ClientId) {
        if let Some(index) = self.index_of(id)
            && self.clients[index].state == ClientState::Fenced
        {
            self.set(index, ClientState::Free);
        }
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
