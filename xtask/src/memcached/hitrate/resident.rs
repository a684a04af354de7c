//! [`Resident`]: how much memory a full drover takes, and whether all that it says about its limit is the same.

use super::super::folder;
use super::super::server::{Kind, Server, free_port};
use super::cache_aside::WINDOW;
use super::client::{Client, KEY_BYTES};
use super::held::{Held, resident_kib};
use super::pair::Limits;
use super::stream::Request;
use drover_base::mix;
use serde_json::{Value, json};
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// Limits that are measured: `-m` and `-t`.
pub const LIMITS: &[(u64, u64)] = &[
    (64, 1),
    (64, 3),
    (64, 4),
    (100, 1),
    (100, 3),
    (100, 4),
    (1000, 1),
    (1000, 3),
    (1000, 4),
];
/// Size of the values.
const VALUE_BYTES: u32 = 400;
/// Most that a partition may say less than its share of `-m`: its memory has whole lines.
const ROUNDING_BYTES: u64 = 4096;

/// What a full server takes and says.
pub struct Resident {
    limits: Limits,
    item_count: u64,
    resident_kib: u64,
    /// Differences from `-m`, in words.
    wrong: Vec<String>,
}

impl Resident {
    /// Fills a server.
    ///
    /// # Errors
    /// The server fails, or evicts nothing.
    pub fn measure(kind: &Kind, limits: Limits, seed: u64) -> Result<Resident, String> {
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let flags = [
            "-m",
            &limits.memory_mib.to_string(),
            "-t",
            &limits.threads.to_string(),
            "--metrics-listen",
            &metrics.to_string(),
        ];
        let log = folder().join("hitrate-resident.txt");
        let server = Server::start(kind, &flags, &log)?;
        let mut client = Client::connect(server.address())?;
        let item = |number: u64| Request {
            key: mix(number ^ mix(seed)),
            value_bytes: VALUE_BYTES,
            ttl_s: 0,
        };
        let bytes = limits.memory_mib << 20;
        let count = bytes * 5 / 4 / (KEY_BYTES as u64 + u64::from(VALUE_BYTES));
        let mut items = (0..count).map(item);
        loop {
            let window: Vec<Request> = items.by_ref().take(WINDOW).collect();
            if window.is_empty() {
                break;
            }
            client.set(&window)?;
        }
        // Reads are for the items' count; they may be done in any state.
        let held = Held::by(&mut client, server.pid(), (0..count).map(item))?;
        if held.eviction_count() == 0 {
            return Err(format!("no eviction by {count} items"));
        }
        let mut wrong = Vec::new();
        let mut expect = |what: &str, said: Option<u64>, least: u64| match said {
            Some(said) if (least..=bytes).contains(&said) => {}
            other => wrong.push(format!("{what} is {other:?} for {bytes} bytes")),
        };
        expect(
            "limit_maxbytes",
            client.stats()?.get("limit_maxbytes").copied(),
            bytes,
        );
        let settings = client.stats_of("settings")?;
        expect(
            "maxbytes of the settings",
            settings.get("maxbytes").copied(),
            bytes,
        );
        let least = bytes - ROUNDING_BYTES * limits.threads;
        expect("drover_limit_bytes", limit_of(&scrape(metrics)?), least);
        let said = std::fs::read_to_string(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        if !said.contains(&format!("({} MiB requested by", limits.memory_mib)) {
            wrong.push(format!("the log does not say {} MiB", limits.memory_mib));
        }
        if held.found_count() != held.item_count() {
            wrong.push(format!(
                "gets find {} items, but curr_items is {}",
                held.found_count(),
                held.item_count()
            ));
        }
        let mut resident = Resident {
            limits,
            item_count: held.item_count(),
            resident_kib: resident_kib(server.pid())?,
            wrong,
        };
        if resident.resident_kib > resident.most_kib() {
            let text = format!(
                "{} KiB resident, at most {}",
                resident.resident_kib,
                resident.most_kib()
            );
            resident.wrong.push(text);
        }
        Ok(resident)
    }

    /// Most that the server may take, KiB: 1.05 times `-m`, and 12 MiB.
    fn most_kib(&self) -> u64 {
        (self.limits.memory_mib << 10) * 105 / 100 + (12 << 10)
    }

    /// The bounds that are missed, and what the server says wrongly.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// All results as fields.
    pub fn json(&self) -> Value {
        json!({
            "value_bytes": VALUE_BYTES,
            "memory_mib": self.limits.memory_mib,
            "threads": self.limits.threads,
            "items": self.item_count,
            "resident_kib": self.resident_kib,
            "resident_kib_max": self.most_kib(),
        })
    }
}

/// The text of `/metrics`.
fn scrape(address: SocketAddr) -> Result<String, String> {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    ask().map_err(|e: std::io::Error| format!("/metrics at {address}: {e}"))
}

/// The sum of `drover_limit_bytes` of all partitions.
fn limit_of(metrics: &str) -> Option<u64> {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("drover_limit_bytes{"));
    let numbers = lines.map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    numbers.sum::<Option<u64>>().filter(|sum| *sum > 0)
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "full with 16 + {VALUE_BYTES} bytes, {}: {} items, {:.1} MiB resident, at most {:.1}",
            self.limits,
            self.item_count,
            self.resident_kib as f64 / 1024.0,
            self.most_kib() as f64 / 1024.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_partitions_are_added() {
        let text = "# TYPE drover_limit_bytes gauge\ndrover_limit_bytes{partition=\"0\"} 5\ndrover_limit_bytes{partition=\"1\"} 6\n";
        assert_eq!(limit_of(text), Some(11));
        assert_eq!(limit_of("drover_limit_bytes{} x"), None);
        assert_eq!(limit_of(""), None);
    }
}
