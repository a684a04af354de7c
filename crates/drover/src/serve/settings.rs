//! Merges command line, configuration file and defaults, in this order, into settings. Each value has its origin, which
//! `drover config` prints.

mod capacity;
mod commands;
mod file;
mod memory;
mod offered;
mod origin;
mod show;
mod sockets;
#[cfg(test)]
mod tests;
mod words;
mod workers;

pub use capacity::{CapacityArgs, CapacitySettings};
pub use commands::{CommandArgs, CommandSettings};
pub use file::{fuzz_config_file, fuzz_settings};
pub use memory::{MemoryArgs, MemorySettings};
pub use origin::{Origin, Row, Setting, pick, row};
pub use sockets::{SocketArgs, SocketSettings};
pub use workers::{WorkerArgs, WorkerSettings};

use super::args::Args;
use super::extended::{self, Extended};
use super::ops::OpsSettings;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_kv::{Facts, SHARDS_MAX, SystemTable};
use drover_systems::System;
use file::read_file;
use words::{allowed_cores, some};

/// All settings of `serve`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// System to serve.
    pub system: Setting<&'static Facts>,
    /// Address of the data fabric, `shm:NAME` or `rdma://host:port`, with the options that choose an RDMA device.
    pub fabric: Setting<String>,
    /// Where clients connect.
    pub sockets: SocketSettings,
    /// Commands that memcached clients may use.
    pub commands: CommandSettings,
    /// Extended options (`-o`).
    pub extended: Setting<Extended>,
    /// Space for items and clients.
    pub capacity: CapacitySettings,
    /// Kind of the items' memory: huge pages, a memory file, locked memory.
    pub memory: MemorySettings,
    /// Cores of the workers, request slots, and how long idle workers poll.
    pub workers: WorkerSettings,
    /// Operational settings: admin port, pid file, user, logins, TLS.
    pub ops: OpsSettings,
    /// Log verbosity, the number of `-v`: 0 information, 1 debug, 2 or more trace.
    pub verbose: u8,
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
        args.sockets.refuse_what_is_not_there()?;
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
    let device = typed.device.or(&file.device);
    let words = pick(
        some(typed.extended),
        some(file.extended),
        Vec::new(),
        Origin::Default,
    );
    let extended = extended::parse(&words.value)?;
    let (system, row) = system_of::<T>(pick(
        typed.system,
        file.system,
        T::ALL[0].to_string(),
        Origin::Default,
    ))?;
    let fabric = pick(
        typed.fabric,
        file.fabric,
        "shm:drover".to_string(),
        Origin::Default,
    );
    let fabric = with_device(fabric, &device)?;
    let sockets = SocketSettings::fill(typed.sockets, file.sockets, system.value.offers.memcached)?;
    let capacity = CapacitySettings::fill(typed.capacity, file.capacity, allowed.len())?;
    let workers = WorkerSettings::fill(typed.workers, file.workers, capacity.threads.value, allowed)?;
    let settings = Settings {
        system,
        fabric,
        sockets,
        commands: CommandSettings::fill(&typed.commands, &file.commands),
        capacity,
        memory: MemorySettings::fill(typed.memory, file.memory),
        workers,
        ops: OpsSettings::fill(typed.ops, file.ops, &extended.tls)?,
        extended: Setting {
            value: extended,
            origin: words.origin,
        },
        verbose: typed.program.verbose.max(file.program.verbose),
    };
    settings.check()?;
    offered::refuse_what_means_nothing(&settings)?;
    Ok((settings, row))
}

/// Parses `--system`.
fn system_of<T: SystemTable>(name: Setting<String>) -> Result<(Setting<&'static Facts>, T), Failure> {
    let Some(system) = T::named(&name.value) else {
        let text = format!("--system {}: expected {}", name.value, T::names(" or "));
        return Err(Failure::new(exit::USAGE, text));
    };
    let (value, origin) = (system.facts(), name.origin);
    Ok((Setting { value, origin }, system))
}

/// `--listen rdma://host:port` means `--fabric rdma://host:port`.
fn fabric_of_listen(mut args: Args) -> Result<Args, Failure> {
    let (fabrics, others) = args
        .sockets
        .listen
        .into_iter()
        .partition(|addr| addr.starts_with("rdma:"));
    args.sockets.listen = others;
    let fabrics: Vec<String> = fabrics;
    for addr in fabrics {
        if let Some(fabric) = &args.fabric {
            let text = format!("--listen {addr} and --fabric {fabric}: a server has one fabric");
            return Err(Failure::new(exit::USAGE, text));
        }
        args.fabric = Some(addr);
    }
    Ok(args)
}

/// The fabric's address including the device options.
fn with_device(mut fabric: Setting<String>, device: &DeviceArgs) -> Result<Setting<String>, Failure> {
    if *device != DeviceArgs::default() {
        let addr = fabric
            .value
            .parse()
            .map_err(|error| Failure::new(exit::USAGE, error))?;
        fabric.value = device.of(&addr)?.to_string();
    }
    Ok(fabric)
}

impl Settings {
    /// Checks ranges that clap does not.
    fn check(&self) -> Result<(), Failure> {
        let window = self.workers.window_max.value;
        let slot = self.workers.slot_bytes_max.value;
        let complaint = match () {
            () if !(1..=SHARDS_MAX).contains(&self.capacity.threads.value) => Some(format!(
                "--threads {}: from 1 to {SHARDS_MAX}",
                self.capacity.threads.value
            )),
            () if !(-1..=65535).contains(&self.sockets.port.value) => Some(format!(
                "--port {}: from 0 to 65535, or -1",
                self.sockets.port.value
            )),
            () if self.sockets.requests_per_event.value == 0 => Some("-R 0: at least 1".to_string()),
            () if self.sockets.backlog.value == 0 => Some("-b 0: at least 1".to_string()),
            () if self.capacity.memory_mib.value == 0 => {
                Some("--memory-limit must be at least 1 MiB".to_string())
            }
            () if self.capacity.conn_limit.value == 0 => Some("--conn-limit must be at least 1".to_string()),
            () if !window.is_power_of_two() || window > 256 => {
                Some(format!("--window-max {window}: a power of two from 1 to 256"))
            }
            () if !slot.is_multiple_of(64) || !(64..=1024).contains(&slot) => Some(format!(
                "--slot-bytes-max {slot}: a multiple of 64 from 64 to 1024"
            )),
            () => None,
        };
        complaint.map_or(Ok(()), |text| Err(Failure::new(exit::USAGE, text)))
    }
}
