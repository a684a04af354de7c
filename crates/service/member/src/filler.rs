//! [`Filler`]: the thread that fills the copies of this member's shards, while the shards are served.
//!
//! ```text
//! filling  what changes from now on is sent to the keeper, and holds no core
//! scan     each of the cores with such shards sends the items that it has
//! drained  the keeper has taken all of that
//! gated    replies wait for the keeper from now on
//! drained  the keeper has taken all that changed before
//! filled   the agent commits the map in which the copies are complete
//! ```
//! Shards are copied in sets: all that one keeper is to have, in one scan of each core.

use crate::connection::{Connection, HandoverError};
use crate::copies::Copied;
use crate::network::Call;
use crate::shared::Shared;
use drover_base::{Cpu, Ns};
use drover_mem::{NativeCpu, entropy};
use drover_memcached::handover::{END, ShardSet};
use drover_memcached::replicas::{drained_message, fill_message};
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest wait for something to do: an end of the member, and a new map, come with a notification.
const WAIT: Duration = Duration::from_secs(1);
/// Pause before a core is asked again that was not done.
const PAUSE: Duration = Duration::from_millis(1);
/// Time without progress after which the copies of a set are begun again. *(our choice: longer than a keeper takes to delete void items of its
/// whole memory)*
const PATIENCE: Ns = Ns::from_s(60);

/// Answers of a core that is asked whether all has been taken.
const TAKEN: u64 = 1;
const GIVEN_UP: u64 = 2;

/// Fills sets of copies, one after the other.
pub(crate) struct Filler {
    shared: Arc<Shared>,
    cpu: NativeCpu,
}

impl Filler {
    pub(crate) fn new(shared: Arc<Shared>) -> Filler {
        let cpu = NativeCpu::new(0);
        Filler { shared, cpu }
    }

    /// Works until the member ends.
    pub(crate) fn run(self) {
        while let Some(mut set) = self.next_set() {
            let result = self.fill(&mut set);
            let mut state = self.shared.state();
            state.copies.retain_current(&mut set);
            match result {
                Ok(()) => state.agent.copies_filled(&set),
                Err(error) => {
                    tracing::warn!(shards = set.len(), %error, "shards could not be copied to another member, and will be tried again");
                    state.restart_copies(&set);
                }
            }
            drop(state);
            self.shared.notify();
        }
    }

    fn next_set(&self) -> Option<Vec<Copied>> {
        let mut state = self.shared.state();
        loop {
            if state.ends.is_some() {
                return None;
            }
            let set = state.take_copies();
            if !set.is_empty() {
                return Some(set);
            }
            state = self.shared.wait(state, WAIT);
        }
    }

    /// Fills a set. `set`: those that still go on.
    fn fill(&self, set: &mut Vec<Copied>) -> Result<(), HandoverError> {
        let mut cores = Cores::connect(self, set)?;
        self.pass_rounds()?;
        cores.scan(set)?;
        cores.drain(set)?;
        let mut state = self.shared.state();
        state.copies.gate(set);
        state.publish();
        drop(state);
        self.pass_rounds()?;
        cores.drain(set)
    }

    fn pass_rounds(&self) -> Result<(), HandoverError> {
        match self.shared.pass_rounds(&self.cpu) {
            true => Ok(()),
            false => Err(timed_out()),
        }
    }
}

/// The member's cores, on the links for copies: a core that waits for a keeper serves no others.
struct Cores<'f> {
    filler: &'f Filler,
    cores: Vec<Connection>,
    /// Time of the last progress.
    progress_at: Ns,
}

impl<'f> Cores<'f> {
    /// Connects to the cores that keys of these shards belong to.
    fn connect(filler: &'f Filler, set: &[Copied]) -> Result<Cores<'f>, HandoverError> {
        let shared = &filler.shared;
        let (shard_count, core_count) = (shared.shards.shard_count(), shared.shards.core_count());
        let partitions = set
            .iter()
            .flat_map(|(shard, _)| shard.partitions(shard_count, core_count));
        let partitions: BTreeSet<usize> = partitions.collect();
        let connect = |index: usize| -> Result<Connection, HandoverError> {
            let call: Box<dyn Call> = shared.connect_copies(index)?;
            Ok(Connection::new(call))
        };
        Ok(Cores {
            filler,
            cores: partitions.into_iter().map(connect).collect::<Result<_, _>>()?,
            progress_at: filler.cpu.refresh(),
        })
    }

    /// Has every core find the items of the set.
    fn scan(&mut self, set: &mut Vec<Copied>) -> Result<(), HandoverError> {
        for core in 0..self.cores.len() {
            let mut cursor = 0;
            while cursor < END && self.goes_on(set)? {
                let next = self.ask(core, &fill_message(&self.shards_of(set), cursor))?;
                if next < cursor {
                    return Err(HandoverError::Malformed { from: "a core" });
                }
                if next > cursor {
                    self.progress_at = self.filler.cpu.refresh();
                } else {
                    thread::park_timeout(PAUSE);
                }
                cursor = next;
            }
        }
        Ok(())
    }

    /// Waits until the keeper has taken what the cores know now.
    fn drain(&mut self, set: &mut Vec<Copied>) -> Result<(), HandoverError> {
        self.progress_at = self.filler.cpu.refresh();
        for core in 0..self.cores.len() {
            let (mut mark, mut asked) = (entropy(), set.len());
            while self.goes_on(set)? {
                if set.len() < asked {
                    // What the others lacked may have been taken, or may never be.
                    (mark, asked) = (entropy(), set.len());
                }
                match self.ask(core, &drained_message(&self.shards_of(set), mark))? {
                    TAKEN => break,
                    GIVEN_UP => return Err(HandoverError::Behind),
                    _ => thread::park_timeout(PAUSE),
                }
            }
        }
        Ok(())
    }

    /// Follows the map, in which copies may have ended meanwhile. Returns whether any are left.
    ///
    /// # Errors
    /// Nothing has happened for too long.
    fn goes_on(&self, set: &mut Vec<Copied>) -> Result<bool, HandoverError> {
        let state = self.filler.shared.state();
        state.copies.retain_current(set);
        if state.ends.is_some() {
            set.clear();
        }
        if self.filler.cpu.refresh().since(self.progress_at) >= PATIENCE {
            return Err(timed_out());
        }
        Ok(!set.is_empty())
    }

    fn ask(&mut self, core: usize, message: &[u8]) -> Result<u64, HandoverError> {
        let core = &mut self.cores[core];
        // Keepers flush what their owners flush.
        core.allow_flush();
        core.ask(message, |reply| Ok(reply.number))
    }

    fn shards_of(&self, set: &[Copied]) -> ShardSet {
        let mut shards = ShardSet::new(self.filler.shared.shards.shard_count());
        set.iter().for_each(|(shard, _)| shards.insert(*shard));
        shards
    }
}

fn timed_out() -> HandoverError {
    HandoverError::Call(Error::from(ErrorKind::TimedOut))
}
