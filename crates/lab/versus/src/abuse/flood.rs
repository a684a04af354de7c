//! Values of all sizes while memory is full: none may be refused.

use super::{Options, Said, Watched, Witness, failed};
use drover_base::Rng;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of clients that store concurrently.
const CLIENTS: u64 = 4;
/// Requests sent together.
const PIPELINE: usize = 8;
/// Number of keys: few enough for many overwrites, enough to fill memory.
const KEYS: u64 = 1 << 20;
/// Maximum value size, bytes: the limit, 1 MiB, less the overhead of item and key.
const VALUE_MAX: u64 = (1 << 20) - 512;

/// Stores values of 1 B to nearly 1 MiB, in all ten times the server's memory for items (three times in a short run).
/// The server may refuse only an append, for its size or a missing item.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let goal = watched.memory_bytes() * options.amount(10, 3);
    let (stored, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| {
                let (stored, done) = (&stored, &done);
                scope.spawn(move || {
                    let result = store(watched, options.seed, nth, goal, stored);
                    done.fetch_add(1, Ordering::Relaxed);
                    result
                })
            })
            .collect();
        let mut looked = Ok(());
        while done.load(Ordering::Relaxed) < CLIENTS && looked.is_ok() {
            looked = witness.progress(1).and_then(|()| watched.check_memory());
        }
        stored.fetch_add(if looked.is_err() { goal } else { 0 }, Ordering::Relaxed);
        let results = clients.into_iter().map(|client| client.join());
        results
            .map(|result| result.map_err(|_| "a client panicked".to_owned())?)
            .fold(looked, Result::and)
    });
    result?;
    Ok(format!(
        "{} MiB of values of 1 to {VALUE_MAX} bytes stored, none refused",
        goal >> 20
    ))
}

/// Stores until all clients together have stored `goal` bytes.
fn store(watched: &Watched, seed: u64, nth: u64, goal: u64, stored: &AtomicU64) -> Result<(), String> {
    let mut rng = Rng::new(seed, nth, 1);
    let mut stream = BufReader::new(watched.connect()?);
    let (mut text, mut line) = (Vec::new(), String::new());
    while stored.load(Ordering::Relaxed) < goal {
        text.clear();
        let mut expected = Vec::new();
        for _ in 0..PIPELINE {
            let size = size(&mut rng);
            expected.push((request(&mut rng, size, &mut text), size));
            stored.fetch_add(size, Ordering::Relaxed);
        }
        stream.get_mut().write_all(&text).map_err(failed("storing"))?;
        for (what, size) in expected {
            read_line(&mut stream, &mut line)?;
            let fine: &[&str] = match what {
                // An append beyond the item limit: the server must say so, not report lack of memory.
                Verb::Append => &[
                    "STORED\r\n",
                    "NOT_STORED\r\n",
                    "SERVER_ERROR object too large for cache\r\n",
                ],
                Verb::Set => &["STORED\r\n"],
                Verb::Meta => &["HD\r\n"],
            };
            if !fine.contains(&line.as_str()) {
                return Err(format!("a value of {size} bytes ({what:?}) is refused: {line:?}"));
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Set,
    Append,
    Meta,
}

/// A random size, uniform in its logarithm: as many from 1 to 2 bytes as from half the limit to the limit.
fn size(rng: &mut Rng) -> u64 {
    let top = 1 << rng.below(21);
    (top + rng.below(top)).min(VALUE_MAX)
}

fn request(rng: &mut Rng, size: u64, text: &mut Vec<u8>) -> Verb {
    let (key, verb) = (rng.below(KEYS), rng.below(8));
    let (head, verb) = match verb {
        0 => (format!("append f{key} 0 0 {size}\r\n"), Verb::Append),
        1..=3 => (format!("ms f{key} {size}\r\n"), Verb::Meta),
        _ => (format!("set f{key} 7 0 {size}\r\n"), Verb::Set),
    };
    text.extend_from_slice(head.as_bytes());
    text.resize(text.len() + size as usize, b'f');
    text.extend_from_slice(b"\r\n");
    verb
}

fn read_line(stream: &mut BufReader<TcpStream>, line: &mut String) -> Result<(), String> {
    line.clear();
    match stream.read_line(line).map_err(failed("an answer"))? {
        0 => Err("the server hung up".to_owned()),
        _ => Ok(()),
    }
}
