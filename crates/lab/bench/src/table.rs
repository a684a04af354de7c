//! A [`Report`] as a table for people.

use crate::latency::LatencyUs;
use crate::reads::ReadsPerGet;
use crate::report::Report;
use drover_mem::LINE_BYTES;
use std::fmt::{self, Display, Formatter};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        head(self, f)?;
        samples(self, f)?;
        rows(self, f)?;
        reads(self, f)?;
        if let Some(verbs) = &self.counters.verbs {
            writeln!(f, "{verbs}")?;
        }
        bound(self, f)?;
        ratios(self, f)?;
        server_time(self, f)?;
        for line in self.compared.rivals_missing.iter().chain(&self.notes) {
            writeln!(f, "note: {line}")?;
        }
        Ok(())
    }
}

fn head(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    let (w, m) = (&report.workload, &report.run.machine);
    let values = match w.operations.value_size {
        [from, to] if from == to => format!("{from} B"),
        [from, to] => format!("{from}-{to} B"),
    };
    let processes = match w.clients.processes {
        2.. => format!(" in {} processes", w.clients.processes),
        _ => String::new(),
    };
    writeln!(
        f,
        "{} over {}: mix {}, {}, {} keys of {} B, values of {values}, window {}, {} client(s){processes}",
        report.system,
        report.fabric,
        w.operations.mix,
        w.operations.dist,
        w.operations.keys,
        w.operations.key_size,
        w.clients.window,
        w.clients.clients
    )?;
    let kind = if m.hypervisor { "virtual cores" } else { "cores" };
    writeln!(
        f,
        "{}, {} {kind}, Linux {}; server on core {:?}, clients on {:?}; commit {}, seed {}\n",
        m.cpu,
        m.cores,
        m.kernel,
        w.clients.server_cores,
        w.clients.client_cores,
        report.run.commit,
        report.run.seed
    )
}

fn samples(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    for (nth, sample) in report.samples.iter().enumerate() {
        let counted = if report.counts(sample) {
            ""
        } else {
            "   (not counted)"
        };
        let speed = sample
            .core_speed(report.counted.quickest_core_ns.unwrap_or(0.0))
            .map_or_else(String::new, |speed| {
                format!(", slower core at {:.0} %", 100.0 * speed)
            });
        let placement = sample.cores.placement.map_or_else(String::new, |p| p.to_string());
        let slowest = match report.workload.clients.clients {
            2.. => format!(
                ", slowest client at {:.0} % of the mean",
                100.0 * sample.counts.slowest_share
            ),
            _ => String::new(),
        };
        writeln!(
            f,
            "sample {}: {:>8}  round trip before {:.0} ns, after {:.0} ns, after the rest {:.0} ns: {placement}{speed}{slowest}{counted}",
            nth + 1,
            rate(sample.throughput_ops),
            sample.cores.rtt_ns[0],
            sample.cores.rtt_ns[1],
            sample.cores.rtt_ns[2]
        )?;
    }
    writeln!(f)
}

fn rows(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "{:<32}{:>10}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "medians; latency in us", "ops/s", "hits", "mean", "p50", "p95", "p99", "p99.9"
    )?;
    let name = format!("{} window {}", report.system, report.workload.clients.window);
    row(
        f,
        &name,
        report.performance.throughput_ops,
        report.performance.hit_rate,
        &report.performance.latency_us,
    )?;
    let name = format!("{} window 1", report.system);
    row(
        f,
        &name,
        report.performance.window1.throughput_ops,
        report.performance.hit_rate,
        &report.performance.window1.latency_us,
    )?;
    for rival in &report.compared.rivals {
        let name = format!("{} {}", rival.name, rival.mode);
        row(f, &name, rival.throughput_ops, rival.hit_rate, &rival.latency_us)?;
    }
    let [least, most] = report.performance.throughput_range;
    writeln!(
        f,
        "\n{} of {} samples counted{}, {} to {}; the load generator itself costs {:.0} ns an operation",
        report.counted.samples_counted,
        report.samples.len(),
        report
            .counted
            .placement
            .map_or_else(String::new, |p| format!(" ({p})")),
        rate(least),
        rate(most),
        report.workload.driver_ns
    )?;
    if let (Some([median, least, most]), Some(beside)) =
        (report.performance.over_beside, &report.workload.operations.beside)
    {
        writeln!(
            f,
            "{} over {beside}, interleaved: {median:.3} times the throughput, {least:.3} to {most:.3}",
            report.workload.operations.dist
        )?;
    }
    Ok(())
}

fn row(f: &mut Formatter<'_>, name: &str, ops: f64, hits: f64, latency: &LatencyUs) -> fmt::Result {
    let LatencyUs {
        mean,
        p50,
        p95,
        p99,
        p999,
    } = latency;
    writeln!(
        f,
        "{name:<32}{:>10}{:>7.2} %{mean:>10.2}{p50:>10.2}{p95:>10.2}{p99:>10.2}{p999:>10.2}",
        rate(ops),
        hits * 100.0
    )
}

/// READs per GET of one-sided clients, next to the numbers computed for such a table.
fn reads(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    let Some(per_get) = &report.reads.reads_per_get else {
        return Ok(());
    };
    let load = report.reads.table.map(|table| table.load);
    reads_line("a GET that hits", per_get, load, f)?;
    let Some(churned) = &report.reads.churned else {
        return Ok(());
    };
    let when = match churned.turnovers {
        1 => "after all keys were replaced".to_owned(),
        more => format!("after all keys were replaced {more} times"),
    };
    reads_line(&when, &churned.reads_per_get, load, f)
}

fn reads_line(when: &str, per_get: &ReadsPerGet, load: Option<f64>, f: &mut Formatter<'_>) -> fmt::Result {
    let computed = match (
        per_get.computed_probes.zip(per_get.computed_reads()),
        per_get.deviation(),
        load,
    ) {
        (Some((probes, reads)), Some([of_probes, of_reads]), Some(load)) => format!(
            " (computed for a load of {load:.2}: {probes:.2}, {reads:.2}), off by {:+.1} %, {:+.1} %",
            of_probes * 100.0,
            of_reads * 100.0
        ),
        _ => String::new(),
    };
    writeln!(
        f,
        "{when}: {:.3} probes, {:.3} READs{computed}; {:.4} messages, {:.4} READs made again",
        per_get.probes, per_get.reads, per_get.asked, per_get.torn
    )
}

fn bound(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    let Some(bound) = &report.compared.bound else {
        return Ok(());
    };
    let w = &report.workload;
    writeln!(
        f,
        "\nthis machine's bound: bare ring of 64 B + 64 B {} at window {}, {:.0} ns a round trip at window 1;",
        rate(bound.ring_ops),
        w.clients.window,
        bound.ring_rtt_ns
    )?;
    if bound.reply_bytes > LINE_BYTES {
        writeln!(
            f,
            "  with replies of {} B, as long as the values: {};",
            bound.reply_bytes,
            rate(bound.reply_ring_ops)
        )?;
    }
    writeln!(
        f,
        "  pairs of dependent reads over {} MiB on {}: {} prefetched by 16, {:.0} ns unpipelined;",
        (w.footprint_bytes[0] + w.footprint_bytes[1]) >> 20,
        w.pages,
        rate(bound.dram_pair_ops),
        bound.dram_pair_ns
    )?;
    writeln!(
        f,
        "  bare Unix socket, 64 B + 64 B, both sides polling: {:.2} us (a rival's depth 1 includes this)",
        bound.socket_rtt_us
    )
}

fn ratios(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    let r = &report.compared.ratios;
    let bound_bytes = report.compared.bound.map_or(0, |bound| bound.reply_bytes);
    let all = [
        (
            r.of_bound.map(|x| format!("{:.0} %", x * 100.0)),
            "of the lesser bound",
        ),
        (
            r.of_reply_bound
                .filter(|_| bound_bytes > LINE_BYTES)
                .map(|x| format!("{:.0} %", x * 100.0)),
            "of the ring with replies as long as the values",
        ),
        (
            r.window1_of_bound.map(|x| format!("{x:.2} x")),
            "round trip + one pair, median at window 1",
        ),
        (
            r.of_best_rival.map(|x| format!("{x:.1} x")),
            "the best rival's throughput in its best mode",
        ),
        (
            r.rival_latency.map(|x| format!("{x:.1} x")),
            "shorter median at depth 1 than the quickest rival, Unix socket",
        ),
    ];
    if all.iter().any(|(ratio, _)| ratio.is_some()) {
        writeln!(f)?;
    }
    for (ratio, what) in all {
        if let Some(ratio) = ratio {
            writeln!(f, "{ratio:>8}  {what}")?;
        }
    }
    for mode in &report.compared.through_sockets {
        let ([ops, least, most], [p99, low, high]) = (mode.throughput, mode.p99);
        writeln!(
            f,
            "{ops:>6.2} x  drover over the best rival, {} ({least:.2} to {most:.2}); p99 {p99:.2} x ({low:.2} to {high:.2})",
            mode.mode
        )?;
    }
    Ok(())
}

/// Where socket servers spend their time: no server can save the kernel's share.
fn server_time(report: &Report, f: &mut Formatter<'_>) -> fmt::Result {
    if let Some([user, system]) = report.processor_time.server_ns {
        writeln!(
            f,
            "\nprocessor time of the server per operation, waiting included: {user:.0} ns in user mode, {system:.0} in \
             the kernel (counted in steps of 10 ms)"
        )?;
    }
    if let Some(client_ns) = report.processor_time.client_ns {
        writeln!(
            f,
            "\nprocessor time of the clients per operation, load generator and waiting included: {client_ns:.0} ns"
        )?;
    }
    for (nth, rival) in report.compared.rivals.iter().enumerate() {
        let Some([user, system]) = rival.server_ns else {
            continue;
        };
        if nth == 0 {
            writeln!(
                f,
                "\nprocessor time of the server per operation, waiting included:"
            )?;
        }
        let name = format!("{} {}", rival.name, rival.mode);
        let share = 100.0 * system / (user + system).max(1.0);
        writeln!(
            f,
            "{name:<32}{user:>8.0} ns in user mode, {system:>7.0} in the kernel ({share:.0} %)"
        )?;
    }
    Ok(())
}

/// Operations per second, with three digits.
fn rate(ops: f64) -> String {
    match ops {
        ops if ops >= 1e8 => format!("{:.0} M", ops / 1e6),
        ops if ops >= 1e7 => format!("{:.1} M", ops / 1e6),
        ops if ops >= 1e6 => format!("{:.2} M", ops / 1e6),
        ops if ops >= 1e4 => format!("{:.0} k", ops / 1e3),
        ops => format!("{ops:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Placement;
    use crate::report::tests::sample;

    #[test]
    fn three_digits() {
        assert_eq!(rate(12_345_678.0), "12.3 M");
        assert_eq!(rate(108e6), "108 M");
        assert_eq!(rate(1_331_000.0), "1.33 M");
        assert_eq!(rate(47_400.0), "47 k");
    }

    #[test]
    fn everything_is_said() {
        let mut report = Report {
            system: "herd".to_owned(),
            samples: vec![sample(12e6, Placement::Near), sample(3e6, Placement::Far)],
            ..Report::default()
        };
        report.samples.push(sample(12e6, Placement::Near));
        report
            .compared
            .rivals_missing
            .push("redis is not installed".to_owned());
        report.summarize();
        let text = report.to_string();
        for part in [
            "12.0 M",
            "p99.9",
            "near",
            "not counted",
            "unix multiget 100",
            "12.0 x",
            "100.00 %",
            "400 ns in user mode,    3600 in the kernel (90 %)",
            "redis is not installed",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
