//! [`OwnCores`]: the cores of this member, as a hand-over stores items there.

use crate::connection::{Connection, HandoverError};
use crate::shared::Shared;
use drover_memcached::handover::{Entry, PAGE_BYTES, StoreMessage};

/// Connections to the cores, and a message for each in the making.
pub(crate) struct OwnCores {
    cores: Vec<Connection>,
    messages: Vec<(StoreMessage, u64)>,
}

impl OwnCores {
    /// Connects to them.
    pub(crate) fn connect(shared: &Shared) -> Result<OwnCores, HandoverError> {
        let cores: Vec<_> = shared.connect_own()?.into_iter().map(Connection::new).collect();
        let messages = cores.iter().map(|_| (StoreMessage::new(0), 0)).collect();
        Ok(OwnCores { cores, messages })
    }

    /// Notes how often each core has flushed its items.
    pub(crate) fn begin(&mut self) -> Result<(), HandoverError> {
        self.finish(0)
    }

    /// Stores an entry on its core, now or with the next ones.
    pub(crate) fn store(&mut self, entry: &Entry<'_>) -> Result<(), HandoverError> {
        let core = entry.name.hash.partition_index(self.cores.len());
        let held_bytes = self.messages[core].0.entry_bytes();
        // A long item is alone in its message, so that no message is much longer than the longest item.
        if held_bytes > 0 && held_bytes + entry.bytes().len() > PAGE_BYTES {
            self.send(core)?;
        }
        let (message, count) = &mut self.messages[core];
        message.push(entry);
        *count += 1;
        Ok(())
    }

    /// Stores what has been held back.
    pub(crate) fn flush(&mut self) -> Result<(), HandoverError> {
        for core in 0..self.cores.len() {
            if self.messages[core].1 > 0 {
                self.send(core)?;
            }
        }
        Ok(())
    }

    /// Has all cores go on above `version`, and makes sure that none has flushed what was stored.
    pub(crate) fn finish(&mut self, version: u64) -> Result<(), HandoverError> {
        self.flush()?;
        for core in 0..self.cores.len() {
            self.messages[core] = (StoreMessage::new(version), 0);
            self.send(core)?;
        }
        Ok(())
    }

    fn send(&mut self, core: usize) -> Result<(), HandoverError> {
        let empty = (StoreMessage::new(0), 0);
        let (message, count) = std::mem::replace(&mut self.messages[core], empty);
        self.cores[core].ask(message.bytes(), |reply| match reply.number == count {
            true => Ok(()),
            false => Err(HandoverError::Full),
        })
    }
}
