//! Merges command line, configuration file and defaults, in this order, into settings. Each value has its origin, which
//! `drover config` prints.

mod capacity;
mod cluster;
mod commands;
mod file;
mod flag;
mod flags;
mod foreign;
mod memory;
mod offered;
mod origin;
mod service;
mod show;
mod sockets;
#[cfg(test)]
mod tests;
mod words;
mod workers;

pub use capacity::{CapacityArgs, CapacitySettings};
pub use cluster::{ClusterArgs, ClusterSettings};
pub use commands::{CommandArgs, CommandSettings};
pub use file::{fuzz_config_file, fuzz_settings};
pub use flag::{list, optional, optional_of, or_none, parsed, path, value};
pub(super) use flags::flags;
pub use foreign::{ForeignArgs, ForeignSettings};
pub use memory::{MemoryArgs, MemorySettings};
pub use offered::Feature;
pub use origin::{Origin, Setting};
pub use service::{ServiceArgs, ServiceSettings, split_plain};
pub use show::Row;
pub use sockets::{SocketArgs, SocketSettings};
pub use workers::{WorkerArgs, WorkerSettings};

use super::args::Args;
use super::extended::{Extended, ExtendedSettings};
use super::ops::OpsSettings;
use crate::exit::{self, Failure};
use drover_kv::{Facts, SystemTable};
use drover_systems::System;
use file::read_file;
use service::fabric_of_listen;
use words::allowed_cores;
pub(crate) use words::bytes_of as item_bytes_of;

/// All settings of `serve`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// System, and address of the data fabric.
    pub service: ServiceSettings,
    /// Where clients connect.
    pub sockets: SocketSettings,
    /// Commands that memcached clients may use.
    pub commands: CommandSettings,
    /// Extended options (`-o`).
    pub extended: Setting<Extended>,
    /// Flags of memcached that have no effect.
    pub foreign: ForeignSettings,
    /// Space for items and clients.
    pub capacity: CapacitySettings,
    /// Kind of the items' memory: huge pages, a memory file, locked memory.
    pub memory: MemorySettings,
    /// Cores of the workers, request slots, and how long idle workers poll.
    pub workers: WorkerSettings,
    /// The service of several members that this server is one of.
    pub cluster: ClusterSettings,
    /// Operational settings: admin port, pid file, user, logins, TLS.
    pub ops: OpsSettings,
    /// Log verbosity, the number of `-v`: 0 information, 1 debug, 2 or more trace.
    pub verbose: u8,
    /// Lines of `drover config`.
    rows: Vec<Row>,
}

impl Settings {
    /// Merges `args`, the configuration file that they name, if any, and defaults. The system is one of table `T`; it
    /// is returned as the second result.
    ///
    /// # Errors
    /// The file cannot be read, or a setting is malformed, out of range, unsupported, or about a feature that the
    /// system does not have.
    pub fn resolve<T: SystemTable>(args: &Args) -> Result<(Settings, T), Failure> {
        if args.program.daemon {
            let text = "-d is refused: run it under a service manager (systemd: Type=exec), or in the background with &";
            return Err(Failure::new(exit::USAGE, text));
        }
        let file = match &args.program.config {
            Some(path) => read_file(path)?,
            None => Args::default(),
        };
        let allowed = allowed_cores();
        fill_with::<T>(args.clone(), file, &allowed)
    }
}

/// The settings, where the systems are those of the one table.
fn fill(typed: Args, file: Args, allowed: &[usize]) -> Result<Settings, Failure> {
    fill_with::<System>(typed, file, allowed).map(|(settings, _)| settings)
}

fn fill_with<T: SystemTable>(typed: Args, file: Args, allowed: &[usize]) -> Result<(Settings, T), Failure> {
    let (typed, file) = (fabric_of_listen(typed)?, fabric_of_listen(file)?);
    let systems = T::ALL.iter().map(|system| system.facts());
    let systems: Vec<&'static Facts> = systems.filter(|facts| facts.offers.service).collect();
    let device = typed.device.or(&file.device);
    let rows = &mut Vec::new();
    let service = ServiceSettings::fill(typed.service, file.service, rows, &systems, &device)?;
    let system = service.system.value;
    let has_port = system.offers.memcached || system.offers.gateway;
    let port = sockets::default_port(&typed.sockets, &file.sockets, has_port);
    let sockets = SocketSettings::fill(typed.sockets, file.sockets, rows, port)?;
    sockets.refuse_what_is_not_there()?;
    // `drover config` shows `-B` after `-b` and `-R`, the help before them.
    rows.sort_by_key(|row| row.name == "protocol");
    let commands = CommandSettings::fill(typed.commands, file.commands, rows)?;
    let extended = ExtendedSettings::fill(typed.extended, file.extended, rows)?.extended;
    let foreign = ForeignSettings::fill(typed.foreign, file.foreign, rows)?;
    foreign.refuse_sasl()?;
    let capacity = CapacitySettings::fill(typed.capacity, file.capacity, rows, allowed.len())?;
    let memory = MemorySettings::fill(typed.memory, file.memory, rows)?;
    let threads = capacity.threads.value;
    let workers = WorkerSettings::fill(typed.workers, file.workers, rows, threads, allowed)?;
    let ops = OpsSettings::fill(typed.ops, file.ops, rows, &extended.value.tls)?;
    let cluster = ClusterSettings::fill(typed.cluster, file.cluster, rows)?;
    cluster.refuse_halves()?;
    cluster.refuse_memory_file(&memory)?;
    let settings = Settings {
        service,
        sockets,
        commands,
        capacity,
        memory,
        workers,
        cluster,
        ops,
        extended,
        foreign,
        verbose: typed.program.verbose.max(file.program.verbose),
        rows: std::mem::take(rows),
    };
    offered::refuse_what_means_nothing(&settings)?;
    let system = T::named(system.name).expect("the system is one of the table");
    Ok((settings, system))
}
