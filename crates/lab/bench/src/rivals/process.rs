//! [`Rival`]: a rival's server process, started and stopped by us.

use super::{Kind, Mode, RivalTarget, Stream, Transport};
use crate::{Helper, pin, processor_time};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Options for starting a rival.
#[derive(Clone, Debug)]
pub struct RivalOptions {
    /// Cores that the rival is pinned to. memcached and drover are started with one thread per core, redis with its
    /// default number.
    pub cores: Vec<usize>,
    /// Whether clients use some of these cores. Then drover does not pin each worker to one, as it would not by default.
    pub shared: bool,
    /// Number of items that the rival gets enough memory for; unused for redis, which is started without a limit.
    pub item_count: u64,
    /// Largest key plus value of an item, bytes: with `item_count` it determines the memory that the rival gets. The
    /// rival does not enforce it; unused for Redis.
    pub item_bytes: u64,
}

/// A running rival (a server to compare with), which listens on one transport. Owns the server process; dropping it
/// kills the process and removes its temporary directory.
pub struct Rival {
    kind: Kind,
    child: Child,
    address: Address,
    directory: PathBuf,
}

#[derive(Clone, Debug)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Attempts to start with another port.
const STARTS: usize = 5;
/// Attempts to connect first, 2 ms apart.
const CONNECT_TRIES: usize = 2500;

impl Rival {
    /// Path of the installed program of `kind`: the running program if its file has that name (as `drover` has), else
    /// the first one found in `PATH`. `None` if there is none.
    pub fn find(kind: Kind) -> Option<PathBuf> {
        let this = std::env::current_exe().ok();
        if let Some(this) = this.filter(|this| this.file_name() == Some(kind.program().as_ref())) {
            return Some(this);
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(kind.program()))
            .find(|program| program.is_file())
    }

    /// Starts the installed `kind`, as [`start_program`](Rival::start_program) does.
    ///
    /// # Errors
    /// It is not installed or did not start.
    pub fn start(
        kind: Kind,
        transport: Transport,
        helper: &Helper,
        options: &RivalOptions,
    ) -> io::Result<Rival> {
        let program = Rival::find(kind)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{kind} is not installed")))?;
        Rival::start_program(kind, &program, transport, helper, options)
    }

    /// Starts `program`, of the kind `kind`, to listen on `transport` only, and waits until it accepts connections.
    /// Makes at most five attempts of 5 s each. The kernel kills the program when the calling thread ends.
    ///
    /// # Errors
    /// The error of the last attempt: the program ended or does not listen.
    pub fn start_program(
        kind: Kind,
        program: &Path,
        transport: Transport,
        helper: &Helper,
        options: &RivalOptions,
    ) -> io::Result<Rival> {
        let mut last = io::Error::other("not tried");
        for _ in 0..STARTS {
            match Rival::try_start(kind, transport, program, helper, options) {
                Ok(rival) => return Ok(rival),
                // Another process may have taken the port in the meantime.
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn try_start(
        kind: Kind,
        transport: Transport,
        program: &Path,
        helper: &Helper,
        options: &RivalOptions,
    ) -> io::Result<Rival> {
        let directory = private_directory()?;
        let address = match transport {
            Transport::Unix => Address::Unix(directory.join("socket")),
            Transport::Tcp => Address::Tcp(free_port()?),
        };
        let mut command = helper.exec(program);
        kind.arguments(&mut command, &address, &directory, options);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = pin::pinned(&options.cores, || command.spawn())??;
        let mut rival = Rival {
            kind,
            child,
            address,
            directory,
        };
        rival.wait_until_it_listens()?;
        Ok(rival)
    }

    /// Opens the connections of a client in `mode`. They use the rival's transport, which must be that of `mode`.
    ///
    /// # Errors
    /// A connection failed.
    pub fn client(&self, mode: &Mode) -> io::Result<RivalTarget> {
        RivalTarget::open(self.kind, mode, || self.connect())
    }

    /// Process id of the rival.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time that the rival has used so far, in user and in system mode, nanoseconds; `None` if unavailable.
    /// Usually in steps of 10 ms.
    pub fn cpu_ns(&self) -> Option<[f64; 2]> {
        processor_time::cpu_ns(self.pid())
    }

    fn connect(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Unix(path) => Stream::unix(path),
            Address::Tcp(address) => Stream::tcp(*address),
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "waits for a process, before any measurement"
    )]
    fn wait_until_it_listens(&mut self) -> io::Result<()> {
        for _ in 0..CONNECT_TRIES {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("{} ended at once: {status}", self.kind)));
            }
            if self.connect().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("{} does not listen", self.kind),
        ))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Kind {
    fn arguments(self, command: &mut Command, address: &Address, directory: &Path, options: &RivalOptions) {
        match self {
            Kind::Memcached => memcached_arguments(command, address, options),
            Kind::Redis => redis_arguments(command, address, directory),
            Kind::Drover => drover_arguments(command, address, directory, options),
        }
    }
}

fn memcached_arguments(command: &mut Command, address: &Address, options: &RivalOptions) {
    match address {
        Address::Unix(path) => command.arg("-s").arg(path).args(["-a", "0700"]),
        Address::Tcp(tcp) => command
            .args(["-l", "127.0.0.1", "-U", "0", "-p"])
            .arg(tcp.port().to_string()),
    };
    // An item costs about 60 bytes in addition to key and value; slab classes waste up to a quarter.
    let mib = 64 + options.item_count * (options.item_bytes + 60) * 3 / 2 / (1 << 20);
    // The hash table starts at its final size, so that it does not grow during the measurement.
    let power = (64 - options.item_count.leading_zeros()).clamp(16, 31);
    command
        .args(["-c", "1024", "-t"])
        .arg(options.cores.len().to_string());
    command.arg("-m").arg(mib.to_string());
    // Serve a whole batch of a connection per turn (the default is 20 requests).
    command
        .args(["-R", "200", "-o"])
        .arg(format!("hashpower={power}"));
    if rustix::process::getuid().is_root() {
        command.args(["-u", "root"]);
    }
}

fn drover_arguments(command: &mut Command, address: &Address, directory: &Path, options: &RivalOptions) {
    // A private socket for its native clients, so that it disturbs no other server.
    let fabric = format!("shm:{}", directory.join("native").display());
    command.args(["serve", "--fabric", &fabric]);
    match address {
        Address::Unix(path) => command.args(["-p", "0", "-s"]).arg(path),
        Address::Tcp(tcp) => command
            .args(["-l", "127.0.0.1", "-p"])
            .arg(tcp.port().to_string()),
    };
    // Items fill half of the log, which is a power of two for each core.
    let mib = 64 + options.item_count * (options.item_bytes + 64) * 2 / (1 << 20);
    let cores: Vec<String> = options.cores.iter().map(usize::to_string).collect();
    command.args([
        "-c",
        "1024",
        "-R",
        "200",
        "-m",
        &mib.next_power_of_two().to_string(),
    ]);
    let pinned = if options.shared {
        "none".to_owned()
    } else {
        cores.join(",")
    };
    command.args(["-t", &cores.len().to_string(), "--cores", &pinned]);
}

fn redis_arguments(command: &mut Command, address: &Address, directory: &Path) {
    match address {
        Address::Unix(path) => command.args(["--port", "0", "--unixsocket"]).arg(path),
        Address::Tcp(tcp) => command
            .args(["--bind", "127.0.0.1", "--port"])
            .arg(tcp.port().to_string()),
    };
    command.args([
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
        "--loglevel",
        "warning",
    ]);
    command.arg("--dir").arg(directory);
}

/// Creates a directory that only this user can enter.
fn private_directory() -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("drover-rival-{}-{nth}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// A port that is free at the moment.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
