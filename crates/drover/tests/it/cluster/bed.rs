//! [`Service`]: an etcd, and members that can be started and stopped.

use crate::common::{Answer, Serving, ask_memcached, drover, folder};
use drover_testkit::certificates::Authority;
use drover_testkit::etcd::Etcd;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

/// Seconds of a member's lease, in tests.
pub const LEASE: &str = "2";
/// Port of memcached's clients, at each member's own address.
const MEMCACHED_PORT: u16 = 11211;

/// A service that no member serves yet.
pub struct Service {
    pub etcd: Etcd,
    name: &'static str,
    number: u8,
    /// What stands behind the name in its URL, about TLS.
    parameters: String,
}

impl Service {
    /// `None`, with a line that says so, where there is no etcd.
    pub fn new(name: &'static str) -> Option<Service> {
        Some(Service::of(Etcd::start()?, name, String::new()))
    }

    /// As [`new`](Service::new), with an etcd that speaks TLS and asks for certificates. `ca` signs all.
    pub fn over_tls(name: &'static str, ca: &Authority) -> Option<Service> {
        let (server, client) = (ca.issue("etcd", "127.0.0.1"), ca.issue("client", "client.test"));
        let etcd = Etcd::start_over_tls(&server, Some(&ca.ca()))?;
        let [ca, chain, key] = [ca.ca(), client.chain, client.key].map(|file| file.display().to_string());
        let parameters = format!("?tls-ca={ca}&tls-cert={chain}&tls-key={key}");
        Some(Service::of(etcd, name, parameters))
    }

    fn of(etcd: Etcd, name: &'static str, parameters: String) -> Service {
        static NUMBERS: AtomicU8 = AtomicU8::new(1);
        Service {
            etcd,
            name,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            parameters,
        }
    }

    pub fn url(&self) -> String {
        format!(
            "etcd://{}/{}{}",
            self.etcd.host_port(),
            self.name,
            self.parameters
        )
    }

    /// Address of the nth member. Other processes of tests have others.
    pub fn host(&self, member: u8) -> Ipv4Addr {
        let pid = std::process::id();
        let [low, high, ..] = pid.to_le_bytes();
        Ipv4Addr::new(127, high.max(1), low, self.number.wrapping_mul(8) | member)
    }

    /// Starts the nth member, with these arguments in addition.
    #[track_caller]
    pub fn start(&self, member: u8, args: &[&str]) -> Serving {
        let (host, url) = (self.host(member).to_string(), self.url());
        let (name, metrics) = (format!("m{member}"), format!("{host}:9150"));
        let port = MEMCACHED_PORT.to_string();
        let usual = [
            "--cluster",
            &url,
            "--advertise",
            &host,
            "--member-name",
            &name,
            "--lease",
            LEASE,
            "-l",
            &host,
            "-p",
            &port,
            "-t",
            "2",
            "-m",
            "16",
            "--metrics-listen",
            &metrics,
        ];
        Serving::start_at(&self.fabric(member), &[&usual, args].concat())
    }

    /// Where native clients reach the nth member.
    pub fn fabric(&self, member: u8) -> String {
        let socket = folder(self.name).join(format!("m{member}.sock"));
        format!("shm:{}", socket.display())
    }

    /// Runs the nth member, with these arguments in addition, until it has been refused.
    pub fn refused(&self, member: u8, args: &[&str]) -> Answer {
        self.refused_with(&self.url(), member, args)
    }

    /// As [`refused`](Service::refused), with another URL of the service.
    pub fn refused_with(&self, url: &str, member: u8, args: &[&str]) -> Answer {
        let (host, fabric) = (self.host(member).to_string(), self.fabric(member));
        let usual = [
            "serve",
            "--cluster",
            url,
            "--advertise",
            &host,
            "--fabric",
            &fabric,
            "-p",
            "0",
            "-t",
            "1",
        ];
        drover(&[&usual, args].concat(), "")
    }

    /// Runs `drover cluster` with these words about this service.
    pub fn cluster(&self, words: &[&str]) -> Answer {
        drover(&[&["cluster"], words, &["--cluster", &self.url()]].concat(), "")
    }

    /// What `drover cluster status` shows.
    pub fn status(&self) -> Value {
        let (status, text, error) = self.cluster(&["status", "--json"]);
        assert_eq!(status, 0, "{error}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until so many members have settled, everything has an owner and nothing moves. Returns the shards of each, by name.
    pub fn settled(&self, count: usize) -> Vec<(String, u64)> {
        loop {
            let (status, text, _) = self.cluster(&["status", "--json"]);
            // A service that no member has served yet is unknown.
            if status != 0 {
                continue;
            }
            let status: Value = serde_json::from_str(&text).expect("JSON");
            let members = status["members"].as_array().expect("a list");
            let is_done = |member: &Value| member["state"] == "settled" || member["state"] == "draining";
            if members.len() == count
                && members.iter().all(is_done)
                && status["holes"] == 0
                && status["moving"] == 0
            {
                let of = |member: &Value| {
                    let name = member["name"].as_str().expect("a name");
                    (name.to_owned(), member["shards"].as_u64().expect("a number"))
                };
                return members.iter().map(of).collect();
            }
        }
    }

    /// A memcached client of the nth member.
    pub fn client(&self, member: u8) -> Client {
        Client(TcpStream::connect((self.host(member), MEMCACHED_PORT)).expect("it listens"))
    }
}

/// A memcached client of one member.
pub struct Client(TcpStream);

impl Client {
    pub fn ask(&mut self, request: &str) -> String {
        ask_memcached(&mut self.0, request)
    }

    /// Sets many keys.
    #[track_caller]
    pub fn set_all(&mut self, count: usize, prefix: &str) {
        for number in 0..count {
            let value = format!("{prefix}{number}");
            let request = format!("set key{number} 5 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(self.ask(&request), "STORED\r\n", "key{number}");
        }
    }

    /// Checks that many keys have the values that [`set_all`](Client::set_all) gave them.
    #[track_caller]
    pub fn expect_all(&mut self, count: usize, prefix: &str) {
        for number in 0..count {
            let value = format!("{prefix}{number}");
            let expected = format!("VALUE key{number} 5 {}\r\n{value}\r\nEND\r\n", value.len());
            assert_eq!(self.ask(&format!("get key{number}\r\n")), expected);
        }
    }
}
