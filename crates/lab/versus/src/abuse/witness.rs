//! [`Witness`]: a well-behaved client that notices when the server does not answer.

use super::{Watched, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A well-behaved client, to notice when the server serves others no longer. On a thread and four connections of its
/// own it stores and gets items in rounds, and checks the answers: an item may be missing (evicted) but not have
/// another value. Dropping it tells the thread to stop, without waiting for that.
pub struct Witness {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

#[derive(Default)]
struct Shared {
    rounds: AtomicU64,
    stop: AtomicBool,
}

/// Number of its connections: enough for several cores to have one each.
const CONNECTIONS: usize = 4;
/// One round in this many has a long value, which needs memory that abusers want, too.
const LONG_EVERY: u64 = 32;
const LONG_BYTES: usize = 200_000;

impl Witness {
    /// Connects to the server and starts the thread.
    ///
    /// # Errors
    /// If the server cannot be reached, or no thread can be started.
    pub fn start(watched: &Watched) -> Result<Witness, String> {
        let streams = (0..CONNECTIONS).map(|_| watched.connect());
        let mut streams: Vec<_> = streams
            .map(|stream| stream.map(BufReader::new))
            .collect::<Result<_, _>>()?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let ask = move || {
            let mut nth = 0;
            while !theirs.stop.load(Ordering::Relaxed) {
                for (i, stream) in streams.iter_mut().enumerate() {
                    round(stream, i, nth).map_err(|why| format!("others are not served: {why}"))?;
                }
                nth += 1;
                theirs.rounds.store(nth, Ordering::Relaxed);
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("witness".to_owned()).spawn(ask);
        Ok(Witness {
            shared,
            thread: Some(thread.map_err(|error| error.to_string())?),
        })
    }

    /// Waits until `rounds` further rounds, each a set and a get on every connection, are complete.
    ///
    /// # Errors
    /// If they are not complete within the [time limit](super::set_patience), or an answer was wrong or missing.
    pub fn progress(&mut self, rounds: u64) -> Result<(), String> {
        let goal = self.shared.rounds.load(Ordering::Relaxed) + rounds;
        until("others are served", || {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                self.end()?;
                return Err("the witness has ended".to_owned());
            }
            Ok(self.shared.rounds.load(Ordering::Relaxed) >= goal)
        })
    }

    /// Stops the client after its current round, waits for that, and returns the number of complete rounds.
    ///
    /// # Errors
    /// If an answer was wrong or missing.
    pub fn finish(mut self) -> Result<u64, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.end()?;
        Ok(self.shared.rounds.load(Ordering::Relaxed))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err("the witness panicked".to_owned()),
            None => Ok(()),
        }
    }
}

/// Stores an item and gets it. The item may have been evicted, but its value must not be another.
fn round(stream: &mut BufReader<TcpStream>, i: usize, nth: u64) -> Result<(), String> {
    let len = if nth % LONG_EVERY == LONG_EVERY - 1 {
        LONG_BYTES
    } else {
        10 + (nth as usize * 37) % 400
    };
    let letter = b'a' + (nth % 26) as u8;
    let mut request = format!("set witness{i}-{} 0 0 {len}\r\n", nth % 1000).into_bytes();
    request.resize(request.len() + len, letter);
    write!(request, "\r\nget witness{i}-{}\r\n", nth % 1000).expect("memory");
    stream
        .get_mut()
        .write_all(&request)
        .map_err(|error| format!("writing: {error}"))?;
    let mut line = String::new();
    expect(stream, &mut line, |line| line == "STORED\r\n")?;
    expect(stream, &mut line, |line| {
        line.starts_with("VALUE ") || line == "END\r\n"
    })?;
    if line == "END\r\n" {
        return Ok(());
    }
    let mut value = vec![0; len + 2];
    stream
        .read_exact(&mut value)
        .map_err(|error| format!("reading: {error}"))?;
    if !value[..len].iter().all(|&byte| byte == letter) {
        return Err("a value is not what was stored".to_owned());
    }
    expect(stream, &mut line, |line| line == "END\r\n")
}

fn expect(
    stream: &mut BufReader<TcpStream>,
    line: &mut String,
    is_right: impl Fn(&str) -> bool,
) -> Result<(), String> {
    line.clear();
    stream
        .read_line(line)
        .map_err(|error| format!("reading: {error}"))?;
    match is_right(line) {
        true => Ok(()),
        false => Err(format!("it says {line:?}")),
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // After a failure: do not wait for an answer that may never come.
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}
