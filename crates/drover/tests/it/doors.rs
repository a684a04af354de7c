//! Who comes in, and how: users, certificates, sockets of a service manager. Each is renewed while the server runs.

use crate::common::{self, Serving, folder};
use crate::guarded::private;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A hung test ends here.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Looks at something that happens soon, each a connection of its own.
const LOOKS_MAX: usize = 20_000;

fn line_of(stream: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("an answer in time");
    line
}

fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a socket");
    stream
}

/// What is answered to a login, and to a command after it.
fn log_in(path: &Path, words: &str) -> (String, String) {
    let mut stream = unix(path);
    write!(stream, "set auth 0 0 {}\r\n{words}\r\n", words.len()).expect("it reads");
    let first = line_of(&stream);
    let _ = write!(stream, "version\r\n"); // it may have ended
    (first, line_of(&stream))
}

fn hang_up(server: &Serving) {
    rustix::process::kill_process(server.pid(), rustix::process::Signal::HUP).expect("it is our child");
}

#[test]
fn users_come_from_a_file_that_is_read_again() {
    let folder = folder("users");
    let (file, socket) = (folder.join("users"), folder.join("m.sock"));
    private(&file, "foo:bar\n");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_string();
    let server = Serving::start("users", &["-s", &text(&socket), "-Y", &text(&file)]);
    let mut stranger = unix(&socket);
    stranger.write_all(b"version\r\n").expect("it reads");
    assert_eq!(line_of(&stranger), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(
        log_in(&socket, "foo baz").0,
        "CLIENT_ERROR authentication failure\r\n"
    );
    let (first, second) = log_in(&socket, "foo bar");
    assert_eq!(first, "STORED\r\n");
    assert!(second.starts_with("VERSION "), "{second}");
    private(&file, "foo:new\n");
    assert_eq!(log_in(&socket, "foo bar").0, "STORED\r\n", "not read yet");
    hang_up(&server);
    let renewed = (0..LOOKS_MAX).any(|_| log_in(&socket, "foo new").0 == "STORED\r\n");
    assert!(renewed);
    assert_eq!(
        log_in(&socket, "foo bar").0,
        "CLIENT_ERROR authentication failure\r\n"
    );
    assert_eq!(server.stop(), 0);
}

/// A certificate that signs itself, and its key, as files; returns it as what a client trusts.
fn certify(folder: &Path, name: &str) -> RootCertStore {
    let key = KeyPair::generate().expect("a key");
    let cert = CertificateParams::new(vec![name.to_string()]).and_then(|params| params.self_signed(&key));
    let cert = cert.expect("a certificate");
    std::fs::write(folder.join("chain.pem"), cert.pem()).expect("temporary file");
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).expect("temporary file");
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).expect("it can be trusted");
    roots
}

/// What `version` is answered over TLS, or why there is none.
fn version_by_tls(port: u16, roots: &RootCertStore, name: &str) -> Result<String, std::io::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_string()).expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(WATCHDOG))?;
    let mut tls = StreamOwned::new(client, stream);
    tls.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(&mut tls).read_line(&mut line)?;
    Ok(line)
}

#[test]
fn tls_with_certificates_that_are_read_again() {
    let folder = folder("tls");
    let old = certify(&folder, "old.test");
    let ports = folder.join("ports");
    let list = format!(
        "ssl_chain_cert={},ssl_key={}",
        folder.join("chain.pem").display(),
        folder.join("key.pem").display()
    );
    let envs = [("MEMCACHED_PORT_FILENAME", ports.to_str().expect("UTF-8"))];
    let addr = format!("shm:{}", folder.join("s.sock").display());
    let server = Serving::start_with(&addr, &["-p", "-1", "-Z", "-o", &list], &envs);
    let text = std::fs::read_to_string(&ports).expect("it says where");
    let port = text
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let version = version_by_tls(port, &old, "old.test").expect("an answer");
    assert!(version.starts_with("VERSION "), "{version}");
    assert!(version_by_tls(port, &old, "new.test").is_err(), "the name counts");
    let mut plain = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    plain.set_read_timeout(Some(WATCHDOG)).expect("a socket");
    plain.write_all(b"version\r\n").expect("it reads");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer); // an alert, or nothing
    assert!(!answer.starts_with(b"VERSION"), "never in plain text");
    let new = certify(&folder, "new.test");
    hang_up(&server);
    assert!((0..LOOKS_MAX).any(|_| version_by_tls(port, &new, "new.test").is_ok()));
    assert!(version_by_tls(port, &old, "old.test").is_err());
    assert_eq!(server.stop(), 0);
}

/// As systemd would, by a shell: the socket is number 3, and the number of the process is that of the server.
#[test]
fn sockets_of_a_service_manager() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("its number");
    // A client that comes before the server waits.
    let mut early = TcpStream::connect(addr).expect("it listens");
    early.set_read_timeout(Some(WATCHDOG)).expect("a socket");
    early.write_all(b"version\r\n").expect("space");
    let fabric = format!("shm:{}", folder("activation").join("s.sock").display());
    let mut child = Command::new("sh")
        .args([
            "-c",
            "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null",
        ])
        .args([
            env!("CARGO_BIN_EXE_drover"),
            "serve",
            "--fabric",
            &fabric,
            "-t",
            "1",
        ])
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let answer = line_of(&early);
    assert!(answer.starts_with("VERSION "), "{answer}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is our child");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn files_that_are_missing() {
    let refused = |args: &[&str]| {
        let fabric = format!("shm:{}", folder("missing").join("s.sock").display());
        let (status, _, error) =
            common::drover(&[&["serve", "--fabric", &fabric, "-p", "0"], args].concat(), "");
        (status, error.lines().last().unwrap_or_default().to_string())
    };
    let nowhere = PathBuf::from("/nonexistent/file");
    let name = nowhere.to_str().expect("UTF-8");
    let (status, text) = refused(&["-Y", name]);
    assert_eq!(status, 66, "{text}");
    assert!(text.starts_with("drover: -Y /nonexistent/file: "), "{text}");
    let list = format!("ssl_chain_cert={name},ssl_key={name}");
    let (status, text) = refused(&["-Z", "-o", &list]);
    assert_eq!(status, 66, "{text}");
    assert!(
        text.starts_with("drover: -o ssl_chain_cert /nonexistent/file: "),
        "{text}"
    );
    assert_eq!(
        refused(&["-Z"]),
        (64, "drover: -Z needs -o ssl_chain_cert=FILE,ssl_key=FILE".into())
    );
}
