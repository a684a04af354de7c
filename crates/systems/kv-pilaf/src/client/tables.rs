//! [`Tables`]: the table of a shard, and those before it of which READs are still under way.
//!
//! READs of one queue pair complete in the order in which they were posted. So once as many entries have come as were
//! under way when a new table was adopted, nothing of the old one is missing, and the server is told.

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
    /// Entries of it that are still to come.
    reads: usize,
    /// Of the table that replaced it.
    next_epoch: u64,
}

/// What a client reads entries of.
pub(super) struct Tables<P: Provider> {
    memory: RemoteRegion,
    epoch: u64,
    entry_count: u64,
    /// Entries of it under way.
    reads: usize,
    old: VecDeque<Old>,
    /// Heard of, not adopted yet.
    newest: Option<TableDescriptor>,
    /// The server does not know yet that we read nothing older.
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

    /// Of the table.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Of the table.
    pub(super) fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// The server says that the table has grown. Who was away may hear of several: the newest counts, others may be gone.
    pub(super) fn receive(&mut self, table: TableDescriptor) {
        self.newest = Some(table);
    }

    /// Goes over to the newest table. True if there is one.
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

    /// Where entry `index` is; it is under way from now on.
    pub(super) fn begin_read(&mut self, index: u64) -> RemoteAddr {
        self.reads += 1;
        self.memory.at(entry_offset(index))
    }

    /// An entry has come.
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

    /// The epoch that the server is to be told of.
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

/// The memory of a table that is as large as it says.
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
