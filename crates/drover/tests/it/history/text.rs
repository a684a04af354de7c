//! A connection that speaks memcached's protocol, in classic or in meta commands.

use super::plan::{Answer, Ask, Request, Voice, now};
use drover_testkit::history::Swapped;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kind of commands that a connection sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Classic,
    Meta,
}

/// One connection that speaks memcached's protocol.
pub struct Text {
    lines: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    dialect: Dialect,
    /// Per key what was last read: the value and its CAS.
    read: BTreeMap<String, (u64, u64)>,
}

impl Text {
    pub fn tcp(port: u16, dialect: Dialect) -> Text {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let writer = Box::new(stream.try_clone().expect("dup"));
        Text::new(Box::new(stream), writer, dialect)
    }

    pub fn unix(path: &Path, dialect: Dialect) -> Text {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let writer = Box::new(stream.try_clone().expect("dup"));
        Text::new(Box::new(stream), writer, dialect)
    }

    fn new(reader: Box<dyn Read + Send>, writer: Box<dyn Write + Send>, dialect: Dialect) -> Text {
        Text {
            lines: BufReader::new(reader),
            writer,
            dialect,
            read: BTreeMap::new(),
        }
    }

    /// The request in words.
    fn words(&mut self, request: &mut Request) -> String {
        let key = &request.key;
        let (from, cas) = self.read.get(key).copied().unwrap_or_default();
        request.from = from;
        let is_meta = self.dialect == Dialect::Meta;
        match request.ask {
            Ask::Get if is_meta => format!("mg {key} v c\r\n"),
            Ask::Get => format!("gets {key}\r\n"),
            Ask::Put(id) if is_meta => format!("ms {key} {}\r\n{id}\r\n", id.to_string().len()),
            Ask::Put(id) => format!("set {key} 7 0 {}\r\n{id}\r\n", id.to_string().len()),
            Ask::Delete if is_meta => format!("md {key}\r\n"),
            Ask::Delete => format!("delete {key}\r\n"),
            Ask::Swap(to) if is_meta => format!("ms {key} {} C{cas}\r\n{to}\r\n", to.to_string().len()),
            Ask::Swap(to) => format!("cas {key} 9 0 {} {cas}\r\n{to}\r\n", to.to_string().len()),
            Ask::Add(by) if is_meta && by >= 0 => format!("ma {key} v D{by}\r\n"),
            Ask::Add(by) if is_meta => format!("ma {key} v MD D{}\r\n", -by),
            Ask::Add(by) if by >= 0 => format!("incr {key} {by}\r\n"),
            Ask::Add(by) => format!("decr {key} {}\r\n", -by),
        }
    }

    /// A line without its end; `None` at the end of the stream, which must not be within a line.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("no answer: {error}"),
        }
        let whole = line.strip_suffix("\r\n");
        Some(whole.unwrap_or_else(|| panic!("cut off: {line:?}")).to_owned())
    }

    /// A line of a reply that has begun.
    fn next(&mut self) -> String {
        self.line().expect("a reply that began is whole")
    }

    fn number(&mut self) -> u64 {
        let line = self.next();
        line.trim()
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line:?}"))
    }

    fn answer(&mut self, request: &Request) -> Option<Answer> {
        let first = self.line()?;
        let mut words = first.split(' ');
        let word = words.next().expect("there is always one");
        Some(match (request.ask, word) {
            (Ask::Get, "VALUE") => {
                let cas = words.nth(3).and_then(|cas| cas.parse().ok());
                let value = self.number();
                assert_eq!(self.next(), "END");
                self.remember(request, value, cas)
            }
            (Ask::Get, "VA") => {
                let cas = words.nth(1).and_then(|cas| cas.strip_prefix('c')?.parse().ok());
                let value = self.number();
                self.remember(request, value, cas)
            }
            (Ask::Get, "END" | "EN") => Answer::Missing,
            (Ask::Put(_), "STORED" | "HD") => Answer::Done(None),
            (Ask::Delete, "DELETED" | "HD") => Answer::Done(None),
            (Ask::Delete | Ask::Add(_), "NOT_FOUND" | "NF") => Answer::Missing,
            (Ask::Swap(_), "STORED" | "HD") => Answer::Swapped(Swapped::Done),
            (Ask::Swap(_), "EXISTS" | "EX") => Answer::Swapped(Swapped::Other),
            (Ask::Swap(_), "NOT_FOUND" | "NF") => Answer::Swapped(Swapped::Missing),
            (Ask::Add(_), "VA") => Answer::Done(Some(self.number())),
            (Ask::Add(_), number) if number.parse::<u64>().is_ok() => Answer::Done(number.parse().ok()),
            _ => panic!("{request:?} is answered by {first:?}"),
        })
    }

    fn remember(&mut self, request: &Request, value: u64, cas: Option<u64>) -> Answer {
        let cas = cas.expect("it was asked for");
        self.read.insert(request.key.clone(), (value, cas));
        Answer::Done(Some(value))
    }
}

impl Voice for Text {
    fn is_memcached(&self) -> bool {
        true
    }

    fn ask(&mut self, batch: &mut [Request]) -> Vec<Option<(Answer, u64)>> {
        let said: String = batch.iter_mut().map(|request| self.words(request)).collect();
        // If it is gone: what it said before may still be there to be read, but no answer to this.
        let is_said = self.writer.write_all(said.as_bytes()).is_ok();
        let mut is_over = !is_said;
        let answer = |request: &Request| {
            let answer = if is_over { None } else { self.answer(request) };
            is_over = answer.is_none();
            answer.map(|answer| (answer, now()))
        };
        batch.iter().map(answer).collect()
    }
}
