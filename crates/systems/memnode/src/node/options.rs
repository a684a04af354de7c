//! [`NodeOptions`]: sizes and times of a memory node.

use crate::header::PoolMembership;
use crate::times::LeaseTimes;
use drover_base::Ns;
use drover_mem::PageWish;
use drover_one_sided::Membership;
use std::path::PathBuf;

/// What a node does about a process that was shut out and is still inside a request: only over shared memory is there one,
/// if it is stopped in the middle of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FenceMode {
    /// Waits until it goes on or ends, and shows it meanwhile.
    #[default]
    Wait,
    /// Ends it once it has been waited for as long as for a lease, where its process is known.
    Kill,
}

/// Options of a memory node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes of the region: header, tables and data. Rounded down to whole chunks.
    pub bytes: usize,
    /// Kind of pages wanted.
    pub pages: PageWish,
    /// File that the region is mapped from, so that it outlives the process. Its contents are used if they begin with a
    /// header for as many bytes. `None`: memory, empty at the start.
    pub file: Option<PathBuf>,
    /// Lines of the client table: most compute processes, dead ones that wait for recovery included.
    pub client_count: u32,
    /// Most chunks that one client may own; `u32::MAX`: no limit but the node's.
    pub quota_chunks: u32,
    /// Times of leases.
    pub times: LeaseTimes,
    /// What is done about processes that are stopped inside a request.
    pub fence: FenceMode,
    /// The node's place in a pool, where that is known before any client asks. Ignored if a file says otherwise.
    pub place: Option<PoolMembership>,
    /// Interval between two polls of the control channels.
    pub look_every: Ns,
}

impl NodeOptions {
    /// A node of `bytes` in ordinary memory, for 256 clients without quota, with the usual times, in no pool yet.
    pub fn new(bytes: usize) -> NodeOptions {
        NodeOptions {
            bytes,
            pages: PageWish::Small,
            file: None,
            client_count: 256,
            quota_chunks: u32::MAX,
            times: LeaseTimes::default(),
            fence: FenceMode::Wait,
            place: None,
            look_every: Ns::from_ms(1),
        }
    }

    pub(super) fn membership(&self) -> Membership {
        Membership {
            look_every: self.look_every,
            ..Membership::alone()
        }
    }
}
