//! A system whose workers host memcached's clients at sockets, and which may have a memory file, as `serve` starts it.

use super::announce::{announce, size};
use super::cluster::{self, Joining, MemberPort, Membership, Starting};
use super::memcached::{Items, Memcached, unix_time_s};
use super::ops::{self, Files, Signals};
use super::plan::{NoPlan, plan_of};
use super::run::{Prepare, Running, Start};
use super::settings::Settings;
use super::shortage::start_failure;
use super::{memory_file, ways};
use crate::admin::{AskDevice, ClusterSnapshot, HostingSnapshot, Snapshot, SocketStats, Source, ask_device};
use crate::exit::{self, Failure};
use drover_base::{Cpu, HashSeed};
use drover_cluster_etcd::EtcdOptions;
use drover_control::ControlListener;
use drover_kv::{Counter, Hosting, HostingService, HostingSystem, OnCore, Service};
use drover_mem::NativeCpu;
use drover_net::Listener;
use drover_store::WarmFile;
use drover_verbs::{Context, Device, DeviceCounters, Provider};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A service of `S` that is to start.
pub(super) struct Hosted<'a, S: HostingSystem> {
    settings: &'a Settings,
    plan: S::Plan,
    /// Listeners for memcached clients.
    sockets: Vec<Listener>,
    /// Where other members reach this one; `None`: it is no member.
    member_port: Option<MemberPort>,
    /// How a member reaches etcd.
    etcd: Option<EtcdOptions>,
    /// The service of the member, once it is known.
    joining: Option<Joining>,
}

impl<'a, S: HostingSystem> Prepare<'a> for Hosted<'a, S> {
    fn prepare(settings: &'a Settings) -> Result<Hosted<'a, S>, Failure> {
        Ok(Hosted {
            settings,
            sockets: ways::open_all(settings, ops::inherited()?)?,
            member_port: cluster::listen(settings)?,
            etcd: cluster::etcd_options(settings)?,
            joining: None,
            plan: plan_of::<S>(settings).map_err(|why| refusal(settings, why))?,
        })
    }
}

impl<S: HostingSystem> Start for Hosted<'_, S> {
    fn socket_addresses(&self) -> Vec<String> {
        let mut addresses = ways::addresses(&self.sockets);
        addresses.extend(
            self.member_port
                .iter()
                .map(|port| format!("members {}", port.advertised)),
        );
        addresses
    }

    fn wait(&mut self, signals: &Signals) -> Result<bool, Failure> {
        let service = self.settings.cluster.service.as_ref();
        let Some((service, etcd)) = service.zip(self.etcd.take()) else {
            return Ok(true);
        };
        self.joining = cluster::join(self.settings, service, etcd, signals)?;
        Ok(self.joining.is_some())
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        mut self,
        device: &P::Device,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure> {
        announce(self.settings, &S::partition(&self.plan), device.caps());
        let member = self.member(&listeners)?;
        let (mut hosting, now_unix_s) = self.hosting::<P>(device, member.as_ref())?;
        let memcached = self.memcached(&hosting, now_unix_s, files, member.as_ref())?;
        let front = memcached.as_ref().map(|memcached| memcached.front());
        hosting.co_actors = memcached.clone().map(Memcached::co_actors::<P>);
        let memory_file = self.settings.memory.memory_file.value.clone();
        let memory_file = memory_file.zip(hosting.memory_file.clone());
        let service = S::start_hosting::<P>(device, &self.plan, listeners, on_core, hosting)
            .map_err(|error| start_failure(self.settings, error))?;
        let membership = member
            .zip(memcached)
            .map(|(member, cores)| member.start(cores))
            .transpose()?;
        Ok(Box::new(HostedService {
            service,
            membership,
            counters: S::FACTS.counters,
            clients_max: self.settings.capacity.conn_limit.value,
            front,
            memory_file,
            device: ask_device::<P>(device),
        }))
    }
}

/// Refusal of settings without a plan.
fn refusal(settings: &Settings, why: NoPlan) -> Failure {
    let capacity = &settings.capacity;
    let (mib, threads) = (capacity.memory_mib.value, capacity.threads.value);
    let text = match why {
        NoPlan::Memory(why) => format!("-m {mib}: {why}"),
        NoPlan::TooMuch => format!("-m {mib}: too little or too much for {threads} partitions"),
        NoPlan::Item { most } => format!(
            "-I: items of {} are longer than half of a partition, {}: more memory (-m) or fewer workers (-t)",
            size(capacity.max_item_bytes.value),
            size(most)
        ),
    };
    Failure::new(exit::USAGE, text)
}

impl<S: HostingSystem> Hosted<'_, S> {
    /// Chooses the hash seed of keys, because memcached clients and the next start must find the same items, and opens
    /// the memory file. Reads the server's clock and the wall clock at the same moment and returns the latter: however
    /// long the start takes, items expire when their client said.
    fn hosting<P: Provider<Cpu = NativeCpu>>(
        &self,
        device: &P::Device,
        member: Option<&Starting>,
    ) -> Result<(Hosting<P>, u64), Failure> {
        let settings = self.settings;
        if self.sockets.is_empty() && member.is_none() && settings.memory.memory_file.value.is_none() {
            return Ok((Hosting::default(), unix_time_s()));
        }
        let context = device
            .context()
            .map_err(|error| Failure::new(exit::OS_ERROR, format!("hash seed: {error}")))?;
        let seed = match member {
            // The shard of a key is the same at all members.
            Some(member) => member.hash_seed(),
            None => HashSeed::drawn(settings.service.hash.value, context.cpu()),
        };
        let now_unix_s = unix_time_s();
        let mut hosting = Hosting {
            hash_seed: Some(seed),
            served: member.map(|member| member.parts.shards.clone()),
            started: Some(context.cpu().refresh()),
            ..Hosting::default()
        };
        memory_file::open(
            settings,
            &S::partition(&self.plan),
            &mut hosting,
            seed,
            now_unix_s,
        )?;
        Ok((hosting, now_unix_s))
    }

    /// The member that this server is to be.
    fn member(&mut self, native: &[ControlListener]) -> Result<Option<Starting>, Failure> {
        let Some((port, joining)) = self.member_port.take().zip(self.joining.take()) else {
            return Ok(None);
        };
        let native = native.iter().map(|listener| listener.addr().clone()).collect();
        let memcached = self
            .sockets
            .iter()
            .map(|listener| listener.address().clone())
            .collect();
        Starting::new(self.settings, port, joining, native, memcached).map(Some)
    }

    /// The memcached side, if it has listeners, or other members, which send it what their clients ask.
    fn memcached<P: Provider>(
        &mut self,
        hosting: &Hosting<P>,
        now_unix_s: u64,
        files: Arc<Files>,
        member: Option<&Starting>,
    ) -> Result<Option<Arc<Memcached>>, Failure> {
        let is_needed = !self.sockets.is_empty() || member.is_some();
        let Some(seed) = hosting.hash_seed.filter(|_| is_needed) else {
            return Ok(None);
        };
        let memcached = Memcached::new(
            self.settings,
            files,
            seed,
            (now_unix_s, hosting.start_s),
            Items::Here(&S::partition(&self.plan)),
            std::mem::take(&mut self.sockets),
        );
        let mut memcached =
            memcached.map_err(|error| Failure::new(exit::OS_ERROR, format!("sockets: {error}")))?;
        if let Some(member) = member {
            let parts = &member.parts;
            memcached.join(parts.shards.clone(), parts.make_links(), parts.has_replicas);
        }
        Ok(Some(Arc::new(memcached)))
    }
}

/// A service that runs.
struct HostedService {
    service: Box<dyn HostingService>,
    /// Its part in a service of several members.
    membership: Option<Membership>,
    counters: &'static [Counter],
    clients_max: usize,
    /// Counters of memcached clients, if there is a listener for them.
    front: Option<SocketStats>,
    memory_file: Option<(PathBuf, Arc<WarmFile>)>,
    device: AskDevice,
}

impl Source for HostedService {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Hosting(Box::new(HostingSnapshot {
            counters: self.counters,
            service: self.service.stats(patience)?,
            clients_max: self.clients_max,
            sockets: self.front.as_ref().map(SocketStats::read).unwrap_or_default(),
        })))
    }

    fn device(&self) -> Option<DeviceCounters> {
        (self.device)()
    }

    fn cluster(&self) -> Option<ClusterSnapshot> {
        self.membership.as_ref().map(Membership::snapshot)
    }
}

impl Running for HostedService {
    fn service(&self) -> &dyn Service {
        &*self.service
    }

    fn saves(&self) -> bool {
        self.memory_file.is_some()
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        if let Some(membership) = self.membership {
            membership.leave();
        }
        self.service.stop();
        match &self.memory_file {
            Some((path, file)) => memory_file::seal(path, file),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Args;
    use drover_kv::{HostingJob, SystemTable};
    use drover_systems::System;

    struct Try<'a>(&'a Settings);

    impl HostingJob for Try<'_> {
        type Answer = Option<Failure>;

        fn run<S: HostingSystem>(self) -> Option<Failure> {
            Hosted::<S>::prepare(self.0).err()
        }
    }

    #[test]
    fn memory_that_partitions_cannot_share_is_refused() {
        for (mib, threads) in [(1, 32), (u64::MAX, 1)] {
            let mut args = Args::default();
            args.sockets.port = Some(0);
            args.capacity.memory_mib = Some(mib);
            args.capacity.threads = Some(threads);
            let (settings, _) = Settings::resolve::<System>(&args).expect("in range");
            let refused = System::ALL
                .iter()
                .filter_map(|system| system.hosting(Try(&settings)).ok());
            let refused: Vec<Option<Failure>> = refused.collect();
            assert!(!refused.is_empty());
            for failure in refused {
                let text = format!("-m {mib}: too little or too much for {threads} partitions");
                assert_eq!(failure.expect("it is refused").text, text);
            }
        }
    }
}
