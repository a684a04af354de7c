//! [`Etcd`]: an etcd on loopback, and the questions that tests ask it.

use drover_base::Ns;
use drover_cluster::{Advert, MemberId, Registry, RegistryEvent, RegistryReply, RegistryRequest};
use drover_cluster_etcd::{EtcdOptions, EtcdRegistry};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest wait for anything; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time to live of registrations in tests. etcd makes about two seconds of it.
pub const TTL: Ns = Ns::from_s(1);

/// A running etcd. Ends with its data when it is dropped.
pub struct Etcd {
    folder: PathBuf,
    client_port: u16,
    peer_port: u16,
    child: Option<Child>,
}

impl Etcd {
    /// Starts one; `None`, with a line that says so, where it is not installed.
    pub fn start() -> Option<Etcd> {
        let version = Command::new("etcd")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if version.is_err() {
            assert!(
                std::env::var_os("CI").is_none(),
                "etcd is not installed: apt-get install etcd-server"
            );
            println!("skipped: etcd is not installed (Debian: etcd-server)");
            return None;
        }
        let free_port = || {
            let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of loopback");
            listener.local_addr().expect("an address").port()
        };
        let mut etcd = Etcd {
            folder: std::env::temp_dir().join(format!("drover-etcd-{}", drover_testkit::seeds::fresh_seed())),
            client_port: free_port(),
            peer_port: free_port(),
            child: None,
        };
        etcd.restart();
        Some(etcd)
    }

    /// Ends it, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("a child of ours");
            child.wait().expect("a child of ours");
        }
    }

    /// Starts it again, with the data that it had.
    pub fn restart(&mut self) {
        self.kill();
        let client = format!("http://127.0.0.1:{}", self.client_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(&self.folder)
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--initial-cluster-token", &self.folder.to_string_lossy()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("etcd starts"));
    }

    /// Starts it again without its data: another cluster at the same address.
    pub fn replace(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.folder).expect("a folder of ours");
        self.folder.set_extension("other");
        self.restart();
    }

    /// Address for clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    /// A registry of the service `service`, once etcd answers.
    pub fn registry(&self, service: &str) -> EtcdRegistry {
        let options = EtcdOptions::new(service, &[&self.url()]);
        let mut registry = EtcdRegistry::open(options).expect("a proper name");
        until_answered(&mut registry, RegistryRequest::Look);
        registry
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
        // Data that stays behind in a folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The reply to a request; `None`, if it has failed.
pub fn ask(registry: &mut EtcdRegistry, request: RegistryRequest) -> Option<RegistryReply> {
    registry.submit(Ns::ZERO, 7, request);
    loop {
        match registry.wait(PATIENCE) {
            Some(RegistryEvent::Reply { ticket: 7, reply }) => return Some(reply),
            Some(RegistryEvent::Failed { ticket: 7 }) => return None,
            Some(_) => {}
            None => panic!("no event"),
        }
    }
}

/// The reply to a request, which is repeated until it does not fail.
pub fn until_answered(registry: &mut EtcdRegistry, request: RegistryRequest) -> RegistryReply {
    loop {
        if let Some(reply) = ask(registry, request.clone()) {
            return reply;
        }
    }
}

/// The request by which a member called `name` registers.
pub fn registration(name: &str, instance: u64) -> RegistryRequest {
    let advert = Advert::new(name, 1, vec![format!("tcp://{name}:1")]).expect("a sound advert");
    let ttl = TTL;
    RegistryRequest::Register {
        advert,
        instance,
        ttl,
    }
}

/// Registers a member.
pub fn register(registry: &mut EtcdRegistry, name: &str, instance: u64) -> MemberId {
    match until_answered(registry, registration(name, instance)) {
        RegistryReply::Registered(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Waits until a view is reported in which these members are registered.
pub fn until_seen(registry: &mut EtcdRegistry, names: &[&str]) {
    loop {
        let event = registry.wait(PATIENCE).expect("an event");
        if let RegistryEvent::Changed(view) = event {
            let members = view.members.iter().map(|member| &**member.advert.name());
            if members.eq(names.iter().copied()) {
                return;
            }
        }
    }
}
