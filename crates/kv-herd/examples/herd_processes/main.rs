//! HERD between processes over real devices, with its history checked: `herd_processes calm|kills A B` plays a server on
//! device A and clients on device B, each in a process of its own. With `kills`, server and clients are killed under
//! load (SIGKILL) and others take their place.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.
//! `play.rs` says what is played and judged, `client.rs` what a client does, `record.rs` the lines in between.

mod client;
mod play;
mod record;

use drover_kv_herd::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::{ControlAddr, ControlListener};
use drover_store::{Mode, PartitionOptions};
use drover_verbs_ibv::{Ibv, IbvDevice};
use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", device, addr] => serve(device, addr),
        ["client", device, addr, number, phase] => client::run(device, addr, number, phase),
        ["calm", a, b] => play::calm(a, b),
        ["kills", a, b] => play::kills(a, b),
        _ => Err("usage: herd_processes calm|kills SERVER-DEVICE CLIENT-DEVICE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("herd_processes {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Serves, says where, and ends with its standard input.
fn serve(device_name: &str, addr: &str) -> Result<(), Failure> {
    let options = ServerOptions {
        partition_count: 2,
        partition: PartitionOptions {
            mode: Mode::Cache { move_to_head: 1.0 },
            log_bytes: 16 << 20,
            bucket_count: 4096,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        ..ServerOptions::default()
    };
    let listener = ControlListener::bind(&addr.parse::<ControlAddr>()?)?;
    let at = listener.addr().to_string();
    let server = Server::<Ibv>::start(
        &IbvDevice::named(Some(device_name))?,
        Some(listener),
        &options,
        |_| {},
    )?;
    println!("{at}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
