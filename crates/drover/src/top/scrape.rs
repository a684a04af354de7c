//! Reads an admin port.

use crate::admin::sample::{self, Sample};
use crate::auth::basic;
use crate::other_port::Speaks;
use drover_control::Credentials;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// What to do where there is no admin port.
const PORT: &str = "name the port of `drover serve --metrics-listen IP:PORT`, or start the server with it";
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes of an answer; drover with 240 workers needs a tenth.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// All samples of a server's `/metrics`, read at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading(Vec<Sample>);

/// Reads the metrics of the admin port at `addr`: `host:port`, or an `http://` URL with a port, whose path is ignored;
/// as the user of `credentials`.
///
/// # Errors
/// Text with the reason: no answer, not drover's metrics, or not all workers answer.
pub fn read(addr: &str, credentials: Option<&Credentials>) -> Result<Reading, String> {
    let host = addr
        .trim_start_matches("http://")
        .split('/')
        .next()
        .unwrap_or(addr);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port {
        return Err(format!("this is no host:port; {PORT}"));
    }
    let target = host.to_socket_addrs().ok().and_then(|mut found| found.next());
    let target = target.ok_or("no such host: name one that `getent hosts` finds")?;
    exchange(target, host, credentials)
        .map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => format!("nothing listens there; {PORT}"),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("no answer within {} s; {PORT}", PATIENCE.as_secs())
            }
            _ => format!("{error}; {PORT}"),
        })
        .and_then(
            |text| match text.starts_with("HTTP/") || Speaks::at(target) != Speaks::Memcached {
                true => parse(&text),
                false => Err(format!("this is a port for memcached's clients; {PORT}")),
            },
        )
}

fn exchange(
    target: std::net::SocketAddr,
    host: &str,
    credentials: Option<&Credentials>,
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let login = credentials.map(|credentials| format!("Authorization: {}\r\n", basic(credentials)));
    let login = login.unwrap_or_default();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n{login}\r\n")?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(answer: &str) -> Result<Reading, String> {
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.ok_or_else(|| format!("this is not HTTP; {PORT}"))?;
    let status = head.lines().next().unwrap_or_default();
    if status.contains(" 401 ") {
        return Err("it lets in its users only: --auth-file FILE, or DROVER_AUTH=user:password".into());
    }
    if !status.contains(" 200 ") {
        return Err(format!("it answers {status}; {PORT}"));
    }
    let reading = Reading(body.lines().filter_map(sample::parse).collect());
    match reading.sum("drover_up", &[]) {
        Some(1.0) => Ok(reading),
        Some(_) => Err("the server is there, but not all of its workers answer".into()),
        None => Err(format!("there are metrics, but not of drover; {PORT}")),
    }
}

impl Reading {
    /// Sum of the samples called `name` that have all these labels; `None` if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |sample: &&Sample| {
            sample.name == name && labels.iter().all(|(label, value)| sample.label(label) == *value)
        };
        let values: Vec<f64> = self.0.iter().filter(fits).map(|sample| sample.value).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    /// Distinct values of `label` among the samples called `name`, in the order of the text.
    pub fn values(&self, name: &str, label: &str) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for sample in self.0.iter().filter(|sample| sample.name == name) {
            let value = sample.label(label);
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    }

    /// Seconds since the server started, from `drover_uptime_seconds`; at least 1, so that it can be a divisor.
    pub fn uptime_s(&self) -> f64 {
        self.sum("drover_uptime_seconds", &[]).unwrap_or(0.0).max(1.0)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Parses a reading from these lines.
    pub fn reading(lines: &str) -> Reading {
        parse(&format!("HTTP/1.1 200 OK\r\n\r\ndrover_up 1\n{lines}")).expect("a server that is up")
    }

    #[test]
    fn sums_and_labels() {
        let got = reading("a{x=\"1\",y=\"p\"} 1\na{x=\"2\",y=\"p\"} 2\n# a\nb 7\n");
        assert_eq!(got.sum("a", &[]), Some(3.0));
        assert_eq!(got.sum("a", &[("x", "2")]), Some(2.0));
        assert_eq!(got.sum("c", &[]), None);
        assert_eq!(
            (got.values("a", "x"), got.values("a", "y")),
            (vec!["1", "2"], vec!["p"])
        );
    }

    #[test]
    fn what_is_no_server_of_ours() {
        let why = |answer: &str| parse(answer).expect_err(answer);
        for (answer, problem) in [
            ("SSH-2.0", "this is not HTTP"),
            (
                "HTTP/1.1 404 Not Found\r\n\r\n",
                "it answers HTTP/1.1 404 Not Found",
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\nup 1\n",
                "there are metrics, but not of drover",
            ),
        ] {
            assert_eq!(why(answer), format!("{problem}; {PORT}"));
        }
        let down = "HTTP/1.1 200 OK\r\n\r\ndrover_up 0\n";
        assert_eq!(
            why(down),
            "the server is there, but not all of its workers answer"
        );
    }
}
