//! A system with native clients only, as `serve` starts it.

use super::ops::{self, Files};
use super::plan::{NoPlan, plan_of};
use super::run::{Prepare, Running, Start};
use super::settings::Settings;
use crate::admin::{AskDevice, ShardsSnapshot, Snapshot, Source, ask_device};
use crate::exit::{self, Failure};
use drover_base::{Cpu, Ns};
use drover_control::ControlListener;
use drover_kv::{Facts, OnCore, Service, System};
use drover_mem::NativeCpu;
use drover_verbs::{Device, DeviceCounters, Provider};
use std::sync::Arc;
use std::time::Duration;

/// A service of `S` that is to start.
pub(super) struct Native<'a, S: System> {
    settings: &'a Settings,
    plan: S::Plan,
}

impl<'a, S: System> Prepare<'a> for Native<'a, S> {
    fn prepare(settings: &'a Settings) -> Result<Native<'a, S>, Failure> {
        if !ops::inherited()?.is_empty() {
            let text = format!(
                "sockets of a service manager do not apply to --system {}",
                S::FACTS.name
            );
            return Err(Failure::new(exit::USAGE, text));
        }
        let mut plan = plan_of::<S>(settings).map_err(|why| refusal(settings, why))?;
        // memcached's default may be too large.
        let (most, longest) = S::item_bytes_max(&mut plan);
        *longest = most.min(*longest);
        Ok(Native { settings, plan })
    }
}

impl<S: System> Start for Native<'_, S> {
    fn start<P: Provider<Cpu = NativeCpu>>(
        self,
        device: &P::Device,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
        _: Arc<Files>,
    ) -> Result<Box<dyn Running>, Failure> {
        let facts = &S::FACTS;
        if !(facts.fits)(device.caps()) {
            let text = format!(
                "--system {} needs {}, which this fabric lacks",
                facts.name, facts.needs
            );
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        announce(self.settings, facts, &S::describe(&self.plan));
        Ok(Box::new(NativeService {
            service: S::start::<P>(device, &self.plan, listeners, on_core)?,
            facts,
            began: NativeCpu::new(0).refresh(),
            device: ask_device::<P>(device),
        }))
    }
}

/// Refusal of settings without a plan.
fn refusal(settings: &Settings, why: NoPlan) -> Failure {
    let (mib, item_bytes) = (
        settings.capacity.memory_mib.value,
        settings.capacity.max_item_bytes.value,
    );
    let text = match why {
        NoPlan::Memory(why) => format!("-m {mib}: {why}"),
        NoPlan::TooMuch => format!("-m {mib}: too much"),
        NoPlan::Item { most } => format!(
            "-I: items of {item_bytes} bytes are longer than half of a shard's records, {most} bytes: more memory \
             (-m) or fewer shards (-t)"
        ),
    };
    Failure::new(exit::USAGE, text)
}

/// A service that runs.
struct NativeService {
    service: Box<dyn Service>,
    facts: &'static Facts,
    began: Ns,
    device: AskDevice,
}

impl Source for NativeService {
    fn snapshot(&self, patience: Duration) -> Result<Snapshot, String> {
        Ok(Snapshot::Shards(ShardsSnapshot {
            facts: self.facts,
            shards: self.service.counters(patience)?,
            uptime_s: NativeCpu::new(0).refresh().since(self.began).as_s(),
        }))
    }

    fn device(&self) -> Option<DeviceCounters> {
        (self.device)()
    }
}

impl Running for NativeService {
    fn service(&self) -> &dyn Service {
        &*self.service
    }

    fn stop(self: Box<Self>) -> Result<(), Failure> {
        self.service.stop();
        Ok(())
    }
}

/// Logs the choices and their reasons.
fn announce(settings: &Settings, facts: &Facts, plan: &[String]) {
    for line in plan {
        tracing::info!("{}: {line}", facts.name);
    }
    let (count, memory) = (settings.capacity.threads.value, &settings.capacity.memory_mib);
    tracing::info!("memory: {} MiB requested ({})", memory.value, memory.origin);
    match &settings.workers.cores.value {
        Some(cores) => tracing::info!(
            "shards: {count}, on cores {cores:?} ({})",
            settings.workers.cores.origin
        ),
        None => tracing::info!("shards: {count}, not pinned ({})", settings.workers.cores.origin),
    }
    match settings.workers.spin_us.value {
        0 => tracing::info!("idle shards poll for ever (--spin-us 0)"),
        us => tracing::info!(
            "idle shards poll for {us} us, then sleep ({})",
            settings.workers.spin_us.origin
        ),
    }
}
