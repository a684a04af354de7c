//! [`Server`]: one shard, an actor. It handles the control channels and executes messages. GETs by READ do not involve
//! it.

mod connection;
mod growth;
mod options;
mod shard;
mod state;

pub use options::{ServerOptions, ServerStats};
pub use state::ShardState;

use crate::control::{Adopted, Attach, Grown, Hello, PROTOCOL_VERSION, ServerParams, Welcome};
use crate::layout::MESSAGE_HEADER_BYTES;
use connection::Connection;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_control::{Frame, Message};
use drover_kv::ShardPlan;
use drover_kv::StartError;
use drover_one_sided::{Clock, LastUpdates, Membership, PeerError, ShardLogic, WorkDone};
use drover_verbs::{Context, MemoryRegion, Provider, QueuePair};
use growth::Slice;
use std::rc::Rc;

/// A server of one Pilaf shard: an actor that owns table, records, and its ends of the connections to clients.
pub type Server<P> = drover_one_sided::Server<P, ShardState<P>>;

impl<P: Provider> ShardLogic<P> for ShardState<P> {
    type Options = ServerOptions;
    type Common = ();
    type Stats = ServerStats;
    type Connection = Connection<P>;
    type ClientParams = ();
    type Welcome = Welcome;
    type Attach = Attach;
    type Notification = Grown;

    const VERSION: u16 = PROTOCOL_VERSION;

    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> ServerOptions {
        crate::system::options(plan, index, seed)
    }

    fn counters(&self) -> Vec<u64> {
        let stats = self.stats();
        vec![
            stats.gets,
            stats.puts,
            stats.deletes,
            stats.pulls,
            self.len() as u64,
            self.used_bytes() as u64,
            stats.evictions,
            self.entry_count() as u64,
            stats.growths,
            stats.refusals.memory_full,
            stats.refusals.table_full,
            stats.repeated,
        ]
    }

    fn membership(options: &ServerOptions) -> Membership {
        assert!(options.message_bytes > MESSAGE_HEADER_BYTES);
        options.membership
    }

    fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
        (): &(),
    ) -> Result<ShardState<P>, StartError> {
        ShardState::<P>::new(ctx, options, hasher, clock)
    }

    fn limits(&self) -> (usize, usize) {
        (self.options.item_bytes_max, self.options.message_bytes)
    }

    fn len(&self) -> usize {
        self.shard.len()
    }

    /// Includes records that are being written, but not those in quarantine.
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
        terms: ServerParams,
    ) -> Result<(Connection<P>, Welcome), PeerError> {
        let table = self.table()?;
        let sizes = (self.options.message_bytes, self.options.item_bytes_max);
        let conn = Connection::<P>::new(ctx, usize::from(hello.slots), sizes, table.epoch)?;
        let welcome = Welcome {
            terms,
            table,
            extents: self.extents.export(&[])?,
            qp: conn.queues.qp.export()?,
        };
        Ok((conn, welcome))
    }

    fn attach(
        &mut self,
        ctx: &Rc<P::Context>,
        conn: &mut Connection<P>,
        attach: &Attach,
    ) -> Result<(), PeerError> {
        if conn.values.is_some() {
            return Err(PeerError::OutOfOrder);
        }
        conn.values = Some(ctx.import_region(&attach.values)?);
        Ok(conn.queues.qp.connect(&attach.qp)?)
    }

    fn receive(&mut self, conn: &mut Connection<P>, frame: &Frame) -> Result<(), PeerError> {
        match frame.kind {
            Adopted::KIND => conn.adopted(frame.decode::<Adopted>()?.epoch),
            _ => Err(PeerError::OutOfOrder),
        }
    }

    fn notification(&mut self, conn: &mut Connection<P>) -> Result<Option<Grown>, PeerError> {
        match conn.notify(self.epoch()) {
            true => Ok(Some(Grown { table: self.table()? })),
            false => Ok(None),
        }
    }

    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Connection<P>) -> Result<bool, PeerError> {
        conn.serve(cpu, self)
    }

    fn last_updates(conn: &mut Connection<P>) -> &mut LastUpdates {
        &mut conn.updates
    }

    fn close(&mut self, ctx: &Rc<P::Context>, mut conn: Connection<P>) {
        conn.give_up(self);
        let values = conn.values;
        drop(conn);
        if let Some(values) = values {
            ctx.forget_region(&values);
        }
    }

    fn control_polled<'a>(&mut self, now: Ns, conns: impl Iterator<Item = &'a Connection<P>> + Clone)
    where
        Connection<P>: 'a,
    {
        self.growth
            .let_go(now, |epoch| conns.clone().any(|conn| conn.holds(epoch)));
    }

    fn advance(&mut self, now: Ns) -> WorkDone {
        match self.grow(now) {
            Slice::Idle => WorkDone::Idle,
            Slice::Busy => WorkDone::Busy,
            Slice::GoneOver => WorkDone::Notify,
        }
    }
}
