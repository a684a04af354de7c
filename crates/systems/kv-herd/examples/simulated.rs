//! HERD in a simulated cluster: `simulated [CLIENTS [WINDOW [PARTITIONS [MILLISECONDS]]]]` prints what the model
//! predicts, which part of the server binds, and how fast it was computed.

use drover_base::{Cpu, Ns};
use drover_kv_herd::Herd;
use drover_kv_herd::control::Format;
use drover_mem::NativeCpu;
use drover_simcluster::{Setup, run_form};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let mut setup = Setup::new();
    setup.clients = args.next().unwrap_or(setup.clients);
    setup.depth = args.next().unwrap_or(setup.depth);
    setup.window = setup.depth.next_power_of_two();
    setup.servers.shard_count = args.next().unwrap_or(setup.servers.shard_count);
    setup.warm_up = Ns::from_ms(1);
    setup.measured = Ns::from_ms(args.next().unwrap_or(2) as u64);
    let cpu = NativeCpu::new(0);
    let start = cpu.refresh();
    let outcome = run_form::<Herd>(&setup, Format::D);
    let seconds = cpu.refresh().since(start).0 as f64 / 1e9;
    println!(
        "{}",
        outcome
            .report
            .machines
            .first()
            .map(|_| outcome.report.binding_of(0).resource)
            .unwrap_or("")
    );
    let line = outcome.report.to_string();
    println!("{}", line.lines().next().unwrap_or_default());
    println!(
        "{:.2} Mops, {:.2} us, hits {:.0} %, {} failed, trace {:016x}",
        outcome.mops,
        outcome.latency.mean_us,
        100.0 * outcome.hit_share,
        outcome.failed,
        outcome.trace_hash
    );
    println!(
        "computed {} requests and {} events in {seconds:.2} s: {:.2} M requests/s, {:.1} M events/s, {:.1} events per request",
        outcome.done,
        outcome.events,
        outcome.done as f64 / seconds / 1e6,
        outcome.events as f64 / seconds / 1e6,
        outcome.events as f64 / outcome.done as f64
    );
    for core in outcome.report.machines[0].cores.iter().take(2) {
        for line in &core.lines {
            println!(
                "core {}: {:<22} {:>9} x, {:>12}{}",
                core.index,
                line.name,
                line.count,
                line.time.to_string(),
                if line.is_priced { "" } else { " (no price)" }
            );
        }
    }
}
