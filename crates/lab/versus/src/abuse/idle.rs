//! Silent connections.

use super::{Options, Said, Watched, Witness, failed};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Connections made between two checks of the others.
const CHUNK: u64 = 500;

/// Opens 10,000 connections (2,000 in a short run), which send nothing until all are open. Then the server must
/// answer a request on each, and another one after a second silence.
pub fn run(watched: &Watched, witness: &mut Witness, options: &Options) -> Said {
    let count = options.amount(10_000, 2_000);
    let mut idle = Vec::new();
    for nth in 0..count {
        idle.push(watched.connect()?);
        if nth % CHUNK == 0 {
            witness.progress(1)?;
            watched.check_memory()?;
        }
    }
    // The server still knows all of them: it would not answer on a lost one.
    idle.iter_mut().try_for_each(ask)?;
    witness.progress(options.amount(500, 100))?;
    watched.check_memory()?;
    idle.iter_mut().try_for_each(ask)?;
    drop(idle);
    witness.progress(10)?;
    Ok(format!("{count} connections said nothing"))
}

fn ask(stream: &mut TcpStream) -> Result<(), String> {
    stream
        .write_all(b"mn\r\n")
        .map_err(failed("an idle connection"))?;
    let mut answer = [0; 4];
    stream
        .read_exact(&mut answer)
        .map_err(failed("an idle connection"))?;
    match &answer {
        b"MN\r\n" => Ok(()),
        other => Err(format!(
            "an idle connection received {:?}",
            other.escape_ascii().to_string()
        )),
    }
}
