//! Which server a command asks, as whom, and how long it waits.

use crate::access::AccessArgs;
use crate::rdma::DeviceArgs;
use clap::Args;
use drover_base::Ns;
use drover_client::{Client, Connected, Fabric, Options};
use drover_control::{ControlAddr, Scheme};
use drover_kv::SystemTable;
use std::error::Error;

/// Environment variable with the server of client commands.
const SERVER: &str = "DROVER_SERVER";
/// The server where nothing says which.
const USUAL: &str = "shm:drover";

/// Options that select the server, and how long to wait for it.
#[derive(Args)]
pub struct ServerArgs {
    /// The server: shm:NAME, unix:/path.sock, rdma://host:port, or (stats only) tcp://host:port [default: that of the
    /// environment variable DROVER_SERVER, or shm:drover]
    #[arg(long, value_name = "ADDR")]
    server: Option<ControlAddr>,
    /// Maximum time of each step (reaching the server, asking for its system, setting up, the operation), milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pub timeout_ms: u64,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
}

impl ServerArgs {
    /// The server's address.
    ///
    /// # Errors
    /// The environment names something that is no address.
    pub fn addr(&self) -> Result<ControlAddr, Box<dyn Error>> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let said = std::env::var(SERVER).unwrap_or_else(|_| USUAL.to_owned());
        said.parse()
            .map_err(|error| format!("{SERVER}={said}: {error}").into())
    }

    /// Maximum time of each step.
    pub fn timeout(&self) -> Ns {
        Ns::from_ms(self.timeout_ms)
    }

    /// Connects to the server, whose system is one of table `T`.
    ///
    /// # Errors
    /// No server answers, or it refuses the client.
    pub fn connect<T: SystemTable>(&self) -> Result<Client, Box<dyn Error>> {
        let addr = self.device.of(&self.addr()?)?;
        let addr = self.access.of(addr)?;
        if addr.scheme() == Scheme::Tcp {
            Fabric::towards(&addr)?; // says that no data goes there, whether or not a server listens
        }
        let options = Options {
            connect_timeout: self.timeout(),
            call_timeout: self.timeout(),
            ..Options::default()
        };
        Ok(Connected::to_one_of::<T>(addr, &options)?.into())
    }
}
