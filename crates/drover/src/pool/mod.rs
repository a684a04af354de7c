//! `drover memory-node` and `drover pool`: nodes that give memory away, and pools of them.

mod admin;
mod check;
mod keys;
mod node;
mod process;
mod repair;

pub use admin::PoolArgs;
pub use keys::{KeysOfPool, PoolNodes, TooLarge};
pub use node::NodeArgs;

/// What the pools of these commands hold.
pub(crate) use drover_kv_race as tables;

use crate::access::{AccessArgs, over_tls};
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_control::{ControlAddr, Credentials};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The user whose password a node's secret is.
const USER: &[u8] = b"pool";

/// Serves memory until SIGTERM or SIGINT.
pub fn serve_node(args: &NodeArgs) -> ExitCode {
    exit::from_result(node::serve(args))
}

/// Makes a pool, shows or checks it, or shuts a client out.
pub fn run(args: &PoolArgs) -> ExitCode {
    admin::run(args).unwrap_or_else(|failure| exit::from_result(Err(failure)))
}

/// The nodes of a pool, and how they are reached.
#[derive(clap::Args)]
struct NodesArgs {
    /// Addresses of the nodes, separated by commas
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', required = true)]
    nodes: Vec<ControlAddr>,
    /// Time within which all nodes must answer, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    timeout_ms: u64,
    #[command(flatten)]
    secret: SecretArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// See [`PoolOptions::alone`](drover_memnode::PoolOptions::alone): no flag, since nodes choose it themselves.
    #[arg(skip)]
    alone: bool,
}

impl NodesArgs {
    /// Addresses of the nodes, with the user and the TLS that they require.
    fn addrs(&self) -> Result<Vec<ControlAddr>, Failure> {
        if self.alone {
            return Ok(self.nodes.clone());
        }
        let credentials = match self.secret.read()? {
            Some(credentials) => Some(credentials),
            None => self.access.auth.read()?,
        };
        let tls = self.access.tls.read()?;
        let reached =
            |addr: &ControlAddr| over_tls(addr.clone().with_credentials(credentials.clone()), tls.as_ref());
        self.nodes.iter().map(reached).collect()
    }
}

/// The secret of nodes.
#[derive(clap::Args, Clone)]
#[command(next_help_heading = "Login")]
struct SecretArgs {
    /// File with the secret that the nodes require, at most 256 bytes; a line feed at its end does not count
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

impl SecretArgs {
    /// The secret, as that of the one user of the nodes.
    fn read(&self) -> Result<Option<Arc<Credentials>>, Failure> {
        self.secret_file.as_deref().map(read_secret).transpose()
    }
}

/// The secret in a file, as that of the one user of nodes.
///
/// # Errors
/// The file cannot be read, is empty or too long.
pub fn read_secret(path: &Path) -> Result<Arc<Credentials>, Failure> {
    let refuse = |code, why: &dyn std::fmt::Display| Failure::new(code, format!("{}: {why}", path.display()));
    let mut secret = std::fs::read(path).map_err(|error| refuse(exit::NO_INPUT, &error))?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
    }
    match secret.len() {
        0 => Err(refuse(exit::NO_INPUT, &"an empty secret")),
        1..=drover_kv::secret::SECRET_BYTES_MAX => {
            let credentials =
                Credentials::new(USER, &secret).map_err(|error| refuse(exit::NO_INPUT, &error))?;
            Ok(Arc::new(credentials))
        }
        bytes => Err(refuse(exit::NO_INPUT, &format_args!("a secret of {bytes} bytes"))),
    }
}
