//! Which server a command asks, as whom, and how long it waits.

use super::target::Target;
use crate::access::AccessArgs;
use crate::rdma::DeviceArgs;
use clap::Args;
use drover_base::Ns;
use drover_client::{Client, Connected, DeviceChoice, Fabric, Options, ServiceUrl};
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
    /// The server: shm:NAME, unix:/path.sock, rdma://host:port, (stats only) tcp://host:port, or a service of several
    /// members, etcd://host[,host...]/NAME[?tls-ca=FILE...] [default: that of the environment variable DROVER_SERVER, or
    /// shm:drover]
    #[arg(long, value_name = "ADDR")]
    server: Option<Target>,
    /// Maximum time of each step (reaching the server, asking for its system, setting up, the operation), milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_000)]
    pub timeout_ms: u64,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
}

impl ServerArgs {
    /// What is asked.
    ///
    /// # Errors
    /// The environment names something that is no address.
    fn target(&self) -> Result<Target, Box<dyn Error>> {
        if let Some(server) = &self.server {
            return Ok(server.clone());
        }
        let said = std::env::var(SERVER).unwrap_or_else(|_| USUAL.to_owned());
        said.parse()
            .map_err(|error| format!("{SERVER}={said}: {error}").into())
    }

    /// The address of the one server that is asked for something of its own.
    ///
    /// # Errors
    /// The environment names something that is no address, or what is asked is a service of several members.
    pub fn addr(&self) -> Result<ControlAddr, Box<dyn Error>> {
        match self.target()? {
            Target::Server(addr) => Ok(addr),
            Target::Service(url) => Err(format!(
                "{url} has several members, each with statistics of its own: name one of them, or use drover cluster status"
            )
            .into()),
        }
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
        let addr = match self.target()? {
            Target::Server(addr) => self.access.of(self.device.of(&addr)?)?,
            Target::Service(url) => return self.connect_to_service(&url),
        };
        if addr.scheme() == Scheme::Tcp {
            Fabric::towards(&addr)?; // says that no data goes there, whether or not a server listens
        }
        Ok(Connected::to_one_of::<T>(addr, &self.options())?.into())
    }

    fn connect_to_service(&self, url: &ServiceUrl) -> Result<Client, Box<dyn Error>> {
        if self.device.choice() != DeviceChoice::default() {
            let text = "--ib-dev, --ib-port and --gid-index choose the RDMA device for one server, and members choose for themselves";
            return Err(text.into());
        }
        let options = Options {
            credentials: self.access.auth.read()?,
            tls: self.access.tls.read()?,
            ..self.options()
        };
        Ok(Connected::to_service(url, &options)?.into())
    }

    fn options(&self) -> Options {
        Options {
            connect_timeout: self.timeout(),
            call_timeout: self.timeout(),
            ..Options::default()
        }
    }
}
