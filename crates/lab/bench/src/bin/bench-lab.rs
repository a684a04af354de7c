//! Measures the bounds of this machine and its rivals, without any system of ours.
#![forbid(unsafe_code)]

use drover_base::Ns;
use drover_bench::bound::{Echo, Pairs};
use drover_bench::rivals::{Kind, Mode, Rival, RivalOptions, Transport};
use drover_bench::workload::{KeyText, Mix, Popularity, Tape, TapeOptions, Values};
use drover_bench::{Client, Helper, NullTarget, Pace, RunOptions, helper_main, pin};
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let done = match argument.as_deref() {
        Some("helper") => return helper_main(std::env::args_os().skip(2)),
        Some("bound") => bounds(),
        Some("driver") => driver(),
        Some("rivals") => [Popularity::Uniform, Popularity::Zipf(0.99)]
            .into_iter()
            .try_for_each(|popularity| rivals(popularity, 1_000_000)),
        _ => Err("usage: bench-lab bound|driver|rivals".into()),
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
    let mut echo = Echo::start(&Helper::current(&["helper"])?, cores.server[0])?;
    pin::pin(&cores.client)?;
    let time = Ns::from_ms(200);
    for _ in 0..3 {
        print!("probe {:.0} ns;", echo.probe_ns()?);
        for window in [1, 4, 16, 64] {
            print!(
                " ring {:.1} Mops at {window};",
                echo.ring_ops(window, 64, time)? / 1e6
            );
        }
        println!(" socket {:.2} us", echo.socket_rtt_us(Ns::from_ms(50))?);
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

/// Cost of the load generator alone: a fixed number of operations, for instruction counts.
fn driver() -> Result<(), Box<dyn Error>> {
    let tape = Tape::new(&TapeOptions {
        mix: Mix::parse("b")?,
        popularity: Popularity::Uniform,
        key_count: 1_000_000,
        entry_count: 1 << 16,
        seed: 1,
        client_index: 0,
        client_count: 1,
    });
    let keys = KeyText::new(16, 1_000_000, 1)?;
    let mut client = Client::new(NullTarget::default(), tape, keys, Values::new(32, 32), 0);
    let options = RunOptions {
        window: 16,
        pace: Pace::Closed,
        time: Ns::ZERO,
        ops_min: 2_000_000,
        other_tape: false,
    };
    let measured = client.run(&options)?;
    let ns = 1e9 / measured.ops_per_s();
    println!("{} operations, {ns:.1} ns each", measured.counts.ops);
    Ok(())
}

fn rivals(popularity: Popularity, key_count: u32) -> Result<(), Box<dyn Error>> {
    let cores = pin::Cores::choose(&pin::allowed_cores()?, 1, 1);
    let helper = Helper::current(&["helper"])?;
    let options = RivalOptions {
        cores: cores.server.clone(),
        shared: false,
        item_count: u64::from(key_count),
        item_bytes: 48,
    };
    pin::pin(&cores.client)?;
    let tape = Tape::new(&TapeOptions {
        mix: Mix::parse("b")?,
        popularity,
        key_count,
        entry_count: 1 << 21,
        seed: 1,
        client_index: 0,
        client_count: 1,
    });
    let keys = KeyText::new(16, u64::from(key_count), 1)?;
    for kind in [Kind::Memcached, Kind::Redis] {
        for transport in [Transport::Unix, Transport::Tcp] {
            let rival = Rival::start(kind, transport, &helper, &options)?;
            for (nth, mode) in Mode::ALL.iter().filter(|m| m.transport == transport).enumerate() {
                let values = Values::new(32, 32);
                let mut client = Client::new(rival.client(mode)?, tape.clone(), keys.clone(), values, 0);
                if nth == 0 {
                    client.load(0..key_count, mode.window(), &AtomicU64::new(0))?;
                }
                let options = RunOptions {
                    window: mode.window(),
                    pace: Pace::Closed,
                    time: Ns::from_ms(500),
                    ops_min: 0,
                    other_tape: false,
                };
                client.run(&options)?;
                let measured = client.run(&options)?;
                let latency = measured.latency.summary();
                println!(
                    "{kind:<10} {:<18} {:>8.0} kops/s  hits {:.4}  p50 {:.1} us  p99 {:.1} us  {:?}",
                    mode.name,
                    measured.ops_per_s() / 1e3,
                    measured.counts.hit_rate(),
                    latency.p50,
                    latency.p99,
                    measured.counts
                );
            }
        }
    }
    Ok(())
}
