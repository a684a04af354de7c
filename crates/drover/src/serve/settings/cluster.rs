//! A service of several members, which this server is one of.

use super::offered::Feature::Cluster;
use super::words::{on_loss_of, on_loss_shown};
use super::{MemorySettings, flags, optional, optional_of, parsed, path, value};
use crate::cluster::{Advertised, ServiceUrl};
use crate::exit::{self, Failure};
use drover_base::Ns;
use drover_cluster::{LeaseTerms, OnRegistryLoss, REPLICAS_MAX};
use std::path::PathBuf;

/// etcd counts leases in seconds; a shorter one would end between two looks of a busy machine.
const LEASE_S_MIN: u64 = 2;
const LEASE_S_MAX: u64 = 600;
/// A lease is renewed so many times in its length.
const RENEWALS: u64 = 6;

flags! {
    /// Arguments about a service of several members.
    #[command(next_help_heading = "Service of several members")]
    struct ClusterArgs;
    /// How the server is a member of a service of several.
    struct ClusterSettings();

    /// Be a member of a service, etcd://HOST:PORT[,...]/NAME, whose members and shards that etcd keeps (see below); needs
    /// --advertise
    #[arg(long = "cluster", value_name = "URL")]
    service: String as Option<ServiceUrl> = optional_of(service_url_of).needs(Cluster);

    /// Host, and port of the links between members, at which other members and clients reach this one; the links listen
    /// at HOST, if it is an address of this machine, else at all addresses [default port: 11212]
    #[arg(long = "advertise", value_name = "HOST[:PORT]")]
    advertise: String as Option<Advertised> = optional_of(advertised_of);

    /// Name among the members; a restarted member with the same name keeps the same share of the keys [default: the
    /// host name]
    #[arg(long = "member-name", value_name = "NAME")]
    member_name: String as Option<String> = optional();

    /// What an outage of etcd means: stop answers nothing after two thirds of --lease, until etcd is back; serve goes on,
    /// and if other members do reach etcd, they take the shards over: clients that still ask this one then read old
    /// values, and what they store is lost [default: stop]
    #[arg(long = "on-registry-loss", value_name = "serve|stop")]
    on_loss: String as OnRegistryLoss = parsed("stop".to_string(), on_loss_of)
        .show(|on_loss| on_loss_shown(*on_loss).to_string());

    /// Seconds after which a member that gives no sign of life loses its shards to others; the first member chooses for
    /// all [default: as the service has it, or 6]
    #[arg(long = "lease", value_name = "SECONDS")]
    lease_s: u64 = value(LeaseTerms::default().ttl.as_s())
        .show(|seconds| format!("{seconds} s"))
        .check(
            |seconds| (LEASE_S_MIN..=LEASE_S_MAX).contains(seconds),
            |seconds| format!("--lease {seconds}: from {LEASE_S_MIN} to {LEASE_S_MAX} seconds"),
        );

    /// Members that have each item: 1, or 2, with which a change is acknowledged when a second member has it, so that no
    /// acknowledged change is lost with one machine. It takes twice the memory (give -m accordingly), and each batch of
    /// changes waits for a round trip between members; if the second member does not answer, for a second. The first
    /// member chooses for all [default: as the service has it, or 1]
    #[arg(long = "replicas", value_name = "COUNT")]
    replicas: u8 = value(1)
        .check(
            |count| (1..=REPLICAS_MAX).contains(count),
            |count| format!("--replicas {count}: from 1 to {REPLICAS_MAX} members have an item"),
        );

    /// File with the user:password as which this member is known to etcd
    #[arg(long = "cluster-auth-file", value_name = "FILE")]
    etcd_auth_file: PathBuf as Option<PathBuf> = path();
}

impl ClusterSettings {
    /// Times of a lease of so many seconds.
    pub fn terms(&self, lease_s: u64) -> LeaseTerms {
        let ttl = Ns::from_s(lease_s);
        LeaseTerms {
            ttl,
            renew_every: Ns(ttl.0 / RENEWALS),
            on_loss: self.on_loss.value,
        }
    }

    /// Refuses a member without an address, and what is said about a member where there is none.
    pub(super) fn refuse_halves(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(exit::USAGE, text));
        if let Some(service) = &self.service.value {
            return match &self.advertise.value {
                Some(_) => Ok(()),
                None => refuse(format!(
                    "--cluster {service}: name the host at which other members reach this one: --advertise HOST"
                )),
            };
        }
        let said = [
            ("--advertise", self.advertise.is_said()),
            ("--member-name", self.member_name.is_said()),
            ("--on-registry-loss", self.on_loss.is_said()),
            ("--lease", self.lease_s.is_said()),
            ("--replicas", self.replicas.is_said()),
            ("--cluster-auth-file", self.etcd_auth_file.is_said()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            Some((flag, _)) => refuse(format!(
                "{flag}: this server is no member: name a service with --cluster etcd://HOST:PORT/NAME"
            )),
            None => Ok(()),
        }
    }

    /// Refuses a memory file: what a member held before it was away belongs to others, who may have changed it.
    pub(super) fn refuse_memory_file(&self, memory: &MemorySettings) -> Result<(), Failure> {
        let Some((_, path)) = self.service.as_ref().zip(memory.memory_file.as_ref()) else {
            return Ok(());
        };
        let text = format!(
            "-e {}: a member (--cluster) keeps no memory file: while it is away others serve its keys, and its items are void",
            path.display()
        );
        Err(Failure::new(exit::USAGE, text))
    }
}

fn service_url_of(text: &str) -> Result<ServiceUrl, Failure> {
    text.parse().map_err(|why| {
        let shown = ServiceUrl::without_login(text);
        Failure::new(exit::USAGE, format!("--cluster {shown}: {why}"))
    })
}

fn advertised_of(text: &str) -> Result<Advertised, Failure> {
    text.parse()
        .map_err(|why| Failure::new(exit::USAGE, format!("--advertise {text}: {why}")))
}
