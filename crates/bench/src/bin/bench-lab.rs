//! The bounds of this machine and what its rivals can do, with no system of ours beside them.
#![forbid(unsafe_code)]

use drover_base::Ns;
use drover_bench::bound::{Echo, Pairs, echo_main};
use drover_bench::pin;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("echo") => return echo_main(),
        Some("bound") => bounds(),
        _ => Err("usage: bench-lab bound|rivals".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bounds() -> Result<(), Box<dyn Error>> {
    let cores = pin::Cores::choose(&pin::allowed_cores()?, 1, 1);
    let mut echo = Echo::start(&std::env::current_exe()?, &["echo"], cores.server[0])?;
    pin::pin(&cores.client)?;
    let time = Ns::from_ms(200);
    for _ in 0..3 {
        print!("probe {:.0} ns;", echo.probe_ns()?);
        for window in [1, 4, 16, 64] {
            print!(
                " ring {:.1} Mops at {window};",
                echo.ring_ops(window, time)? / 1e6
            );
        }
        println!(" socket {:.2} us", echo.socket_rtt_us(5000)?);
    }
    for (index_mib, log_mib) in [(32, 96), (512, 3584)] {
        let mut pairs = Pairs::new(index_mib << 20, log_mib << 20, 1)?;
        for _ in 0..3 {
            let (ops, ns) = (pairs.batched_ops(time), pairs.dependent_ns(time));
            println!(
                "{} MiB, {}: {:.1} M pairs/s at batch 16, {ns:.0} ns one by one",
                index_mib + log_mib,
                pairs.page_kind(),
                ops / 1e6
            );
        }
    }
    Ok(())
}
