//! `bench --report`: a page about measured runs, of the same kind as that of `drover figure`: every sample, medians with
//! their spread, rivals beside the system, and the machine.

use drover_bench::LatencyUs;
use drover_bench::report::{Report, Sample, median};
use drover_figures::output::{
    CURVES_MAX, Chart, Column, Curve, Dot, Page, Part, Sheet, Shown, Table, XAxis, escape, short,
};
use std::path::Path;

/// The reports of runs with values of one size.
pub struct Section<'a> {
    /// Minimum and maximum bytes of a value.
    pub value_size: [usize; 2],
    /// One report per system.
    pub reports: &'a [Report],
}

/// Writes the page to `report.html` in `folder`, which is created if it is missing.
///
/// # Errors
/// The folder or the file could not be written.
pub fn write(folder: &Path, sections: &[Section<'_>]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("report.html"), page(sections))
}

fn page(sections: &[Section<'_>]) -> String {
    let Some(first) = sections.first().and_then(|section| section.reports.first()) else {
        return Page::new("Measured: nothing").finish();
    };
    let systems: Vec<&str> = sections[0]
        .reports
        .iter()
        .map(|report| report.system.as_str())
        .collect();
    let mut page = Page::new(&format!("Measured: {} over {}", systems.join(", "), first.fabric));
    about(&mut page, first);
    if sections.len() > 1 {
        page.heading("by-size", "Throughput by the size of values");
        page.html(&by_size(sections).html());
    }
    sections
        .iter()
        .for_each(|section| add_section(&mut page, section));
    page.finish()
}

/// What ran where, and from which commit.
fn about(page: &mut Page, report: &Report) {
    let (workload, machine, run) = (&report.workload, &report.run.machine, &report.run);
    page.paragraph(&format!(
        "Measured on this machine: {}, {} {}, Linux {}, {} MiB of memory. Server on cores {:?}, clients on cores {:?}.",
        machine.cpu,
        machine.cores,
        if machine.hypervisor { "virtual cores" } else { "cores" },
        machine.kernel,
        machine.memory_mib,
        workload.clients.server_cores,
        workload.clients.client_cores
    ));
    page.paragraph(&format!(
        "Mix {}, {} keys of {} B, {}; {} client(s) with up to {} operations in flight each. Samples of {} s. Commit {}, seed {}.",
        workload.operations.mix,
        workload.operations.keys,
        workload.operations.key_size,
        workload.operations.dist,
        workload.clients.clients,
        workload.clients.window,
        workload.sampling.seconds,
        run.commit,
        run.seed
    ));
}

fn add_section(page: &mut Page, section: &Section<'_>) {
    let size = size_text(section.value_size);
    page.heading(
        &format!("values-{size}").replace(' ', "-"),
        &format!("Values of {size}"),
    );
    let lines: Vec<Line> = section.reports.iter().flat_map(lines).collect();
    let charts = by_sample(&lines).into_iter().map(Part::Chart).collect();
    let sheet = Sheet {
        title: String::new(),
        parts: charts,
    };
    page.html(&sheet.html());
    for report in section.reports {
        page.paragraph(&counted(report));
    }
    page.paragraph("Medians of the samples that count, with the least and the most of them:");
    page.html(&medians(&lines));
    let mut notes: Vec<&String> = Vec::new();
    for report in section.reports {
        let own = report.compared.rivals_missing.iter().chain(&report.notes);
        for note in own {
            if !notes.contains(&note) {
                notes.push(note);
                page.paragraph(&format!("Note: {note}."));
            }
        }
    }
}

/// How many samples count, and how far apart the cores were in those.
fn counted(report: &Report) -> String {
    let counted = &report.counted;
    let placement = counted
        .placement
        .map_or_else(String::new, |placement| format!(", those with {placement} cores"));
    let (count, all) = (counted.samples_counted, report.samples.len());
    format!("{}: {count} of {all} samples count{placement}.", report.system)
}

/// What was measured of one system or rival in one mode.
struct Line {
    name: String,
    /// One for each sample.
    values: Vec<Value>,
    /// Medians of the samples that count.
    latency_us: LatencyUs,
    hit_rate: f64,
}

/// Throughput of one sample.
struct Value {
    /// Million operations per second.
    mops: f64,
    counts: bool,
    hint: String,
}

impl Line {
    fn of(
        report: &Report,
        name: String,
        (latency_us, hit_rate): (LatencyUs, f64),
        ops: impl Fn(&Sample) -> f64,
    ) -> Line {
        let value = |(index, sample): (usize, &Sample)| Value {
            mops: ops(sample) / 1e6,
            counts: report.counts(sample),
            hint: hint(&name, index, sample, ops(sample)),
        };
        let values = report.samples.iter().enumerate().map(value).collect();
        Line {
            values,
            name,
            latency_us,
            hit_rate,
        }
    }

    /// Throughput of the samples that count.
    fn counted(&self) -> Vec<f64> {
        let counted = self.values.iter().filter(|value| value.counts);
        counted.map(|value| value.mops).collect()
    }

    fn dots(&self, counts: bool) -> Vec<Dot> {
        let values = self.values.iter().enumerate();
        values
            .filter(|(_, value)| value.counts == counts)
            .map(|(index, value)| Dot {
                x: (index + 1) as f64,
                y: value.mops,
                range: None,
                hint: value.hint.clone(),
            })
            .collect()
    }
}

fn hint(name: &str, index: usize, sample: &Sample, ops: f64) -> String {
    let placement = sample.cores.placement.map_or_else(String::new, |placement| {
        format!(
            "\ncores: {placement}, round trip {:.0} ns",
            sample.cores.rtt_ns[0]
        )
    });
    format!(
        "{name}, sample {}: {} Mops{placement}",
        index + 1,
        short(ops / 1e6)
    )
}

/// The system, the system with one client and one operation in flight, and each rival in each mode.
fn lines(report: &Report) -> Vec<Line> {
    let performance = &report.performance;
    let name = |window: usize| format!("{} window {window}", report.system);
    let busy = (performance.latency_us, performance.hit_rate);
    let alone = (performance.window1.latency_us, performance.hit_rate);
    let mut lines = vec![
        Line::of(report, name(report.workload.clients.window), busy, |s| {
            s.throughput_ops
        }),
        Line::of(report, name(1), alone, |s| s.window1.throughput_ops),
    ];
    for rival in &report.compared.rivals {
        let ops = |sample: &Sample| {
            let same = sample
                .rivals
                .iter()
                .find(|other| (&other.name, &other.mode) == (&rival.name, &rival.mode));
            same.map_or(0.0, |same| same.throughput_ops)
        };
        let name = format!("{} {}", rival.name, rival.mode);
        lines.push(Line::of(report, name, (rival.latency_us, rival.hit_rate), ops));
    }
    lines
}

/// Throughput of every sample, at most eight lines in a chart.
fn by_sample(lines: &[Line]) -> Vec<Chart> {
    let count = lines.len().div_ceil(CURVES_MAX).max(1);
    let chart = |(index, lines): (usize, &[Line])| {
        let part = if count > 1 {
            format!(" ({} of {count})", index + 1)
        } else {
            String::new()
        };
        let curve = |line: &Line| Curve {
            name: line.name.clone(),
            solid: line.dots(true),
            dashed: line.dots(false),
        };
        Chart {
            y_axis: format!("throughput, Mops{part}"),
            x_axis: "sample".to_string(),
            meaning: ["samples that count", "samples in another placement"],
            curves: lines.iter().map(curve).collect(),
            ..Chart::default()
        }
    };
    lines
        .chunks(lines.len().div_ceil(count).max(1))
        .enumerate()
        .map(chart)
        .collect()
}

/// Columns of the table of medians.
const COLUMNS: [Column; 8] = [
    Column("", Shown::Text),
    Column("Mops", Shown::Number),
    Column("least", Shown::Number),
    Column("most", Shown::Number),
    Column("of the first", Shown::Number),
    Column("hits, %", Shown::Wide),
    Column("p50, us", Shown::Number),
    Column("p99, us", Shown::Number),
];

fn medians(lines: &[Line]) -> String {
    let mut table = Table::new(&COLUMNS);
    let first = lines.first().map(Line::counted).unwrap_or_default();
    for line in lines {
        let counted = line.counted();
        let ratios: Vec<f64> = counted
            .iter()
            .zip(&first)
            .map(|(own, first)| own / first)
            .collect();
        let [least, most] = ends(&counted);
        let [low, high] = ends(&ratios);
        table.row(
            &[
                escape(&line.name),
                short(median(&counted)),
                short(least),
                short(most),
                format!("{:.2} ({low:.2} to {high:.2})", median(&ratios)),
                format!("{:.2}", 100.0 * line.hit_rate),
                short(line.latency_us.p50),
                short(line.latency_us.p99),
            ],
            false,
        );
    }
    table.finish()
}

/// Least and most of some values, zeros if there are none.
fn ends(values: &[f64]) -> [f64; 2] {
    let most = values.iter().copied().fold(0.0, f64::max);
    [values.iter().copied().fold(most, f64::min), most]
}

/// Throughput of each system by the size of values, with bars from the least to the most.
fn by_size(sections: &[Section<'_>]) -> Sheet {
    let systems = sections
        .iter()
        .map(|section| section.reports.len())
        .min()
        .unwrap_or(0);
    let curve = |index: usize| {
        let dot = |section: &Section<'_>| {
            let report = &section.reports[index];
            let [least, most] = report.performance.throughput_range.map(|ops| ops / 1e6);
            let mops = report.performance.throughput_ops / 1e6;
            let size = size_text(section.value_size);
            Dot {
                x: section.value_size[1] as f64,
                y: mops,
                range: Some((least, most)),
                hint: format!("{}, {size}: {} Mops", report.system, short(mops)),
            }
        };
        let mut solid: Vec<Dot> = sections.iter().map(dot).collect();
        solid.sort_by(|a, b| a.x.total_cmp(&b.x));
        Curve {
            name: sections[0].reports[index].system.clone(),
            solid,
            dashed: Vec::new(),
        }
    };
    let curves: Vec<Curve> = (0..systems).map(curve).collect();
    let chart = |curves: &[Curve]| Chart {
        y_axis: "throughput, Mops".to_string(),
        x_axis: "value, B".to_string(),
        x: XAxis::Log,
        meaning: ["median; bars: least to most", ""],
        curves: curves.to_vec(),
        ..Chart::default()
    };
    Sheet {
        title: String::new(),
        parts: curves.chunks(CURVES_MAX).map(chart).map(Part::Chart).collect(),
    }
}

fn size_text([from, to]: [usize; 2]) -> String {
    match from == to {
        true => format!("{from} B"),
        false => format!("{from} to {to} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_bench::report::RivalResult;

    fn report(system: &str, mops: [f64; 3]) -> Report {
        let sample = |mops: f64| Sample {
            throughput_ops: mops * 1e6,
            rivals: vec![RivalResult {
                name: "memcached".to_string(),
                mode: "unix 50x32".to_string(),
                throughput_ops: mops * 0.5e6,
                ..RivalResult::default()
            }],
            ..Sample::default()
        };
        let mut report = Report {
            system: system.to_string(),
            fabric: "shm".to_string(),
            samples: mops.map(sample).to_vec(),
            ..Report::default()
        };
        report.run.commit = "0123abcd".to_string();
        report.run.machine.cpu = "Some <processor>".to_string();
        report.summarize();
        report
    }

    #[test]
    fn medians_have_their_spread_and_rivals_stand_beside() {
        let reports = [report("herd", [4.0, 2.0, 3.0])];
        let sections = [Section {
            value_size: [32, 32],
            reports: &reports,
        }];
        let page = page(&sections);
        assert!(
            page.contains("memcached unix 50x32") && page.contains("0.50 (0.50 to 0.50)"),
            "{page}"
        );
        assert!(
            page.contains("<td>3.000</td><td>2.000</td><td>4.000</td>"),
            "{page}"
        );
        assert!(
            page.contains("0123abcd") && page.contains("Some &lt;processor&gt;"),
            "{page}"
        );
        assert!(page.contains("herd: 3 of 3 samples count"), "{page}");
        assert!(!page.contains("by the size of values"));
    }

    #[test]
    fn several_sizes_are_drawn_as_curves() {
        let all = [report("herd", [4.0; 3]), report("farm", [2.0; 3])];
        let section = |bytes: usize| Section {
            value_size: [bytes; 2],
            reports: &all,
        };
        let page = page(&[section(32), section(1024)]);
        assert!(page.contains("Measured: herd, farm over shm"), "{page}");
        assert!(page.contains("by the size of values") && page.contains("Values of 1024 B"));
    }
}
