//! [`Tables`]: the current table of a shard, and replaced tables with READs still in flight.
//!
//! READs of one queue pair complete in the order of posting. So once as many entries have arrived as were in flight
//! when a new table was adopted, no READ of the old table is left, and the client reports this to the server.

use crate::control::TableDescriptor;
use drover_index::cuckoo::{CuckooTable, entry_offset};
use drover_kv::SetupError;
use drover_mem::Region;
use drover_verbs::{Context, Provider, RemoteAddr, RemoteRegion};
use std::collections::VecDeque;
use std::rc::Rc;

/// A table that was replaced.
struct Old {
    memory: RemoteRegion,
    /// READs of it that are still in flight.
    reads: usize,
    /// Epoch of the table that replaced it.
    next_epoch: u64,
}

/// The tables that a client READs.
pub(super) struct Tables<P: Provider> {
    memory: RemoteRegion,
    epoch: u64,
    entry_count: u64,
    /// READs of the current table in flight.
    reads: usize,
    old: VecDeque<Old>,
    /// Announced by the server, not adopted yet.
    newest: Option<TableDescriptor>,
    /// Epoch to report to the server: no READ of older tables is in flight.
    adopted: Option<u64>,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Tables<P> {
    /// The first table of a session.
    pub(super) fn new(ctx: &Rc<P::Context>, table: &TableDescriptor) -> Result<Tables<P>, SetupError> {
        Ok(Tables {
            memory: import::<P>(ctx, table)?,
            epoch: table.epoch,
            entry_count: table.entry_count,
            reads: 0,
            old: VecDeque::new(),
            newest: None,
            adopted: None,
            ctx: ctx.clone(),
        })
    }

    /// Epoch of the current table.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of entries of the current table.
    pub(super) fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// Takes note of the server's new table. A client that was silent may receive several; only the newest counts,
    /// others may no longer exist.
    pub(super) fn receive(&mut self, table: TableDescriptor) {
        self.newest = Some(table);
    }

    /// Switches to the newest announced table; returns whether there was one.
    pub(super) fn adopt(&mut self) -> Result<bool, SetupError> {
        let Some(table) = self.newest.take() else {
            return Ok(false);
        };
        if table.epoch <= self.epoch || table.entry_count <= self.entry_count {
            return Err(SetupError::Unusable { what: "new table" });
        }
        let memory = import::<P>(&self.ctx, &table)?;
        self.old.push_back(Old {
            memory: std::mem::replace(&mut self.memory, memory),
            reads: std::mem::take(&mut self.reads),
            next_epoch: table.epoch,
        });
        (self.epoch, self.entry_count) = (table.epoch, table.entry_count);
        self.let_go();
        Ok(true)
    }

    /// Address of entry `index`, whose READ counts as in flight from now on.
    pub(super) fn begin_read(&mut self, index: u64) -> RemoteAddr {
        self.reads += 1;
        self.memory.at(entry_offset(index))
    }

    /// The READ of an entry has completed.
    pub(super) fn end_read(&mut self) {
        match self.old.front_mut() {
            Some(old) => {
                old.reads -= 1;
                self.let_go();
            }
            None => self.reads -= 1,
        }
    }

    fn let_go(&mut self) {
        while let Some(old) = self.old.pop_front_if(|old| old.reads == 0) {
            self.ctx.forget_region(&old.memory);
            self.adopted = Some(old.next_epoch);
        }
    }

    /// The epoch to report to the server, once.
    pub(super) fn take_adopted(&mut self) -> Option<u64> {
        self.adopted.take()
    }
}

impl<P: Provider> Drop for Tables<P> {
    fn drop(&mut self) {
        self.ctx.forget_region(&self.memory);
        for old in &self.old {
            self.ctx.forget_region(&old.memory);
        }
    }
}

/// Imports the memory of a table and checks its length.
fn import<P: Provider>(ctx: &Rc<P::Context>, table: &TableDescriptor) -> Result<RemoteRegion, SetupError> {
    let entry_count = table.entry_count;
    if !entry_count.is_power_of_two() || entry_count > 1 << 32 {
        return Err(SetupError::Unusable { what: "geometry" });
    }
    let memory = ctx.import_region(&table.memory)?;
    if memory.len < CuckooTable::<Region>::bytes_for(entry_count as usize) as u64 {
        ctx.forget_region(&memory);
        return Err(SetupError::Unusable { what: "table" });
    }
    Ok(memory)
}
