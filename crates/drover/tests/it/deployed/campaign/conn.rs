//! [`Conn`]: a connection that sends batches of meta commands.

use super::super::bed;
use super::super::process::now;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A command about a key, which is a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// `mg` with value, flags, remaining time and CAS number.
    Get,
    /// `ms` of this value.
    Put(u64),
    /// `md`.
    Delete,
}

/// An item, as a GET returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub value: u64,
    pub flags: u32,
    /// Remaining time, seconds.
    pub ttl_s: i64,
    pub cas: u64,
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was executed; whether the key had a value, and for a GET, which one.
    Done(bool, Option<Item>),
    /// It was not executed.
    Refused,
    /// It may have been executed.
    Unknown,
}

/// Time to live of a key, seconds: longer than a campaign, and not the same for all.
pub fn ttl_s(key: u32) -> i64 {
    20_000 + i64::from(key % 1000)
}

/// A connection to one member.
pub struct Conn {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Conn {
    /// Connects to the member with this name; `None` if it does not listen.
    pub fn open(name: &str) -> Option<Conn> {
        let writer = bed::connect(name)?;
        let reader = BufReader::new(writer.try_clone().ok()?);
        Some(Conn { reader, writer })
    }

    /// Sends the commands; false if the connection is broken.
    pub fn send(&mut self, asks: &[(u32, Ask)]) -> bool {
        let line = |(key, ask): &(u32, Ask)| match ask {
            Ask::Get => format!("mg key-{key} v f t c\r\n"),
            Ask::Put(value) => {
                let value = value.to_string();
                let (ttl, len) = (ttl_s(*key), value.len());
                format!("ms key-{key} {len} T{ttl} F{key}\r\n{value}\r\n")
            }
            Ask::Delete => format!("md key-{key}\r\n"),
        };
        let text: String = asks.iter().map(line).collect();
        self.writer.write_all(text.as_bytes()).is_ok()
    }

    /// The answer to a command that was sent, and when it came; `None` if the connection is broken.
    ///
    /// # Panics
    /// If it hangs, or answers something that the protocol does not have.
    pub fn receive(&mut self, ask: Ask) -> Option<(Answer, u64)> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer to {ask:?}"),
            Err(_) => return None,
        }
        let line = line.strip_suffix("\r\n")?;
        let answer = match (ask, line) {
            (Ask::Put(_) | Ask::Delete, "HD") => Answer::Done(true, None),
            (Ask::Get, "EN") | (Ask::Delete, "NF") => Answer::Done(false, None),
            (_, line) if line.starts_with("SERVER_ERROR") => match line.contains("may have been executed") {
                true => Answer::Unknown,
                false => Answer::Refused,
            },
            (Ask::Get, line) if line.starts_with("VA ") => Answer::Done(true, Some(self.item(line)?)),
            _ => panic!("{ask:?} is answered by {line:?}"),
        };
        Some((answer, now()))
    }

    /// `VA LEN fFLAGS tTTL cCAS`, and the value on the next line.
    fn item(&mut self, line: &str) -> Option<Item> {
        let mut words = line.split(' ').skip(1);
        let len: usize = words.next()?.parse().ok()?;
        let mut flag = |letter| words.next()?.strip_prefix(letter)?.parse::<i64>().ok();
        let (flags, ttl_s, cas) = (flag('f')?, flag('t')?, flag('c')?);
        let mut value = vec![0; len + 2];
        self.reader.read_exact(&mut value).ok()?;
        let value = std::str::from_utf8(&value).ok()?.trim_end().parse().ok()?;
        Some(Item {
            value,
            flags: flags as u32,
            ttl_s,
            cas: cas as u64,
        })
    }
}
