//! Sets up queue pairs and memory before the first post. Every function panics if the fabric refuses.

use crate::cluster::{Cluster, Thread};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Caps, CompletionQueue, Context, MemoryRegion, Provider, QpKind, QpOptions, QueuePair,
    RemoteRegion, UdDest, Watch,
};

/// The provider of a cluster.
pub type P<R> = <R as Cluster>::Provider;
/// Queue pairs of a cluster.
pub type Qp<R> = <P<R> as Provider>::Qp;
/// Completion queues of a cluster.
pub type Cq<R> = <P<R> as Provider>::Cq;

/// Depth of send queues; enough for every published window.
const SEND_DEPTH: usize = 1024;
/// RECVs per queue pair.
const RECV_DEPTH: usize = 512;

/// Number of RECVs that a queue pair created here can hold.
pub fn recv_depth(caps: &Caps) -> usize {
    RECV_DEPTH.min(caps.recv_depth_max)
}

/// Creates a completion queue of `depth` entries for `thread`.
pub fn completion_queue<R: Cluster>(cluster: &mut R, thread: Thread, depth: usize) -> Cq<R> {
    cluster
        .context(thread)
        .create_cq(depth)
        .expect("a completion queue")
}

/// Creates a queue pair of `thread` whose sends and RECVs complete into `cq`.
pub fn queue_pair<R: Cluster>(cluster: &mut R, thread: Thread, kind: QpKind, cq: &Cq<R>) -> Qp<R> {
    queue_pair_of(cluster, thread, kind, cq, cq)
}

/// Creates a queue pair of `thread` with separate completion queues for sends and RECVs.
pub fn queue_pair_of<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    kind: QpKind,
    send_cq: &Cq<R>,
    recv_cq: &Cq<R>,
) -> Qp<R> {
    let ctx = cluster.context(thread);
    let mut options = QpOptions::new(kind, send_cq, ctx.caps());
    options.recv_cq = recv_cq;
    options.send_depth = SEND_DEPTH.min(ctx.caps().send_depth_max);
    options.recv_depth = recv_depth(ctx.caps());
    ctx.create_qp(&options).expect("a queue pair")
}

/// Connects two queue pairs with each other.
pub fn connect<P: Provider>(a: &mut P::Qp, b: &mut P::Qp) {
    let (there, here) = (b.export().expect("an export"), a.export().expect("an export"));
    a.connect(&there).expect("connected");
    b.connect(&here).expect("connected");
}

/// Allocates at least `bytes` of memory for `thread`, in whole pages, and registers it with all access rights.
pub fn memory<R: Cluster>(cluster: &mut R, thread: Thread, bytes: usize) -> <P<R> as Provider>::Mr {
    let ctx = cluster.context(thread);
    let region = ctx
        .alloc(bytes.next_multiple_of(4096), PageWish::Small)
        .expect("memory");
    ctx.register(&region, Access::ALL).expect("registered")
}

/// Exports the memory `mr` of `owner` to `thread` and returns how `thread` addresses it. If `watched`, remote writes
/// into it wake the owner.
pub fn import<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    owner: Thread,
    mr: &<P<R> as Provider>::Mr,
    watched: bool,
) -> RemoteRegion {
    let bell = cluster.context(owner).bell();
    let watches: Vec<Watch> = watched
        .then(|| Watch {
            range: 0..mr.region().len(),
            bell,
        })
        .into_iter()
        .collect();
    let export = mr.export(&watches).expect("an export");
    cluster.context(thread).import_region(&export).expect("imported")
}

/// Creates the address with which `thread` sends to the UD queue pair `to`.
pub fn address<R: Cluster>(cluster: &mut R, thread: Thread, to: &Qp<R>) -> UdDest {
    let export = to.export().expect("an export");
    cluster
        .context(thread)
        .create_ah(&export)
        .expect("an address handle")
}

/// Polls completions into `wcs` and returns their number.
///
/// # Panics
/// If a request has failed.
pub fn poll<P: Provider>(cq: &mut P::Cq, cpu: &P::Cpu, wcs: &mut [drover_verbs::Wc]) -> usize {
    let count = cq.poll(cpu, wcs);
    for wc in &wcs[..count] {
        assert_eq!(wc.status, drover_verbs::WcStatus::Success, "{:?}", wc.opcode);
    }
    count
}
