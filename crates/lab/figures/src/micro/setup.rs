//! Builds the threads, queue pairs and actors of a [`Verbs`] microbenchmark.

use super::issuer::{Issuer, Target};
use super::sink::Sink;
use super::wiring::{self, Cq, P, Qp};
use super::{Tally, Verb, Verbs, Wiring};
use crate::cluster::{Cluster, Thread};
use drover_base::{Actor, Cpu, Progress};
use drover_verbs::{Access, Context, Provider, QpKind, RemoteRegion};
use std::collections::BTreeMap;

/// Depth of completion queues.
const CQ_DEPTH: usize = 4096;

/// One thread under construction.
struct Party<R: Cluster> {
    cq: Option<Cq<R>>,
    mr: <P<R> as Provider>::Mr,
    qps: Vec<Qp<R>>,
    targets: Vec<Target>,
}

/// Builds and starts the threads of `plan` in `cluster`; they run when the clock does, and count requests in `tally`.
pub fn verbs<R: Cluster>(cluster: &mut R, plan: &Verbs, tally: &Tally) {
    let issuers: Vec<Thread> = plan.issuing_threads().collect();
    let targets: Vec<Thread> = plan.target_threads().collect();
    let mut parties: BTreeMap<Thread, Party<R>> = BTreeMap::new();
    for &thread in issuers.iter().chain(&targets) {
        let party = parties.entry(thread);
        party.or_insert_with(|| party_of(cluster, thread, plan));
    }
    if plan.targets.machines == 0 {
        among_each_other(cluster, plan, &issuers, &mut parties);
    } else if plan.kind == QpKind::Ud {
        datagrams(cluster, plan, &issuers, &targets, &mut parties);
    } else {
        connections(cluster, plan, &issuers, &targets, &mut parties);
    }
    for (thread, party) in parties {
        let posts = issuers.contains(&thread);
        let actor = if posts {
            issuer(party, plan, tally)
        } else {
            target(cluster, thread, party, plan, tally)
        };
        cluster.spawn(thread, actor);
    }
}

type Boxed<R> = Box<dyn Actor<<P<R> as Provider>::Cpu>>;

fn party_of<R: Cluster>(cluster: &mut R, thread: Thread, plan: &Verbs) -> Party<R> {
    let stride = plan.bytes.next_multiple_of(8).max(8);
    Party {
        cq: Some(wiring::completion_queue(cluster, thread, CQ_DEPTH)),
        mr: wiring::memory(cluster, thread, plan.words.max(1) * stride + 64),
        qps: Vec::new(),
        targets: Vec::new(),
    }
}

fn issuer<R: Cluster>(mut party: Party<R>, plan: &Verbs, tally: &Tally) -> Boxed<R> {
    let cq = party.cq.take().expect("one actor per thread");
    Box::new(Issuer::<P<R>>::new(
        plan,
        party.qps,
        party.targets,
        cq,
        party.mr,
        tally,
    ))
}

fn target<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    mut party: Party<R>,
    plan: &Verbs,
    tally: &Tally,
) -> Boxed<R> {
    if plan.verb != Verb::Send {
        return Box::new(Bystander { _party: party });
    }
    let ctx = cluster.context(thread);
    let cq = party.cq.take().expect("one actor per thread");
    let depth = wiring::recv_depth(ctx.caps());
    let mut sink = Sink::<P<R>>::new(party.qps, cq, party.mr, plan.bytes, depth, tally);
    sink.fill(ctx.cpu());
    Box::new(sink)
}

/// A thread that does nothing while its card works. It keeps the card's resources alive.
struct Bystander<R: Cluster> {
    _party: Party<R>,
}

impl<R: Cluster, C: Cpu> Actor<C> for Bystander<R> {
    fn step(&mut self, _: &C) -> Progress {
        Progress::Idle {
            wake_at: drover_base::Ns::MAX,
        }
    }
}

/// The targets of issuer `index`.
fn goals<'a>(plan: &Verbs, index: usize, targets: &'a [Thread]) -> &'a [Thread] {
    match plan.wiring {
        Wiring::AllToAll => targets,
        Wiring::OneToOne => std::slice::from_ref(&targets[index % targets.len()]),
    }
}

type Parties<R> = BTreeMap<Thread, Party<R>>;

fn connections<R: Cluster>(
    cluster: &mut R,
    plan: &Verbs,
    issuers: &[Thread],
    targets: &[Thread],
    parties: &mut Parties<R>,
) {
    for (index, &from) in issuers.iter().enumerate() {
        for &to in goals(plan, index, targets) {
            let remote = wiring::import(cluster, from, to, &parties[&to].mr, false);
            for _ in 0..plan.queue_pairs {
                let there = pair(cluster, plan.kind, from, to, parties);
                parties.get_mut(&from).expect("made before").aim(remote);
                parties.get_mut(&to).expect("made before").qps.push(there);
            }
        }
    }
}

/// Connects threads of the same index on different machines, with one queue pair for both directions.
fn among_each_other<R: Cluster>(cluster: &mut R, plan: &Verbs, issuers: &[Thread], parties: &mut Parties<R>) {
    let numbered = |a: &Thread, b: &Thread| (a.process, a.thread) == (b.process, b.thread);
    for &from in issuers {
        for &to in issuers
            .iter()
            .filter(|to| to.machine > from.machine && numbered(&from, to))
        {
            let there = wiring::import(cluster, from, to, &parties[&to].mr, false);
            let back = wiring::import(cluster, to, from, &parties[&from].mr, false);
            for _ in 0..plan.queue_pairs {
                let other = pair(cluster, plan.kind, from, to, parties);
                parties.get_mut(&from).expect("made before").aim(there);
                let party = parties.get_mut(&to).expect("made before");
                party.qps.push(other);
                party.aim(back);
            }
        }
    }
}

/// Connects a new queue pair of `from`, which keeps it, with one of `to`, which is returned.
fn pair<R: Cluster>(
    cluster: &mut R,
    kind: QpKind,
    from: Thread,
    to: Thread,
    parties: &mut Parties<R>,
) -> Qp<R> {
    let cq = |thread: Thread| parties[&thread].cq.as_ref().expect("not spawned yet");
    let mut here = wiring::queue_pair(cluster, from, kind, cq(from));
    let mut there = wiring::queue_pair(cluster, to, kind, cq(to));
    wiring::connect::<P<R>>(&mut here, &mut there);
    parties.get_mut(&from).expect("made before").qps.push(here);
    there
}

fn datagrams<R: Cluster>(
    cluster: &mut R,
    plan: &Verbs,
    issuers: &[Thread],
    targets: &[Thread],
    parties: &mut Parties<R>,
) {
    for &thread in targets {
        let party = parties.get_mut(&thread).expect("made before");
        let cq = party.cq.as_ref().expect("not spawned yet");
        party
            .qps
            .push(wiring::queue_pair(cluster, thread, QpKind::Ud, cq));
    }
    for (index, &from) in issuers.iter().enumerate() {
        for number in 0..plan.queue_pairs {
            let cq = parties[&from].cq.as_ref().expect("not spawned yet");
            let qp = wiring::queue_pair(cluster, from, QpKind::Ud, cq);
            parties.get_mut(&from).expect("made before").qps.push(qp);
            for &to in goals(plan, index, targets) {
                let dest = Some(wiring::address(cluster, from, &parties[&to].qps[0]));
                let remote = RemoteRegion {
                    rkey: 0,
                    len: 0,
                    access: Access::LOCAL,
                };
                let target = Target {
                    qp: number,
                    remote,
                    dest,
                };
                parties.get_mut(&from).expect("made before").targets.push(target);
            }
        }
    }
}

impl<R: Cluster> Party<R> {
    /// Directs requests through the last added queue pair to `remote`.
    fn aim(&mut self, remote: RemoteRegion) {
        self.targets.push(Target {
            qp: self.qps.len() - 1,
            remote,
            dest: None,
        });
    }
}
