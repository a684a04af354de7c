//! How many clients and server cores take part.

use drover_base::HashKind;
use drover_kv::{FetchObjective, ResultTransfer};

/// Most clients of a run: servers take 1024, and a few connect beside those that are measured.
const CLIENTS_MAX: usize = 1000;

/// Arguments about the number of clients and their requests.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Server and clients")]
pub struct LoadArgs {
    /// Operations in flight per client and server core
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    pub window: usize,
    /// Server cores, one partition each
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub server_cores: usize,
    /// Hash that the server places keys by: aes or xxh3
    #[arg(long, default_value_t = HashKind::default(), value_name = "NAME", conflicts_with = "address")]
    pub hash: HashKind,
    /// Clients, one thread and core each, which draw 16 MiB of requests in advance; with --processes, per process
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub client_cores: usize,
    /// Client processes; 1: the clients are threads of this one
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub processes: usize,
    /// How results come to clients of jakiro: auto (as the client sees fit), fetch (clients READ them) or reply (the server
    /// WRITEs them); other systems ignore it
    #[arg(long, default_value = "auto", value_name = "HOW")]
    pub transfer: ResultTransfer,
    /// What clients that read results choose the length of their first READ by: exact (the most calls per second for the
    /// sizes of results that come) or paper (RFP's formula)
    #[arg(long, default_value = "exact", value_name = "NAME")]
    pub objective: FetchObjective,
}

impl LoadArgs {
    /// Number of clients in all processes together.
    pub fn client_count(&self) -> usize {
        self.client_cores * self.processes
    }

    /// The first argument that is out of range, with that range; `None` if all are in range. Clap has checked the rest.
    pub fn complaint(&self) -> Option<&'static str> {
        match () {
            () if !(1..=256).contains(&self.window) => Some("--window: 1 to 256"),
            () if !(1..=64).contains(&self.server_cores) => Some("--server-cores: 1 to 64"),
            () if !(1..=CLIENTS_MAX).contains(&self.client_cores) => Some("--client-cores: 1 to 1000"),
            () if !(1..=64).contains(&self.processes) => Some("--processes: 1 to 64"),
            () if self.client_count() > CLIENTS_MAX => {
                Some("--client-cores times --processes: at most 1000 clients, as many as one server takes")
            }
            () => None,
        }
    }
}
