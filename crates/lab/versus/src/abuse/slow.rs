//! Requests that arrive very slowly.

use super::{Options, Said, Watched, Witness, offer};
use std::net::TcpStream;

/// Announced bytes of a value.
const CLAIMED: usize = 1_000_000;
/// Bytes that some clients send.
const FAT: usize = 600_000;
/// Bytes that the other clients send.
const THIN: usize = 20_000;

/// A client and its remaining input.
struct Slow {
    stream: Option<TcpStream>,
    text: Vec<u8>,
    said: usize,
    /// Bytes per piece.
    step: usize,
}

impl Slow {
    /// Sends the next piece.
    fn say(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let end = (self.said + self.step).min(self.text.len());
        match offer(stream, &self.text[self.said..end]) {
            Some(count) => self.said += count,
            // The server closed it to free memory for others.
            None => self.stream = None,
        }
    }
}

/// Sends 2,000 requests (400 in a short run) a piece at a time and completes none: GETs byte by byte, and values of
/// which only a part ever arrives.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let count = options.amount(2_000, 400);
    let rounds = options.amount(300, 60);
    let mut all: Vec<Slow> = (0..count)
        .map(|nth| {
            let (text, step) = request(nth, rounds);
            Ok(Slow {
                stream: Some(watched.connect_nonblocking()?),
                text,
                said: 0,
                step,
            })
        })
        .collect::<Result<_, String>>()?;
    for _ in 0..rounds {
        all.iter_mut().for_each(Slow::say);
        witness.progress(1)?;
        watched.check_memory()?;
    }
    let left = all.iter().filter(|slow| slow.stream.is_some()).count();
    witness.progress(options.amount(200, 50))?;
    watched.check_memory()?;
    Ok(format!(
        "{count} slow requests, of which {left} kept their connections"
    ))
}

/// Input of client `nth`, and its piece size.
fn request(nth: u64, rounds: u64) -> (Vec<u8>, usize) {
    let value = |bytes: usize| {
        let mut text = format!("set slow{nth} 0 0 {CLAIMED}\r\n").into_bytes();
        text.resize(text.len() + bytes, b's');
        text
    };
    match nth % 4 {
        0 => (format!("get {}", "slow ".repeat(rounds as usize)).into_bytes(), 1),
        1 => (format!("mg {} v", "s".repeat(200)).into_bytes(), 1),
        2 => (value(THIN), THIN / 10),
        _ => (value(FAT), FAT / 20),
    }
}
