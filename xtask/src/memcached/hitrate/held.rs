//! [`Held`]: what a server holds, as it reports it, as the kernel counts it, and as its clients find it.

use super::cache_aside::WINDOW;
use super::client::{Client, KEY_BYTES};
use super::stream::Request;
use serde_json::{Value, json};

/// What a server held at the end of a stream.
#[derive(Clone, Copy, Default, Debug)]
pub struct Held {
    /// Number of items, as `stats` reports it.
    item_count: u64,
    /// Bytes of items, as `stats` reports them.
    bytes: u64,
    /// Number of evictions, as `stats` reports it.
    eviction_count: u64,
    /// Resident memory of the process.
    resident_kib: u64,
    /// Number of keys that gets found.
    found_count: u64,
    /// Bytes of the keys and values that gets found.
    found_bytes: u64,
}

impl Held {
    /// Asks the server and the kernel, then reads every key of `universe` back.
    ///
    /// # Errors
    /// The server or the kernel does not answer, or a value is wrong.
    pub fn by(
        client: &mut Client,
        pid: u32,
        universe: impl Iterator<Item = Request>,
    ) -> Result<Held, String> {
        let stats = client.stats()?;
        let stat = |name: &str| {
            let number = stats.get(name).copied();
            number.ok_or_else(|| format!("the server does not report {name}"))
        };
        let mut held = Held {
            item_count: stat("curr_items")?,
            bytes: stat("bytes")?,
            eviction_count: stat("evictions")?,
            resident_kib: resident_kib(pid)?,
            ..Held::default()
        };
        held.read_back(client, universe)?;
        Ok(held)
    }

    fn read_back(
        &mut self,
        client: &mut Client,
        mut universe: impl Iterator<Item = Request>,
    ) -> Result<(), String> {
        let mut found = Vec::with_capacity(WINDOW);
        loop {
            let window: Vec<Request> = universe.by_ref().take(WINDOW).collect();
            if window.is_empty() {
                return Ok(());
            }
            client.get(&window, &mut found)?;
            let items = window.iter().zip(&found).filter(|(_, found)| **found);
            for (request, _) in items {
                self.found_count += 1;
                self.found_bytes += KEY_BYTES as u64 + u64::from(request.value_bytes);
            }
        }
    }

    /// Number of items, as the server reports it.
    pub fn item_count(&self) -> u64 {
        self.item_count
    }

    /// Number of evictions, as the server reports it.
    pub fn eviction_count(&self) -> u64 {
        self.eviction_count
    }

    /// Number of keys that gets found.
    pub fn found_count(&self) -> u64 {
        self.found_count
    }

    /// Bytes of the keys and values that gets found.
    pub fn found_bytes(&self) -> u64 {
        self.found_bytes
    }

    /// Resident memory of the process, KiB.
    pub fn resident_kib(&self) -> u64 {
        self.resident_kib
    }

    /// A row of the table of [`HEADINGS`].
    pub fn row(&self) -> String {
        format!(
            "{:>12.1}  {:>10}  {:>9}  {:>11}  {:>9}",
            self.resident_kib as f64 / 1024.0,
            self.item_count,
            self.found_count,
            self.bytes,
            self.eviction_count
        )
    }

    /// The same numbers as fields.
    pub fn json(&self) -> Value {
        json!({
            "resident_kib": self.resident_kib,
            "curr_items": self.item_count,
            "found_items": self.found_count,
            "found_bytes": self.found_bytes,
            "bytes": self.bytes,
            "evictions": self.eviction_count,
        })
    }
}

/// Headings of the columns of [`Held::row`].
pub const HEADINGS: &str = "resident MiB  curr_items  read back        bytes  evictions";

/// Resident memory of a process, KiB.
pub fn resident_kib(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    resident_of(&status).ok_or_else(|| format!("{path} has no VmRSS"))
}

/// Resident memory, KiB, from the text of a `status` file of the kernel. Reserved huge pages are not part of VmRSS.
fn resident_of(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(field("VmRSS:")? + field("HugetlbPages:").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_resident_too() {
        let status = "Name:\tx\nVmRSS:\t    1000 kB\nRssAnon:\t 1 kB\nHugetlbPages:\t    2048 kB\n";
        assert_eq!(resident_of(status), Some(3048));
        assert_eq!(resident_of("VmRSS:\t 5 kB\n"), Some(5));
        assert_eq!(resident_of("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_is_resident() {
        assert!(resident_kib(std::process::id()).is_ok_and(|kib| kib > 0));
    }
}
