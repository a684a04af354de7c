//! [`Host`]: one network namespace, and how programs run there.

use super::{Network, run};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Holds the namespaces, which last as long as a process is in them, until its standard input is closed.
const HOLD: &str = "hostname \"$1\" && ip link set lo up && echo up && exec cat";

/// A network namespace with a host name. Ends when it is dropped, unless a program still runs there.
pub struct Host {
    name: String,
    number: u8,
    holder: Child,
    _until_dropped: ChildStdin,
}

impl Host {
    /// Starts a host called `name`, which has the address with this number in each of `networks`.
    ///
    /// # Panics
    /// Outside of [`in_a_network`](super::in_a_network).
    pub fn start(name: &str, number: u8, networks: &[&Network]) -> Host {
        let mut holder = Command::new("unshare")
            .args(["--net", "--uts", "sh", "-c", HOLD, "sh", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a pipe");
        assert_eq!(line, "up\n", "host {name} does not start");
        let host = Host {
            name: name.to_owned(),
            number,
            _until_dropped: holder.stdin.take().expect("it is piped"),
            holder,
        };
        for network in networks {
            host.add_interface(network);
        }
        host
    }

    fn add_interface(&self, network: &Network) {
        let (port, pid) = (self.port(network), self.holder.id().to_string());
        let (inner, addr) = (&network.name, format!("{}/24", network.addr(self.number)));
        run(
            "ip",
            &[
                "link", "add", &port, "type", "veth", "peer", "name", inner, "netns", &pid,
            ],
        );
        run("ip", &["link", "set", &port, "up"]);
        self.run("ip", &["addr", "add", &addr, "dev", inner]);
        self.run("ip", &["link", "set", inner, "up"]);
        self.plug(network);
    }

    /// Name of the switch's end of the cable. Linux allows 15 bytes.
    fn port(&self, network: &Network) -> String {
        format!("{}-{}", network.name, self.number)
    }

    /// Its name, as programs that run there see it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in every network.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Pulls its cable out of the switch: what it sends disappears, and it sees no change of its interface.
    pub fn unplug(&self, network: &Network) {
        run("ip", &["link", "set", &self.port(network), "nomaster"]);
    }

    /// Plugs it in again.
    pub fn plug(&self, network: &Network) {
        run(
            "ip",
            &["link", "set", &self.port(network), "master", &network.name],
        );
    }

    /// A command that runs `program` there, in the process that is started: its id, status and signals are the program's. It is
    /// killed when the thread that starts it ends.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.holder.id().to_string();
        command.args(["--target", &pid, "--net", "--uts", "--"]).args([
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            program,
        ]);
        command
    }

    fn run(&self, program: &str, words: &[&str]) {
        let out = self.command(program).args(words).output().expect("nsenter");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{}: {program} {words:?}: {said}", self.name);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
