//! Clients that request much data and read none.

use super::{Options, Said, Watched, Witness, failed, offer};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Number of requested values.
const VALUES: usize = 64;
const VALUE_BYTES: usize = 50_000;

/// Requests some 300 MiB of values, or more, over each of 3,000 connections (400 in a short run) and reads nothing.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let mut first = watched.connect()?;
    prepare(&mut first)?;
    let keys: String = (0..VALUES).map(|nth| format!(" r{nth}")).collect();
    // Each client requests 100 times 3 MiB.
    let text = format!("get{keys}\r\n").repeat(100).into_bytes();
    let count = options.amount(3_000, 400);
    let mut readers: Vec<(Option<TcpStream>, usize)> = Vec::new();
    for nth in 0..count {
        readers.push((Some(watched.connect_narrow()?), 0));
        // Earlier clients send more from time to time.
        let others = if nth % 20 == 0 { 0 } else { nth as usize };
        for (stream, said) in &mut readers[others..] {
            match stream
                .as_mut()
                .map(|stream| offer(stream, &text[*said % text.len()..]))
            {
                Some(Some(count)) => *said += count,
                // The server closed it to free memory.
                Some(None) => *stream = None,
                None => {}
            }
        }
        if nth % 20 == 0 {
            witness.progress(1)?;
            watched.check_memory()?;
        }
    }
    witness.progress(options.amount(200, 50))?;
    watched.check_memory()?;
    let left = readers.iter().filter(|(stream, _)| stream.is_some()).count();
    Ok(format!(
        "{count} clients took none of their answers; {left} did not notice losing their connections"
    ))
}

fn prepare(stream: &mut TcpStream) -> Result<(), String> {
    for nth in 0..VALUES {
        let mut text = format!("set r{nth} 0 0 {VALUE_BYTES}\r\n").into_bytes();
        text.resize(text.len() + VALUE_BYTES, b'r');
        text.extend_from_slice(b"\r\n");
        stream.write_all(&text).map_err(failed("storing"))?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).map_err(failed("storing"))?;
        if &answer != b"STORED\r\n" {
            return Err(format!("storing: {:?}", answer.escape_ascii().to_string()));
        }
    }
    Ok(())
}
