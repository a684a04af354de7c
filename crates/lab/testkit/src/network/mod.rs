//! Hosts of a test: network namespaces with a host name each and an address in every [`Network`] that they are plugged into.
//!
//! ```text
//! process of the test:   bridge "lan"          bridge "registry"      no other interface, so nothing leaves
//!                         |    |    |            |    |    |
//! host (a namespace):    a    b    c            a    b    c           each can be unplugged from either
//! ```
//! Names are those of a hosts file that only the test's processes see, so that programs run with the command lines of their users.
//! As root, or where the system allows users to be root of such namespaces.

mod host;

pub use host::Host;

use crate::alone::{alone_by, is_alone};
use std::path::PathBuf;
use std::process::Command;

/// Words before a command line that give it namespaces of its own.
fn unshare() -> Vec<&'static str> {
    let mut words = vec!["unshare", "--net", "--mount", "--propagation", "private"];
    if !rustix::process::geteuid().is_root() {
        words.extend(["--user", "--map-root-user"]);
    }
    words
}

/// Runs `body` as [`alone`](crate::alone::alone) does, in a process whose only network is what `body` makes. Where that is not
/// allowed it does nothing, and says so.
///
/// # Panics
/// As for [`alone`](crate::alone::alone); and under CI, if namespaces are not allowed.
pub fn in_a_network(test: &str, body: impl FnOnce()) {
    let words = unshare();
    if !is_alone(test) {
        let probe = Command::new(words[0])
            .args(&words[1..])
            .args(["ip", "link", "set", "lo", "up"])
            .output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            assert!(
                std::env::var_os("CI").is_none(),
                "no network namespaces, or no iproute2"
            );
            println!("skipped: no network namespaces here, or no iproute2");
            return;
        }
    }
    alone_by(&words, test, || {
        run("ip", &["link", "set", "lo", "up"]);
        body();
    });
}

/// A switch with a subnet of 254 addresses. The process of the test has the last one.
pub struct Network {
    name: String,
    prefix: String,
}

impl Network {
    /// A network called `name`, with the addresses `prefix.1` to `prefix.254`. Those of documentation (`192.0.2`, `198.51.100`,
    /// `203.0.113`) belong to nobody.
    ///
    /// # Panics
    /// Outside of [`in_a_network`].
    pub fn new(name: &str, prefix: &str) -> Network {
        run("ip", &["link", "add", name, "type", "bridge"]);
        let network = Network {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        };
        let own = format!("{}/24", network.addr(254));
        run("ip", &["addr", "add", &own, "dev", name]);
        run("ip", &["link", "set", name, "up"]);
        network
    }

    /// The address with this number, 1 to 254.
    pub fn addr(&self, number: u8) -> String {
        format!("{}.{number}", self.prefix)
    }
}

/// Has these names mean these addresses, for this process and all that it starts.
///
/// # Panics
/// Outside of [`in_a_network`].
pub fn set_names(names: &[(&str, String)]) {
    let lines = names.iter().map(|(name, addr)| format!("{addr} {name}\n"));
    let text = "127.0.0.1 localhost\n".to_owned() + &lines.collect::<String>();
    let file = temporary("hosts");
    std::fs::write(&file, text).expect("a temporary file");
    run("mount", &["--bind", file.to_str().expect("UTF-8"), "/etc/hosts"]);
    // The mount holds it.
    let _ = std::fs::remove_file(file);
}

/// Mounts an empty file system in memory at this folder, which is made if it is missing. Only the test's user can write to it.
///
/// # Panics
/// Outside of [`in_a_network`].
pub fn mount_memory(folder: &str) {
    std::fs::create_dir_all(folder).expect("a folder");
    run("mount", &["-t", "tmpfs", "-o", "mode=755", "drover-test", folder]);
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("drover-{name}-{}", crate::seeds::fresh_seed()))
}

fn run(program: &str, words: &[&str]) {
    let out = Command::new(program).args(words).output();
    let out = out.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {}: {said}", words.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::process::Stdio;
    use std::time::Duration;

    #[test]
    fn hosts_reach_each_other_by_name_until_they_are_unplugged() {
        let test = "network::tests::hosts_reach_each_other_by_name_until_they_are_unplugged";
        in_a_network(test, || {
            let (lan, other) = (
                Network::new("lan", "192.0.2"),
                Network::new("other", "198.51.100"),
            );
            let host = Host::start("member-a", 1, &[&lan, &other]);
            set_names(&[("test", lan.addr(254)), ("test-other", other.addr(254))]);
            let said = host.command("hostname").output().expect("it runs").stdout;
            assert_eq!(String::from_utf8_lossy(&said), "member-a\n");

            let listeners = [&lan, &other].map(|network| {
                let listener = TcpListener::bind((network.addr(254), 7000)).expect("an address of ours");
                listener.set_nonblocking(true).expect("a socket");
                listener
            });
            // bash connects by itself.
            let reaches = |name: &str| {
                let script = format!("exec 3<>/dev/tcp/{name}/7000");
                let mut words = host.command("timeout");
                let words = words.args(["1", "bash", "-c", &script]).stderr(Stdio::null());
                words.status().expect("it runs").success()
            };
            assert!(reaches("test") && reaches("test-other"));
            assert!(listeners[0].accept().is_ok() && listeners[1].accept().is_ok());
            host.unplug(&other);
            assert!(reaches("test") && !reaches("test-other"));
            host.plug(&other);
            assert!(reaches("test-other"));
        });
    }

    #[test]
    fn the_test_reaches_its_hosts() {
        in_a_network("network::tests::the_test_reaches_its_hosts", || {
            let lan = Network::new("lan", "192.0.2");
            let host = Host::start("a", 1, &[&lan]);
            let listen = "import socket; s = socket.create_server(('', 7000)); print('up', flush=True); s.accept()[0].sendall(b'hello')";
            let mut words = host.command("python3");
            let mut child = words
                .args(["-c", listen])
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3");
            child
                .stdout
                .as_mut()
                .expect("piped")
                .read_exact(&mut [0; 2])
                .expect("it listens");
            let mut stream = TcpStream::connect((lan.addr(1), 7000)).expect("it listens");
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .expect("a socket");
            let mut said = String::new();
            stream.read_to_string(&mut said).expect("an answer");
            assert_eq!(said, "hello");
            child.wait().expect("our child");
        });
    }
}
