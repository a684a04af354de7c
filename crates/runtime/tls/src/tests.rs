//! rustls' own client against a session, in one thread, with generated certificates.

use crate::{ClientCertificates, TlsAcceptor, TlsError, TlsOptions, TlsSession};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

/// A folder with a server's files for one test.
struct Files {
    folder: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_string()]).expect("a name")
}

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("drover-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary folder");
        let mut params = named("ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
        std::fs::write(folder.join("ca.pem"), ca.pem()).expect("temporary file");
        let files = Files { folder, ca };
        files.renew("localhost");
        files
    }

    /// Replaces the server's certificate by one for `name`.
    fn renew(&self, name: &str) {
        let (cert, key) = self.signed(name);
        std::fs::write(self.folder.join("chain.pem"), cert.pem()).expect("temporary file");
        std::fs::write(self.folder.join("key.pem"), key.serialize_pem()).expect("temporary file");
    }

    fn signed(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        (named(name).signed_by(&key, &self.ca).expect("signed"), key)
    }

    fn options(&self, client_certificates: ClientCertificates) -> TlsOptions {
        TlsOptions {
            chain_cert: self.folder.join("chain.pem"),
            key: self.folder.join("key.pem"),
            ca_cert: Some(self.folder.join("ca.pem")),
            client_certificates,
            only_tls13: false,
            ..TlsOptions::default()
        }
    }

    fn client(&self, name: &str, with_certificate: bool) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = if with_certificate {
            let (cert, key) = self.signed("client");
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            builder
                .with_client_auth_cert(vec![cert.der().clone()], key)
                .expect("they fit")
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from(name.to_string()).expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Both ends, each with its socket, and the plain bytes that the server received.
struct Pair {
    client: ClientConnection,
    theirs: UnixStream,
    server: TlsSession,
    ours: UnixStream,
    heard: Vec<u8>,
}

impl Pair {
    fn new(client: ClientConnection, acceptor: &TlsAcceptor) -> Pair {
        let (theirs, ours) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        Pair {
            client,
            theirs,
            server: acceptor.session().expect("a session"),
            ours,
            heard: Vec::new(),
        }
    }

    /// Both ends read and write until neither makes progress. The server reads `step` bytes at a time. Returns the
    /// bytes that the client received; on an error, why the server ended the connection.
    fn talk(&mut self, step: usize) -> io::Result<Vec<u8>> {
        let mut said = Vec::new();
        loop {
            let mut moved = false;
            while self.client.wants_write() {
                match self.client.write_tls(&mut self.theirs) {
                    Ok(_) => moved = true,
                    Err(_) => break,
                }
            }
            let mut piece = vec![0; step];
            match self.server.read(&mut self.ours, &mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.heard.extend_from_slice(&piece[..count]);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.server.wants_write() {
                moved |= self.server.write(&mut self.ours, &[]).is_ok();
            }
            while matches!(self.client.read_tls(&mut self.theirs), Ok(1..)) {
                moved = true;
                self.client.process_new_packets().map_err(io::Error::other)?;
                let mut piece = vec![0; 1 << 16];
                let count = self.client.reader().read(&mut piece).unwrap_or(0);
                said.extend_from_slice(&piece[..count]);
            }
            if !moved {
                return Ok(said);
            }
        }
    }
}

#[test]
fn a_conversation_in_pieces_of_any_size() {
    let files = Files::new("conversation");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    for step in [1, 7, 100_000] {
        let mut pair = Pair::new(files.client("localhost", false), &acceptor);
        pair.talk(step).expect("a handshake");
        assert!(!pair.client.is_handshaking() && !pair.server.is_peer_known());
        pair.client.writer().write_all(b"get a\r\n").expect("space");
        pair.talk(step).expect("data");
        assert_eq!(pair.heard, b"get a\r\n");
    }
}

/// Writes as a connection does: until the socket takes no more, and again when it does.
#[test]
fn a_reply_longer_than_socket_and_session_hold() {
    let files = Files::new("reply");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let mut pair = Pair::new(files.client("localhost", false), &acceptor);
    pair.talk(4096).expect("a handshake");
    let reply: Vec<u8> = (0..3 << 20).map(|i: u32| (i / 7) as u8).collect();
    let (mut sent, mut got, mut blocked) = (0, Vec::new(), 0);
    while got.len() < reply.len() {
        let rest = &reply[sent..];
        let (head, tail) = rest.split_at(rest.len().min(1000));
        match pair
            .server
            .write(&mut pair.ours, &[IoSlice::new(head), IoSlice::new(tail)])
        {
            Ok(count) => {
                assert!(count <= 64 << 10, "{count} bytes at once");
                sent += count;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                blocked += 1;
                got.extend(pair.talk(4096).expect("data"));
            }
        }
        if sent == reply.len() {
            got.extend(pair.talk(4096).expect("data"));
        }
    }
    assert!(
        got == reply && blocked > 0,
        "{} of {} bytes, {blocked}",
        got.len(),
        reply.len()
    );
    assert!(!pair.server.wants_write());
}

#[test]
fn much_that_comes_at_once() {
    let files = Files::new("much");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let mut pair = Pair::new(files.client("localhost", false), &acceptor);
    pair.talk(1 << 14).expect("a handshake");
    pair.client.set_buffer_limit(None);
    pair.client
        .writer()
        .write_all(&vec![b'x'; 1 << 20])
        .expect("space");
    pair.talk(1 << 14).expect("data");
    assert_eq!(pair.heard.len(), 1 << 20);
}

#[test]
fn certificates_of_clients() {
    let files = Files::new("clients");
    let outcome = |wanted, with_certificate| {
        let acceptor = TlsAcceptor::new(files.options(wanted)).expect("files");
        let mut pair = Pair::new(files.client("localhost", with_certificate), &acceptor);
        pair.talk(100_000).ok().map(|_| pair.server.is_peer_known())
    };
    assert_eq!(outcome(ClientCertificates::None, true), Some(false));
    assert_eq!(outcome(ClientCertificates::IfAny, false), Some(false));
    assert_eq!(outcome(ClientCertificates::IfAny, true), Some(true));
    assert_eq!(outcome(ClientCertificates::Required, true), Some(true));
    assert_eq!(outcome(ClientCertificates::Required, false), None);
    let nobody = TlsOptions {
        ca_cert: None,
        ..files.options(ClientCertificates::Required)
    };
    assert!(matches!(TlsAcceptor::new(nobody), Err(TlsError::NoCa)));
}

#[test]
fn new_certificates_serve_new_connections_and_bad_ones_nobody() {
    let files = Files::new("reload");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let shakes_hands = |name: &str| {
        Pair::new(files.client(name, false), &acceptor)
            .talk(100_000)
            .is_ok()
    };
    let mut old = Pair::new(files.client("localhost", false), &acceptor);
    old.talk(100_000).expect("a handshake");
    files.renew("renewed");
    assert!(
        shakes_hands("localhost") && !shakes_hands("renewed"),
        "not read yet"
    );
    acceptor.reload().expect("good files");
    assert!(shakes_hands("renewed") && !shakes_hands("localhost"));
    std::fs::write(files.folder.join("key.pem"), "nonsense").expect("temporary file");
    assert!(matches!(
        acceptor.reload(),
        Err(TlsError::File { what: "ssl_key", .. })
    ));
    assert!(shakes_hands("renewed"), "what was good stays");
    old.client.writer().write_all(b"still here").expect("space");
    old.talk(100_000).expect("data");
    assert_eq!(old.heard, b"still here");
}

#[test]
fn files_that_are_missing_empty_or_do_not_fit() {
    let files = Files::new("bad-files");
    let refusal = |change: &dyn Fn(&mut TlsOptions)| {
        let mut options = files.options(ClientCertificates::None);
        change(&mut options);
        TlsAcceptor::new(options)
            .map(|_| ())
            .expect_err("refused")
            .to_string()
    };
    let missing = files.folder.join("missing.pem");
    let text = refusal(&|options| options.chain_cert = missing.clone());
    assert!(
        text.starts_with(&format!("ssl_chain_cert {}: ", missing.display())),
        "{text}"
    );
    let empty = files.folder.join("empty.pem");
    std::fs::write(&empty, "").expect("temporary file");
    let text = refusal(&|options| options.chain_cert = empty.clone());
    assert!(text.ends_with("empty.pem: no certificate in it"), "{text}");
    let (_, other) = files.signed("other");
    std::fs::write(files.folder.join("key.pem"), other.serialize_pem()).expect("temporary file");
    let text = refusal(&|_| {});
    assert!(text.starts_with("TLS: "), "{text}");
}

/// A session, and a socket to send it raw bytes.
fn raw(acceptor: &TlsAcceptor) -> (TlsSession, UnixStream, UnixStream) {
    let (theirs, ours) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("a socket");
    theirs.set_nonblocking(true).expect("a socket");
    (acceptor.session().expect("a session"), theirs, ours)
}

#[test]
fn what_is_not_tls_ends_with_an_alert() {
    let files = Files::new("not-tls");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let (mut session, mut theirs, mut ours) = raw(&acceptor);
    theirs.write_all(b"get a\r\nget b\r\nget c\r\n").expect("space");
    let error = session.read(&mut ours, &mut [0; 64]).expect_err("no record");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let mut alert = [0; 64];
    let len = theirs.read(&mut alert).expect("an answer");
    assert_eq!(alert[..len.min(1)], [21], "an alert");
}

#[test]
fn ends_are_ends() {
    let files = Files::new("ends");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let (mut session, theirs, mut ours) = raw(&acceptor);
    drop(theirs);
    assert_eq!(
        session.read(&mut ours, &mut [0; 64]).ok(),
        Some(0),
        "before the handshake"
    );
    let mut pair = Pair::new(files.client("localhost", false), &acceptor);
    pair.talk(100).expect("a handshake");
    pair.client.send_close_notify();
    assert!(
        pair.talk(100)
            .is_err_and(|error| error.kind() == ErrorKind::UnexpectedEof)
    );
}

/// A client that receives `close_notify` knows that nothing was truncated.
#[test]
fn a_goodbye_is_said() {
    for is_said in [true, false] {
        let files = Files::new("goodbye");
        let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
        let mut pair = Pair::new(files.client("localhost", false), &acceptor);
        pair.talk(100).expect("a handshake");
        if is_said {
            pair.server.close(&mut pair.ours);
        }
        drop(pair.ours);
        while matches!(pair.client.read_tls(&mut pair.theirs), Ok(1..)) {
            pair.client.process_new_packets().expect("sound records");
        }
        let end = pair.client.reader().read(&mut [0; 8]);
        match is_said {
            true => assert_eq!(end.expect("an end"), 0),
            false => assert_eq!(end.expect_err("a cut").kind(), ErrorKind::UnexpectedEof),
        }
    }
}

/// Records without content cost work, so their number is limited.
#[test]
fn a_flood_of_nothing_ends() {
    let files = Files::new("flood");
    let acceptor = TlsAcceptor::new(files.options(ClientCertificates::None)).expect("files");
    let mut pair = Pair::new(files.client("localhost", false), &acceptor);
    pair.talk(100).expect("a handshake");
    let mut refused = false;
    for _ in 0..10_000 {
        pair.client.refresh_traffic_keys().expect("TLS 1.3"); // a record that says only that
        while pair.client.wants_write() && pair.client.write_tls(&mut pair.theirs).is_ok() {}
        match pair.server.read(&mut pair.ours, &mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(count) => panic!("{count} bytes out of nothing"),
            Err(_) => {
                refused = true;
                break;
            }
        }
    }
    assert!(refused);
}
