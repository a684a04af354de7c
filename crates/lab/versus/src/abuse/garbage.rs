//! Malformed input at full speed.

use super::{Options, Said, Watched, Witness, discard, offer, pause};
use drover_base::Rng;

/// Number of connections that send garbage.
const CONNECTIONS: usize = 8;
/// Bytes of one piece of garbage.
const PIECE: usize = 256 << 10;

/// Words that may form requests.
const WORDS: &[&str] = &[
    "get",
    "gets",
    "gat",
    "set",
    "add",
    "cas",
    "append",
    "incr",
    "touch",
    "delete",
    "mg",
    "ms",
    "ma",
    "md",
    "me",
    "mn",
    "stats",
    "version",
    "verbosity",
    "flush_all",
    "noreply",
    "a",
    "k1",
    "k2",
    "0",
    "1",
    "-1",
    "10",
    "4294967296",
    "99999999999999999999",
    "v",
    "k",
    "q",
    "t",
    "T0",
    "N30",
    "S2",
    "b",
    "O12",
    "lru_crawler",
    "slabs",
    "\u{7f}",
    "\0",
];

/// Sends 1 GiB of garbage (64 MiB in a short run) over eight connections. Meanwhile checks the server's memory, and
/// that `witness` is served.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let total = options.amount(1 << 30, 64 << 20);
    let mut rng = Rng::new(options.seed, 0, 0);
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(watched.connect_nonblocking()?);
    }
    let (mut sent, mut next_look, mut hung_up) = (0, 0, 0u64);
    let mut texts = vec![(Vec::new(), 0); CONNECTIONS];
    let mut buffer = vec![0; 64 << 10];
    while sent < total {
        let mut moved = false;
        for (stream, (text, said)) in streams.iter_mut().zip(&mut texts) {
            if *said == text.len() {
                (*text, *said) = (nonsense(&mut rng), 0);
            }
            let (offered, heard) = (offer(stream, &text[*said..]), discard(stream, &mut buffer));
            let (Some(offered), Some(heard)) = (offered, heard) else {
                // Correct: the first byte was of another protocol, or a line had no end.
                *stream = watched.connect_nonblocking()?;
                (hung_up, *said) = (hung_up + 1, text.len());
                continue;
            };
            *said += offered;
            sent += offered as u64;
            moved |= offered + heard > 0;
        }
        if !moved {
            pause();
        }
        if sent >= next_look {
            next_look = sent + total / 64;
            witness.progress(1)?;
            watched.check_memory()?;
        }
    }
    Ok(format!(
        "{} MiB of garbage; the server closed {hung_up} connections",
        sent >> 20
    ))
}

/// Random bytes, or words that may be commands, or such words with random bytes in between.
fn nonsense(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(PIECE + 64);
    let kind = rng.below(3);
    if kind > 0 {
        // Line ends, or the server would never read most of it.
        text.extend_from_slice(b"mn\r\n");
    }
    while text.len() < PIECE {
        match kind {
            0 => text.extend_from_slice(&rng.next_u64().to_le_bytes()),
            1 if rng.chance(0.01) => text.extend_from_slice(&rng.next_u64().to_le_bytes()),
            _ => {
                text.extend_from_slice(WORDS[rng.below(WORDS.len() as u64) as usize].as_bytes());
                let end = [" ", " ", " ", "\r\n", "\n", "  "][rng.below(6) as usize];
                text.extend_from_slice(end.as_bytes());
            }
        }
    }
    text
}
