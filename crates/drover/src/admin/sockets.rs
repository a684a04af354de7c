//! Counters of socket clients (memcached's), as their cores publish them.

use super::metrics::Sockets;
use drover_memcached::Board;
use drover_net::ConnTable;
use std::sync::Arc;

/// Handles to the places where the cores publish their counters of memcached clients.
#[derive(Clone)]
pub struct SocketStats {
    /// Table with the counters of connections.
    pub conn_table: Arc<ConnTable>,
    /// Boards with the counters of commands, one per core.
    pub boards: Vec<Arc<Board>>,
}

impl SocketStats {
    /// Reads the counters that the cores published last, without asking any core.
    pub fn read(&self) -> Sockets {
        let mut all = drover_memcached::Counters::default();
        let mut operations = Vec::new();
        for board in &self.boards {
            let (counters, _) = board.read();
            operations.push(commands_of(&counters).iter().map(|row| row.2).sum());
            all.add(&counters);
        }
        Sockets {
            connections: self.conn_table.all_counters(),
            durations: (0..self.boards.len())
                .map(|core| self.conn_table.durations(core).read())
                .collect(),
            operations,
            commands: commands_of(&all).to_vec(),
        }
    }
}

/// Splits counters by command and result: (command, status, count), with the names of memcached's exporter. `set` is
/// every storing command, whether or not it stored, that no counter of `cas` has counted; a `gat` counts as a touch,
/// not as a get.
pub fn commands_of(c: &drover_memcached::Counters) -> [(&'static str, &'static str, u64); 16] {
    [
        ("get", "hit", c.get_hits),
        ("get", "miss", c.get_misses),
        (
            "set",
            "done",
            c.cmd_set.saturating_sub(c.cas_hits + c.cas_misses + c.cas_badval),
        ),
        ("delete", "hit", c.delete_hits),
        ("delete", "miss", c.delete_misses),
        ("incr", "hit", c.incr_hits),
        ("incr", "miss", c.incr_misses),
        ("decr", "hit", c.decr_hits),
        ("decr", "miss", c.decr_misses),
        ("cas", "hit", c.cas_hits),
        ("cas", "miss", c.cas_misses),
        ("cas", "badval", c.cas_badval),
        ("touch", "hit", c.touch_hits),
        ("touch", "miss", c.touch_misses),
        ("flush", "done", c.cmd_flush),
        ("meta", "done", c.cmd_meta),
    ]
}
