//! [`Joining`]: what a member must know of its service before its cores start.

use super::agreed::Agreed;
use crate::auth;
use crate::cluster::{ServiceUrl, not_opened, refused};
use crate::exit::{self, Failure};
use crate::serve::ops::{Signal, Signals};
use crate::serve::settings::Settings;
use drover_base::{Cpu, HashSeed, Ns};
use drover_cluster::{Registry, RegistryEvent, RegistryReply, RegistryRequest, ServiceSettings, View};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use drover_mem::NativeCpu;
use std::time::Duration;

/// Longest wait between two looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time between two requests to an etcd that does not answer.
const ASK_EVERY: Ns = Ns::from_s(1);
/// A lease may end so long after its time: etcd counts in seconds and looks twice a second.
const LEASE_SLACK: Ns = Ns::from_s(3);

/// A service whose settings are known.
pub struct Joining {
    pub service: ServiceUrl,
    pub member_name: String,
    pub settings: ServiceSettings,
    pub agreed: Agreed,
    pub registry: EtcdRegistry,
}

/// Reads the service's settings, which this member chooses if it is the first. Waits for an etcd that does not answer. `None`: a signal
/// asked to stop meanwhile.
///
/// # Errors
/// What does not heal: etcd refuses the member, or has no TLS with it, another member has its name, it has none, or it wants another lease or
/// number of replicas than its service has.
pub fn join(
    settings: &Settings,
    service: &ServiceUrl,
    etcd: EtcdOptions,
    signals: &Signals,
) -> Result<Option<Joining>, Failure> {
    let cluster = &settings.cluster;
    let member_name = match cluster.member_name.as_ref() {
        Some(name) => name.clone(),
        None => host_name(),
    };
    let registry = EtcdRegistry::open(etcd).map_err(|error| not_opened(service, &error))?;
    let mut asking = Asking {
        service,
        signals,
        registry,
        clock: NativeCpu::new(0),
        tickets: 0,
        is_waiting: false,
    };
    let first = first_settings(settings);
    let Some(reply) = asking.ask(&RegistryRequest::Settings(Some(first)))? else {
        return Ok(None);
    };
    let RegistryReply::Settings(Some(found)) = reply else {
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("{service}: unexpected answer {reply:?}"),
        ));
    };
    let agreed = Agreed::with(service, cluster, &found)?;
    if !asking.wait_for_name(&member_name, Ns::from_s(agreed.lease_s) + LEASE_SLACK)? {
        return Ok(None);
    }
    Ok(Some(Joining {
        service: service.clone(),
        member_name,
        settings: found,
        agreed,
        registry: asking.registry,
    }))
}

/// Settings of a service that has none yet.
fn first_settings(settings: &Settings) -> ServiceSettings {
    let cpu = NativeCpu::new(0);
    let mut secret = [0; drover_cluster::SECRET_BYTES];
    for word in secret.chunks_exact_mut(8) {
        word.copy_from_slice(&cpu.secret().to_le_bytes());
    }
    let own = Agreed::of(&settings.cluster);
    ServiceSettings {
        hash_seed: HashSeed::drawn(settings.service.hash.value, &cpu),
        secret,
        replicas: own.replicas,
        lease_s: u16::try_from(own.lease_s).ok(),
    }
}

/// How a member reaches etcd: as the user of `--cluster-auth-file`, or else as the one in the service's URL. Reads that file and those of
/// the URL, which often only root may read. `None`: this server is no member.
///
/// # Errors
/// A file cannot be read or is invalid.
pub fn etcd_options(settings: &Settings) -> Result<Option<EtcdOptions>, Failure> {
    let Some(service) = settings.cluster.service.as_ref() else {
        return Ok(None);
    };
    let mut options = service.options().map_err(|error| not_opened(service, &error))?;
    if let Some(path) = settings.cluster.etcd_auth_file.as_ref() {
        let user = auth::of_file("--cluster-auth-file", path)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        options.user = Some((text(user.user()), text(user.secret())));
    }
    Ok(Some(options))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Asks an etcd that may be away, as long as nobody wants the process to stop.
struct Asking<'a> {
    service: &'a ServiceUrl,
    signals: &'a Signals,
    registry: EtcdRegistry,
    clock: NativeCpu,
    tickets: u64,
    /// Whether it was said that etcd is waited for.
    is_waiting: bool,
}

impl Asking<'_> {
    /// The answer; `None`: a signal asked to stop.
    fn ask(&mut self, request: &RegistryRequest) -> Result<Option<RegistryReply>, Failure> {
        let mut ask_at = Ns::ZERO;
        loop {
            if self.clock.refresh() >= ask_at {
                self.tickets += 1;
                self.registry.submit(Ns::ZERO, self.tickets, request.clone());
                ask_at = self.clock.now() + ASK_EVERY;
            }
            match self.registry.wait(LOOK_EVERY) {
                Some(RegistryEvent::Reply { ticket, reply }) if ticket == self.tickets => {
                    if std::mem::take(&mut self.is_waiting) {
                        tracing::info!("etcd answers: {}", self.service);
                    }
                    return Ok(Some(reply));
                }
                Some(RegistryEvent::Failed { ticket }) if ticket == self.tickets => self.failed()?,
                _ => {}
            }
            if self.signals.next() == Some(Signal::Stop) {
                return Ok(None);
            }
        }
    }

    /// Reports, once, that etcd is waited for.
    fn failed(&mut self) -> Result<(), Failure> {
        let failure = self.registry.no_answer();
        if failure.is_final() {
            return Err(refused(self.service, &failure));
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            tracing::warn!("waiting for etcd at {}: {}", self.service, failure.why);
        }
        Ok(())
    }

    /// Waits until no other process is registered by this name, at most so long as the lease of a dead one lasts. Returns `false` if
    /// a signal asked to stop.
    fn wait_for_name(&mut self, name: &str, longest: Ns) -> Result<bool, Failure> {
        let until = self.clock.refresh() + longest;
        let mut is_said = false;
        loop {
            let Some(RegistryReply::View(view)) = self.ask(&RegistryRequest::Look)? else {
                return Ok(false);
            };
            if !has_member(&view, name) {
                return Ok(true);
            }
            if self.clock.refresh() >= until {
                let text = format!(
                    "--member-name {name}: another member of {} has this name and is alive: choose another name",
                    self.service
                );
                return Err(Failure::new(exit::UNAVAILABLE, text));
            }
            if !std::mem::replace(&mut is_said, true) {
                tracing::info!(
                    "a member {name} is registered: waiting up to {} s, until the lease of an earlier process is over",
                    longest.as_s()
                );
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

fn has_member(view: &View, name: &str) -> bool {
    view.members.iter().any(|member| &**member.advert.name() == name)
}
