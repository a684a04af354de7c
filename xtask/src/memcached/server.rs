//! Servers that speak memcached's protocol: their command lines, and a running one.

use crate::command::drover_path;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Program of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A build of drover, started with `serve`.
    Drover(PathBuf),
    /// Debian's memcached, with which all checks must pass.
    Memcached,
}

impl Kind {
    /// `drover` (as [`build_drover`](crate::command::build_drover) builds it), `memcached`, or the path of another build of drover.
    pub fn named(name: &str) -> Result<Kind, String> {
        let program = match name {
            "memcached" => return Ok(Kind::Memcached),
            "drover" => drover_path(),
            path if path.contains('/') => PathBuf::from(path),
            other => return Err(format!("{other}: neither drover nor memcached nor a path")),
        };
        match program.is_file() {
            true => Ok(Kind::Drover(program)),
            false => Err(format!(
                "{} is not built: cargo build --workspace --bin drover",
                program.display()
            )),
        }
    }

    /// The command before memcached's own flags; `%p` is replaced by a process id.
    pub fn words(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        match self {
            Kind::Memcached => words(&["memcached"]),
            Kind::Drover(program) => words(&[
                &program.display().to_string(),
                "serve",
                "--fabric",
                "shm:suite-%p",
            ]),
        }
    }

    /// As [`words`](Kind::words), of a gateway to the service that [`service_words`](Kind::service_words) starts.
    pub fn gateway_words(&self) -> Vec<String> {
        let mut words = self.words();
        for word in &mut words {
            if word == "--fabric" {
                *word = "--connect".to_string();
            }
        }
        words
    }

    /// As [`words`](Kind::words), of a memory node of `system` and `mib` MiB with a gateway beside it.
    pub fn pool_words(&self, system: &str, mib: &str) -> Vec<String> {
        let mut words = self.words();
        words.extend(["--system", system, "-t", "1", "-m", mib].map(str::to_string));
        words
    }

    /// The command of a service of `system` without a port for memcached's clients.
    pub fn service_words(&self, system: &str) -> Vec<String> {
        let mut words = self.words();
        words.extend(["--system", system, "-p", "0", "-t", "1", "-m", "256"].map(str::to_string));
        words
    }

    /// Flag that allows memcached to run as root.
    fn as_root(&self) -> &'static [&'static str] {
        match self {
            Kind::Memcached if is_root() => &["-u", "root"],
            _ => &[],
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A running server on a port of 127.0.0.1; killed by its id when dropped.
pub struct Server {
    child: Child,
    port: u16,
}

/// Attempts with another port: another process may take a port before the server does.
const STARTS: usize = 5;
/// Attempts to connect first, 5 ms apart.
const CONNECT_TRIES: usize = 4000;

impl Server {
    /// Starts `kind` with additional flags; its output goes to `log`.
    pub fn start(kind: &Kind, flags: &[&str], log: &Path) -> Result<Server, String> {
        let mut last = String::new();
        for _ in 0..STARTS {
            match Server::try_start(kind, flags, log) {
                Ok(server) => return Ok(server),
                Err(why) => last = why,
            }
        }
        Err(format!("{kind:?} does not start: {last} ({})", log.display()))
    }

    fn try_start(kind: &Kind, flags: &[&str], log: &Path) -> Result<Server, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let nth = format!(
            "{}-{}",
            std::process::id(),
            STARTED.fetch_add(1, Ordering::Relaxed)
        );
        let port = free_port()?;
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let said = std::fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
        let again = said.try_clone().map_err(|e| e.to_string())?;
        let words: Vec<String> = kind.words().iter().map(|word| word.replace("%p", &nth)).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(kind.as_root()).args(flags);
        command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(said).stderr(again).spawn();
        let child = child.map_err(|e| format!("{}: {e}", words[0]))?;
        let mut server = Server { child, port };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "another program's socket cannot be waited for, only tried again"
    )]
    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        for _ in 0..CONNECT_TRIES {
            if TcpStream::connect(self.address()).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("it does not listen".to_string())
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP port that nobody listens at now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| format!("no port: {e}"))?;
    Ok(listener.local_addr().map_err(|e| format!("no port: {e}"))?.port())
}
