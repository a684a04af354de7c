//! `--system auto` and `--compare`: several systems interleaved, with the same operations, at each value size; reports which
//! won where, or the ratios to the first.

use super::args::{Args, usage};
use super::load::{ClientSettings, UnderTest};
use super::server::ServerProcess;
use super::{own_address, page, plan, server_plan, settings, start, write_json, write_page, write_result};
use crate::exit::{self, Failure};
use drover_bench::report::{Report, median};
use drover_bench::session::{Contestant, Plan, run_by_turns};
use drover_bench::{Latency, Progress};
use drover_client::{Fabric, Job};
use drover_control::ControlAddr;
use drover_kv::{System, SystemJob, SystemTable};
use drover_mem::NativeCpu;
use drover_verbs::Provider;
use serde::Serialize;
use std::error::Error;
use std::fmt::Write;

/// Results of all value sizes.
#[derive(Serialize)]
struct Turns {
    system: &'static str,
    /// Whether the systems were listed, so that all are compared with the first.
    compares: bool,
    sizes: Vec<Size>,
}

/// Results of one value size.
#[derive(Serialize)]
struct Size {
    /// Minimum and maximum value size, bytes.
    value_size: [usize; 2],
    /// One report per system.
    reports: Vec<Report>,
    /// Name of the fastest system.
    winner: String,
    /// Its throughput over the runner-up's, sample by sample: median, least and most.
    ratio: [f64; 3],
    /// Throughput of each system over the first one's, in the order of the reports: as `ratio`.
    of_first: Vec<[f64; 3]>,
}

/// Measures several systems, interleaved, at each value size, and prints a table (to standard error
/// with `--json`, which writes JSON). Writes one result file per system and size, unless `--no-results` is given.
///
/// # Errors
/// A system is unknown, an option is for one system only, a server cannot be started, or a measurement failed.
pub fn bench<T: SystemTable>(args: &Args) -> Result<(), Failure> {
    args.check_interleaved()?;
    let systems = args.systems::<T>()?;
    let progress = Progress::new(!args.output.quiet);
    let mut sizes = Vec::new();
    for value_bytes in args.workload.value_list()? {
        let results = one_size(args, &systems, value_bytes, &progress)?;
        for (report, latency) in &results {
            write_result(args, report, latency)?;
        }
        let reports = results.into_iter().map(|(report, _)| report).collect();
        sizes.push(Size::of(value_bytes, reports));
    }
    drop(progress);
    let turns = Turns {
        system: super::args::AUTO,
        compares: args.compares(),
        sizes,
    };
    match &args.output.json {
        None => print!("{}", turns.table()),
        Some(path) => {
            eprint!("{}", turns.table());
            write_json(path, &turns)?;
        }
    }
    let sections: Vec<_> = turns.sizes.iter().map(Size::section).collect();
    write_page(args, &sections)
}

/// Measures the systems, interleaved, each with its own server on the same cores.
fn one_size<T: SystemTable>(
    args: &Args,
    systems: &[T],
    value_bytes: [usize; 2],
    progress: &Progress,
) -> Result<Vec<(Report, Latency)>, Failure> {
    let mut entrants = Vec::new();
    for &system in systems {
        let mut plan = plan(args, system, value_bytes, args.keys::<T>(None))?;
        let server = server_plan(args, system, &plan)?;
        let addr = args.device.of(&own_address(args, system))?;
        let process = start(&mut plan, &server, &addr)?;
        plan.server.footprint = server.footprint();
        plan.fabric = Fabric::name(&process.addr).to_owned();
        entrants.push(Entrant {
            system,
            plan,
            process,
        });
    }
    let Some(first) = entrants.first() else {
        return Err(usage("there are no systems"));
    };
    let fabric = Fabric::towards(&first.process.addr)?;
    if let Some(choice) = fabric.choice() {
        eprintln!("RDMA device: {choice}");
    }
    let result = fabric.run(ByTurns {
        entrants: &entrants,
        settings: settings(args),
        progress,
    });
    let mut reports = result.map_err(|error| {
        let ends: Vec<String> = entrants
            .iter_mut()
            .filter_map(|entrant| Some(format!("; {}: {}", entrant.system, entrant.process.ended()?)))
            .collect();
        Failure::new(exit::UNAVAILABLE, format!("{error}{}", ends.concat()))
    })?;
    for ((report, _), entrant) in reports.iter_mut().zip(entrants) {
        report.counters.server_counters = entrant.process.stop();
    }
    Ok(reports)
}

struct Entrant<T> {
    system: T,
    plan: Plan,
    process: ServerProcess,
}

struct ByTurns<'a, T> {
    entrants: &'a [Entrant<T>],
    settings: ClientSettings,
    progress: &'a Progress,
}

impl<T: SystemTable> Job for ByTurns<'_, T> {
    type Answer = Result<Vec<(Report, Latency)>, Box<dyn Error>>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        let contestant = |entrant: &Entrant<T>| {
            entrant.system.run(Contest::<P> {
                addr: entrant.process.addr.clone(),
                settings: self.settings,
                device: device.clone(),
            })
        };
        let contestants: Vec<Box<dyn Contestant>> = self.entrants.iter().map(contestant).collect();
        let pairs: Vec<(&dyn Contestant, &Plan)> = contestants
            .iter()
            .zip(self.entrants)
            .map(|(contestant, entrant)| (&**contestant, &entrant.plan))
            .collect();
        run_by_turns(&pairs, self.progress)
    }
}

struct Contest<P: Provider> {
    addr: ControlAddr,
    settings: ClientSettings,
    device: P::Device,
}

impl<P: Provider<Cpu = NativeCpu>> SystemJob for Contest<P> {
    type Answer = Box<dyn Contestant>;

    fn run<S: System>(self) -> Box<dyn Contestant> {
        Box::new(UnderTest::<P, S>::new(self.addr, self.settings, self.device))
    }
}

impl Size {
    fn of(value_size: [usize; 2], reports: Vec<Report>) -> Size {
        let of_first = reports.iter().map(|report| ratio(report, &reports[0])).collect();
        let ops = |report: &Report| report.performance.throughput_ops;
        let mut order: Vec<&Report> = reports.iter().collect();
        order.sort_by(|a, b| ops(b).total_cmp(&ops(a)));
        let (winner, ratio) = match order[..] {
            [first, second, ..] => (first.system.clone(), ratio(first, second)),
            [only] => (only.system.clone(), [1.0; 3]),
            [] => (String::new(), [1.0; 3]),
        };
        Size {
            value_size,
            of_first,
            reports,
            winner,
            ratio,
        }
    }
}

/// Throughput of `first` over that of `second`, sample by sample: median, least and most.
fn ratio(first: &Report, second: &Report) -> [f64; 3] {
    let pairs = first.samples.iter().zip(&second.samples);
    let all: Vec<f64> = pairs
        .map(|(a, b)| a.throughput_ops / b.throughput_ops.max(1.0))
        .collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    [median(&all), least.min(most), most]
}

impl Turns {
    fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> std::fmt::Result {
        let Some(Report { workload, run, .. }) = self.sizes.first().and_then(|size| size.reports.first())
        else {
            return Ok(());
        };
        writeln!(
            to,
            "interleaved: mix {}, {}, {} keys of {} B, window {}, {} client(s), {} samples of {} s; {}",
            workload.operations.mix,
            workload.operations.dist,
            workload.operations.keys,
            workload.operations.key_size,
            workload.clients.window,
            workload.clients.clients,
            workload.sampling.repeats,
            workload.sampling.seconds,
            run.machine.cpu
        )?;
        writeln!(
            to,
            "\n{:<12}{:<14}{:>12}{:>10}{:>10}{:>12}{:>9}{:>9}{:>10}  {:<}",
            "value", "system", "ops/s", "p50 us", "p99 us", "server ns", "probes", "READs", "load", ""
        )?;
        for size in &self.sizes {
            size.write(to, self.compares)?;
        }
        for size in &self.sizes {
            for report in &size.reports {
                if let Some(verbs) = &report.counters.verbs {
                    writeln!(
                        to,
                        "{}, values of {} B: {verbs}",
                        report.system,
                        span(size.value_size)
                    )?;
                }
                let Some(per_get) = &report.reads.reads_per_get else {
                    continue;
                };
                let churned = report
                    .reads
                    .churned
                    .as_ref()
                    .map(|churned| &churned.reads_per_get);
                for (per_get, when) in [(Some(per_get), ""), (churned, ", keys replaced")] {
                    let beside = per_get.and_then(|it| {
                        Some((it, it.computed_probes?, it.computed_reads()?, it.deviation()?))
                    });
                    let (Some((per_get, probes, reads, deviation)), Some(table)) =
                        (beside, report.reads.table)
                    else {
                        continue;
                    };
                    let [of_probes, of_reads] = deviation.map(|part| part * 100.0);
                    writeln!(
                        to,
                        "computed for {} at a load of {:.2}{when}: {probes:.2} probes, {reads:.2} READs; measured with values of \
                         {} B: {:.3}, {:.3} ({of_probes:+.1} %, {of_reads:+.1} %)",
                        report.system,
                        table.load,
                        span(size.value_size),
                        per_get.probes,
                        per_get.reads
                    )?;
                }
            }
        }
        Ok(())
    }
}

impl Size {
    fn section(&self) -> page::Section<'_> {
        page::Section {
            value_size: self.value_size,
            reports: &self.reports,
        }
    }

    fn write(&self, to: &mut String, compares: bool) -> std::fmt::Result {
        for (report, [middle, least, most]) in self.reports.iter().zip(&self.of_first) {
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let cpu = report
                .processor_time
                .server_ns
                .map(|[user, system]| format!("{:.0}", user + system));
            let probes = report
                .reads
                .reads_per_get
                .map(|per_get| format!("{:.2}", per_get.probes));
            let reads = report
                .reads
                .reads_per_get
                .map(|per_get| format!("{:.2}", per_get.reads));
            let load = report.reads.table.map(|table| format!("{:.2}", table.load));
            let won = match (report.system == self.winner, self.ratio) {
                _ if compares => format!(
                    "{middle:.2} of {} ({least:.2} to {most:.2})",
                    self.reports[0].system
                ),
                (true, [middle, least, most]) if least > 1.0 => {
                    format!("won: {middle:.2} x the next ({least:.2} to {most:.2})")
                }
                (true, [middle, least, most]) => {
                    format!("ahead, not in every sample: {middle:.2} x ({least:.2} to {most:.2})")
                }
                _ => String::new(),
            };
            writeln!(
                to,
                "{:<12}{:<14}{:>12.0}{:>10.2}{:>10.2}{:>12}{:>9}{:>9}{:>10}  {won}",
                span(self.value_size),
                report.system,
                report.performance.throughput_ops,
                report.performance.latency_us.p50,
                report.performance.latency_us.p99,
                or_dash(cpu),
                or_dash(probes),
                or_dash(reads),
                or_dash(load)
            )?;
        }
        Ok(())
    }
}

fn span([from, to]: [usize; 2]) -> String {
    match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_bench::report::Sample;

    fn report(system: &str, ops: [f64; 2]) -> Report {
        let sample = |ops| Sample {
            throughput_ops: ops,
            ..Sample::default()
        };
        let mut report = Report {
            system: system.to_owned(),
            samples: ops.map(sample).to_vec(),
            ..Report::default()
        };
        report.summarize();
        report
    }

    #[test]
    fn the_quickest_wins_if_it_was_so_in_every_sample() {
        let clear = Size::of(
            [32, 32],
            vec![report("herd", [4e6, 6e6]), report("pilaf", [2e6, 2e6])],
        );
        assert_eq!((clear.winner.as_str(), clear.ratio), ("herd", [2.5, 2.0, 3.0]));
        let even = Size::of(
            [64, 64],
            vec![report("herd", [2e6, 3e6]), report("pilaf", [4e6, 2e6])],
        );
        assert_eq!(even.winner, "pilaf");
        let turns = Turns {
            system: "auto",
            compares: false,
            sizes: vec![clear, even],
        };
        let table = turns.table();
        let with_ratios = Turns {
            compares: true,
            sizes: vec![Size::of(
                [32, 32],
                vec![report("herd", [4e6, 6e6]), report("pilaf", [2e6, 2e6])],
            )],
            ..turns
        }
        .table();
        assert!(
            with_ratios.contains("0.42 of herd (0.33 to 0.50)"),
            "{with_ratios}"
        );
        assert!(table.contains("won: 2.50 x the next (2.00 to 3.00)"), "{table}");
        assert!(table.contains("ahead, not in every sample"), "{table}");
    }
}
