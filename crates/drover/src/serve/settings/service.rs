//! Which system is served, and on which fabric.

use super::words::hash_of;
use super::{Args, flags, optional, or_none, parsed, path};
use crate::access::connector;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_base::HashKind;
use drover_control::TlsConnector;
use drover_kv::Facts;
use std::path::PathBuf;
use std::sync::Arc;

flags! {
    /// Arguments about the service as a whole.
    #[command(next_help_heading = "Service")]
    struct ServiceArgs;
    /// The service as a whole. The address of the fabric includes the options that choose an RDMA device.
    struct ServiceSettings(systems: &[&'static Facts], device: &DeviceArgs);

    /// Key-value system: herd; pilaf or farm, whose clients read items without involving the server; jakiro,
    /// server-reply or rdma-memcached; or race, memory nodes with a gateway (see below) [default: herd]
    #[arg(long = "system", value_name = "NAME")]
    system: String as &'static Facts = parsed(systems[0].name.to_string(), |name| named(&name, systems))
        .show(|facts| facts.name.to_string());

    /// Data fabric and name of this server: shm:NAME, shm:/path.sock or rdma://host:port, whose control channel the prefix
    /// notls: exempts from -Z [default: shm:drover]
    #[arg(long = "fabric", value_name = "ADDR")]
    fabric: String = parsed("shm:drover".to_string(), |addr| with_device(addr, device)).show(String::clone);

    /// Hash that places keys: aes, which no choice of keys floods; or xxh3, without that promise, for processors that have no
    /// instructions for AES [default: aes]
    #[arg(long = "hash", value_name = "NAME")]
    hash: String as HashKind = parsed(HashKind::default().to_string(), hash_of).show(HashKind::to_string);

    /// Serve the items of another service, which runs at this address: a gateway for memcached clients (see below)
    #[arg(long = "connect", value_name = "ADDR")]
    connect: String as Option<String> = optional();

    /// File with the user:password as which --connect and --pool connect; or set DROVER_AUTH=user:password
    #[arg(long = "connect-auth-file", value_name = "FILE")]
    connect_auth_file: PathBuf as Option<PathBuf> = path();

    /// Speak TLS with the servers of --connect and --pool: PEM file of the CA that signed their certificates
    #[arg(long = "connect-tls-ca", value_name = "FILE")]
    connect_tls_ca: PathBuf as Option<PathBuf> = path();

    /// Host name or IP address that these certificates are for [default: the host of each address]
    #[arg(long = "connect-tls-name", value_name = "NAME", requires = "connect_tls_ca")]
    connect_tls_name: String as Option<String> = optional();

    /// PEM file of the certificate that the gateway shows these servers, if they ask for one
    #[arg(long = "connect-tls-cert", value_name = "FILE", requires = "connect_tls_key")]
    connect_tls_cert: PathBuf as Option<PathBuf> = path();

    /// PEM file of the key of --connect-tls-cert
    #[arg(long = "connect-tls-key", value_name = "FILE", requires = "connect_tls_cert")]
    connect_tls_key: PathBuf as Option<PathBuf> = path();

    /// Serve the items of a pool of memory nodes, which are at these addresses: a gateway for memcached clients (see below)
    #[arg(long = "pool", value_name = "ADDR,...", value_delimiter = ',', conflicts_with = "connect")]
    pool: Vec<String> = parsed(Vec::new(), |addrs| of_nodes(addrs, device))
        .show(|addrs| or_none((!addrs.is_empty()).then(|| addrs.join(","))));

    /// File with the secret that the nodes of --pool require, at most 256 bytes; a line feed at its end does not count
    #[arg(long = "secret-file", value_name = "FILE", requires = "pool")]
    secret_file: PathBuf as Option<PathBuf> = path();
}

impl ServiceSettings {
    /// Whether the items are others'.
    pub fn is_gateway(&self) -> bool {
        self.connect.value.is_some() || !self.pool.value.is_empty()
    }

    /// What makes the TLS sessions of a gateway with the servers of its items; `None`: plain channels.
    ///
    /// # Errors
    /// A file cannot be read or makes no sense, or the name is none.
    pub fn connect_tls(&self) -> Result<Option<Arc<TlsConnector>>, Failure> {
        let certificate = self
            .connect_tls_cert
            .value
            .clone()
            .zip(self.connect_tls_key.value.clone());
        connector(
            self.connect_tls_ca.value.as_deref(),
            self.connect_tls_name.value.clone(),
            certificate,
        )
    }
}

/// Parses `--system`.
fn named(name: &str, systems: &[&'static Facts]) -> Result<&'static Facts, Failure> {
    let system = systems.iter().copied().find(|system| system.name == name);
    system.ok_or_else(|| {
        let names: Vec<&str> = systems.iter().map(|system| system.name).collect();
        let text = format!("--system {name}: expected {}", names.join(" or "));
        Failure::new(exit::USAGE, text)
    })
}

/// The fabric's address including the device options.
fn with_device(addr: String, device: &DeviceArgs) -> Result<String, Failure> {
    if *device == DeviceArgs::default() {
        return Ok(addr);
    }
    let (prefix, addr) = split_plain(&addr);
    let addr = addr.parse().map_err(|error| Failure::new(exit::USAGE, error))?;
    Ok(format!("{prefix}{}", device.of(&addr)?))
}

/// The addresses of a pool's nodes; the device options are about the first one's.
fn of_nodes(mut addrs: Vec<String>, device: &DeviceArgs) -> Result<Vec<String>, Failure> {
    if let Some(first) = addrs.first_mut() {
        *first = with_device(std::mem::take(first), device)?;
    }
    Ok(addrs)
}

/// Prefix of addresses without TLS, even with `-Z`, as in memcached.
pub const PLAIN_PREFIX: &str = "notls:";

/// Splits an address into [`PLAIN_PREFIX`], or nothing, and the rest.
pub fn split_plain(addr: &str) -> (&str, &str) {
    let prefix_bytes = if addr.starts_with(PLAIN_PREFIX) {
        PLAIN_PREFIX.len()
    } else {
        0
    };
    addr.split_at(prefix_bytes)
}

/// `--listen rdma://host:port` means `--fabric rdma://host:port`.
pub(super) fn fabric_of_listen(mut args: Args) -> Result<Args, Failure> {
    let listen = args.sockets.listen.unwrap_or_default().into_iter();
    let (fabrics, others): (Vec<String>, Vec<String>) =
        listen.partition(|addr| split_plain(addr).1.starts_with("rdma:"));
    args.sockets.listen = Some(others).filter(|others| !others.is_empty());
    for addr in fabrics {
        if let Some(fabric) = &args.service.fabric {
            let text = format!("--listen {addr} and --fabric {fabric}: a server has one fabric");
            return Err(Failure::new(exit::USAGE, text));
        }
        args.service.fabric = Some(addr);
    }
    Ok(args)
}
