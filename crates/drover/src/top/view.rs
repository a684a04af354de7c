//! Formats two readings as a table.

use super::scrape::Reading;
use crate::admin::metric_of;
use drover_kv::{Counter, CounterKind, Facts, Merge};
use std::fmt::Write;

/// Formats the activity in the `seconds` between `old` and `new`; without `old`, in the `seconds` since the server's
/// start. `addr` is shown as the server's address. `facts`: row of the server's system in the table of systems; `None`
/// for a hosting system (HERD), whose workers have metrics of their own.
pub fn table(
    new: &Reading,
    old: Option<&Reading>,
    seconds: f64,
    addr: &str,
    facts: Option<&Facts>,
) -> String {
    let look = Look { new, old, seconds };
    match facts {
        None => of_workers(&look, addr),
        Some(facts) => of_shards(&look, addr, facts),
    }
}

fn of_shards(look: &Look<'_>, addr: &str, facts: &Facts) -> String {
    let device = look.device().map(|text| format!("{:<12} {text}\n", "device"));
    format!(
        "{:<12} {}\n{:<12} {}: {}\n{:<12} {}\n{}\n{}",
        "server",
        look.server(addr),
        "system",
        facts.name,
        facts.about,
        "process",
        look.process(),
        device.unwrap_or_default(),
        look.counters(facts.counters)
    )
}

fn of_workers(look: &Look<'_>, addr: &str) -> String {
    let mut out = String::new();
    for (name, text) in [
        ("server", look.server(addr)),
        ("operations", look.operations()),
        ("commands", look.commands()),
        ("latency", look.latency()),
        ("items", look.items()),
        ("lost items", look.lost()),
        ("connections", look.connections()),
        ("sockets", look.sockets()),
        ("process", look.process()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<12} {text}");
    }
    if let Some(text) = look.device() {
        let _ = writeln!(out, "{:<12} {text}", "device");
    }
    out.push('\n');
    out.push_str(&look.workers());
    out
}

struct Look<'a> {
    new: &'a Reading,
    old: Option<&'a Reading>,
    seconds: f64,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Look<'_> {
    fn now(&self, name: &str, labels: Labels<'_>) -> f64 {
        self.new.sum(name, labels).unwrap_or(0.0)
    }

    /// Growth of a counter.
    fn growth(&self, name: &str, labels: Labels<'_>) -> f64 {
        let before = self.old.and_then(|old| old.sum(name, labels)).unwrap_or(0.0);
        (self.now(name, labels) - before).max(0.0)
    }

    fn rate(&self, name: &str, labels: Labels<'_>) -> f64 {
        self.growth(name, labels) / self.seconds
    }

    /// `label rate/s` for each value of a label.
    fn rates_by(&self, name: &str, label: &str) -> Vec<String> {
        let values = self.new.values(name, label);
        let show = |value: &&str| format!("{value} {}/s", number(self.rate(name, &[(label, value)])));
        values.iter().map(show).collect()
    }

    fn server(&self, addr: &str) -> String {
        let versions = self.new.values("drover_version", "version");
        let span = match self.old {
            Some(_) => format!("last {:.1} s", self.seconds),
            None => "averages since the start".to_string(),
        };
        format!(
            "drover {} at {addr}, up {}; {span}",
            versions.first().unwrap_or(&"?"),
            time(self.new.uptime_s() as u64)
        )
    }

    fn operations(&self) -> String {
        let get = |status| self.growth("drover_commands_total", &[("command", "get"), ("status", status)]);
        let (hits, misses) = (get("hit"), get("miss"));
        let rate = match hits + misses {
            0.0 => "no gets".to_string(),
            all => format!("{:.1} %", 100.0 * hits / all),
        };
        let all = self.rate("drover_commands_total", &[]);
        format!("{}/s, hit rate {rate}", number(all))
    }

    fn commands(&self) -> String {
        let name = "drover_commands_total";
        let mut shown = Vec::new();
        for command in self.new.values(name, "command") {
            let rate = self.rate(name, &[("command", command)]);
            if rate > 0.0 {
                shown.push(format!("{command} {}/s", number(rate)));
            }
        }
        or_none(shown)
    }

    /// Median and 99th percentile of the requests' time with a worker.
    fn latency(&self) -> String {
        let name = "drover_command_duration_seconds_bucket";
        let mut shown = Vec::new();
        for transport in self.new.values(name, "transport") {
            // Each bound counts all shorter requests.
            let below = |bound: &str| self.growth(name, &[("transport", transport), ("le", bound)]);
            let all = below("+Inf");
            if all == 0.0 {
                continue;
            }
            let quantile = |share: f64| {
                let bounds = self.new.values(name, "le");
                let bound = bounds.into_iter().find(|bound| below(bound) >= share * all);
                duration(
                    bound
                        .and_then(|bound| bound.parse().ok())
                        .unwrap_or(f64::INFINITY),
                )
            };
            shown.push(format!(
                "{transport} p50 {} p99 {}",
                quantile(0.5),
                quantile(0.99)
            ));
        }
        or_none(shown)
    }

    fn items(&self) -> String {
        let (used, limit) = (
            self.now("drover_current_bytes", &[]),
            self.now("drover_limit_bytes", &[]),
        );
        format!(
            "{} in {} of {} ({:.1} %)",
            number(self.now("drover_current_items", &[])),
            bytes(used),
            bytes(limit),
            100.0 * used / limit.max(1.0)
        )
    }

    fn lost(&self) -> String {
        let mut shown = self.rates_by("drover_items_evicted_total", "reason");
        shown.push(format!(
            "expired {}/s",
            number(self.rate("drover_items_reclaimed_total", &[]))
        ));
        let refused = self.rates_by("drover_items_refused_total", "reason");
        shown.extend(refused.into_iter().map(|text| format!("refused {text}")));
        shown.join(", ")
    }

    fn connections(&self) -> String {
        let name = "drover_current_connections";
        let values = self.new.values(name, "transport");
        let show = |value: &&str| format!("{value} {}", self.now(name, &[("transport", value)]));
        or_none(values.iter().map(show).collect())
    }

    fn sockets(&self) -> String {
        let rate = |name| bytes(self.rate(name, &[]));
        format!(
            "in {}/s, out {}/s",
            rate("drover_read_bytes_total"),
            rate("drover_written_bytes_total")
        )
    }

    /// What the process does with an RDMA device; `None`: it has none.
    fn device(&self) -> Option<String> {
        let name = "drover_rdma_work_completions_total";
        let all = self.new.sum(name, &[])?;
        let failed = all - self.now(name, &[("status", "success")]);
        Some(format!(
            "{} queue pairs, {} completions/s, {} failed, {} sent again/s, {} registered",
            self.now("drover_rdma_qps", &[]),
            number(self.rate(name, &[])),
            number(failed),
            number(self.rate("drover_rdma_retries_total", &[])),
            bytes(self.now("drover_rdma_registered_bytes", &[]))
        ))
    }

    fn process(&self) -> String {
        format!(
            "{:.0} % of a core, {} present, {} files, {} threads",
            100.0 * self.rate("process_cpu_seconds_total", &[]),
            bytes(self.now("process_resident_memory_bytes", &[])),
            self.now("process_open_fds", &[]),
            self.now("process_threads", &[]),
        )
    }

    /// A line for each counter: of the service, and of each shard. What counts events is shown as a rate.
    fn counters(&self, counters: &[Counter]) -> String {
        let Some(first) = counters.first() else {
            return String::new();
        };
        let shards = self.new.values(&metric_of(first), "shard");
        let mut out = format!("{:<24} {:>10}", "counter", "all");
        for shard in &shards {
            let _ = write!(out, " {:>10}", format!("shard {shard}"));
        }
        out.push('\n');
        for counter in counters {
            let name = metric_of(counter);
            let unit = match counter.kind {
                CounterKind::Events => "/s",
                CounterKind::Amount => "",
            };
            let of_shard = |shard: &&str| match counter.kind {
                CounterKind::Events => self.rate(&name, &[("shard", shard)]),
                CounterKind::Amount => self.now(&name, &[("shard", shard)]),
            };
            let values: Vec<f64> = shards.iter().map(of_shard).collect();
            let all = match counter.merge {
                Merge::Sum => values.iter().sum(),
                Merge::Max => values.iter().copied().fold(0.0, f64::max),
            };
            let _ = write!(
                out,
                "{:<24} {:>10}",
                format!("{}{unit}", counter.name),
                number(all)
            );
            for value in values {
                let _ = write!(out, " {:>10}", number(value));
            }
            out.push('\n');
        }
        out
    }

    fn workers(&self) -> String {
        let mut out = format!(
            "{:>6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            "worker", "busy", "ops/s", "items", "bytes", "evicted/s", "sleeps/s"
        );
        for worker in self.new.values("drover_worker_busy_seconds_total", "worker") {
            let (own, its) = ([("worker", worker)], [("partition", worker)]);
            let busy = 100.0 * self.rate("drover_worker_busy_seconds_total", &own);
            let _ = writeln!(
                out,
                "{worker:>6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>10}",
                format!("{busy:.0} %"),
                number(self.rate("drover_worker_operations_total", &own)),
                number(self.now("drover_current_items", &its)),
                bytes(self.now("drover_current_bytes", &its)),
                number(self.rate("drover_items_evicted_total", &its)),
                number(self.rate("drover_worker_sleeps_total", &own)),
            );
        }
        out
    }
}

fn or_none(parts: Vec<String>) -> String {
    match parts.is_empty() {
        true => "none".to_string(),
        false => parts.join(", "),
    }
}

/// A number with about three digits.
fn number(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = usize::from(value < 99.95 && value.fract() != 0.0);
    format!("{value:.digits$}{}", units[at])
}

/// Bound of a histogram, whose buckets are powers of two.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s.is_infinite() => "> 1 s".to_string(),
        s if s < 0.0005 => format!("< {:.0} us", s * 1e6),
        s if s < 0.5 => format!("< {:.1} ms", s * 1e3),
        s => format!("< {s:.1} s"),
    }
}

fn time(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    match days {
        0 => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days} d {hours}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scrape::tests::reading;
    use super::*;

    fn sample(gets: u32, busy: f64) -> Reading {
        reading(&format!(
            "drover_uptime_seconds 3725\ndrover_version{{version=\"1.2\"}} 1\n\
             drover_commands_total{{command=\"get\",status=\"hit\"}} {}\n\
             drover_commands_total{{command=\"get\",status=\"miss\"}} {gets}\n\
             drover_command_duration_seconds_bucket{{transport=\"sockets\",worker=\"0\",le=\"0.000004\"}} {}\n\
             drover_command_duration_seconds_bucket{{transport=\"sockets\",worker=\"0\",le=\"0.002048\"}} {gets}\n\
             drover_command_duration_seconds_bucket{{transport=\"sockets\",worker=\"0\",le=\"+Inf\"}} {gets}\n\
             drover_current_items{{partition=\"0\"}} 12345\ndrover_current_bytes{{partition=\"0\"}} 1048576\n\
             drover_limit_bytes{{partition=\"0\"}} 4194304\n\
             drover_items_evicted_total{{partition=\"0\",reason=\"log_wrapped\"}} 50\n\
             drover_current_connections{{transport=\"tcp\"}} 3\n\
             drover_worker_busy_seconds_total{{worker=\"0\"}} {busy}\n",
            3 * gets,
            gets / 2
        ))
    }

    #[test]
    fn a_device_has_a_line_where_there_is_one() {
        let sample = |count: u32| {
            reading(&format!(
                "drover_uptime_seconds 5\ndrover_rdma_qps 3\ndrover_rdma_retries_total {count}\n\
                 drover_rdma_registered_bytes 1048576\n\
                 drover_rdma_work_completions_total{{status=\"success\"}} {count}\n\
                 drover_rdma_work_completions_total{{status=\"flushed\"}} 7\n"
            ))
        };
        let text = table(&sample(3000), Some(&sample(1000)), 2.0, "h:1", None);
        let line = text.lines().find(|line| line.starts_with("device"));
        assert_eq!(
            line,
            Some("device       3 queue pairs, 1k completions/s, 7 failed, 1k sent again/s, 1 MiB registered")
        );
        assert!(!table(&reading("drover_uptime_seconds 5\n"), None, 5.0, "h:1", None).contains("device"));
    }

    #[test]
    fn what_happened_between_two_looks() {
        let text = table(&sample(3000, 11.0), Some(&sample(1000, 10.0)), 2.0, "h:1", None);
        let line = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_default();
            line[name.len()..].trim().to_string()
        };
        assert_eq!(line("server"), "drover 1.2 at h:1, up 1:02:05; last 2.0 s");
        assert_eq!(line("operations"), "4k/s, hit rate 75.0 %");
        assert_eq!(line("commands"), "get 4k/s");
        assert_eq!(line("latency"), "sockets p50 < 4 us p99 < 2.0 ms");
        assert_eq!(line("items"), "12.3k in 1 MiB of 4 MiB (25.0 %)");
        assert_eq!(line("lost items"), "log_wrapped 0/s, expired 0/s");
        assert_eq!(line("connections"), "tcp 3");
        assert_eq!(
            text.lines()
                .last()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")),
            Some("0 50 % 0 12.3k 1 MiB 0 0".to_string())
        );
    }

    #[test]
    fn averages_since_the_start() {
        let text = table(&sample(1000, 10.0), None, 3725.0, "h:1", None);
        assert!(text.contains("averages since the start"), "{text}");
        assert!(text.contains("operations   1.1/s, hit rate 75.0 %"), "{text}");
    }

    /// Metrics of two shards, counter by counter, as the server's admin port has them.
    fn of_shards(counters: &[Counter], value: impl Fn(usize, u64) -> u64) -> Reading {
        let mut lines = String::from("drover_uptime_seconds 100\ndrover_version{version=\"1.2\"} 1\n");
        for (index, counter) in counters.iter().enumerate() {
            for shard in 0..2 {
                let (name, value) = (metric_of(counter), value(index, shard));
                let _ = writeln!(lines, "{name}{{shard=\"{shard}\"}} {value}");
            }
        }
        reading(&lines)
    }

    /// Every counter of every system of the table has its line, with the service's number and each shard's.
    #[test]
    fn counters_of_every_system_are_shown() {
        for system in drover_systems::System::ALL {
            let facts = system.facts();
            let old = of_shards(facts.counters, |_, _| 0);
            let new = of_shards(facts.counters, |index, shard| 10 * (index as u64 + 1) + 2 * shard);
            let text = table(&new, Some(&old), 2.0, "h:1", Some(facts));
            for (index, counter) in facts.counters.iter().enumerate() {
                let first = 10.0 * (index as f64 + 1.0);
                let values = [first, first + 2.0];
                let all = match counter.merge {
                    Merge::Sum => values.iter().sum(),
                    Merge::Max => values[1],
                };
                let shown = [all, values[0], values[1]];
                let (name, shown) = match counter.kind {
                    CounterKind::Events => (format!("{}/s", counter.name), shown.map(|n| number(n / 2.0))),
                    CounterKind::Amount => (counter.name.to_owned(), shown.map(number)),
                };
                let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
                let line = line.unwrap_or_else(|| panic!("{system} does not show {name}:\n{text}"));
                let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                assert_eq!(words, shown, "{system} {name}");
            }
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0.0, 0.25, 99.0, 999.0, 1500.0, 2e6, 3e15].map(number),
            ["0", "0.2", "99", "999", "1.5k", "2M", "3000T"]
        );
        assert_eq!([10.0, 1536.0].map(bytes), ["10 B", "1.5 KiB"]);
        assert_eq!([59, 3600, 200_000].map(time), ["0:00:59", "1:00:00", "2 d 7:33"]);
    }
}
