//! `drover cluster`: looks at a service of several members and changes who takes shards, by what etcd keeps of it.

mod addresses;
mod advertised;
mod check;
mod columns;
mod drain;
mod load;
mod members;
mod refusal;
mod service;
mod status;
mod watch;

pub use addresses::{ADMIN, MEMBER, MEMCACHED};
pub use advertised::Advertised;
pub use check::unreachable;
pub use drover_cluster_etcd::ServiceUrl;
pub use refusal::{not_opened, refused};
pub use service::Service;
pub use status::table;

use crate::auth;
use crate::exit::{self, Failure};
use clap::Subcommand;
use drover_control::Credentials;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `cluster`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the members, how many shards each one owns, and what moves
    Status(ViewArgs),
    /// Have a member give all its shards to the others, and wait until it has none
    Drain(drain::DrainArgs),
    /// Have a drained member take its share of the shards again
    Undrain(drain::UndrainArgs),
    /// Look for shards without an owner, members that nobody reaches or that are behind, and moves that do not end
    Check(check::CheckArgs),
    /// Print what changes, a line each, until stopped
    Watch(ViewArgs),
}

/// Which service is meant, and how its etcd is reached.
#[derive(clap::Args, Clone, Debug)]
pub struct ServiceArgs {
    /// The service, as in `drover serve --cluster`: etcd://HOST:PORT[,...]/NAME
    #[arg(long = "cluster", value_name = "URL")]
    pub url: ServiceUrl,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

/// A service that a command may be about.
#[derive(clap::Args, Clone, Debug)]
pub struct OptionalServiceArgs {
    /// A service of several members, as in `drover serve --cluster`: etcd://HOST:PORT[,...]/NAME
    #[arg(long = "cluster", value_name = "URL")]
    pub url: Option<ServiceUrl>,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

impl OptionalServiceArgs {
    /// The way to the service, if one was named.
    ///
    /// # Errors
    /// As [`EtcdArgs::open`].
    pub fn open(&self) -> Result<Option<Service>, Failure> {
        self.url.as_ref().map(|url| self.etcd.open(url)).transpose()
    }
}

/// How etcd is reached.
#[derive(clap::Args, Clone, Debug)]
pub struct EtcdArgs {
    /// File with the user:password as which etcd is asked
    #[arg(long, value_name = "FILE")]
    pub cluster_auth_file: Option<PathBuf>,
    /// Time within which etcd must answer, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    pub timeout_ms: u64,
}

impl EtcdArgs {
    /// The way to the service of `url`.
    ///
    /// # Errors
    /// The file of the user or one of the URL's cannot be used, or there is no thread.
    pub fn open(&self, url: &ServiceUrl) -> Result<Service, Failure> {
        let user = self.cluster_auth_file.as_deref();
        let user = user
            .map(|path| auth::of_file("--cluster-auth-file", path))
            .transpose()?;
        Service::open(url, user.as_deref(), Duration::from_millis(self.timeout_ms))
    }
}

/// Arguments of commands that show something.
#[derive(clap::Args)]
struct ViewArgs {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    login: auth::CredentialArgs,
}

impl ViewArgs {
    fn open(&self) -> Result<Service, Failure> {
        self.service.etcd.open(&self.service.url)
    }

    /// Whom the members' admin ports are asked as.
    fn credentials(&self) -> Result<Option<Arc<Credentials>>, Failure> {
        self.login.read()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    let done = match &args.command {
        Command::Status(args) => status::run(args).map(|()| ExitCode::SUCCESS),
        Command::Drain(args) => drain::drain(args).map(|()| ExitCode::SUCCESS),
        Command::Undrain(args) => drain::undrain(args).map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(args),
        Command::Watch(args) => watch::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|failure| exit::from_result(Err(failure)))
}
