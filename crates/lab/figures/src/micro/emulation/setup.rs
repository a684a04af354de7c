//! Builds server threads and clients of an [`Emulation`].
//!
//! ```text
//! memory of a server thread    table for READs | PUTs of its first client | ... of its last one | an answer
//! memory of a client           READ results | answers, if they are datagrams | a PUT
//! memory of a client machine   answers to its first client | ... to its last one
//! ```
//!
//! The clients of a machine are threads of one process, so that answers to all of them can share one connection.

use super::super::wiring::{self, Cq, P};
use super::client::{Client, Connections, Puts, Reads, Recorder, TABLE_BYTES};
use super::port::{Port, Queues, Slots, To};
use super::server::Server;
use super::{Emulation, REPLY_BYTES};
use crate::cluster::{Cluster, Thread};
use drover_mem::Region;
use drover_verbs::{
    Context, Export, GRH_BYTES, MemoryRegion, Provider, QpKind, QueuePair, RemoteRegion, Watch,
};

/// Depth of completion queues.
const CQ_DEPTH: usize = 4096;

/// Builds and starts the threads of `plan` in `cluster`; they run when the clock does. Clients report to `recorder`.
pub fn set_up<R: Cluster>(cluster: &mut R, plan: &Emulation, recorder: &Recorder) {
    let threads = 0..plan.server_threads;
    let mut servers: Vec<Server<P<R>>> = threads.map(|n| server(cluster, n, plan)).collect();
    let machines = plan.client_machines.min(plan.clients());
    for machine in 0..machines {
        let server = &mut servers[machine % plan.server_threads];
        let there = server_thread(machine % plan.server_threads);
        let numbers: Vec<usize> = (machine..plan.clients()).step_by(machines).collect();
        let mut home = (!plan.sends()).then(|| home(cluster, machine, plan, numbers.len(), there, server));
        for (thread, number) in numbers.into_iter().enumerate() {
            let here = client_thread(machine, thread);
            let connections = connections(cluster, here, there, plan, server, home.as_mut());
            let client = Client::new(plan, connections, plan.window_of(number), recorder);
            cluster.spawn(here, Box::new(client));
        }
    }
    for (n, server) in servers.into_iter().enumerate() {
        cluster.spawn(server_thread(n), Box::new(server));
    }
}

fn server_thread(n: usize) -> Thread {
    Thread {
        machine: 0,
        process: n,
        thread: 0,
    }
}

fn client_thread(machine: usize, thread: usize) -> Thread {
    Thread {
        machine: 1 + machine,
        process: 0,
        thread,
    }
}

/// Slots for `count` messages of `bytes`.
fn slots(start: usize, count: usize, bytes: usize) -> Slots {
    Slots { start, count, bytes }
}

/// Makes the queues of a thread with both completion queues.
fn queues<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    mr: &<P<R> as Provider>::Mr,
    staged: usize,
    bytes: usize,
) -> Queues<P<R>> {
    let [send_cq, recv_cq]: [Cq<R>; 2] =
        [(); 2].map(|()| wiring::completion_queue(cluster, thread, CQ_DEPTH));
    Queues::new(send_cq, recv_cq, mr, mr.sge(staged, bytes))
}

/// Adds a datagram queue pair with RECVs for every slot.
fn receive_datagrams<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    queues: &mut Queues<P<R>>,
    mr: &<P<R> as Provider>::Mr,
    slots: &Slots,
) {
    let qp = wiring::queue_pair_of(cluster, thread, QpKind::Ud, &queues.send_cq, &queues.recv_cq);
    queues.add(qp);
    for slot in 0..slots.count {
        queues.post_recv(cluster.context(thread).cpu(), mr, slots, slot);
    }
}

fn server<R: Cluster>(cluster: &mut R, n: usize, plan: &Emulation) -> Server<P<R>> {
    let thread = server_thread(n);
    let machines = plan.client_machines.div_ceil(plan.server_threads);
    let clients = machines * plan.clients().div_ceil(plan.client_machines);
    let requests = slots(TABLE_BYTES, clients * plan.window, plan.put_bytes() + plan.gap());
    let staged = TABLE_BYTES + requests.total();
    let mr = wiring::memory(cluster, thread, staged + REPLY_BYTES);
    let mut queues = queues(cluster, thread, &mr, staged, REPLY_BYTES);
    let recvs = plan.sends().then_some(requests);
    if let Some(slots) = &recvs {
        receive_datagrams(cluster, thread, &mut queues, &mr, slots);
    }
    Server {
        queues,
        mr,
        recvs,
        ports: Vec::new(),
        senders: Vec::new(),
        passive: Vec::new(),
        cursor: 0,
    }
}

/// State shared by the clients of a machine: memory for answers, and the connection of the answers.
struct Home<P: Provider> {
    region: Region,
    /// The memory as the server addresses it.
    remote: RemoteRegion,
    /// The server's lane to the machine.
    lane: usize,
    /// Number of clients that use it.
    clients: usize,
    /// This end of the connection and the memory's registration, until a client takes them.
    kept: (Vec<P::Qp>, Vec<P::Mr>),
}

fn home<R: Cluster>(
    cluster: &mut R,
    machine: usize,
    plan: &Emulation,
    clients: usize,
    there: Thread,
    server: &mut Server<P<R>>,
) -> Home<P<R>> {
    let here = client_thread(machine, 0);
    let answers = slots(0, plan.window, REPLY_BYTES).total();
    let mr = wiring::memory(cluster, here, clients * answers);
    let watches: Vec<Watch> = (0..clients)
        .map(|thread| Watch {
            range: thread * answers..(thread + 1) * answers,
            bell: cluster.context(client_thread(machine, thread)).bell(),
        })
        .collect();
    let export: Export = mr.export(&watches).expect("an export");
    let cq = wiring::completion_queue(cluster, here, CQ_DEPTH);
    let mut ours = wiring::queue_pair(cluster, here, QpKind::Uc, &cq);
    let mut theirs = wiring::queue_pair(cluster, there, QpKind::Uc, &server.queues.send_cq);
    wiring::connect::<P<R>>(&mut ours, &mut theirs);
    Home {
        region: mr.region().clone(),
        remote: cluster.context(there).import_region(&export).expect("imported"),
        lane: server.queues.add(theirs),
        clients: 0,
        kept: (vec![ours], vec![mr]),
    }
}

/// Memory and connections of a client at `here` of `server` at `there`.
fn connections<R: Cluster>(
    cluster: &mut R,
    here: Thread,
    there: Thread,
    plan: &Emulation,
    server: &mut Server<P<R>>,
    home: Option<&mut Home<P<R>>>,
) -> Connections<P<R>> {
    let read_bytes = plan.window * plan.longest().next_multiple_of(64);
    let datagrams = slots(read_bytes, plan.window, REPLY_BYTES + GRH_BYTES);
    let staged = read_bytes + datagrams.total();
    let mr = wiring::memory(cluster, here, staged + plan.put_bytes());
    let mut queues = queues(cluster, here, &mr, staged, plan.put_bytes());
    let read_cq: Cq<R> = wiring::completion_queue(cluster, here, CQ_DEPTH);
    let mut qp = wiring::queue_pair(cluster, here, QpKind::Rc, &read_cq);
    let mut passive = wiring::queue_pair(cluster, there, QpKind::Rc, &server.queues.send_cq);
    wiring::connect::<P<R>>(&mut qp, &mut passive);
    server.passive.push(passive);
    let table = wiring::import(cluster, here, there, &server.mr, true);
    let (port, answers, recvs, passive) = match home {
        None => {
            receive_datagrams(cluster, here, &mut queues, &mr, &datagrams);
            let port = exchange_datagrams(cluster, (here, there), &queues, server, datagrams);
            (
                port,
                mr.region().clone(),
                Some(datagrams),
                (Vec::new(), Vec::new()),
            )
        }
        Some(home) => {
            let port = exchange_writes(cluster, (here, there), plan, &mut queues, server, home, table);
            let kept = std::mem::take(&mut home.kept);
            (port, home.region.clone(), None, kept)
        }
    };
    let reads = Reads {
        qp,
        cq: read_cq,
        table,
    };
    let puts = Puts {
        port,
        queues,
        answers,
        recvs,
        _passive: passive,
    };
    Connections { mr, reads, puts }
}

/// Exchanges the two ends' datagram addresses.
fn exchange_datagrams<R: Cluster>(
    cluster: &mut R,
    (here, there): (Thread, Thread),
    queues: &Queues<P<R>>,
    server: &mut Server<P<R>>,
    unused: Slots,
) -> Port {
    let to_client = wiring::address(cluster, there, queues.qp(0));
    let to_server = wiring::address(cluster, here, server.queues.qp(0));
    server.senders.push(queues.qp(0).qpn());
    server.ports.push(Port::new(0, To::Datagrams(to_client), unused));
    Port::new(0, To::Datagrams(to_server), unused)
}

/// Connects a queue pair for PUTs; answers use the machine's connection.
fn exchange_writes<R: Cluster>(
    cluster: &mut R,
    (here, there): (Thread, Thread),
    plan: &Emulation,
    queues: &mut Queues<P<R>>,
    server: &mut Server<P<R>>,
    home: &mut Home<P<R>>,
    table: RemoteRegion,
) -> Port {
    let mut ours = wiring::queue_pair_of(cluster, here, QpKind::Uc, &queues.send_cq, &queues.recv_cq);
    let mut theirs = wiring::queue_pair(cluster, there, QpKind::Uc, &server.queues.send_cq);
    wiring::connect::<P<R>>(&mut ours, &mut theirs);
    server.passive.push(theirs);
    let number = server.ports.len();
    let puts = slots(0, plan.window, plan.put_bytes());
    let puts = slots(TABLE_BYTES + number * puts.total(), plan.window, plan.put_bytes());
    let answers = slots(0, plan.window, REPLY_BYTES);
    let answers = slots(home.clients * answers.total(), plan.window, REPLY_BYTES);
    home.clients += 1;
    server
        .ports
        .push(Port::new(home.lane, To::Memory(home.remote, answers), puts));
    Port::new(queues.add(ours), To::Memory(table, puts), answers)
}
