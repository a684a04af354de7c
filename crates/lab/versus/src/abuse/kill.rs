//! Client processes that are killed at random points.

use super::{Options, Said, Watched, Witness, discard, failed, offer, pause};
use drover_base::Rng;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// Connections per client.
const CONNECTIONS: usize = 32;
/// A client reports each time it has sent this many pieces.
const TOLD_EVERY: u64 = 64;

/// Starts 100 client processes (12 in a short run), one after the other, and kills each at a random point of its work.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let mut rng = Rng::new(options.seed, 0, 2);
    let count = options.amount(100, 12);
    for nth in 0..count {
        let program = std::env::current_exe().map_err(failed("this program"))?;
        let mut child = Command::new(program)
            .args(["kill-me", "--server", &watched.address().to_string()])
            .args(["--seed", &(options.seed + nth).to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("a client"))?;
        let mut told = BufReader::new(child.stdout.take().ok_or("stdout is piped")?).lines();
        // After a random number of reports the client is killed, at any point of its work.
        let lines = (0..1 + rng.below(20)).all(|_| matches!(told.next(), Some(Ok(_))));
        (0..rng.below(20_000)).for_each(|_| std::hint::spin_loop());
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(failed("a client"))?;
        if !lines {
            return Err("a client ended before it was killed".to_owned());
        }
        witness.progress(1)?;
        watched.check_memory()?;
    }
    Ok(format!("{count} clients of {CONNECTIONS} connections killed"))
}

/// Main function of a client process that its parent kills: sends pieces of random requests, cut at random points, over
/// 32 connections. Writes a line to standard output after every 64 pieces. Returns only on an error, or when standard
/// output is closed.
///
/// # Errors
/// If the server cannot be reached, at the start or to replace a connection that it closed.
pub fn kill_me(server: SocketAddr, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed, 0, 3);
    let connect = || -> Result<TcpStream, String> {
        let stream = TcpStream::connect(server).map_err(failed("connecting"))?;
        stream.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
        Ok(stream)
    };
    let mut streams = (0..CONNECTIONS)
        .map(|_| connect())
        .collect::<Result<Vec<_>, _>>()?;
    let mut buffer = vec![0; 64 << 10];
    let mut out = std::io::stdout();
    for pieces in 1u64.. {
        let stream = &mut streams[rng.below(CONNECTIONS as u64) as usize];
        let text = piece(&mut rng);
        let cut = 1 + rng.below(text.len() as u64) as usize;
        let gone = offer(stream, &text[..cut]).is_none()
            || (rng.chance(0.3) && discard(stream, &mut buffer).is_none());
        if gone {
            *stream = connect()?;
            pause();
        }
        // If the parent no longer reads the reports, the client ends.
        if pieces % TOLD_EVERY == 0 && writeln!(out, "{pieces}").and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn piece(rng: &mut Rng) -> Vec<u8> {
    let key = rng.below(50);
    let size = 1usize << rng.below(18);
    let mut text = match rng.below(4) {
        0 => format!("get{}\r\n", format!(" x{key}").repeat(1 + size % 400)).into_bytes(),
        1 => format!("mg x{key} v\r\nincr n 1\r\ntouch x{key} 0\r\n").into_bytes(),
        _ => format!("set x{key} 0 0 {size}\r\n").into_bytes(),
    };
    if text.starts_with(b"set") {
        text.resize(text.len() + size, b'x');
        text.extend_from_slice(b"\r\n");
    }
    text
}
