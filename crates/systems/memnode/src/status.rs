//! [`NodeStatus`]: what a node shows of itself, as text and as numbers.

use crate::chunks::{CHUNK_BYTES, Fill};
use crate::clients::{ClientInfo, ClientState};
use crate::header::Header;
use std::fmt;

/// What a node shows of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeStatus {
    /// The node, as the caller names it.
    pub server: String,
    /// A copy of its header.
    pub header: Header,
    /// Its clients, at most 1,024 of them.
    pub clients: Vec<ClientInfo>,
}

impl fmt::Display for NodeStatus {
    /// Lines `name value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (header, supply) = (&self.header, &self.header.supply);
        writeln!(f, "server {}", self.server)?;
        match header.place {
            Some(place) => writeln!(
                f,
                "pool {:016x}\nkind {}\nnode {} of {}",
                place.pool, place.kind, place.index, place.count
            )?,
            None => writeln!(f, "pool none")?,
        }
        let fill = match supply.fill() {
            Fill::Low => "ok",
            Fill::High => "above 80 %",
            Fill::Critical => "above 95 %",
        };
        writeln!(f, "incarnation {:016x}", header.incarnation)?;
        writeln!(f, "capacity_bytes {}", header.geometry.capacity)?;
        writeln!(f, "used_bytes {}", u64::from(supply.used()) * CHUNK_BYTES as u64)?;
        writeln!(f, "chunks {}", supply.chunk_count)?;
        writeln!(f, "chunks_used {}", supply.used())?;
        writeln!(f, "chunks_returned {}", supply.stack.count)?;
        writeln!(f, "chunks_reserve {}", supply.reserve())?;
        writeln!(f, "fill {fill}")?;
        writeln!(f, "clients {}", header.clients)?;
        writeln!(f, "clients_max {}", header.geometry.client_count)?;
        writeln!(f, "epoch {}", header.epoch)?;
        writeln!(f, "reclaim_epoch {}", header.reclaim)?;
        let sweep = match header.sweep % 2 {
            1 => "under way",
            _ => "none",
        };
        writeln!(f, "sweep {sweep}")?;
        for info in &self.clients {
            write!(f, "client {} {}", info.client, info.state.name())?;
            if let Some(pid) = info.pid {
                write!(f, ", process {pid}")?;
            }
            match info.state {
                ClientState::Suspected => writeln!(
                    f,
                    ", silent for {} ms: it may still write until it goes on or ends",
                    info.silent.0 / 1_000_000
                )?,
                ClientState::Fenced => writeln!(f, ", waits for repair")?,
                ClientState::Free | ClientState::Live => writeln!(f)?,
            }
        }
        Ok(())
    }
}
