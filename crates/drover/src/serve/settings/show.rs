//! Output of `drover config`: each setting on a line, with its origin.

use super::{Row, Settings, row};
use std::fmt;
use std::path::PathBuf;

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value, origin) in self.rows() {
            writeln!(f, "{name:<18} {value:<24} {origin}")?;
        }
        Ok(())
    }
}

impl Settings {
    /// Every setting, in the order of `drover config`.
    pub(super) fn rows(&self) -> Vec<Row> {
        let rows: [Row; 30] = [
            row("system", &self.system, |facts| facts.name.to_owned()),
            row("fabric", &self.fabric, Clone::clone),
            row("port", &self.port, i32::to_string),
            row("unix-socket", &self.unix_socket, path_or_none),
            row("unix-mask", &self.unix_mask, |mask| format!("{mask:o}")),
            row("listen", &self.listen, |addrs| addrs.join(",")),
            row("control-listen", &self.control_listen, |list| list_or_none(list)),
            row("listen-backlog", &self.backlog, u32::to_string),
            row("max-reqs-per-event", &self.requests_per_event, usize::to_string),
            row("protocol", &self.protocol, Clone::clone),
            row("disable-cas", &self.disable_cas, bool::to_string),
            row("disable-flush-all", &self.disable_flush_all, bool::to_string),
            row("disable-dumping", &self.disable_dumping, bool::to_string),
            row("disable-watch", &self.disable_watch, bool::to_string),
            row("enable-shutdown", &self.enable_shutdown, bool::to_string),
            row("idle_timeout", &self.extended, |o| {
                format!("{} seconds", o.idle_timeout_s)
            }),
            row("maxconns_fast", &self.extended, |o| o.maxconns_fast.to_string()),
            row("memory-limit", &self.memory_mib, |mib| format!("{mib} MiB")),
            row("disable-evictions", &self.disable_evictions, bool::to_string),
            row("threads", &self.threads, usize::to_string),
            row("max-item-size", &self.max_item_bytes, |bytes| {
                format!("{bytes} bytes")
            }),
            row("conn-limit", &self.conn_limit, usize::to_string),
            row("slot-clients", &self.slot_clients, usize::to_string),
            row("enable-largepages", &self.large_pages, bool::to_string),
            row("memory-file", &self.memory_file, path_or_none),
            row("lock-memory", &self.lock_memory, bool::to_string),
            row("cores", &self.cores, |cores| {
                cores.as_ref().map_or("none".into(), |c| join(c))
            }),
            row("window-max", &self.window_max, u16::to_string),
            row("slot-bytes-max", &self.slot_bytes_max, |bytes| {
                format!("{bytes} bytes")
            }),
            row("spin-us", &self.spin_us, |us| format!("{us} microseconds")),
        ];
        rows.into_iter().chain(self.ops.rows()).collect()
    }
}

fn path_or_none(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map_or("none".into(), |path| path.display().to_string())
}

fn list_or_none(list: &[String]) -> String {
    if list.is_empty() {
        "none".into()
    } else {
        list.join(",")
    }
}

fn join(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
