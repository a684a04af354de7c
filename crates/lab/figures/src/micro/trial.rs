//! [`Trial`]: posts one verb once over a kind of queue pair and checks its effect.

use super::wiring::{self, P};
use super::{Outcome, Verb};
use crate::cluster::{Cluster, ClusterOptions, Clusters, Doorbells, Thread};
use drover_base::Ns;
use drover_verbs::{
    Context, GRH_BYTES, MemoryRegion, PostErrorKind, Provider, QpKind, QueuePair, RecvList, RecvWr,
    RemoteRegion, SendList, SendOp, SendWr, UdDest, Wc, WcStatus, WrId,
};

/// A test whether a kind of queue pair supports a verb: posts it once and checks its effect on memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Verb to post.
    pub verb: Verb,
    /// Kind of queue pair.
    pub kind: QpKind,
}

/// Name of the number in [`Outcome::named`] of a [`Trial`]: 1 if the verb had its effect, else 0.
pub const SUPPORTED: &str = "supported";

/// The issuing end.
const HERE: Thread = Thread {
    machine: 0,
    process: 0,
    thread: 0,
};
/// The target.
const THERE: Thread = Thread {
    machine: 1,
    process: 0,
    thread: 0,
};

/// Initial memory here and there: no byte is zero.
const WORDS: [u64; 2] = [0x0807_0605_0403_0201, 0x1817_1615_1413_1211];
/// Length of a RECV, bytes.
const RECV_BYTES: usize = GRH_BYTES + 8;
/// Time after which nothing more happens.
const ENOUGH: Ns = Ns::from_ms(1);

/// Runs the trial in a new cluster; the outcome has only [`SUPPORTED`].
pub fn run<R: Clusters>(clusters: &R, trial: &Trial, seed: u64) -> Outcome {
    let mut cluster = clusters.cluster(&ClusterOptions {
        machines: 2,
        doorbells: Doorbells::Driver,
        seed,
    });
    let works = works(&mut cluster, trial);
    Outcome {
        named: vec![(SUPPORTED, f64::from(u8::from(works)))],
        ..Outcome::default()
    }
}

fn works<R: Cluster>(cluster: &mut R, trial: &Trial) -> bool {
    if !cluster.context(HERE).caps().has(trial.kind) {
        return false;
    }
    let [mut here, mut there] =
        [HERE, THERE].map(|thread| wiring::completion_queue::<R>(cluster, thread, 16));
    let mut ours = wiring::queue_pair(cluster, HERE, trial.kind, &here);
    let mut theirs = wiring::queue_pair(cluster, THERE, trial.kind, &there);
    let dest = match trial.kind {
        QpKind::Ud => Some(wiring::address(cluster, HERE, &theirs)),
        QpKind::Rc | QpKind::Uc => {
            wiring::connect::<P<R>>(&mut ours, &mut theirs);
            None
        }
    };
    let [local, remote] = [(HERE, WORDS[0]), (THERE, WORDS[1])].map(|(thread, word)| {
        let mr = wiring::memory(cluster, thread, RECV_BYTES + 8);
        mr.region().copy_in(0, &word.to_le_bytes());
        mr
    });
    let named = wiring::import(cluster, HERE, THERE, &remote, false);
    let mut recvs = RecvList::with_capacity(1);
    recvs.push(RecvWr {
        wr_id: WrId(2),
        sge: remote.sge(8, RECV_BYTES),
    });
    let posted = theirs.post_recv(cluster.context(THERE).cpu(), &recvs);
    posted.expect("an empty queue");

    let mut list = SendList::with_capacity(1, 0);
    list.push(SendWr::new(operation(trial.verb, named, dest), local.sge(0, 8)).signaled(WrId(1)));
    match ours.post_send(cluster.context(HERE).cpu(), &list) {
        Err(error) if error.kind == PostErrorKind::NotSupported => return false,
        posted => posted.expect("nothing but the verb itself is in question"),
    }
    cluster.run_until(ENOUGH);
    let sent = first::<R>(cluster, HERE, &mut here);
    let received = first::<R>(cluster, THERE, &mut there);
    sent.is_some_and(|wc| wc.status == WcStatus::Success) && effect::<P<R>>(trial, &local, &remote, received)
}

fn operation(verb: Verb, remote: RemoteRegion, dest: Option<UdDest>) -> SendOp {
    let remote = remote.at(0);
    match verb {
        Verb::Write => SendOp::Write { remote, imm: None },
        Verb::Read => SendOp::Read { remote },
        Verb::FetchAdd => SendOp::FetchAdd { remote, add: 1 },
        Verb::Send => SendOp::Send { dest, imm: None },
    }
}

/// The first completion of `cq`.
fn first<R: Cluster>(cluster: &mut R, thread: Thread, cq: &mut wiring::Cq<R>) -> Option<Wc> {
    use drover_verbs::CompletionQueue;
    let mut wcs = [Wc::default(); 1];
    let count = cq.poll(cluster.context(thread).cpu(), &mut wcs);
    (count > 0).then_some(wcs[0])
}

/// Whether the memory of both ends is as the verb should leave it.
fn effect<P: Provider>(trial: &Trial, local: &P::Mr, remote: &P::Mr, received: Option<Wc>) -> bool {
    let word = |mr: &P::Mr, at: usize| {
        let mut bytes = [0; 8];
        mr.region().copy_out(at, &mut bytes);
        u64::from_le_bytes(bytes)
    };
    let gap = match trial.kind {
        QpKind::Ud => GRH_BYTES,
        QpKind::Rc | QpKind::Uc => 0,
    };
    match trial.verb {
        Verb::Write => word(remote, 0) == WORDS[0],
        Verb::Read => word(local, 0) == WORDS[1],
        Verb::FetchAdd => (word(local, 0), word(remote, 0)) == (WORDS[1], WORDS[1] + 1),
        Verb::Send => received.is_some() && word(remote, 8 + gap) == WORDS[0],
    }
}
