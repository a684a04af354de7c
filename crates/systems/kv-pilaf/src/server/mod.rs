//! [`Server`]: one shard, an actor that minds its control channels and answers messages. GETs pass it by.

mod desk;
mod growth;
mod options;
mod shard;
mod wire;

pub use desk::Desk;
pub use drover_one_sided::StartError;
pub use options::{ServerOptions, ServerStats};

use crate::control::{Adopted, Attach, Grown, Hello, PROTOCOL_VERSION, Terms, Welcome};
use crate::layout::MESSAGE_HEADER_BYTES;
use drover_base::{KeyHasher, Ns};
use drover_one_sided::{Advance, Clock, Host, Membership, PeerError};
use drover_rt::control::{Frame, Message};
use drover_verbs::{Context, MemoryRegion, Provider, QueuePair};
use growth::Slice;
use std::rc::Rc;
use wire::Wire;

/// One shard and its clients.
pub type Server<P> = drover_one_sided::Server<P, Desk<P>>;

impl<P: Provider> Host<P> for Desk<P> {
    type Options = ServerOptions;
    type Stats = ServerStats;
    type Wire = Wire<P>;
    type Wishes = ();
    type Welcome = Welcome;
    type Attach = Attach;
    type News = Grown;

    const VERSION: u16 = PROTOCOL_VERSION;

    fn membership(options: &ServerOptions) -> Membership {
        assert!(options.message_bytes > MESSAGE_HEADER_BYTES);
        Membership {
            shard: options.shard,
            shard_count: options.shard_count,
            look_every: options.look_every,
            hash_seed: options.hash_seed,
        }
    }

    fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<Desk<P>, StartError> {
        Desk::<P>::new(ctx, options, hasher, clock)
    }

    fn limits(&self) -> (usize, usize) {
        (self.options.item_bytes_max, self.options.message_bytes)
    }

    fn len(&self) -> usize {
        self.shard.len()
    }

    /// Those that wait in quarantine included.
    fn used_bytes(&self) -> usize {
        self.shard.used_bytes()
    }

    fn stats(&self) -> ServerStats {
        ServerStats {
            evictions: self.shard.evictions(),
            ..self.stats
        }
    }

    fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        hello: &Hello,
        terms: Terms,
    ) -> Result<(Wire<P>, Welcome), PeerError> {
        let table = self.table()?;
        let sizes = (self.options.message_bytes, self.options.item_bytes_max);
        let wire = Wire::<P>::new(ctx, usize::from(hello.slots), sizes, table.epoch)?;
        let welcome = Welcome {
            terms,
            table,
            extents: self.extents.export(&[])?,
            qp: wire.queues.qp.export()?,
        };
        Ok((wire, welcome))
    }

    fn attach(&mut self, ctx: &Rc<P::Context>, wire: &mut Wire<P>, attach: &Attach) -> Result<(), PeerError> {
        if wire.values.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        wire.values = Some(ctx.import_region(&attach.values)?);
        Ok(wire.queues.qp.connect(&attach.qp)?)
    }

    fn hear(&mut self, wire: &mut Wire<P>, frame: &Frame) -> Result<(), PeerError> {
        match frame.kind {
            Adopted::KIND => wire.adopted(frame.decode::<Adopted>()?.epoch),
            _ => Err(PeerError::OutOfOrder),
        }
    }

    fn news(&mut self, wire: &mut Wire<P>) -> Result<Option<Grown>, PeerError> {
        match wire.tell(self.epoch()) {
            true => Ok(Some(Grown { table: self.table()? })),
            false => Ok(None),
        }
    }

    fn serve(&mut self, cpu: &P::Cpu, wire: &mut Wire<P>) -> Result<bool, PeerError> {
        wire.serve(cpu, self)
    }

    fn close(&mut self, ctx: &Rc<P::Context>, mut wire: Wire<P>) {
        wire.give_up(self);
        let values = wire.values;
        drop(wire);
        if let Some(values) = values {
            ctx.forget_region(&values);
        }
    }

    fn looked<'a>(&mut self, now: Ns, wires: impl Iterator<Item = &'a Wire<P>> + Clone)
    where
        Wire<P>: 'a,
    {
        self.growth
            .let_go(now, |epoch| wires.clone().any(|wire| wire.holds(epoch)));
    }

    fn advance(&mut self, now: Ns) -> Advance {
        match self.grow(now) {
            Slice::Idle => Advance::Idle,
            Slice::Busy => Advance::Busy,
            Slice::GoneOver => Advance::News,
        }
    }
}
