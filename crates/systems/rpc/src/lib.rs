//! Ways to call a server: how requests and replies travel, whatever they say. It knows no keys and no operations.
//!
//! - [`ring`]: requests are records that the client WRITEs into a ring at the server; replies are WRITTEN into the
//!   client's mailbox.
//! - [`messages`]: both are SENDs into RECVs.
//! - [`fetch`]: requests are WRITTEN into slots; the client READs results, or has them pushed if that takes too long.
//!
//! A request travels through a ring:
//! ```
//! use drover_rpc::ring::{Header, Next, Receiver, Sender, encode_record, is_whole};
//! let (mut sender, mut receiver) = (Sender::new(1024), Receiver::new(1024, 200));
//! let placed = sender.place(5).expect("an empty ring has space");
//! let mut record = Vec::new();
//! encode_record(&mut record, placed.sequence, &[b"hello"], true);
//! // The client WRITEs the record to `placed.offset`; the server finds its first word there.
//! let word = u64::from_le_bytes(record[..8].try_into()?);
//! assert_eq!(receiver.next(word)?, Next::Record(record.len()));
//! assert!(is_whole(&record, Header::decode(word).expect("a record"), true));
//! receiver.consume(record.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: `[FaRM]` for the ring; each module says what is ours.
#![forbid(unsafe_code)]

mod error;
pub mod fetch;
pub mod messages;
pub mod ring;

pub use error::CallError;

use drover_rt::ResourceError;
use drover_verbs::{Context, Export, MemoryRegion, Provider, Watch};

/// Exports memory that a peer WRITEs and this core polls: a WRITE wakes the core, where the fabric supports it.
fn watched_export<P: Provider>(ctx: &P::Context, memory: &P::Mr) -> Result<Export, ResourceError> {
    let watch = Watch {
        range: 0..memory.region().len(),
        bell: ctx.bell(),
    };
    let watches = match ctx.caps().wakes.on_memory {
        true => vec![watch],
        false => Vec::new(),
    };
    Ok(memory.export(&watches)?)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
