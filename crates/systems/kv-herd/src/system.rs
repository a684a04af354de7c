//! [`Herd`]: HERD's implementation of [`System`], for the table of systems.

use crate::client::{ClientOptions, HerdClient, RequestFormat};
use crate::server::{
    COUNTERS, ClientLimits, ClockStart, IdentityOptions, ReadByAll, RequestRules, Server, ServerOptions,
};
use drover_base::HashKind;
use drover_control::{ControlListener, Dial};
use drover_kv::{
    Capacity, Channels, CoActors, Completion, ConnectOptions, Facts, Hosting, HostingJob, HostingService,
    HostingSystem, Offers, OnCore, Op, OperationOffers, Policy, SHARDS_MAX, Service, ServiceClient,
    ServiceStats, SetupError, SizeLimits, Sizes, StartError, System,
};
use drover_mem::{LINE_BYTES, NativeCpu, PageWish};
use drover_store::{Mode, PartitionOptions, VALUE_BYTES_MAX};
use drover_verbs::Provider;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// The system HERD, for the table of systems: requests by WRITE, replies by SEND, one worker per partition.
#[derive(Clone, Copy, Debug)]
pub struct Herd;

const FACTS: Facts = Facts {
    name: crate::control::SYSTEM,
    about: "requests are WRITEs into slots that workers poll, replies are datagrams; serves memcached's clients, too",
    needs: "UC and UD queue pairs",
    reads_words: false,
    fits: |caps| caps.supports.uc && caps.supports.ud,
    table: None,
    channels: Channels::One,
    offers: Offers {
        service: true,
        memcached: true,
        gateway: false,
        request_slots: true,
        transfer: false,
        memory_file: Ok(()),
        eviction: Ok(()),
        evicts: true,
        sends_again: true,
        expiry_lag_s: 0,
        isolates: true,
        operations: OperationOffers::POINT,
    },
    cluster: Ok(()),
    counters: &COUNTERS,
    work: crate::costs::BUDGET,
};

/// Smallest memory of a partition, bytes; with less there is no plan.
const MEMORY_BYTES_MIN: usize = 1 << 16;
/// Memory is divided in whole pages.
const PAGE_BYTES: usize = 4096;
/// Number of RECVs that each worker posts for request datagrams: enough for 16 requests in flight of each of 64
/// clients.
const DATAGRAM_RECVS: usize = 1024;

const _: () = assert!(SHARDS_MAX <= crate::control::PARTITIONS_MAX);

/// Options of a HERD server, computed from [`Sizes`] and a [`Policy`].
#[derive(Clone, Debug)]
pub struct HerdPlan {
    /// Options of the server. A server that hosts co-actors gets its memory file, hash seed and clock from [`Hosting`]
    /// instead.
    pub server: ServerOptions,
    /// Bytes of the items that requests touch, all partitions together: the memory, or with [`Capacity::Items`] the
    /// items.
    item_bytes: usize,
}

impl System for Herd {
    const FACTS: Facts = FACTS;
    type Plan = HerdPlan;
    type Client<P: Provider> = HerdClient<P>;

    /// With [`Capacity::Memory`], each partition has its share of the memory for items and index. With
    /// [`Capacity::Items`], partitions have space for twice the number of items, because MICA's index loses items when
    /// its buckets are unevenly full (0.7 % at half load). No shards count as one.
    ///
    /// # Errors
    /// The memory is less than 64 KiB per shard.
    fn plan(sizes: &Sizes) -> Result<HerdPlan, String> {
        let shards = sizes.shard_count.max(1);
        let mode = Mode::S3_FIFO;
        let (partition, item_bytes, item_bytes_max) = match sizes.capacity {
            Capacity::Memory { bytes } => {
                let share = bytes / shards;
                if share < MEMORY_BYTES_MIN {
                    return Err(format!("too little or too much for {shards} partitions"));
                }
                let partition = PartitionOptions::for_memory(mode, share & !(PAGE_BYTES - 1));
                (partition, bytes, sizes.value_bytes_max)
            }
            Capacity::Items { count, key_bytes } => {
                let item_bytes = drover_store::item_bytes(key_bytes, sizes.value_bytes_max);
                let share = count.div_ceil(shards as u64) as usize;
                let partition = PartitionOptions::for_items(mode, share * 2, item_bytes);
                let all = count as usize * item_bytes;
                (partition, all, sizes.value_bytes_max.max(1 << 10))
            }
        };
        let server = ServerOptions {
            partition_count: shards,
            partition,
            item_bytes_max: item_bytes_max.min(VALUE_BYTES_MAX),
            clients: ClientLimits {
                window_max: sizes.window.next_power_of_two(),
                ..ClientLimits::default()
            },
            ..ServerOptions::default()
        };
        Ok(HerdPlan { server, item_bytes })
    }

    fn set_policy(plan: &mut HerdPlan, policy: &Policy) {
        let server = &mut plan.server;
        let mode = match policy.evicts {
            true => Mode::Cache {
                eviction: policy.eviction,
            },
            false => Mode::Store,
        };
        server.partition = server.partition.in_mode(mode);
        server.partition.pages = match policy.large_pages {
            true => PageWish::Huge,
            false => PageWish::HugeIfAny,
        };
        server.clients.count_max = policy.clients_max;
        server.idle = policy.idle;
        server.clients.slot_bytes_max = policy.slots.bytes_max;
        server.clients.with_slots_max = policy.slots.clients_max;
        server.clients.datagram_recvs = match policy.slots.clients_max < policy.clients_max {
            true => DATAGRAM_RECVS,
            false => 0,
        };
    }

    /// Half of a partition's memory for items, and the limit on the length of values, which does not count keys.
    /// *(memcached, too, allows an item half of its memory)*
    fn item_bytes_max(plan: &mut HerdPlan) -> (usize, &mut usize) {
        (
            plan.server.partition.log_bytes / 2,
            &mut plan.server.item_bytes_max,
        )
    }

    fn hash(plan: &mut HerdPlan) -> &mut HashKind {
        &mut plan.server.identity.hash
    }

    fn footprint(plan: &HerdPlan) -> [usize; 2] {
        [Herd::entry_count(plan) / 8 * LINE_BYTES, plan.item_bytes]
    }

    fn entry_count(plan: &HerdPlan) -> usize {
        plan.server.partition.bucket_count * 8 * plan.server.partition_count
    }

    fn describe(plan: &HerdPlan) -> Vec<String> {
        let (count, partition) = (plan.server.partition_count, &plan.server.partition);
        vec![
            format!(
                "{count} partition(s) of {} KiB for items and index",
                partition.bytes() >> 10,
            ),
            format!("when full: {}", partition.mode.when_full()),
        ]
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &HerdPlan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, StartError> {
        let server = Server::<P>::start(device, listeners, &plan.server, on_core)?;
        Ok(Box::new(server))
    }

    fn hosting<J: HostingJob>(job: J) -> Result<J::Answer, J> {
        Ok(job.run::<Herd>())
    }
}

impl HostingSystem for Herd {
    fn partition(plan: &HerdPlan) -> PartitionOptions {
        plan.server.partition_options()
    }

    fn start_hosting<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &HerdPlan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        hosting: Hosting<P>,
    ) -> Result<Box<dyn HostingService>, StartError> {
        let options = ServerOptions {
            warm: hosting.memory_file,
            identity: IdentityOptions {
                hash_seed: hosting.hash_seed,
                ..plan.server.identity
            },
            requests: RequestRules {
                served: hosting.served,
                ..plan.server.requests.clone()
            },
            clock: ClockStart {
                start_s: hosting.start_s,
                started: hosting.started,
            },
            ..plan.server.clone()
        };
        let server = match hosting.co_actors {
            None => Server::<P>::start(device, listeners, &options, on_core),
            Some(CoActors::Own(make)) => Server::start_with(device, listeners, &options, on_core, Some(make)),
            Some(CoActors::ReadAll(make)) => {
                Server::start_as(device, listeners, &options, on_core, Some(make), ReadByAll)
            }
        };
        Ok(Box::new(server?))
    }
}

impl<P: Provider> HostingService for Server<P> {
    fn stats(&self, patience: Duration) -> Result<ServiceStats, String> {
        self.ask(patience)
    }
}

impl<P: Provider> Service for Server<P> {
    fn ended(&self) -> BorrowedFd<'_> {
        Server::ended(self)
    }

    fn why(&self) -> String {
        Server::why(self).unwrap_or_else(|| "it was asked to".to_owned())
    }

    fn counters(&self, patience: Duration) -> Result<Vec<Vec<u64>>, String> {
        let stats = HostingService::stats(self, patience)?;
        Ok(stats.workers.into_iter().map(|worker| worker.counters).collect())
    }

    fn stop(self: Box<Self>) {
        Server::stop(*self);
    }
}

impl<P: Provider, F: RequestFormat + Default> ServiceClient<P> for HerdClient<P, F> {
    fn open(ctx: Rc<P::Context>, dials: Vec<Dial>, options: &ConnectOptions) -> HerdClient<P, F> {
        HerdClient::with_format(ctx, only(dials), client_options(options), F::default())
    }

    fn is_ready(&mut self) -> bool {
        HerdClient::is_ready(self)
    }

    fn take_error(&mut self) -> Option<SetupError> {
        HerdClient::take_error(self)
    }

    fn close(&mut self, sink: &mut dyn FnMut(Completion<'_>)) {
        HerdClient::close(self, &mut |completion: Completion<'_>| sink(completion));
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        HerdClient::size_limits(self, op)
    }
}

/// The dialer of the one channel to a service.
pub(crate) fn only(dials: Vec<Dial>) -> Dial {
    dials.into_iter().next().expect("a channel to the service")
}

/// Options of a client that a service's caller connects.
pub(crate) fn client_options(options: &ConnectOptions) -> ClientOptions {
    ClientOptions {
        window: options.effective_window().next_power_of_two(),
        deadline: options.deadline,
        keeper: options.rests,
        auth: options.secret.clone(),
        ..ClientOptions::default()
    }
}
