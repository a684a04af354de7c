//! Flags for operations; flags that memcached has keep its letter and long name.

use super::tls;
use crate::serve::settings::{flags, optional, parsed, path, value};
use drover_tls::TlsOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

flags! {
    /// Arguments of `serve` and `config` about operations: admin port, pid file, user, logins, TLS.
    #[command(next_help_heading = "Operation and access")]
    struct OpsArgs;
    /// Operational settings. TLS options come from the `ssl_` words of `-o`; there are none without `-Z`.
    struct OpsSettings(words: &tls::Words);

    /// Serve /metrics (Prometheus) and /healthz over HTTP here, such as 127.0.0.1:9150 [default: none]
    #[arg(long = "metrics-listen", value_name = "IP:PORT")]
    metrics_listen: SocketAddr as Option<SocketAddr> = optional();

    /// Write the process id to this file, and remove the file at the end
    #[arg(long = "pidfile", short = 'P', value_name = "FILE")]
    pid_file: PathBuf as Option<PathBuf> = path();

    /// Become this user once all addresses are bound; must be started as root
    #[arg(long = "user", short = 'u', value_name = "NAME")]
    user: String as Option<String> = optional();

    /// All clients, native ones and those of the admin port, too, must prove to be a user of this file: lines
    /// `user:password`, reloaded on SIGHUP
    #[arg(long = "auth-file", short = 'Y', value_name = "FILE")]
    auth_file: PathBuf as Option<PathBuf> = path();

    /// Let in everybody who reaches an address beyond this machine, which is else refused without -Y or -Z (the
    /// admin port: without -Y)
    #[switch(long = "insecure")]
    insecure: bool = value(false);

    /// Use TLS on TCP, for memcached's and for native clients; needs -o ssl_chain_cert=FILE,ssl_key=FILE, which are reloaded
    /// on SIGHUP
    #[switch(long = "enable-ssl", short = 'Z')]
    tls: bool as Option<TlsOptions> = parsed(false, |enabled| tls::options(enabled, words))
        .show(|tls| tls.is_some().to_string());
}
