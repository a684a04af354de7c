//! Goal: over TLS a channel is what it is without, and both ends say clearly why there is none.

use crate::acceptor::Bed;
use drover_base::Ns;
use drover_control::{
    BODY_BYTES_MAX, ControlAddr, ControlError, ControlListener, ControlStream, Guard, TlsAcceptor,
    TlsClientOptions, TlsConnector, TlsOptions, refusal,
};
use drover_testkit::certificates::{Authority, Identity};
use drover_tls::ClientCertificates;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// Turns within which everything is answered; each waits up to 10 ms if nothing happens.
pub const TURNS_MAX: usize = 1000;
/// Host of all servers here.
const HOST: &str = "127.0.0.1";

/// A server of echoes that speaks TLS on loopback, and who signs its certificates.
pub struct Server {
    pub bed: Bed,
    pub addr: ControlAddr,
    pub acceptor: Arc<TlsAcceptor>,
    pub authority: Authority,
    folder: PathBuf,
}

impl Server {
    pub fn new(name: &str) -> Server {
        Server::with(name, 10, None, |_| {})
    }

    pub fn with(
        name: &str,
        connections_max: usize,
        guard: Option<&Arc<Guard>>,
        change: impl FnOnce(&mut TlsOptions),
    ) -> Server {
        let folder = std::env::temp_dir().join(format!("drover-control-tls-{}-{name}", std::process::id()));
        let authority = Authority::new(&folder);
        let mut options = options(authority.issue("server", HOST), &authority);
        change(&mut options);
        let acceptor = Arc::new(TlsAcceptor::new(options).expect("files"));
        let listener = localhost()
            .with_tls(Some(acceptor.clone()))
            .guarded(guard.cloned());
        let addr = listener.addr().clone();
        let mut bed = Bed::new(connections_max);
        bed.server.listen(listener);
        Server {
            bed,
            addr,
            acceptor,
            authority,
            folder,
        }
    }

    /// A connector that trusts this server's CA.
    pub fn trusting(&self) -> TlsConnector {
        connector(TlsClientOptions::trusting(self.authority.ca()))
    }

    pub fn dial(&self, tls: Option<TlsConnector>) -> ControlStream {
        dial(&self.addr.clone().with_tls(tls.map(Arc::new)))
    }

    pub fn socket_addr(&self) -> SocketAddr {
        let text = self.addr.to_string();
        text.trim_start_matches("tcp://").parse().expect("an IP address")
    }

    /// What the server answers to `words`.
    pub fn ask(&mut self, client: &mut ControlStream, words: &[u8]) -> Result<Vec<u8>, ControlError> {
        client.send(20, words, &[])?;
        for _ in 0..TURNS_MAX {
            if let Some(frame) = client.recv(Ns::ZERO)? {
                return Ok(frame.body);
            }
            self.bed.waiting_turn();
        }
        panic!("no answer");
    }

    /// Why the next connection ends.
    pub fn end(&mut self) -> String {
        (0..TURNS_MAX)
            .find_map(|_| {
                self.bed.waiting_turn();
                self.bed.ends().pop()
            })
            .expect("an end")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn localhost() -> ControlListener {
    let addr: ControlAddr = "tcp://127.0.0.1:0".parse().expect("an address");
    ControlListener::bind(&addr).expect("a port")
}

pub fn dial(addr: &ControlAddr) -> ControlStream {
    ControlStream::connect(addr, Ns::from_s(5)).expect("it listens")
}

pub fn connector(options: TlsClientOptions) -> TlsConnector {
    TlsConnector::new(options).expect("files")
}

fn options(identity: Identity, authority: &Authority) -> TlsOptions {
    TlsOptions {
        chain_cert: identity.chain,
        key: identity.key,
        ca_cert: Some(authority.ca()),
        ..TlsOptions::default()
    }
    .of_control_channels()
}

/// Why TLS has failed, at a client.
fn why(answer: Result<Vec<u8>, ControlError>) -> String {
    match answer {
        Err(ControlError::Tls { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_pass_and_descriptors_do_not() {
    let mut server = Server::new("frames");
    let mut client = server.dial(Some(server.trusting()));
    for length in [0, 1, 16 << 10, BODY_BYTES_MAX] {
        let words = vec![7; length];
        assert!(
            server.ask(&mut client, &words).expect("an answer") == words,
            "{length}"
        );
    }
    let file = Arc::new(File::open("/dev/null").expect("a file").into());
    assert!(matches!(
        client.send(20, b"", &[file]),
        Err(ControlError::FdsOverTcp)
    ));
    assert!(!client.carries_fds());
    server.ask(&mut client, b"still here").expect("an answer");
    client.close();
    assert_eq!(server.end(), ControlError::Closed.to_string());
}

/// More than socket and session hold waits in the queue, and goes out as the peer reads.
#[test]
fn a_peer_that_reads_late_gets_all() {
    let mut server = Server::new("late");
    let mut client = server.dial(Some(server.trusting()));
    server.ask(&mut client, b"").expect("an answer");
    let frames: Vec<Vec<u8>> = (0..14).map(|number| vec![number; BODY_BYTES_MAX]).collect();
    for frame in &frames {
        client.send(20, frame, &[]).expect("space in the queue");
    }
    let mut answers = Vec::new();
    for _ in 0..TURNS_MAX {
        server.bed.waiting_turn();
        answers.extend(client.recv(Ns::ZERO).expect("open").map(|frame| frame.body));
        if answers.len() == frames.len() {
            break;
        }
    }
    assert!(answers == frames, "{} answers", answers.len());
}

#[test]
fn heartbeats_keep_a_channel_and_their_lack_ends_it() {
    let mut server = Server::new("beats");
    let mut client = server.dial(Some(server.trusting()));
    server.ask(&mut client, b"").expect("an answer");
    for second in 0..20 {
        server.bed.device.advance(Ns::from_s(1));
        server.bed.waiting_turn();
        client.wait(Ns::from_s(5));
        assert!(client.recv(Ns::from_s(second)).expect("alive").is_none());
    }
    for _ in 0..5 {
        server.bed.device.advance(Ns::from_s(1));
        server.bed.turn();
    }
    assert_eq!(server.bed.ends(), [ControlError::Silent.to_string()]);
}

#[test]
fn a_plain_client_is_told_and_a_plain_server_is_noticed() {
    let mut server = Server::new("plain");
    let mut plain = server.dial(None);
    match server.ask(&mut plain, b"hello") {
        Err(ControlError::Refused { code, reason }) => {
            assert_eq!(code, refusal::TLS);
            assert!(
                reason.contains("this address speaks TLS") && reason.contains("--tls-ca"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(server.end().contains("this address speaks TLS"));
    // What is neither TLS nor ours gets an alert at most.
    let mut stranger = TcpStream::connect(server.socket_addr()).expect("it listens");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("space");
    assert_eq!(server.end(), "TLS: the other end does not speak TLS");
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");

    let listener = localhost();
    let addr = listener
        .addr()
        .clone()
        .with_tls(Some(Arc::new(server.trusting())));
    server.bed.server.listen(listener);
    let mut client = dial(&addr);
    let text = why(server.ask(&mut client, b"hello"));
    assert!(text.contains("does not speak TLS at this address"), "{text}");
}

#[test]
fn certificates_that_do_not_fit() {
    let mut server = Server::new("unfit");
    let folder = server.folder.join("other");
    let stranger = connector(TlsClientOptions::trusting(Authority::new(&folder).ca()));
    let mut client = server.dial(Some(stranger));
    let text = why(server.ask(&mut client, b"hello"));
    assert!(text.contains("signed by none of the trusted CAs"), "{text}");
    assert_eq!(
        server.end(),
        "TLS: the other end does not trust the CA of this end's certificate"
    );
    let named = |name: &str, server: &Server| {
        connector(TlsClientOptions {
            name: Some(name.to_owned()),
            ..TlsClientOptions::trusting(server.authority.ca())
        })
    };
    let mut client = server.dial(Some(named("db.test", &server)));
    let text = why(server.ask(&mut client, b"hello"));
    assert!(
        text.contains("127.0.0.1") && text.contains("not for db.test"),
        "{text}"
    );

    let mut expired = Server::with("expired", 10, None, |_| {});
    expired.authority.issue_expired("server", HOST);
    expired.acceptor.reload().expect("files");
    let mut client = expired.dial(Some(expired.trusting()));
    let text = why(expired.ask(&mut client, b"hello"));
    assert!(text.ends_with("has expired"), "{text}");

    expired.authority.issue("server", "db.test");
    expired.acceptor.reload().expect("files");
    let mut client = expired.dial(Some(named("db.test", &expired)));
    assert_eq!(expired.ask(&mut client, b"hello").expect("an answer"), b"hello");
}

#[test]
fn a_server_may_ask_for_a_certificate() {
    let mut server = Server::with("mutual", 10, None, |options| {
        options.client_certificates = ClientCertificates::Required;
    });
    let mut client = server.dial(Some(server.trusting()));
    let text = why(server.ask(&mut client, b"hello"));
    assert!(text.contains("asks for a certificate of the client"), "{text}");
    let identity = server.authority.issue("client", "client");
    let mut client = server.dial(Some(connector(TlsClientOptions {
        certificate: Some((identity.chain, identity.key)),
        ..TlsClientOptions::trusting(server.authority.ca())
    })));
    assert_eq!(server.ask(&mut client, b"hello").expect("an answer"), b"hello");
}

#[test]
fn new_certificates_are_for_new_channels() {
    let mut server = Server::new("renewed");
    let own = TlsConnector::to_own_server(server.acceptor.clone()).expect("cryptography");
    let mut old = server.dial(Some(server.trusting()));
    server.ask(&mut old, b"").expect("an answer");
    // Another CA: who trusts the old one alone is told so.
    let authority = Authority::new(&server.folder.join("new"));
    let identity = authority.issue("server", HOST);
    let options = server.acceptor.options().clone();
    for (from, to) in [(identity.chain, options.chain_cert), (identity.key, options.key)] {
        std::fs::copy(from, to).expect("a file");
    }
    server.acceptor.reload().expect("files");
    let mut late = server.dial(Some(server.trusting()));
    why(server.ask(&mut late, b""));
    let mut new = server.dial(Some(connector(TlsClientOptions::trusting(authority.ca()))));
    let mut own = server.dial(Some(own));
    for client in [&mut old, &mut new, &mut own] {
        assert_eq!(server.ask(client, b"hello").expect("an answer"), b"hello");
    }
}

#[test]
fn an_end_in_the_handshake_is_one() {
    let server = Server::new("cut");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = ControlAddr::tcp(listener.local_addr().expect("a port"));
    let mut client = dial(&addr.with_tls(Some(Arc::new(server.trusting()))));
    let (mut peer, _) = listener.accept().expect("a client");
    let mut hello = [0; 4096];
    assert!(peer.read(&mut hello).expect("a hello") > 100);
    drop(peer);
    client.wait(Ns::from_s(5));
    assert!(matches!(
        client.recv(Ns::ZERO),
        Err(ControlError::ClosedInHandshake)
    ));
}
