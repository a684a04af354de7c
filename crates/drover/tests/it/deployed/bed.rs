//! [`Bed`]: the services of the compose file, each on a host of its own.
//!
//! ```text
//! lan       192.0.2.0/24     a .1   b .2   c .3              the test .254   clients, and members among each other
//! registry  198.51.100.0/24  a .1   b .2   c .3   etcd .100  the test .254   a member without it cannot reach etcd
//! ```

use super::compose::{Service, services};
use super::process::{Process, until};
use crate::common::{ask_memcached, folder};
use drover_testkit::network::{Host, Network, mount_memory, set_names};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// The service, as clients and commands name it.
pub const CLUSTER: &str = "etcd://etcd:2379/cache";
/// Number of etcd in its network.
const ETCD: u8 = 100;
/// Folders that containers have for themselves.
const FOLDERS: [&str; 2] = ["/run/drover", "/var/lib/etcd"];

/// A member, which may run or not.
pub struct Member {
    service: Service,
    host: Host,
    /// `None` while it does not run.
    pub process: Option<Process>,
}

/// The running services. All end with it.
pub struct Bed {
    folder: PathBuf,
    registry: Network,
    _lan: Network,
    etcd: Service,
    etcd_host: Host,
    etcd_process: Option<Process>,
    /// In the order of the file.
    pub members: Vec<Member>,
}

impl Bed {
    /// Starts all services, members with `flags` in addition, and waits until etcd and every member answer.
    ///
    /// # Panics
    /// Outside of [`in_a_network`](drover_testkit::network::in_a_network).
    #[track_caller]
    pub fn start(name: &str, flags: &[&str]) -> Bed {
        FOLDERS.iter().for_each(|folder| mount_memory(folder));
        let (lan, registry) = (
            Network::new("lan", "192.0.2"),
            Network::new("registry", "198.51.100"),
        );
        let mut members = Vec::new();
        let mut etcd = None;
        for mut service in services() {
            match &*service.name {
                "etcd" => etcd = Some(service),
                _ => {
                    service.words.extend(flags.iter().map(|word| word.to_string()));
                    let number = members.len() as u8 + 1;
                    let host = Host::start(&service.name, number, &[&lan, &registry]);
                    members.push(Member {
                        service,
                        host,
                        process: None,
                    });
                }
            }
        }
        let mut names = vec![("etcd", registry.addr(ETCD))];
        let of_member = |member: &Member| lan.addr(member.host.number());
        names.extend(members.iter().map(|it| (&*it.service.name, of_member(it))));
        set_names(&names);
        let mut bed = Bed {
            folder: folder(name),
            etcd_host: Host::start("etcd", ETCD, &[&registry]),
            registry,
            _lan: lan,
            etcd: etcd.expect("a registry"),
            etcd_process: None,
            members,
        };
        bed.restart_etcd();
        for index in 0..bed.members.len() {
            bed.launch(index);
        }
        for member in &mut bed.members {
            member.until_it_answers();
        }
        bed
    }

    /// Kills etcd, if it runs, and starts it with the data that it had.
    pub fn restart_etcd(&mut self) {
        self.etcd_process = None;
        let log = self.folder.join("etcd.log");
        self.etcd_process = Some(Process::start(&self.etcd_host, &self.etcd.words, &log));
        until("etcd answers", || TcpStream::connect(("etcd", 2379)).is_ok());
    }

    /// Starts a member that does not run.
    pub fn launch(&mut self, index: usize) {
        let member = &mut self.members[index];
        let log = self.folder.join(format!("{}.log", member.service.name));
        member.process = Some(Process::start(&member.host, &member.service.words, &log));
    }

    /// Cuts a member off etcd, which notices nothing but silence. Its clients and the other members reach it.
    pub fn cut(&self, index: usize) {
        self.members[index].host.unplug(&self.registry);
    }

    /// Ends what [`cut`](Bed::cut) began.
    pub fn mend(&self, index: usize) {
        self.members[index].host.plug(&self.registry);
    }

    /// Names of the members.
    pub fn names(&self) -> Vec<String> {
        let names = self.members.iter().map(|member| member.service.name.clone());
        names.collect()
    }
}

impl Member {
    /// The name by which it is reached.
    pub fn name(&self) -> &str {
        &self.service.name
    }

    /// Its running process.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it runs")
    }

    /// A new connection of memcached's protocol; `None` if it does not listen.
    pub fn connect(&self) -> Option<TcpStream> {
        connect(self.name())
    }

    /// Waits until it answers memcached's clients.
    pub fn until_it_answers(&mut self) {
        let name = self.name().to_owned();
        until("a member answers", || {
            let has_ended = self.process().has_ended();
            assert!(!has_ended, "{name} ended:\n{}", self.process().said());
            connect(&name).is_some_and(|mut stream| ask_memcached(&mut stream, "mn\r\n") == "MN\r\n")
        });
    }
}

/// A new connection to the member with this name; `None` if it does not listen.
pub fn connect(name: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect((name, 11211)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    Some(stream)
}
