//! [`Growth`]: the table's memory, and its growth while clients READ it.
//!
//! ```text
//! load 0.75 --> memory --> written --> copied --> announced --> old table poisoned --> freed when every client has
//!                          \___ in slices ___/                  \__ in slices __/     switched, or its lease expired
//! ```
//! The announcement goes over the control channel, not through memory that clients READ, because it carries a memory
//! key, and over shared memory a file descriptor. A client that READs a poisoned entry polls its control channel at
//! once.
//!
//! A table as large as planned keeps growing while memory at the end of the records is unused, and takes as much of it as
//! it grows by. The old table exists beside the new one for the time of a lease, beyond the planned memory.
//!
//! *(Pilaf's released code disconnects all clients and builds the table anew: read in public code. Everything here:
//! our choice.)*

use super::shard::Shard;
use drover_base::Ns;
use drover_index::cuckoo::{BlankTable, CuckooTable, ENTRY_BYTES, Growth as Copied, TableFull};
use drover_kv::StartError;
use drover_mem::{PageWish, Region};
use drover_verbs::{Access, Context, MemoryRegion, Provider};
use std::rc::Rc;

/// Entries processed per slice: a few microseconds of work. *(our choice)*
const SLICE: usize = 128;

/// Additional entries per PUT since the last slice. Growth writes and copies three times the old number of entries in
/// total, so new keys fill at most a tenth of the old table meanwhile: a load of 0.85. *(our choice)*
const SLICE_PER_PUT: usize = 32;

/// Time until the next attempt after an allocation failed.
const RETRY_AFTER: Ns = Ns::from_ms(100);

/// Result of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slice {
    /// There was nothing to do.
    Idle,
    /// Work was done.
    Busy,
    /// The new table is in use: clients must be notified.
    GoneOver,
}

enum Stage<P: Provider> {
    Calm,
    /// The new table is being written.
    Writing(P::Mr, BlankTable<Region>),
    /// Both tables are maintained; clients still READ the old one.
    Copying(P::Mr),
    /// The old table is being poisoned.
    Poisoning,
}

/// A replaced table that clients may still READ.
struct Retired<P: Provider> {
    epoch: u64,
    /// End of all clients' leases.
    until: Ns,
    _memory: P::Mr,
}

/// Limits of the table's growth.
pub(super) struct GrowthOptions {
    /// Maximum number of entries in memory of the table's own, a power of two.
    pub(super) entry_count_max: usize,
    /// Whether more entries may use memory that no record uses.
    pub(super) grows_into_records: bool,
    /// How long a client that does not confirm the switch may READ a replaced table.
    pub(super) lease: Ns,
    pub(super) pages: PageWish,
}

/// The memory of the current table, of the next one, and of replaced ones.
pub(super) struct Growth<P: Provider> {
    options: GrowthOptions,
    table: P::Mr,
    stage: Stage<P>,
    retired: Vec<Retired<P>>,
    retry_at: Ns,
    puts: u64,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Growth<P> {
    /// Creates the first table, of `entry_count` entries, and the state for its growth.
    pub(super) fn new(
        ctx: &Rc<P::Context>,
        options: GrowthOptions,
        entry_count: usize,
        epoch: u64,
    ) -> Result<(Growth<P>, CuckooTable<Region>), StartError> {
        let table = memory::<P>(ctx, entry_count, options.pages)?;
        let cuckoo = CuckooTable::new(table.region().clone(), entry_count, epoch);
        let growth = Growth {
            options,
            table,
            stage: Stage::Calm,
            retired: Vec::new(),
            retry_at: Ns::ZERO,
            puts: 0,
            ctx: ctx.clone(),
        };
        Ok((growth, cuckoo))
    }

    /// The table that clients READ.
    pub(super) fn table(&self) -> &P::Mr {
        &self.table
    }

    /// Number of replaced tables whose memory is still registered.
    pub(super) fn retired_count(&self) -> usize {
        self.retired.len()
    }

    /// Does a slice of work, if there is any; `puts` is the total number of PUTs executed.
    pub(super) fn advance(&mut self, shard: &mut Shard, puts: u64, now: Ns) -> Slice {
        let count = SLICE + SLICE_PER_PUT * (puts - self.puts) as usize;
        self.puts = puts;
        match &mut self.stage {
            Stage::Calm if !shard.table.table().wants_growth() || now < self.retry_at => Slice::Idle,
            Stage::Calm => match self.begin(shard, now) {
                true => Slice::Busy,
                false => Slice::Idle,
            },
            Stage::Writing(_, blank) => {
                if blank.advance(count) {
                    self.written(shard);
                }
                Slice::Busy
            }
            Stage::Copying(_) => match shard.table.advance(count) {
                Ok(Copied::Copied) => {
                    self.go_over(shard, now);
                    Slice::GoneOver
                }
                Ok(_) => Slice::Busy,
                // Some keys find no entry although the new table is at most three eighths full: allocate a larger one,
                // or keep both tables until keys are deleted.
                Err(TableFull) if now >= self.retry_at && self.enlarge(shard, now) => Slice::Busy,
                Err(TableFull) => Slice::Idle,
            },
            Stage::Poisoning => {
                if shard.table.poison(count).is_some() {
                    self.stage = Stage::Calm;
                }
                Slice::Busy
            }
        }
    }

    /// Called when a key finds no entry, at any load. Finishes or starts growth at once; returns whether the key may
    /// fit now.
    pub(super) fn hurry(&mut self, shard: &mut Shard, now: Ns) -> bool {
        if let Stage::Poisoning = self.stage {
            shard.table.poison(usize::MAX);
            self.stage = Stage::Calm;
        }
        if let Stage::Copying(_) = self.stage {
            return self.enlarge(shard, now);
        }
        if let Stage::Calm = self.stage
            && !self.begin(shard, now)
        {
            return false;
        }
        self.written(shard);
        true
    }

    /// Allocates and registers memory for a table twice as large. This is the only part that cannot be divided into
    /// slices.
    fn begin(&mut self, shard: &mut Shard, now: Ns) -> bool {
        let (epoch, entry_count) = (shard.table.table().epoch() + 1, shard.table.table().entry_count());
        let Some((memory, entry_count)) = self.larger(shard, entry_count, now) else {
            return false;
        };
        let blank = BlankTable::new(memory.region().clone(), entry_count, epoch);
        self.stage = Stage::Writing(memory, blank);
        true
    }

    fn larger(&mut self, shard: &mut Shard, entry_count: usize, now: Ns) -> Option<(P::Mr, usize)> {
        let entry_count = entry_count * 2;
        let beyond = self.beyond(entry_count);
        if beyond > 0 && !self.take_from_records(shard, beyond, now) {
            return None;
        }
        match memory::<P>(&self.ctx, entry_count, self.options.pages) {
            Ok(memory) => Some((memory, entry_count)),
            Err(error) => {
                tracing::warn!(%error, entry_count, "no memory for a larger table");
                shard.take_back(beyond);
                self.retry_at = now + RETRY_AFTER;
                None
            }
        }
    }

    /// Bytes that a table of `entry_count` takes from the records, in addition to those that one half as large has taken.
    fn beyond(&self, entry_count: usize) -> usize {
        let own = (entry_count / 2).max(self.options.entry_count_max);
        entry_count.saturating_sub(own) * ENTRY_BYTES
    }

    /// Gives memory that no record uses to the table. The search takes a while, so it is not repeated at every PUT.
    fn take_from_records(&mut self, shard: &mut Shard, bytes: usize, now: Ns) -> bool {
        if !self.options.grows_into_records || now < self.retry_at {
            return false;
        }
        let is_had = shard.give_up(bytes);
        if !is_had {
            self.retry_at = now + RETRY_AFTER;
        }
        is_had
    }

    /// The new table is written and empty: starts to copy keys.
    fn written(&mut self, shard: &mut Shard) {
        if let Stage::Writing(memory, blank) = std::mem::replace(&mut self.stage, Stage::Calm) {
            shard.table.begin(blank.finish());
            self.stage = Stage::Copying(memory);
        }
    }

    /// Restarts the copy with a larger table, because the new one is too small. This is rare, so it is done in one
    /// step.
    fn enlarge(&mut self, shard: &mut Shard, now: Ns) -> bool {
        let Some(next) = shard.table.next() else {
            return false;
        };
        let (epoch, entry_count) = (next.epoch() + 1, next.entry_count());
        let Some((memory, entry_count)) = self.larger(shard, entry_count, now) else {
            self.retry_at = now + RETRY_AFTER;
            return false;
        };
        let larger = CuckooTable::new(memory.region().clone(), entry_count, epoch);
        let is_larger = shard.table.restart(larger).is_ok();
        match is_larger {
            true => self.stage = Stage::Copying(memory),
            false => shard.take_back(self.beyond(entry_count)),
        }
        is_larger
    }

    fn go_over(&mut self, shard: &mut Shard, now: Ns) {
        let epoch = shard.table.table().epoch();
        shard.table.go_over();
        if let Stage::Copying(memory) = std::mem::replace(&mut self.stage, Stage::Poisoning) {
            self.retired.push(Retired {
                epoch,
                until: now + self.options.lease,
                _memory: std::mem::replace(&mut self.table, memory),
            });
        }
    }

    /// Frees replaced tables that no client READs. `is_held` says whether a client may still READ the table of an
    /// epoch, or an older one.
    pub(super) fn let_go(&mut self, now: Ns, is_held: impl Fn(u64) -> bool) {
        let poisoned = match self.stage {
            Stage::Poisoning => self.retired.len().saturating_sub(1),
            _ => self.retired.len(),
        };
        let mut index = 0;
        self.retired.retain(|retired| {
            index += 1;
            index > poisoned || now < retired.until && is_held(retired.epoch)
        });
    }
}

/// Allocates and registers memory for `entry_count` entries, which clients may READ.
fn memory<P: Provider>(
    ctx: &Rc<P::Context>,
    entry_count: usize,
    pages: PageWish,
) -> Result<P::Mr, StartError> {
    let bytes = CuckooTable::<Region>::bytes_for(entry_count);
    Ok(ctx.register(&ctx.alloc(bytes, pages)?, Access::REMOTE_READ)?)
}
