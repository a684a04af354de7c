//! [`tls_problem`]: handshakes of our own, which tell why the etcd client has no connection.
//!
//! It reports that its transport has failed, whatever was wrong: a plain server closes a connection on which it gets a handshake, as one with
//! TLS does on which it gets none, and a server that misses a certificate says so when the client believes the handshake to be over.

use crate::{EtcdOptions, EtcdTls, NoAnswer, NoAnswerKind};
use drover_tls::{TlsConnector, TlsError, reason, shows_tls};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What is wrong with TLS; `None`: an endpoint is well, or none can be reached. Takes a few
/// times as long as a request may.
pub(crate) fn tls_problem(options: &EtcdOptions) -> Option<NoAnswer> {
    let timeout = options.timeout / options.endpoints.len().max(1) as u32;
    let mut first = None;
    for endpoint in &options.endpoints {
        let host_port = endpoint.split_once("://").map_or(&**endpoint, |(_, rest)| rest);
        let endpoint = Endpoint { host_port, timeout };
        match endpoint.problem(options.tls.as_ref()) {
            Ok(Some(problem)) => {
                first.get_or_insert_with(|| format!("{host_port}: {problem}"));
            }
            Ok(None) => return None,
            Err(_) => {} // it is not there, which is no matter of TLS
        }
    }
    let kind = NoAnswerKind::Tls;
    first.map(|why| NoAnswer { kind, why })
}

/// A member of etcd.
struct Endpoint<'a> {
    host_port: &'a str,
    /// Longest wait for anything.
    timeout: Duration,
}

impl Endpoint<'_> {
    /// What is wrong there, if something is.
    fn problem(&self, tls: Option<&EtcdTls>) -> io::Result<Option<String>> {
        let nobody = TlsConnector::trusting_nobody().map_err(of_tls);
        let connector = tls.map_or(nobody, |tls| Ok(tls.connector().clone()))?;
        let (is_handshaking, end) = self.handshake(&connector)?;
        let has_certificate = connector.options().certificate.is_some();
        let Some(tls_error) = end.as_ref().err().filter(|error| reason(error).is_some()) else {
            let is_plain = tls.is_some() && is_handshaking && self.is_plain()?;
            return Ok(is_plain.then(no_tls));
        };
        Ok(match tls {
            None => shows_tls(tls_error)
                .then(|| "it speaks TLS, and the URL names no CA to trust (?tls-ca=FILE)".to_owned()),
            Some(_) if !shows_tls(tls_error) => Some(no_tls()),
            Some(_) if !is_handshaking && !has_certificate => {
                Some("it asks for a certificate of its clients (tls-cert, tls-key)".to_owned())
            }
            // Parameters of the URL are called as the flags of other connections.
            Some(_) => reason(tls_error).map(|why| why.replace("--tls-", "tls-")),
        })
    }

    /// How a connection has ended, and whether the handshake was under way then. After it, only the server is awaited, which has nothing to say
    /// but that it refuses.
    fn handshake(&self, connector: &TlsConnector) -> io::Result<(bool, io::Result<usize>)> {
        let (host, _) = self.host_and_port()?;
        let mut session = connector.session(host).map_err(of_tls)?;
        let mut socket = self.connect()?;
        session.flush(&mut socket)?;
        let end = session.read(&mut socket, &mut [0]);
        Ok((session.is_handshaking(), end))
    }

    /// Whether it answers plain HTTP.
    fn is_plain(&self) -> io::Result<bool> {
        let mut socket = self.connect()?;
        socket.write_all(b"GET /version HTTP/1.0\r\n\r\n")?;
        let mut begin = [0; 5];
        Ok(socket.read_exact(&mut begin).is_ok() && begin == *b"HTTP/")
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut addresses = self.host_and_port()?.to_socket_addrs()?;
        let connect = |address| TcpStream::connect_timeout(&address, self.timeout).ok();
        let socket = addresses.find_map(connect).ok_or(io::ErrorKind::NotConnected)?;
        socket.set_read_timeout(Some(self.timeout))?;
        socket.set_write_timeout(Some(self.timeout))?;
        Ok(socket)
    }

    /// An IPv6 address without its brackets.
    fn host_and_port(&self) -> io::Result<(&str, u16)> {
        let (host, port) = self
            .host_port
            .rsplit_once(':')
            .ok_or(io::ErrorKind::InvalidInput)?;
        let port = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
    }
}

fn no_tls() -> String {
    "it does not speak TLS: leave tls-ca out of the URL, or start it with a certificate (--cert-file)"
        .to_owned()
}

fn of_tls(error: TlsError) -> io::Error {
    io::Error::other(error)
}
