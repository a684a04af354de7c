//! [`Client`]: one connection that sends several requests before it reads their answers.

use super::reply::Reply;
use super::stream::Request;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server.
pub struct Client {
    input: BufReader<TcpStream>,
    line: Vec<u8>,
    value: Vec<u8>,
    output: Vec<u8>,
}

/// An answer takes at most this long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that one read takes from the socket.
const INPUT_BYTES: usize = 64 << 10;

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Client, String> {
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(stream)
        };
        let stream = open().map_err(|e: std::io::Error| format!("connecting to {address}: {e}"))?;
        Ok(Client {
            input: BufReader::with_capacity(INPUT_BYTES, stream),
            line: Vec::new(),
            value: Vec::new(),
            output: Vec::new(),
        })
    }

    /// Gets the keys of `requests`, which are distinct, with one command. For each key, `found` says whether the
    /// server has it.
    ///
    /// # Errors
    /// The connection fails, or an answer has another key or value than what was stored.
    pub fn get(&mut self, requests: &[Request], found: &mut Vec<bool>) -> Result<(), String> {
        found.clear();
        self.output.extend_from_slice(b"get");
        for request in requests {
            self.output.push(b' ');
            self.output.extend_from_slice(&key_text(request.key));
        }
        self.output.extend_from_slice(b"\r\n");
        self.send()?;
        loop {
            self.read_line()?;
            let (key, bytes) = match Reply::parse(&self.line)? {
                Reply::Value { key, bytes } => (key, bytes),
                Reply::End => break,
                other => return Err(format!("unexpected answer to a get: {other:?}")),
            };
            // Items are answered in the order of their keys; those between two answers are missing.
            let asked = |request: &Request| key.as_bytes() == key_text(request.key);
            let missing = requests[found.len()..].iter().position(asked);
            let Some(missing) = missing else {
                return Err(format!("answer for key {key}, which was not requested"));
            };
            found.resize(found.len() + missing, false);
            let request = requests[found.len()];
            found.push(true);
            self.value.resize(bytes + 2, 0);
            self.input
                .read_exact(&mut self.value)
                .map_err(|e| format!("reading a value: {e}"))?;
            check_value(&request, &self.value)?;
        }
        found.resize(requests.len(), false);
        Ok(())
    }

    /// Stores values of `requests`, whose commands are all sent before an answer is read. Returns how many of them the
    /// server refused for lack of memory.
    pub fn set(&mut self, requests: &[Request]) -> Result<u64, String> {
        for request in requests {
            put_set(&mut self.output, request);
        }
        self.send()?;
        let mut refused = 0;
        for _ in requests {
            self.read_line()?;
            match Reply::parse(&self.line)? {
                Reply::Stored => {}
                Reply::Refused => refused += 1,
                other => return Err(format!("unexpected answer to a set: {other:?}")),
            }
        }
        Ok(refused)
    }

    /// The numbers of `stats`.
    pub fn stats(&mut self) -> Result<BTreeMap<String, u64>, String> {
        self.stats_of("")
    }

    /// The numbers of `stats` about `what`.
    pub fn stats_of(&mut self, what: &str) -> Result<BTreeMap<String, u64>, String> {
        self.output
            .extend_from_slice(format!("stats {what}").trim_end().as_bytes());
        self.output.extend_from_slice(b"\r\n");
        self.send()?;
        let mut numbers = BTreeMap::new();
        loop {
            self.read_line()?;
            match Reply::parse(&self.line)? {
                Reply::Stat { name, value } => {
                    if let Ok(number) = value.parse() {
                        numbers.insert(name.to_owned(), number);
                    }
                }
                Reply::End => return Ok(numbers),
                other => return Err(format!("unexpected answer to stats: {other:?}")),
            }
        }
    }

    fn send(&mut self) -> Result<(), String> {
        let sent = self.input.get_mut().write_all(&self.output);
        self.output.clear();
        sent.map_err(|e| format!("sending requests: {e}"))
    }

    fn read_line(&mut self) -> Result<(), String> {
        self.line.clear();
        match self.input.read_until(b'\n', &mut self.line) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(_) => Ok(()),
            Err(e) => Err(format!("reading an answer: {e}")),
        }
    }
}

/// Size of the text of a key.
pub const KEY_BYTES: usize = 16;

fn key_text(key: u64) -> [u8; KEY_BYTES] {
    std::array::from_fn(|digit| b"0123456789abcdef"[(key >> (60 - 4 * digit)) as usize & 15])
}

/// Appends a `set` command. A value is its key's text, again and again.
fn put_set(output: &mut Vec<u8>, request: &Request) {
    let text = key_text(request.key);
    output.extend_from_slice(b"set ");
    output.extend_from_slice(&text);
    let rest = format!(" 0 {} {}\r\n", request.ttl_s, request.value_bytes);
    output.extend_from_slice(rest.as_bytes());
    let end = output.len() + request.value_bytes as usize;
    while output.len() < end {
        let piece = KEY_BYTES.min(end - output.len());
        output.extend_from_slice(&text[..piece]);
    }
    output.extend_from_slice(b"\r\n");
}

/// Checks size, beginning and line end of a value.
fn check_value(request: &Request, value: &[u8]) -> Result<(), String> {
    let text = key_text(request.key);
    let bytes = request.value_bytes as usize;
    let is_whole = value.len() == bytes + 2 && value.ends_with(b"\r\n");
    let begins = KEY_BYTES.min(bytes);
    match is_whole && value[..begins] == text[..begins] {
        true => Ok(()),
        false => Err(format!("wrong value of key {}", String::from_utf8_lossy(&text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn request(key: u64, value_bytes: u32) -> Request {
        Request {
            key,
            value_bytes,
            ttl_s: 3,
        }
    }

    /// A client whose server ignores its requests and has sent `answers`.
    fn answered(answers: &[u8]) -> Client {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let client = Client::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (mut server, _) = listener.accept().expect("a client has connected");
        server.write_all(answers).expect("the client is there");
        client
    }

    #[test]
    fn a_command_has_key_lifetime_and_value() {
        let mut output = Vec::new();
        put_set(&mut output, &request(0xab, 18));
        assert_eq!(output, b"set 00000000000000ab 0 3 18\r\n00000000000000ab00\r\n");
        assert_eq!(check_value(&request(0xab, 18), b"00000000000000ab00\r\n"), Ok(()));
    }

    #[test]
    fn values_of_other_keys_and_sizes_are_noticed() {
        let wanted = request(0xab, 18);
        assert!(check_value(&wanted, b"00000000000000ac00\r\n").is_err());
        assert!(check_value(&wanted, b"00000000000000ab0\r\n").is_err());
        assert!(check_value(&wanted, b"00000000000000ab000\n").is_err());
    }

    #[test]
    fn found_and_missing_keys_are_told_apart() {
        let two = b"VALUE 0000000000000002 0 2\r\n00\r\nVALUE 0000000000000004 0 1\r\n0\r\nEND\r\n";
        let asked = [
            request(1, 9),
            request(2, 2),
            request(3, 9),
            request(4, 1),
            request(5, 9),
        ];
        let mut found = Vec::new();
        assert_eq!(answered(two).get(&asked, &mut found), Ok(()));
        assert_eq!(found, [false, true, false, true, false]);
        let why = answered(two)
            .get(&asked[2..], &mut found)
            .expect_err("2 was not requested");
        assert!(why.contains("0000000000000002"), "{why}");
    }

    #[test]
    fn refused_items_are_counted() {
        let asked = [request(1, 9), request(2, 9)];
        let refused = answered(b"STORED\r\nSERVER_ERROR out of memory\r\n").set(&asked);
        assert_eq!(refused, Ok(1));
        assert!(answered(b"ERROR\r\n").set(&asked).is_err());
    }

    #[test]
    fn statistics_are_numbers() {
        let stats = answered(b"STAT version 1.6\r\nSTAT curr_items 7\r\nEND\r\n")
            .stats()
            .expect("well-formed");
        assert_eq!(stats, BTreeMap::from([("curr_items".to_owned(), 7)]));
    }
}
