//! HERD between processes over real devices, with its history checked: `herd_processes calm|kills|late A B` plays a server on
//! device A and clients on device B, each in a process of its own. With `kills`, server and clients are killed under
//! load (SIGKILL) and others take their place. `late` is for a wire on which messages stay so long that replies wait in
//! the server's queue when their requests come again; `late-rebuilds` is the same with a server that builds replies where
//! earlier ones may still be read from, which must be noticed.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.
//! `play.rs` says what is played and judged, `client.rs` what a client does, `record.rs` the lines in between.

mod client;
mod play;
mod record;

use drover_control::{ControlAddr, ControlListener};
use drover_kv_herd::server::{Mistake, Server, ServerOptions, Variant};
use drover_mem::PageWish;
use drover_store::{Exclusive, Mode, PartitionOptions};
use drover_verbs_ibv::{Ibv, IbvDevice};
use std::error::Error;
use std::io::Read;
use std::process::ExitCode;

type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", device, addr, how] => serve(device, addr, how),
        ["client", device, addr, number, phase, habit] => client::run(device, addr, number, phase, habit),
        ["calm", a, b] => play::calm(a, b),
        ["kills", a, b] => play::kills(a, b),
        ["late", a, b] => play::late(a, b, "alone"),
        ["late-rebuilds", a, b] => play::late(a, b, "rebuilds"),
        _ => Err("usage: herd_processes calm|kills|late|late-rebuilds SERVER-DEVICE CLIENT-DEVICE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("herd_processes {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// A server that makes one mistake, or none.
#[derive(Clone, Copy)]
struct Planted(Option<Mistake>);

impl Variant for Planted {
    type Sharing = Exclusive;

    fn makes(self, mistake: Mistake) -> bool {
        self.0 == Some(mistake)
    }
}

/// Serves, says where, and ends with its standard input. `how`: with two workers, with one `alone`, or with one that
/// `rebuilds` replies too early.
fn serve(device_name: &str, addr: &str, how: &str) -> Result<(), Failure> {
    let options = ServerOptions {
        partition_count: if how == "two" { 2 } else { 1 },
        partition: PartitionOptions {
            mode: Mode::S3_FIFO,
            log_bytes: 16 << 20,
            bucket_count: 4096,
            pages: PageWish::Small,
            ..PartitionOptions::default()
        },
        ..ServerOptions::default()
    };
    let listener = ControlListener::bind(&addr.parse::<ControlAddr>()?)?;
    let at = listener.addr().to_string();
    let device = IbvDevice::named(Some(device_name))?;
    let variant = Planted((how == "rebuilds").then_some(Mistake::RebuildsReplies));
    let server = Server::<Ibv>::start_as(&device, Some(listener), &options, |_| {}, None, variant)?;
    println!("{at}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
