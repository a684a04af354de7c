//! [`Mover`]: a thread that fetches shards from their owners.
//!
//! ```text
//! begin    the owner's control thread has its cores note what changes from now on
//! pages    one scan of each of the owner's cores that have keys of the set, for all its shards; their items are stored on this member's cores
//! catch up a few times: what has been noted meanwhile, until that is little
//! freeze   the owner serves the shards no more; what has been noted since
//! received the agent commits the map that makes this member the owner
//! ```

use crate::connection::{Connection, HandoverError};
use crate::network::{Call, MemberAddress};
use crate::own_cores::OwnCores;
use crate::requests::{self, Ask, Moving};
use crate::shared::Shared;
use crate::state::HandoverSet;
use drover_base::Cpu;
use drover_mem::NativeCpu;
use drover_memcached::handover::{END, Entries, Entry, ShardSet, lookup_message, page_message};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for something to do: an end of the member comes with a notification.
const WAIT: Duration = Duration::from_secs(1);
/// Pause after a set that has failed: what is wrong may last.
const PAUSE: Duration = Duration::from_millis(100);
/// So few noted keys are sent while the shards are frozen.
const FEW_KEYS: usize = 64;
/// Times to catch up before the shards are frozen anyhow.
const CATCH_UPS_MAX: usize = 8;
/// Bytes of names in one message.
const NAMES_BYTES: usize = 64 << 10;

/// Fetches sets of shards, one after the other. Several movers fetch from several owners.
pub(crate) struct Mover {
    shared: Arc<Shared>,
    cpu: NativeCpu,
}

impl Mover {
    pub(crate) fn new(shared: Arc<Shared>) -> Mover {
        Mover {
            shared,
            cpu: NativeCpu::new(0),
        }
    }

    /// Works until the member ends.
    pub(crate) fn run(self) {
        while let Some(set) = self.next_set() {
            let (owner, mut moves) = (set.owner.clone(), set.moves.clone());
            let mut has_stored = false;
            let result = self.fetch(&set, &mut moves, &mut has_stored);
            let is_failure = result.is_err();
            let mut state = self.shared.state();
            match result {
                Ok(()) => state.received(&moves, self.cpu.refresh()),
                Err(error) => {
                    state.failed(&moves, has_stored);
                    let error = error_text(&error);
                    let text = format!("hand-over from {owner}: {error}");
                    if text != state.last_error {
                        tracing::warn!(%owner, shards = moves.len(), error, "shards could not be handed over, and will be tried again");
                    }
                    state.last_error = text;
                }
            }
            state.end_set(&owner);
            drop(state);
            self.shared.notify();
            if is_failure {
                std::thread::park_timeout(PAUSE);
            }
        }
    }

    fn next_set(&self) -> Option<HandoverSet> {
        let mut state = self.shared.state();
        loop {
            if state.ends.is_some() {
                return None;
            }
            if let Some(set) = state.take_set() {
                return Some(set);
            }
            state = self.shared.wait(state, WAIT);
        }
    }

    /// Fetches a set. `moves`: those that still go on.
    fn fetch(
        &self,
        set: &HandoverSet,
        moves: &mut Vec<Moving>,
        has_stored: &mut bool,
    ) -> Result<(), HandoverError> {
        let address = MemberAddress::of(&set.addresses).ok_or(HandoverError::NoAddress)?;
        let name = &set.owner.name;
        let control = self.shared.connect_control(name, &address)?;
        let owner = self.shared.connect_cores(name, &address)?;
        let mut own = OwnCores::connect(&self.shared)?;
        let mut copy = Copy {
            shared: &self.shared,
            cpu: &self.cpu,
            control,
            owner: owner.into_iter().map(Connection::new).collect(),
            own: &mut own,
            shards: ShardSet::new(self.shared.shards.shard_count()),
            moves,
            has_stored,
        };
        copy.run()
    }
}

/// An error and what caused it.
fn error_text(error: &HandoverError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The copy of one set.
struct Copy<'c> {
    shared: &'c Shared,
    cpu: &'c NativeCpu,
    control: Box<dyn Call>,
    owner: Vec<Connection>,
    own: &'c mut OwnCores,
    /// The shards of `moves`.
    shards: ShardSet,
    moves: &'c mut Vec<Moving>,
    has_stored: &'c mut bool,
}

impl Copy<'_> {
    fn run(&mut self) -> Result<(), HandoverError> {
        self.own.begin()?;
        let refused = self.agree(Ask::Begin)?;
        self.shared.state().failed(&refused, false);
        for (shard, _) in &*self.moves {
            self.shards.insert(*shard);
        }
        for core in self.cores_with_items() {
            self.fetch_pages(core)?;
        }
        for _ in 0..CATCH_UPS_MAX {
            if self.catch_up()? <= FEW_KEYS {
                break;
            }
        }
        if self.moves.is_empty() {
            return Ok(());
        }
        let refused = self.agree(Ask::Freeze)?;
        self.shared.state().failed(&refused, true);
        while self.catch_up()? > 0 {}
        for core in &mut self.owner {
            // Only whether it has flushed its items, and its last version.
            core.ask(&lookup_message(&[]), |_| Ok(()))?;
        }
        let version = self.owner.iter().map(|core| core.version).max();
        self.own.finish(version.unwrap_or_default())
    }

    /// The owner's cores that keys of these shards belong to.
    fn cores_with_items(&self) -> BTreeSet<usize> {
        let (shard_count, core_count) = (self.shared.shards.shard_count(), self.owner.len());
        let shards = self.moves.iter().map(|(shard, _)| *shard);
        shards
            .flat_map(|shard| shard.partitions(shard_count, core_count))
            .collect()
    }

    /// Asks the owner's control thread, and takes the moves that it refuses out.
    fn agree(&mut self, ask: Ask) -> Result<Vec<Moving>, HandoverError> {
        let reply = self.control.call(&requests::encode(ask, self.moves))?;
        if reply.len() != self.moves.len() {
            return Err(MALFORMED);
        }
        let (mut answers, mut refused) = (reply.iter(), Vec::new());
        self.moves.retain(|moving| {
            let is_agreed = answers.next() == Some(&1);
            if !is_agreed {
                self.shards.remove(moving.0);
                refused.push(*moving);
            }
            is_agreed
        });
        Ok(refused)
    }

    fn fetch_pages(&mut self, core: usize) -> Result<(), HandoverError> {
        let mut cursor = 0;
        while cursor < END && !self.moves.is_empty() {
            let message = page_message(&self.shards, cursor);
            let mut names = Vec::new();
            let (own, shards, has_stored) = (&mut *self.own, &self.shards, &mut *self.has_stored);
            let (next, tally) = self.owner[core].ask(&message, |reply| {
                let tally = store(own, shards, reply.entries, &mut names, has_stored)?;
                Ok((reply.number, tally))
            })?;
            if next <= cursor {
                return Err(MALFORMED);
            }
            cursor = next;
            self.look_up(core, &names)?;
            self.goes_on(tally);
        }
        Ok(())
    }

    /// Fetches what has been noted. Returns the number of keys.
    fn catch_up(&mut self) -> Result<usize, HandoverError> {
        if self.moves.is_empty() {
            return Ok(0);
        }
        // Copied, since it can be long and the copy goes on meanwhile.
        let reply = self
            .control
            .call(&requests::encode(Ask::Noted, self.moves))?
            .to_vec();
        let mut count = 0;
        for (core, names) in requests::noted_of(&reply).ok_or(MALFORMED)? {
            let core = usize::from(core);
            if core >= self.owner.len() {
                return Err(MALFORMED);
            }
            count += Entries::all(names).ok_or(MALFORMED)?.count();
            self.look_up(core, names)?;
        }
        self.goes_on(Stored::default());
        Ok(count)
    }

    /// Fetches the items with these names as they are now.
    fn look_up(&mut self, core: usize, names: &[u8]) -> Result<(), HandoverError> {
        let mut names = Entries::all(names).ok_or(MALFORMED)?;
        while !names.rest().is_empty() {
            let message = lookup_message(first(names));
            let (own, shards, has_stored) = (&mut *self.own, &self.shards, &mut *self.has_stored);
            let (answered, tally) = self.owner[core].ask(&message, |reply| {
                let tally = store(own, shards, reply.entries, &mut Vec::new(), has_stored)?;
                Ok((reply.number, tally))
            })?;
            if answered == 0 {
                return Err(MALFORMED);
            }
            for _ in 0..answered {
                names.next();
            }
            self.goes_on(tally);
        }
        Ok(())
    }

    /// Tells the agent that the set goes on, and follows it where moves have ended.
    fn goes_on(&mut self, stored: Stored) {
        let mut state = self.shared.state();
        state.tally.copied_items += stored.items;
        state.tally.copied_bytes += stored.bytes;
        for shard in state.goes_on(self.moves, self.cpu.refresh()) {
            self.shards.remove(shard);
        }
    }
}

const MALFORMED: HandoverError = HandoverError::Malformed { from: "the owner" };

/// What was stored of one reply.
#[derive(Default)]
struct Stored {
    items: u64,
    bytes: u64,
}

/// The names at the beginning of `names` that one message has space for.
fn first(names: Entries<'_>) -> &[u8] {
    let (all, mut left) = (names.rest(), names);
    while all.len() - left.rest().len() < NAMES_BYTES && left.next().is_some() {}
    &all[..all.len() - left.rest().len()]
}

/// Stores entries of `shards` on this member's cores, and collects the names of items that are to be looked up.
fn store(
    own: &mut OwnCores,
    shards: &ShardSet,
    entries: Entries<'_>,
    names: &mut Vec<u8>,
    has_stored: &mut bool,
) -> Result<Stored, HandoverError> {
    let mut stored = Stored::default();
    let of_these = |entry: &Entry<'_>| shards.contains(entry.name.hash);
    for entry in entries.filter(of_these) {
        if entry.is_to_look_up() {
            entry.name.put(names);
            continue;
        }
        stored.items += u64::from(entry.is_item());
        stored.bytes += entry.bytes().len() as u64;
        *has_stored = true;
        own.store(&entry)?;
    }
    own.flush()?;
    Ok(stored)
}
