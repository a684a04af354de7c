//! Memory that other processes or devices may touch at any time, and the core's few special
//! instructions. All shared-memory `unsafe` of drover lives here.
//!
//! - [`Region`] is a mapped range, shared (a memfd that can be passed on) or private. It gives out no Rust references
//!   except to atomics: access is by word loads and stores with stated ordering, and by copies in and out.
//! - [`MaskedRegion`], [`BoundedRegion`] and [`LineTable`] are pieces of a region for rings, items and indexes. No offset
//!   or index leads out of them.
//! - [`BufferPool`] and [`Buffer`] are private staging: a slice while we hold it, moved into a request
//!   and returned by its completion.
//! - [`Limbo`] keeps what may be used again only after everybody has passed an epoch.
//! - [`NativeCpu`] is the [`Cpu`](drover_base::Cpu) of real hardware: clock, prefetch, pause.
//! - [`release_startup_pages`] makes a server's resident memory smaller once it has started.
//!
//! ```
//! use drover_mem::{PageWish, Region};
//! use std::sync::atomic::Ordering;
//! let region = Region::shared(4096, PageWish::Small)?;
//! region.copy_in(8, b"request!");
//! region.store_u64(16, 1, Ordering::Release); // publishes the bytes before it
//! let mut out = [0; 8];
//! region.copy_out(8, &mut out);
//! assert_eq!(&out, b"request!");
//! # Ok::<(), drover_mem::AllocError>(())
//! ```

mod arch;
mod buffer;
mod counting;
mod crc32c;
mod limbo;
mod lines;
mod map;
mod masked;
mod native;
mod observe;
mod raw;
mod region;
mod startup_pages;

pub use arch::{hex_digits, pause, timestamp};
pub use buffer::{Buffer, BufferPool};
pub use counting::CountingAlloc;
pub use crc32c::crc32c_of;
pub use limbo::Limbo;
pub use lines::{LineAddrs, LineRef, LineTable, Spread, WordRef, first_of};
pub use map::{AllocError, PageKind, PageWish};
pub use masked::{BoundedRegion, MaskedRef, MaskedRegion};
pub use native::{NativeCpu, entropy};
pub use observe::{MapObserver, observe_mappings};
pub use raw::RawRegion;
pub use region::Region;
pub use startup_pages::release_startup_pages;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// `bytes` rounded up to a multiple of `to`. `to` must be a power of two, which is not checked.
pub const fn round_up(bytes: usize, to: usize) -> usize {
    (bytes + to - 1) & !(to - 1)
}
