//! [`Server`]: one shard, an actor. It handles the control channels and polls its clients' rings. GETs by READ do not
//! involve it.

mod connection;
mod options;
mod places;
mod shard;
mod state;

pub use options::{ServerOptions, ServerStats};
pub(crate) use state::ITEM_BYTES_MAX;
pub use state::ShardState;

use crate::control::{Attach, FarmParams, Hello, PROTOCOL_VERSION, Ready, ServerParams, Welcome};
use crate::layout::REQUEST_HEADER_BYTES;
use connection::Connection;
use drover_base::{HashSeed, KeyHasher};
use drover_kv::StartError;
use drover_kv::{EXTENSION_BYTES, KEY_BYTES_MAX, ShardPlan};
use drover_mem::round_up;
use drover_one_sided::{Clock, LastUpdates, Membership, PeerError, ShardLogic};
use drover_rpc::ring::{REPLY_TRAILER_BYTES, RingParams, record_bytes};
use drover_verbs::{Context, MemoryRegion, Provider};
use std::rc::Rc;

/// A server of one FaRM-KV shard: an actor that owns table, objects, and its ends of the connections to clients.
pub type Server<P> = drover_one_sided::Server<P, ShardState<P>>;

impl<P: Provider> ShardLogic<P> for ShardState<P> {
    type Options = ServerOptions;
    type Common = ();
    type Stats = ServerStats;
    type Connection = Connection<P>;
    type ClientParams = FarmParams;
    type Welcome = Welcome;
    type Attach = Attach;
    /// FaRM-KV sends no notifications.
    type Notification = Ready;

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
            self.options.home_count as u64,
            stats.refusals.memory_full,
            stats.refusals.table_full,
            stats.repeated,
        ]
    }

    fn membership(options: &ServerOptions) -> Membership {
        let longest_lead = (REQUEST_HEADER_BYTES + EXTENSION_BYTES).max(REPLY_TRAILER_BYTES);
        assert!(options.message_bytes >= longest_lead + KEY_BYTES_MAX);
        assert!(record_bytes(options.message_bytes) <= options.ring_bytes / 4);
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
        let options = &self.options;
        let params = RingParams {
            ring_bytes: options.ring_bytes,
            request_bytes: options.message_bytes,
            reply_bytes: round_up(options.message_bytes, 64),
            slot_count: usize::from(hello.slots),
            sums: hello.params.sums || !ctx.caps().writes.ordered,
        };
        let conn = Connection::<P>::new(ctx, params, options.item_bytes_max)?;
        let (ring, qps) = conn.exports()?;
        let welcome = Welcome {
            terms,
            table: self.table,
            reply_bytes: params.reply_bytes as u32,
            ring_bytes: options.ring_bytes as u32,
            sums: params.sums,
            slots: self.slots.export(&[])?,
            objects: self.objects.export(&[])?,
            ring,
            qps,
        };
        Ok((conn, welcome))
    }

    fn attach(
        &mut self,
        ctx: &Rc<P::Context>,
        conn: &mut Connection<P>,
        attach: &Attach,
    ) -> Result<(), PeerError> {
        conn.attach(ctx, (&attach.qps, &attach.mailbox, &attach.values))
    }

    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Connection<P>) -> Result<bool, PeerError> {
        conn.serve(cpu, self)
    }

    fn last_updates(conn: &mut Connection<P>) -> &mut LastUpdates {
        &mut conn.updates
    }

    fn close(&mut self, ctx: &Rc<P::Context>, conn: Connection<P>) {
        conn.close(ctx, self);
    }
}
