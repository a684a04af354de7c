//! Servers that speak memcached's protocol: their command lines, and a running one.

use crate::command::{drover_path, ending_with_us};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
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
        let words = |name: &str| named(&kind.words(), name);
        Server::start_words(words, &[kind.as_root(), flags].concat(), log)
    }

    /// As [`start`](Server::start), a gateway to the service that has this `name`.
    pub fn start_gateway(kind: &Kind, name: &str, flags: &[&str], log: &Path) -> Result<Server, String> {
        Server::start_words(|_| named(&kind.gateway_words(), name), flags, log)
    }

    /// Starts the words that `words` makes of a name for this start.
    fn start_words(
        words: impl Fn(&str) -> Vec<String>,
        flags: &[&str],
        log: &Path,
    ) -> Result<Server, String> {
        let mut last = String::new();
        for _ in 0..STARTS {
            match Server::try_start(&words(&fresh_name()), flags, log) {
                Ok(server) => return Ok(server),
                Err(why) => last = why,
            }
        }
        Err(format!(
            "{:?} does not start: {last} ({})",
            words("NAME"),
            log.display()
        ))
    }

    fn try_start(words: &[String], flags: &[&str], log: &Path) -> Result<Server, String> {
        let port = free_port()?;
        let place = ["-l", "127.0.0.1", "-p", &port.to_string()].map(str::to_string);
        let flags = flags.iter().map(ToString::to_string).chain(place);
        Server::start_at(port, words.iter().cloned().chain(flags), log)
    }

    /// Starts a command that will listen at `port` of 127.0.0.1; its output goes to `log`.
    pub fn start_at(
        port: u16,
        words: impl IntoIterator<Item = String>,
        log: &Path,
    ) -> Result<Server, String> {
        let child = spawn(words, log)?;
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

/// A running service without a port for memcached's clients, for gateways; killed by its id when dropped.
pub struct Service {
    child: Child,
    name: String,
}

impl Service {
    /// Starts a service of `system`; its output goes to `log`.
    #[allow(
        clippy::disallowed_methods,
        reason = "another program's log cannot be waited for, only read again"
    )]
    pub fn start(kind: &Kind, system: &str, log: &Path) -> Result<Service, String> {
        let name = fresh_name();
        let child = spawn(named(&kind.service_words(system), &name), log)?;
        let mut service = Service { child, name };
        for _ in 0..CONNECT_TRIES {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            if said.contains("serving at") {
                return Ok(service);
            }
            if let Ok(Some(status)) = service.child.try_wait() {
                return Err(format!(
                    "the service of {system} ended with {status}: {}",
                    log.display()
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!(
            "the service of {system} does not serve: {}",
            log.display()
        ))
    }

    /// Its name, for [`Server::start_gateway`].
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name that nothing else on this machine has.
fn fresh_name() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let nth = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("{}-{nth}", std::process::id())
}

/// A command line with `name` in the place for a process id.
fn named(words: &[String], name: &str) -> Vec<String> {
    words.iter().map(|word| word.replace("%p", name)).collect()
}

/// Starts a command, whose output goes to `log`.
fn spawn(words: impl IntoIterator<Item = String>, log: &Path) -> Result<Child, String> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let said = std::fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
    let again = said.try_clone().map_err(|e| e.to_string())?;
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let mut command = ending_with_us(&program);
    let child = command
        .args(words)
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(again)
        .spawn();
    child.map_err(|e| format!("{program}: {e}"))
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
