//! HERD as `serve` starts it: with memcached's clients at sockets, and a memory file.

use super::memcached::{Memcached, unix_time_s};
use super::ops::Files;
use super::run::{Running, Start};
use super::settings::Settings;
use super::{memory_file, ops, plan, ways};
use crate::admin::{HostingSnapshot, Snapshot, SocketStats, Source};
use crate::exit::{self, Failure};
use drover_base::{Cpu, HashSeed};
use drover_control::ControlListener;
use drover_kv::{HostingService, OnCore, Service, System};
use drover_kv_herd::server::{Server, ServerOptions};
use drover_mem::NativeCpu;
use drover_net::Listener;
use drover_store::WarmFile;
use drover_verbs::{Context, Device, Provider};
use std::sync::Arc;
use std::time::Duration;

/// A HERD server that is to start.
pub(super) struct Herd<'a> {
    settings: &'a Settings,
    options: ServerOptions,
    /// Listeners for memcached clients.
    sockets: Vec<Listener>,
}

impl<'a> Start<'a> for Herd<'a> {
    fn prepare(settings: &'a Settings) -> Result<Herd<'a>, Failure> {
        Ok(Herd {
            settings,
            sockets: ways::open_all(settings, ops::inherited()?)?,
            options: plan::server_options(settings)?,
        })
    }

    fn socket_addresses(&self) -> Vec<String> {
        let addresses = self.sockets.iter().map(Listener::address);
        addresses.map(|address| format!("memcached {address}")).collect()
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        mut self,
        device: &P::Device,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        files: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure> {
        plan::announce(self.settings, &self.options, device.caps());
        let now_unix_s = self.prepare_items::<P>(device)?;
        let memcached = self.memcached(now_unix_s, files)?;
        let front = memcached.as_ref().map(|memcached| memcached.front());
        let co_actors = memcached.map(Memcached::co_actors::<P>);
        let server = Server::<P>::start_with(device, listeners, &self.options, on_core, co_actors)?;
        Ok(Box::new(HerdServer {
            server,
            clients_max: self.options.clients_max,
            front,
            warm: self.options.warm,
        }))
    }
}

impl Herd<'_> {
    /// Chooses the hash seed of keys, because memcached clients and the next start must find the same items, and opens
    /// the memory file. Reads the server's clock and the wall clock at the same moment and returns the latter: however
    /// long the start takes, items expire when their client said.
    fn prepare_items<P: Provider<Cpu = NativeCpu>>(&mut self, device: &P::Device) -> Result<u64, Failure> {
        let now_unix_s = unix_time_s();
        if self.sockets.is_empty() && self.settings.memory.memory_file.value.is_none() {
            return Ok(now_unix_s);
        }
        let context = device
            .context()
            .map_err(|error| Failure::new(exit::OS_ERROR, format!("hash seed: {error}")))?;
        let seed = HashSeed::new(context.cpu().random(), context.cpu().random());
        self.options.hash_seed = Some(seed);
        let now_unix_s = unix_time_s();
        self.options.started = Some(context.cpu().refresh());
        memory_file::open(self.settings, &mut self.options, seed, now_unix_s)?;
        Ok(now_unix_s)
    }

    /// The memcached side, if it has listeners.
    fn memcached(&mut self, now_unix_s: u64, files: Arc<Files>) -> Result<Option<Arc<Memcached>>, Failure> {
        let Some(seed) = self.options.hash_seed.filter(|_| !self.sockets.is_empty()) else {
            return Ok(None);
        };
        let system =
            |error: &dyn std::fmt::Display| Failure::new(exit::OS_ERROR, format!("sockets: {error}"));
        let (count, sockets) = (self.options.partition_count, std::mem::take(&mut self.sockets));
        let memcached = Memcached::new(
            self.settings,
            files,
            seed,
            (now_unix_s, self.options.start_s),
            count,
            sockets,
        );
        Ok(Some(Arc::new(memcached.map_err(|error| system(&error))?)))
    }
}

/// A HERD server that runs.
pub(super) struct HerdServer<P: Provider> {
    server: Server<P>,
    clients_max: usize,
    /// Counters of memcached clients, if there is a listener for them.
    front: Option<SocketStats>,
    warm: Option<Arc<WarmFile>>,
}

impl<P: Provider> Source for HerdServer<P> {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Hosting(HostingSnapshot {
            counters: drover_kv_herd::Herd::FACTS.counters,
            service: HostingService::stats(&self.server, patience)?,
            clients_max: self.clients_max,
            sockets: self.front.as_ref().map(SocketStats::read).unwrap_or_default(),
        }))
    }
}

impl<P: Provider> Running for HerdServer<P> {
    fn service(&self) -> &dyn Service {
        &self.server
    }

    fn saves(&self) -> bool {
        self.warm.is_some()
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        self.server.stop();
        self.warm.as_deref().map_or(Ok(()), memory_file::seal)
    }
}

#[cfg(test)]
impl<P: Provider> HerdServer<P> {
    /// Without memcached clients and a memory file.
    pub(super) fn alone(server: Server<P>) -> HerdServer<P> {
        HerdServer {
            server,
            clients_max: 1,
            front: None,
            warm: None,
        }
    }
}
