//! [`Etcd`]: an etcd on loopback, for tests of services of several members.

use crate::certificates::Identity;
use crate::seeds;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running etcd. Ends with its data when it is dropped.
pub struct Etcd {
    folder: PathBuf,
    client_port: u16,
    peer_port: u16,
    /// `https`, where it has TLS for its clients.
    scheme: &'static str,
    /// Arguments about TLS.
    tls: Vec<PathBuf>,
    child: Option<Child>,
}

impl Etcd {
    /// Starts one; `None`, with a line that says so, where it is not installed.
    pub fn start() -> Option<Etcd> {
        Etcd::start_with("http", Vec::new())
    }

    /// As [`start`](Etcd::start), with TLS for its clients, whose certificates a CA in the file `client_ca` must have signed; `None`: they need no
    /// certificate.
    pub fn start_over_tls(server: &Identity, client_ca: Option<&Path>) -> Option<Etcd> {
        let mut tls: Vec<PathBuf> = vec![
            "--cert-file".into(),
            server.chain.clone(),
            "--key-file".into(),
            server.key.clone(),
        ];
        if let Some(ca) = client_ca {
            tls.extend(["--client-cert-auth".into(), "--trusted-ca-file".into(), ca.into()]);
        }
        Etcd::start_with("https", tls)
    }

    fn start_with(scheme: &'static str, tls: Vec<PathBuf>) -> Option<Etcd> {
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
            folder: std::env::temp_dir().join(format!("drover-etcd-{}", seeds::fresh_seed())),
            client_port: free_port(),
            peer_port: free_port(),
            scheme,
            tls,
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
        let client = self.url();
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
            .args(&self.tls)
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

    /// Waits until it answers, and has it refuse all clients but its user `root` with this password.
    ///
    /// # Panics
    /// If it does not take one of the requests that this needs.
    pub fn require_password(&self, password: &str) {
        let is_well = |said: String| said.contains(r#""health":"true""#);
        while !self.ask("GET /health", "").is_ok_and(is_well) {
            std::thread::yield_now();
        }
        let user = format!(r#"{{"name":"root","password":"{password}"}}"#);
        for (request, body) in [
            ("POST /v3/auth/user/add", &*user),
            ("POST /v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
            ("POST /v3/auth/enable", "{}"),
        ] {
            let said = self.ask(request, body).expect("it has answered");
            assert!(said.contains(" 200 OK"), "{request}: {said}");
        }
    }

    /// Its answer to a request over HTTP, where it speaks JSON.
    fn ask(&self, request: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.host_port())?;
        let head = format!("{request} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    /// Address for clients, as host and port.
    pub fn host_port(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    /// Address for clients, as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.host_port())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
        // Data that stays behind in a folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
