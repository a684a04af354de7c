//! [`Server`]: one shard, an actor. It polls its clients' request slots and executes requests on its partition.

mod connection;
mod in_place;
mod one_by_one;
mod options;
mod second_look;
mod state;
mod store;

pub use options::{ServerOptions, ServerStats};
pub use state::ShardState;
pub use store::{OpenedOnce, ShardStore};

use crate::control::{
    Attach, Hello, NewMap, PROTOCOL_VERSION, RfpParams, ServerParams, Welcome, conn_params,
};
use crate::variant::Variant;
use connection::Connection;
use drover_base::{HashSeed, KeyHasher, Ns};
use drover_kv::{EXTENSION_BYTES, KEY_BYTES_MAX, ShardPlan, StartError};
use drover_one_sided::{
    Clock, LastUpdates, Membership, PeerError, REQUEST_HEADER_BYTES, ShardLogic, WorkDone,
};
use drover_rpc::fetch::{CalleeStats, Transfer};
use drover_verbs::Provider;
use std::rc::Rc;

/// A server of one shard: an actor that owns a partition, and its ends of the connections to clients.
pub type Server<P, V> = drover_one_sided::Server<P, ShardState<P, V>>;

impl<P: Provider, V: Variant> ShardLogic<P> for ShardState<P, V> {
    type Options = ServerOptions;
    type Common = <V::Store as ShardStore>::Common;
    type Stats = ServerStats;
    type Connection = Connection<P, V>;
    type ClientParams = RfpParams;
    type Welcome = Welcome;
    type Attach = Attach;
    type Notification = NewMap;

    const VERSION: u16 = PROTOCOL_VERSION;
    const HAS_EVERY_KEY: bool = V::Store::IS_SHARED;

    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> ServerOptions {
        crate::system::options::<V>(plan, index, seed)
    }

    fn counters(&self) -> Vec<u64> {
        let (stats, partition, calls) = (self.stats, self.partition.stats(), self.calls);
        let mut counters = vec![
            stats.gets,
            stats.puts,
            stats.deletes,
            stats.pulls,
            stats.long_pushes,
            partition.items,
            partition.bytes,
            partition.evicted(),
            partition.slots,
            stats.refusals.memory_full,
            calls.parked,
            calls.pushes,
            calls.late_pushes,
            calls.sum_rejects,
            stats.repeated,
            stats.quarantined,
        ];
        if !V::Store::IS_SHARED {
            counters.push(stats.elsewhere);
        }
        if let Some(store) = self.partition.shared() {
            let locks = store.locks();
            counters.push(stats.in_place);
            for lock in [locks.stripes, locks.lists, locks.space] {
                counters.extend([lock.acquisitions, lock.waits]);
            }
        }
        counters
    }

    fn membership(options: &ServerOptions) -> Membership {
        // As clients count what fits a slot, with the longer header of the other systems' requests.
        assert!(options.slot_bytes >= REQUEST_HEADER_BYTES + EXTENSION_BYTES + KEY_BYTES_MAX);
        options.membership
    }

    fn new(
        ctx: &Rc<P::Context>,
        options: &ServerOptions,
        hasher: KeyHasher,
        clock: Clock,
        common: &Self::Common,
    ) -> Result<ShardState<P, V>, StartError> {
        ShardState::new(ctx, options, hasher, clock, common)
    }

    fn limits(&self) -> (usize, usize) {
        (self.options.item_bytes_max, self.options.slot_bytes)
    }

    fn len(&self) -> usize {
        self.partition.stats().items as usize
    }

    fn used_bytes(&self) -> usize {
        self.partition.stats().bytes as usize
    }

    fn stats(&self) -> ServerStats {
        self.stats
    }

    fn open(
        &mut self,
        ctx: &Rc<P::Context>,
        hello: &Hello,
        terms: ServerParams,
    ) -> Result<(Connection<P, V>, Welcome), PeerError> {
        let result_bytes = self.options.slot_bytes;
        let params = conn_params(&terms, result_bytes, usize::from(hello.slots));
        // The first that does not leave it open: the system, the client, the operator.
        let ways = [V::TRANSFER, hello.params.transfer, self.options.transfer];
        let transfer = ways.into_iter().find(|way| *way != Transfer::Auto);
        let transfer = transfer.unwrap_or(Transfer::Auto);
        let mut conn = Connection::<P, V>::new(ctx, &params, self.options.item_bytes_max, transfer)?;
        let in_place = match &self.items {
            Some(items) => Some(conn.read_in_place(items, params.layout.place_count)?),
            None => None,
        };
        let (inbound, results, qps) = conn.exports()?;
        let welcome = Welcome {
            terms,
            result_bytes: result_bytes as u32,
            transfer,
            inbound,
            results,
            qps,
            in_place,
            map: self.map().clone(),
        };
        conn.map_epoch = self.map().epoch();
        Ok((conn, welcome))
    }

    fn notification(&mut self, conn: &mut Connection<P, V>) -> Result<Option<NewMap>, PeerError> {
        let map = self.map();
        let is_new = map.epoch() > conn.map_epoch;
        conn.map_epoch = map.epoch();
        Ok(is_new.then(|| NewMap { map: map.clone() }))
    }

    fn attach(
        &mut self,
        ctx: &Rc<P::Context>,
        conn: &mut Connection<P, V>,
        attach: &Attach,
    ) -> Result<(), PeerError> {
        conn.attach(ctx, attach)
    }

    fn serve(&mut self, cpu: &P::Cpu, conn: &mut Connection<P, V>) -> Result<bool, PeerError> {
        match conn.has_work(cpu, self) {
            true => conn.serve(cpu, self),
            false => Ok(false),
        }
    }

    fn last_updates(conn: &mut Connection<P, V>) -> &mut LastUpdates {
        &mut conn.updates
    }

    fn close(&mut self, _: &Rc<P::Context>, conn: Connection<P, V>) {
        self.stats.quarantined += 1;
        add(&mut self.closed_calls, conn.stats());
        self.close_connection(conn);
    }

    fn control_polled<'a>(&mut self, _: Ns, conns: impl Iterator<Item = &'a Connection<P, V>> + Clone)
    where
        Connection<P, V>: 'a,
    {
        self.close_leaving();
        self.calls = self.closed_calls;
        conns.for_each(|conn| add(&mut self.calls, conn.stats()));
    }

    fn advance(&mut self, now: Ns) -> WorkDone {
        self.second_look.step_ends(now);
        WorkDone::Idle
    }

    fn next_timer(&self) -> Ns {
        self.second_look.next_timer()
    }
}

fn add(sum: &mut CalleeStats, stats: &CalleeStats) {
    sum.calls += stats.calls;
    sum.parked += stats.parked;
    sum.pushes += stats.pushes;
    sum.late_pushes += stats.late_pushes;
    sum.sum_rejects += stats.sum_rejects;
}
