//! From what was typed to what is in force: command line over configuration file over default, each value
//! with its origin, so that `drover config` can say where it came from.

use super::args::Args;
use super::extended::{self, Extended};
use super::ops::OpsSettings;
use crate::exit::{self, Failure};
use crate::fabric;
use crate::rdma::DeviceArgs;
use clap::Parser;
use drover_kv_herd::control::PARTITIONS_MAX;
use drover_store::VALUE_BYTES_MAX;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody asked for anything else.
    Default,
    /// Worked out from this machine.
    Machine,
    /// The configuration file.
    File,
    /// The command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Default => "default",
            Origin::Machine => "this machine",
            Origin::File => "configuration file",
            Origin::CommandLine => "command line",
        })
    }
}

/// A value and its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Setting<Option<T>> {
    /// What nobody needs to set.
    pub fn optional(typed: Option<T>, file: Option<T>) -> Setting<Option<T>> {
        pick(typed.map(Some), file.map(Some), None, Origin::Default)
    }
}

/// A line of `drover config`: name, value, origin.
pub type Row = (&'static str, String, Origin);

/// Everything `serve` needs to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `shm:NAME` or `rdma://host:port`.
    pub fabric: Setting<String>,
    /// 0: no TCP; -1: any free port.
    pub port: Setting<i32>,
    /// For memcached clients.
    pub unix_socket: Setting<Option<PathBuf>>,
    /// Rights of its file.
    pub unix_mask: Setting<u32>,
    /// Where `port` listens.
    pub listen: Setting<Vec<String>>,
    /// Further addresses of the control channel.
    pub control_listen: Setting<Vec<String>>,
    /// Connections that may wait to be accepted.
    pub backlog: Setting<u32>,
    /// Requests of a connection before others have their turn.
    pub requests_per_event: Setting<usize>,
    /// No CAS numbers.
    pub disable_cas: Setting<bool>,
    /// No flush_all.
    pub disable_flush_all: Setting<bool>,
    /// No lists of keys.
    pub disable_dumping: Setting<bool>,
    /// No `watch`.
    pub disable_watch: Setting<bool>,
    /// The command `shutdown` works.
    pub enable_shutdown: Setting<bool>,
    /// Extended options.
    pub extended: Setting<Extended>,
    /// Memory for items, MiB.
    pub memory_mib: Setting<u64>,
    /// Store mode: full is an answer, not a reason to evict.
    pub disable_evictions: Setting<bool>,
    /// Workers, each with one partition.
    pub threads: Setting<usize>,
    /// Largest value, bytes.
    pub max_item_bytes: Setting<usize>,
    /// Most clients at a time.
    pub conn_limit: Setting<usize>,
    /// Most of them with request slots.
    pub slot_clients: Setting<usize>,
    /// Huge pages or nothing.
    pub large_pages: Setting<bool>,
    /// Where items outlive the process.
    pub memory_file: Setting<Option<PathBuf>>,
    /// Lock all memory.
    pub lock_memory: Setting<bool>,
    /// One core per worker; `None`: not pinned.
    pub cores: Setting<Option<Vec<usize>>>,
    /// Most slots per client and worker.
    pub window_max: Setting<u16>,
    /// Most bytes of a slot.
    pub slot_bytes_max: Setting<u16>,
    /// Microseconds of vain polling before sleep; 0: never sleep.
    pub spin_us: Setting<u64>,
    /// How it is run.
    pub ops: OpsSettings,
    /// How much to say.
    pub verbose: u8,
}

/// Polling the slots of more clients than this costs more than datagrams do `[HERD §5.5]`.
const SLOT_CLIENTS: usize = 256;

/// memcached's.
const PORT: i32 = 11211;
/// memcached's default, 20, would cut pipelines into pieces; a turn of this many takes less than a tenth of a
/// millisecond.
const REQUESTS_PER_EVENT: usize = 200;

/// The file's lines are parsed by the same parser as the command line.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct FileArgs {
    #[command(flatten)]
    args: Args,
}

impl Settings {
    /// Reads the configuration file, if one is named, and fills every gap.
    pub fn resolve(args: &Args) -> Result<Settings, Failure> {
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
        fill(args.clone(), file, &allowed)
    }
}

/// Protocols that memcached has and drover has not.
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

fn fill(typed: Args, file: Args, allowed: &[usize]) -> Result<Settings, Failure> {
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
    // As with memcached: who asks for a Unix socket alone gets no TCP port.
    let default_port = if unix_socket.value.is_some() { 0 } else { PORT };
    let settings = Settings {
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
    Ok(settings)
}

/// `--listen rdma://host:port` is `--fabric rdma://host:port`: where data arrives.
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

/// The fabric's address, with what the options of the device say in it.
fn with_device(mut fabric: Setting<String>, device: &DeviceArgs) -> Result<Setting<String>, Failure> {
    if *device != DeviceArgs::default() {
        let addr = fabric
            .value
            .parse()
            .map_err(|error| Failure::new(exit::USAGE, error))?;
        fabric.value = fabric::with_device(&addr, device)?.to_string();
    }
    Ok(fabric)
}

/// The command line's value, or the file's, or the default.
pub fn pick<T>(typed: Option<T>, file: Option<T>, default: T, default_origin: Origin) -> Setting<T> {
    match (typed, file) {
        (Some(value), _) => Setting {
            value,
            origin: Origin::CommandLine,
        },
        (None, Some(value)) => Setting {
            value,
            origin: Origin::File,
        },
        (None, None) => Setting {
            value: default,
            origin: default_origin,
        },
    }
}

impl Settings {
    /// Ranges that clap does not know.
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

/// Lists that nobody gave are not there.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// Octal rights of a file.
fn mask_of(text: Setting<String>) -> Result<Setting<u32>, Failure> {
    match u32::from_str_radix(&text.value, 8) {
        Ok(value) if value <= 0o777 => Ok(Setting {
            value,
            origin: text.origin,
        }),
        _ => {
            let text = format!("-a {}: expected octal rights, such as 700", text.value);
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// `10`, `10k`, `1m`.
fn bytes_of(name: &str, text: &str) -> Result<usize, Failure> {
    let (digits, unit) = match text.to_ascii_lowercase() {
        lower if lower.ends_with('k') => (lower[..lower.len() - 1].to_string(), 1 << 10),
        lower if lower.ends_with('m') => (lower[..lower.len() - 1].to_string(), 1 << 20),
        lower => (lower, 1),
    };
    let bytes = digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if (1..=VALUE_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(Failure::new(
            exit::USAGE,
            format!("{name} {text}: expected bytes, or a number with k or m, up to 1m"),
        )),
    }
}

/// `text` is empty (choose), `none`, or a list like `0-2,5`.
fn choose_cores(text: &str, count: usize, allowed: &[usize]) -> Result<Option<Vec<usize>>, Failure> {
    let refuse = |why: String| Err(Failure::new(exit::USAGE, format!("--cores {text}: {why}")));
    match text {
        "none" => return Ok(None),
        // With too few cores pinning would put workers on top of each other. Clients tend to start on the
        // first cores, so workers take the last.
        "" if allowed.len() < count => return Ok(None),
        "" => return Ok(Some(allowed[allowed.len() - count..].to_vec())),
        _ => {}
    }
    let Some(cores) = parse_cores(text) else {
        return refuse("expected numbers and ranges, such as 0-2,5".to_string());
    };
    if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
        return refuse(format!(
            "core {core} is not one of those this process may use ({allowed:?})"
        ));
    }
    if cores.len() < count {
        return refuse(format!("{} cores for {count} workers", cores.len()));
    }
    Ok(Some(cores))
}

fn parse_cores(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<usize>().ok()?);
        cores.extend((first..=last).take(4096));
    }
    Some(cores)
}

/// Physical cores first, then their hyper-thread siblings.
fn allowed_cores() -> Vec<usize> {
    let cores = drover_rt::cores::cores().unwrap_or_default();
    if cores.is_empty() {
        return (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
    }
    cores.iter().map(|core| core.index).collect()
}

fn read_file(path: &Path) -> Result<Args, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(
            exit::NO_INPUT,
            format!("configuration file {}: {error}", path.display()),
        )
    })?;
    parse_file(&text).map_err(|why| {
        Failure::new(
            exit::USAGE,
            format!("configuration file {}: {why}", path.display()),
        )
    })
}

fn parse_file(text: &str) -> Result<Args, String> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        let (key, value) = line
            .split_once('=')
            .ok_or(format!("line {number}: expected `name = value`"))?;
        let word = format!("--{}={}", key.trim(), value.trim());
        // Alone first, so that the complaint can name the line.
        FileArgs::try_parse_from([&word])
            .map_err(|error| format!("line {number}: {}", first_line(&error)))?;
        words.push(word);
    }
    FileArgs::try_parse_from(words)
        .map(|file| file.args)
        .map_err(|error| first_line(&error))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines()
        .next()
        .unwrap_or("")
        .trim_start_matches("error: ")
        .to_string()
}

/// Any text is a configuration file or is refused with a reason; what it sets makes sense or is refused.
pub fn fuzz_config_file(text: &str) {
    match parse_file(text) {
        Ok(args) => fuzz_settings(args),
        Err(why) => assert!(!why.is_empty(), "a refusal without a reason"),
    }
}

/// Settings made of any arguments keep the promises that `serve` relies on, or are refused with a reason.
pub fn fuzz_settings(args: Args) {
    match fill(args, Args::default(), &[0, 1, 2, 3]) {
        Err(failure) => assert!(!failure.text.is_empty(), "a refusal without a reason"),
        Ok(settings) => {
            assert!(settings.threads.value > 0 && settings.window_max.value.is_power_of_two());
            let cores = settings.cores.value.as_ref();
            assert!(cores.is_none_or(|cores| cores.len() >= settings.threads.value));
            assert!(settings.to_string().lines().all(|line| !line.trim().is_empty()));
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: [Row; 28] = [
            row("fabric", &self.fabric, Clone::clone),
            row("port", &self.port, i32::to_string),
            row("unix-socket", &self.unix_socket, path_or_none),
            row("unix-mask", &self.unix_mask, |mask| format!("{mask:o}")),
            row("listen", &self.listen, |addrs| addrs.join(",")),
            row("control-listen", &self.control_listen, |list| list_or_none(list)),
            row("listen-backlog", &self.backlog, u32::to_string),
            row("max-reqs-per-event", &self.requests_per_event, usize::to_string),
            row("disable-cas", &self.disable_cas, bool::to_string),
            row("disable-flush-all", &self.disable_flush_all, bool::to_string),
            row("disable-dumping", &self.disable_dumping, bool::to_string),
            row("disable-watch", &self.disable_watch, bool::to_string),
            row("enable-shutdown", &self.enable_shutdown, bool::to_string),
            row("idle_timeout", &self.extended, |o| {
                format!("{} seconds", o.idle_timeout_s)
            }),
            row("maxconns_fast", &self.extended, |o| o.maxconns_fast.to_string()),
            row("memory-limit", &self.memory_mib, |mib| format!("{mib} MiB")),
            row("disable-evictions", &self.disable_evictions, bool::to_string),
            row("threads", &self.threads, usize::to_string),
            row("max-item-size", &self.max_item_bytes, |bytes| {
                format!("{bytes} bytes")
            }),
            row("conn-limit", &self.conn_limit, usize::to_string),
            row("slot-clients", &self.slot_clients, usize::to_string),
            row("enable-largepages", &self.large_pages, bool::to_string),
            row("memory-file", &self.memory_file, path_or_none),
            row("lock-memory", &self.lock_memory, bool::to_string),
            row("cores", &self.cores, |cores| {
                cores.as_ref().map_or("none".into(), |c| join(c))
            }),
            row("window-max", &self.window_max, u16::to_string),
            row("slot-bytes-max", &self.slot_bytes_max, |bytes| {
                format!("{bytes} bytes")
            }),
            row("spin-us", &self.spin_us, |us| format!("{us} microseconds")),
        ];
        for (name, value, origin) in rows.into_iter().chain(self.ops.rows()) {
            writeln!(f, "{name:<18} {value:<24} {origin}")?;
        }
        Ok(())
    }
}

/// A line of `drover config`.
pub fn row<T>(name: &'static str, setting: &Setting<T>, show: impl Fn(&T) -> String) -> Row {
    (name, show(&setting.value), setting.origin)
}

fn path_or_none(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map_or("none".into(), |path| path.display().to_string())
}

fn list_or_none(list: &[String]) -> String {
    if list.is_empty() {
        "none".into()
    } else {
        list.join(",")
    }
}

fn join(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &[&str]) -> Args {
        FileArgs::try_parse_from(words)
            .unwrap_or_else(|error| panic!("{error}"))
            .args
    }

    fn settings(words: &[&str]) -> Result<Settings, String> {
        fill(typed(words), Args::default(), &[0, 1, 2, 3]).map_err(|failure| failure.text)
    }

    #[test]
    fn memcached_letters() {
        let got = settings(&[
            "-p", "7", "-m", "100", "-t", "3", "-I", "512k", "-M", "-c", "9", "-s", "/run/x",
        ])
        .unwrap();
        assert_eq!(
            (got.port.value, got.memory_mib.value, got.threads.value),
            (7, 100, 3)
        );
        assert_eq!(
            (
                got.max_item_bytes.value,
                got.disable_evictions.value,
                got.conn_limit.value
            ),
            (512 << 10, true, 9)
        );
        assert_eq!(got.unix_socket.value.as_deref(), Some(Path::new("/run/x")));
        assert_eq!(got.port.origin, Origin::CommandLine);
    }

    #[test]
    fn the_command_line_beats_the_file_beats_the_default() {
        let file =
            parse_file("memory-limit = 512 # plenty\n\n# nothing\nthreads=2\ndisable-evictions = true\n")
                .unwrap();
        let got = fill(typed(&["-m", "100"]), file, &[0, 1, 2, 3]).unwrap();
        assert_eq!(
            got.memory_mib,
            Setting {
                value: 100,
                origin: Origin::CommandLine
            }
        );
        assert_eq!(
            got.threads,
            Setting {
                value: 2,
                origin: Origin::File
            }
        );
        assert!(got.disable_evictions.value);
        assert_eq!(got.window_max.origin, Origin::Default);
    }

    #[test]
    fn listening_at_an_rdma_address_is_the_fabric_and_options_choose_its_device() {
        let got = settings(&["-l", "rdma://10.0.0.1:7471", "--ib-dev", "mlx5_0"]).unwrap();
        assert_eq!(got.fabric.value, "rdma://10.0.0.1:7471?device=mlx5_0");
        assert_eq!(got.fabric.origin, Origin::CommandLine);
        assert_eq!(
            got.listen.value,
            ["127.0.0.1"],
            "-p listens where it does without"
        );
        let file = parse_file("listen = rdma://10.0.0.1:7471\ngid-index = 3\n").unwrap();
        let got = fill(typed(&["--ib-dev", "mlx5_0"]), file, &[0]).unwrap();
        assert_eq!(got.fabric.value, "rdma://10.0.0.1:7471?device=mlx5_0&gid=3");
        assert_eq!(
            settings(&["-l", "rdma://h:1", "--fabric", "shm:x"]).unwrap_err(),
            "--listen rdma://h:1 and --fabric shm:x: a server has one fabric"
        );
        assert_eq!(
            settings(&["--ib-dev", "mlx5_0"]).unwrap_err(),
            "--ib-dev, --ib-port and --gid-index choose an RDMA device, and shm:drover needs none"
        );
    }

    #[test]
    fn an_unknown_or_bad_line_of_the_file_is_named() {
        assert_eq!(
            parse_file("threads = 2\nthreds = 3\n").unwrap_err(),
            "line 2: unexpected argument '--threds' found"
        );
        assert_eq!(
            parse_file("threads").unwrap_err(),
            "line 1: expected `name = value`"
        );
        let bad = parse_file("threads = many").unwrap_err();
        assert!(bad.starts_with("line 1: invalid value 'many'"), "{bad}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (words, text) in [
            (["-t", "0"], "--threads 0: from 1 to 240"),
            (["-t", "241"], "--threads 241: from 1 to 240"),
            (["-m", "0"], "--memory-limit must be at least 1 MiB"),
            (["-c", "0"], "--conn-limit must be at least 1"),
            (
                ["--window-max", "3"],
                "--window-max 3: a power of two from 1 to 256",
            ),
            (
                ["--slot-bytes-max", "100"],
                "--slot-bytes-max 100: a multiple of 64 from 64 to 1024",
            ),
            (
                ["-I", "1g"],
                "--max-item-size 1g: expected bytes, or a number with k or m, up to 1m",
            ),
            (
                ["--cores", "9"],
                "--cores 9: core 9 is not one of those this process may use ([0, 1, 2, 3])",
            ),
            (
                ["--cores", "x"],
                "--cores x: expected numbers and ranges, such as 0-2,5",
            ),
            (["--cores", "1"], "--cores 1: 1 cores for 2 workers"),
        ] {
            assert_eq!(settings(&words).unwrap_err(), text, "{words:?}");
        }
    }

    #[test]
    fn cores_are_the_last_ones_unless_told() {
        assert_eq!(settings(&["-t", "2"]).unwrap().cores.value, Some(vec![2, 3]));
        assert_eq!(
            settings(&["-t", "2", "--cores", "0-1"]).unwrap().cores.value,
            Some(vec![0, 1])
        );
        assert_eq!(settings(&["--cores", "none"]).unwrap().cores.value, None);
        assert_eq!(settings(&["-t", "5"]).unwrap().cores.value, None);
    }

    #[test]
    fn ports_and_sockets_are_as_with_memcached() {
        let got = settings(&[]).unwrap();
        assert_eq!((got.port.value, got.unix_mask.value), (11211, 0o700));
        let got = settings(&["-s", "/run/x", "-a", "0770"]).unwrap();
        assert_eq!((got.port.value, got.unix_mask.value), (0, 0o770));
        assert_eq!(settings(&["-s", "/run/x", "-p", "-1"]).unwrap().port.value, -1);
        let got = settings(&["-l", "10.0.0.1,::1", "-l", "localhost:7", "-o", "idle_timeout=9"]).unwrap();
        assert_eq!(got.listen.value, ["10.0.0.1", "::1", "localhost:7"]);
        assert_eq!(got.extended.value.idle_timeout_s, 9);
        assert_eq!(
            settings(&["-p", "65536"]).unwrap_err(),
            "--port 65536: from 0 to 65535, or -1"
        );
        assert_eq!(
            settings(&["-a", "9"]).unwrap_err(),
            "-a 9: expected octal rights, such as 700"
        );
    }

    #[test]
    fn what_memcached_has_and_drover_has_not_is_refused() {
        let refused = |words: &[&str]| Settings::resolve(&typed(words)).unwrap_err().text;
        assert_eq!(
            refused(&["-U", "11211"]),
            "-U 11211: there is no UDP; clients use TCP (-p) or a Unix socket (-s)"
        );
        assert_eq!(
            refused(&["-B", "binary"]),
            "-B binary: there is no binary protocol; ascii includes the meta commands"
        );
        assert!(Settings::resolve(&typed(&["-U", "0", "-B", "auto"])).is_ok());
    }

    #[test]
    fn a_daemon_is_refused_with_the_reason() {
        let failure = Settings::resolve(&typed(&["-d"])).unwrap_err();
        assert_eq!(failure.code, 64);
        assert!(
            failure
                .text
                .starts_with("-d is refused: run it under a service manager"),
            "{}",
            failure.text
        );
    }
}
