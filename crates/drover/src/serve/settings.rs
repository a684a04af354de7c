//! Merges command line, configuration file and defaults, in this order, into settings. Each value has its origin, which
//! `drover config` prints.

mod file;
mod offered;
mod origin;
mod show;
#[cfg(test)]
mod tests;
mod words;

pub use file::{fuzz_config_file, fuzz_settings};
pub use origin::{Origin, Row, Setting, pick, row};

use super::args::Args;
use super::extended::{self, Extended};
use super::ops::OpsSettings;
use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_kv::{Facts, SystemTable};
use drover_kv_herd::control::PARTITIONS_MAX;
use drover_systems::System;
use file::read_file;
use std::path::PathBuf;
use words::{allowed_cores, bytes_of, choose_cores, mask_of, some};

/// All settings of `serve`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// System to serve.
    pub system: Setting<&'static Facts>,
    /// `shm:NAME` or `rdma://host:port`.
    pub fabric: Setting<String>,
    /// TCP port; 0: no TCP; -1: any free port.
    pub port: Setting<i32>,
    /// Path of the Unix socket for memcached clients.
    pub unix_socket: Setting<Option<PathBuf>>,
    /// Mode of the Unix socket's file.
    pub unix_mask: Setting<u32>,
    /// Addresses that `port` listens at.
    pub listen: Setting<Vec<String>>,
    /// Additional addresses of the control channel.
    pub control_listen: Setting<Vec<String>>,
    /// Maximum number of connections waiting to be accepted.
    pub backlog: Setting<u32>,
    /// Requests of a connection per turn.
    pub requests_per_event: Setting<usize>,
    /// `-B`: `ascii` or `auto`, which mean the same.
    pub protocol: Setting<String>,
    /// Disable CAS numbers.
    pub disable_cas: Setting<bool>,
    /// Refuse flush_all.
    pub disable_flush_all: Setting<bool>,
    /// Refuse to list keys.
    pub disable_dumping: Setting<bool>,
    /// Refuse `watch`.
    pub disable_watch: Setting<bool>,
    /// Allow the command `shutdown`.
    pub enable_shutdown: Setting<bool>,
    /// Extended options (`-o`).
    pub extended: Setting<Extended>,
    /// Memory for items, MiB.
    pub memory_mib: Setting<u64>,
    /// Store mode: answer "full" instead of evicting.
    pub disable_evictions: Setting<bool>,
    /// Number of workers, each with one partition.
    pub threads: Setting<usize>,
    /// Maximum item size, bytes.
    pub max_item_bytes: Setting<usize>,
    /// Maximum number of clients.
    pub conn_limit: Setting<usize>,
    /// Maximum number of clients with request slots.
    pub slot_clients: Setting<usize>,
    /// Require huge pages.
    pub large_pages: Setting<bool>,
    /// Path of the memory file, whose items outlive the process.
    pub memory_file: Setting<Option<PathBuf>>,
    /// Lock all memory.
    pub lock_memory: Setting<bool>,
    /// One core per worker; `None`: not pinned.
    pub cores: Setting<Option<Vec<usize>>>,
    /// Maximum number of slots per client and worker.
    pub window_max: Setting<u16>,
    /// Maximum bytes of a slot.
    pub slot_bytes_max: Setting<u16>,
    /// Idle polling time before sleeping, microseconds; 0: never sleep.
    pub spin_us: Setting<u64>,
    /// Operational settings.
    pub ops: OpsSettings,
    /// Log verbosity.
    pub verbose: u8,
}

/// Polling the slots of more clients than this costs more than datagrams do `[HERD §5.5]`.
const SLOT_CLIENTS: usize = 256;

/// memcached's default port.
const PORT: i32 = 11211;
/// memcached's default, 20, would split pipelines; a turn of this many takes less than a tenth of a millisecond.
const REQUESTS_PER_EVENT: usize = 200;

impl Settings {
    /// Reads the configuration file, if one is named, and fills in defaults. The system is one of table `T`, and returned, too.
    pub fn resolve<T: SystemTable>(args: &Args) -> Result<(Settings, T), Failure> {
        if args.daemon {
            let text = "-d is refused: run it under a service manager (systemd: Type=exec), or in the background with &";
            return Err(Failure::new(exit::USAGE, text));
        }
        refuse_what_is_not_there(args)?;
        let file = match &args.config {
            Some(path) => read_file(path)?,
            None => Args::default(),
        };
        let allowed = allowed_cores();
        fill_with::<T>(args.clone(), file, &allowed)
    }
}

/// Refuses protocols that memcached has and drover has not.
fn refuse_what_is_not_there(args: &Args) -> Result<(), Failure> {
    let refuse = |text: String| Err(Failure::new(exit::USAGE, text));
    if let Some(port) = args.udp_port.filter(|port| *port != 0) {
        return refuse(format!(
            "-U {port}: there is no UDP; clients use TCP (-p) or a Unix socket (-s)"
        ));
    }
    match args.protocol.as_deref() {
        None | Some("ascii" | "auto") => Ok(()),
        Some("binary") => {
            refuse("-B binary: there is no binary protocol; ascii includes the meta commands".to_owned())
        }
        Some(other) => refuse(format!("-B {other}: expected ascii or auto")),
    }
}

/// The settings, where the systems are those of the one table.
fn fill(typed: Args, file: Args, allowed: &[usize]) -> Result<Settings, Failure> {
    fill_with::<System>(typed, file, allowed).map(|(settings, _)| settings)
}

fn fill_with<T: SystemTable>(typed: Args, file: Args, allowed: &[usize]) -> Result<(Settings, T), Failure> {
    let (typed, file) = (fabric_of_listen(typed)?, fabric_of_listen(file)?);
    let device = typed.device.or(&file.device);
    let threads = pick(
        typed.threads,
        file.threads,
        (allowed.len() / 2).clamp(1, 4),
        Origin::Machine,
    );
    let size = pick(
        typed.max_item_size,
        file.max_item_size,
        "1m".to_string(),
        Origin::Default,
    );
    let cores = pick(typed.cores, file.cores, String::new(), Origin::Machine);
    let words = pick(
        some(typed.extended),
        some(file.extended),
        Vec::new(),
        Origin::Default,
    );
    let extended = extended::parse(&words.value)?;
    let unix_socket = pick(
        typed.unix_socket.map(Some),
        file.unix_socket.map(Some),
        None,
        Origin::Default,
    );
    let (system, row) = system_of::<T>(pick(
        typed.system,
        file.system,
        T::ALL[0].to_string(),
        Origin::Default,
    ))?;
    // As with memcached: a Unix socket without `-p` means no TCP port.
    let default_port = match unix_socket.value.is_some() || !system.value.offers.memcached {
        true => 0,
        false => PORT,
    };
    let settings = Settings {
        system,
        fabric: with_device(
            pick(
                typed.fabric,
                file.fabric,
                "shm:drover".to_string(),
                Origin::Default,
            ),
            &device,
        )?,
        port: pick(typed.port, file.port, default_port, Origin::Default),
        unix_socket,
        unix_mask: mask_of(pick(
            typed.unix_mask,
            file.unix_mask,
            "700".to_string(),
            Origin::Default,
        ))?,
        listen: pick(
            some(typed.listen),
            some(file.listen),
            vec!["127.0.0.1".to_string()],
            Origin::Default,
        ),
        control_listen: pick(
            some(typed.control_listen),
            some(file.control_listen),
            Vec::new(),
            Origin::Default,
        ),
        backlog: pick(typed.listen_backlog, file.listen_backlog, 1024, Origin::Default),
        requests_per_event: pick(
            typed.max_reqs_per_event,
            file.max_reqs_per_event,
            REQUESTS_PER_EVENT,
            Origin::Default,
        ),
        protocol: pick(typed.protocol, file.protocol, "auto".to_string(), Origin::Default),
        disable_cas: pick(typed.disable_cas, file.disable_cas, false, Origin::Default),
        disable_flush_all: pick(
            typed.disable_flush_all,
            file.disable_flush_all,
            false,
            Origin::Default,
        ),
        disable_dumping: pick(
            typed.disable_dumping,
            file.disable_dumping,
            false,
            Origin::Default,
        ),
        disable_watch: pick(typed.disable_watch, file.disable_watch, false, Origin::Default),
        enable_shutdown: pick(
            typed.enable_shutdown,
            file.enable_shutdown,
            false,
            Origin::Default,
        ),
        extended: Setting {
            value: extended.clone(),
            origin: words.origin,
        },
        memory_mib: pick(typed.memory_limit, file.memory_limit, 64, Origin::Default),
        disable_evictions: pick(
            typed.disable_evictions,
            file.disable_evictions,
            false,
            Origin::Default,
        ),
        max_item_bytes: Setting {
            value: bytes_of("--max-item-size", &size.value)?,
            origin: size.origin,
        },
        conn_limit: pick(typed.conn_limit, file.conn_limit, 1024, Origin::Default),
        slot_clients: pick(
            typed.slot_clients,
            file.slot_clients,
            SLOT_CLIENTS,
            Origin::Default,
        ),
        large_pages: pick(
            typed.enable_largepages,
            file.enable_largepages,
            false,
            Origin::Default,
        ),
        memory_file: pick(
            typed.memory_file.map(Some),
            file.memory_file.map(Some),
            None,
            Origin::Default,
        ),
        lock_memory: pick(typed.lock_memory, file.lock_memory, false, Origin::Default),
        cores: Setting {
            value: choose_cores(&cores.value, threads.value, allowed)?,
            origin: cores.origin,
        },
        window_max: pick(typed.window_max, file.window_max, 256, Origin::Default),
        slot_bytes_max: pick(typed.slot_bytes_max, file.slot_bytes_max, 1024, Origin::Default),
        spin_us: pick(typed.spin_us, file.spin_us, 50, Origin::Default),
        ops: OpsSettings::fill(typed.ops, file.ops, &extended.tls)?,
        verbose: typed.verbose.max(file.verbose),
        threads,
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
        .listen
        .into_iter()
        .partition(|addr| addr.starts_with("rdma:"));
    args.listen = others;
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
        let window = self.window_max.value;
        let slot = self.slot_bytes_max.value;
        let complaint = match () {
            () if !(1..=PARTITIONS_MAX).contains(&self.threads.value) => Some(format!(
                "--threads {}: from 1 to {PARTITIONS_MAX}",
                self.threads.value
            )),
            () if !(-1..=65535).contains(&self.port.value) => {
                Some(format!("--port {}: from 0 to 65535, or -1", self.port.value))
            }
            () if self.requests_per_event.value == 0 => Some("-R 0: at least 1".to_string()),
            () if self.backlog.value == 0 => Some("-b 0: at least 1".to_string()),
            () if self.memory_mib.value == 0 => Some("--memory-limit must be at least 1 MiB".to_string()),
            () if self.conn_limit.value == 0 => Some("--conn-limit must be at least 1".to_string()),
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
