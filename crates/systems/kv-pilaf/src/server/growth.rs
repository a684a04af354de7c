//! [`Growth`]: the table's memory, and how it becomes larger while it is served.
//!
//! ```text
//! load 0.75 --> memory --> written --> copied --> readers are told --> old one poisoned --> every reader has gone over,
//!                         \____ slice by slice ____/                  \_ slice by slice _/   or its lease is over: let go
//! ```
//! Where readers learn of the new table: a line that they could READ would have to hold a key of memory, and over shared
//! memory a descriptor, which only a control channel carries. So the channel it is, and the line that sends a reader
//! there is the poisoned entry itself: a client that finds one that is not whole looks at its channel at once.
//!
//! A table as large as planned goes on growing while memory at the end of the records is unused: it takes as much as it
//! becomes larger. The old table is there for the time of a lease beside the new one, beyond what was planned.
//!
//! *(Pilaf's released code disconnects all clients and builds the table anew: read in public code. All of this: our choice.)*

use super::StartError;
use super::shard::Shard;
use drover_base::Ns;
use drover_index::cuckoo::{BlankTable, CuckooTable, ENTRY_BYTES, Growth as Copied, TableFull};
use drover_mem::{PageWish, Region};
use drover_verbs::{Access, Context, MemoryRegion, Provider};
use std::rc::Rc;

/// Entries looked at per slice: some microseconds of work. *(our choice)*
const SLICE: usize = 128;

/// Entries more for every PUT since the last slice. Three times the entries there were are written and copied, so new keys
/// take a tenth of the places until then at most: a load of 0.85. *(our choice)*
const SLICE_PER_PUT: usize = 32;

/// After memory could not be had.
const RETRY_AFTER: Ns = Ns::from_ms(100);

/// What a slice came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slice {
    /// There was nothing to do.
    Idle,
    /// Something.
    Busy,
    /// The table is another one from now on: readers want to be told.
    GoneOver,
}

enum Stage<P: Provider> {
    Calm,
    /// The new table is being written.
    Writing(P::Mr, BlankTable<Region>),
    /// Both tables are in use, the new one by us alone.
    Copying(P::Mr),
    /// The old table is being poisoned.
    Poisoning,
}

/// A table that readers may still READ.
struct Retired<P: Provider> {
    epoch: u64,
    /// Then nobody's lease lasts.
    until: Ns,
    _memory: P::Mr,
}

/// How the table's memory is to be had.
pub(super) struct GrowthOptions {
    /// Most entries in memory of its own, a power of two.
    pub(super) entry_count_max: usize,
    /// More entries may have memory that no record uses.
    pub(super) grows_into_records: bool,
    /// How long a reader that says nothing may use a table that was replaced.
    pub(super) lease: Ns,
    pub(super) pages: PageWish,
}

/// The memory of the table, of the next one, and of those before.
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
    /// The first table of `entry_count` entries, and what it takes to replace it.
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

    /// The table that readers are to use.
    pub(super) fn table(&self) -> &P::Mr {
        &self.table
    }

    /// Tables that were replaced and are still there to be READ.
    pub(super) fn retired_count(&self) -> usize {
        self.retired.len()
    }

    /// Does a slice of what there is to do; `puts` have been executed in all.
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
                // Keys that fit nowhere in a table three eighths full: one still larger, or both until some are gone.
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

    /// A key has no place, load or not: whether it may have one now.
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

    /// Memory for a table twice as large. That it is had and registered at once is what cannot be cut into slices.
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
                tracing::warn!(%error, entry_count, "the table cannot grow");
                shard.take_back(beyond);
                self.retry_at = now + RETRY_AFTER;
                None
            }
        }
    }

    /// Bytes that a table of `entry_count` takes from the records, beside those that one half as large has taken.
    fn beyond(&self, entry_count: usize) -> usize {
        let own = (entry_count / 2).max(self.options.entry_count_max);
        entry_count.saturating_sub(own) * ENTRY_BYTES
    }

    /// Memory that no record uses becomes the table's. Looking for it takes a while, so it is not tried at every PUT.
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

    /// The new table is whole, and empty.
    fn written(&mut self, shard: &mut Shard) {
        if let Stage::Writing(memory, blank) = std::mem::replace(&mut self.stage, Stage::Calm) {
            shard.table.begin(blank.finish());
            self.stage = Stage::Copying(memory);
        }
    }

    /// The new table is not large enough. Rare enough to be done in one go.
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

    /// Lets go of tables that nobody reads: `is_held` says whether somebody may be reading the table of an epoch, or an
    /// older one.
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

/// Memory for `entry_count` entries, for clients to READ.
fn memory<P: Provider>(
    ctx: &Rc<P::Context>,
    entry_count: usize,
    pages: PageWish,
) -> Result<P::Mr, StartError> {
    let bytes = CuckooTable::<Region>::bytes_for(entry_count);
    Ok(ctx.register(&ctx.alloc(bytes, pages)?, Access::REMOTE_READ)?)
}
