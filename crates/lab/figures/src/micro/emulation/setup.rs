//! Builds server threads and clients of an [`Emulation`].
//!
//! ```text
//! memory of a server thread    table that is read | PUTs of its first client | ... of its last one | an answer
//! memory of a client           what its READs bring | answers, if they are datagrams | a PUT
//! memory of a client machine   answers to its first client | ... to its last one
//! ```
//!
//! The clients of a machine are threads of one process, so that answers to all of them can take one connection.

use super::super::Tally;
use super::super::wiring::{self, Cq, P};
use super::client::{Client, Lane, TABLE_BYTES};
use super::port::{Desk, Port, Slots, To};
use super::server::Server;
use super::{Emulation, Latencies, REPLY_BYTES};
use crate::room::{Room, Thread};
use drover_base::Ns;
use drover_mem::Region;
use drover_verbs::{
    Context, Export, GRH_BYTES, MemoryRegion, Provider, QpKind, QueuePair, RemoteRegion, SendList, Watch,
};
use std::collections::VecDeque;

/// Depth of completion queues.
const CQ_DEPTH: usize = 4096;

/// Sets everything up; actors begin when time does.
pub fn set_up<R: Room>(room: &mut R, plan: &Emulation, tally: &Tally, noted: (Ns, &Latencies)) {
    let threads = 0..plan.server_threads;
    let mut servers: Vec<Server<P<R>>> = threads.map(|n| server(room, n, plan)).collect();
    let machines = plan.client_machines.min(plan.clients());
    for machine in 0..machines {
        let server = &mut servers[machine % plan.server_threads];
        let there = server_thread(machine % plan.server_threads);
        let numbers: Vec<usize> = (machine..plan.clients()).step_by(machines).collect();
        let mut home = (!plan.sends()).then(|| home(room, machine, plan, numbers.len(), there, server));
        for (thread, number) in numbers.into_iter().enumerate() {
            let here = client_thread(machine, thread);
            let mut client = client(room, here, there, plan, server, home.as_mut());
            client.lanes = vec![Lane::default(); plan.window_of(number)];
            client.free = (0..client.lanes.len()).collect();
            client.tally = tally.clone();
            client.noted = (noted.0, noted.1.clone());
            room.spawn(here, Box::new(client));
        }
    }
    for (n, server) in servers.into_iter().enumerate() {
        room.spawn(server_thread(n), Box::new(server));
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

/// Both completion queues of a desk.
fn desk<R: Room>(
    room: &mut R,
    thread: Thread,
    mr: &<P<R> as Provider>::Mr,
    staged: usize,
    bytes: usize,
) -> Desk<P<R>> {
    let [send_cq, recv_cq]: [Cq<R>; 2] = [(); 2].map(|()| wiring::completion_queue(room, thread, CQ_DEPTH));
    Desk::new(send_cq, recv_cq, mr, mr.sge(staged, bytes))
}

/// Adds a datagram queue pair with RECVs for every slot.
fn receive_datagrams<R: Room>(
    room: &mut R,
    thread: Thread,
    desk: &mut Desk<P<R>>,
    mr: &<P<R> as Provider>::Mr,
    slots: &Slots,
) {
    let qp = wiring::queue_pair_of(room, thread, QpKind::Ud, &desk.send_cq, &desk.recv_cq);
    desk.add(qp);
    for slot in 0..slots.count {
        desk.post_recv(room.context(thread).cpu(), mr, slots, slot);
    }
}

fn server<R: Room>(room: &mut R, n: usize, plan: &Emulation) -> Server<P<R>> {
    let thread = server_thread(n);
    let machines = plan.client_machines.div_ceil(plan.server_threads);
    let clients = machines * plan.clients().div_ceil(plan.client_machines);
    let requests = slots(TABLE_BYTES, clients * plan.window, plan.put_bytes() + plan.gap());
    let staged = TABLE_BYTES + requests.total();
    let mr = wiring::memory(room, thread, staged + REPLY_BYTES);
    let mut desk = desk(room, thread, &mr, staged, REPLY_BYTES);
    let recvs = plan.sends().then_some(requests);
    if let Some(slots) = &recvs {
        receive_datagrams(room, thread, &mut desk, &mr, slots);
    }
    Server {
        desk,
        mr,
        recvs,
        ports: Vec::new(),
        senders: Vec::new(),
        passive: Vec::new(),
        cursor: 0,
    }
}

/// What the clients of a machine share: memory for answers, and the connection that they come by.
struct Home<P: Provider> {
    region: Region,
    /// As the server addresses it.
    remote: RemoteRegion,
    /// The server's lane to it.
    lane: usize,
    /// Clients that have a part of it.
    clients: usize,
    /// This end of the connection and the memory's registration, until somebody keeps them.
    kept: (Vec<P::Qp>, Vec<P::Mr>),
}

fn home<R: Room>(
    room: &mut R,
    machine: usize,
    plan: &Emulation,
    clients: usize,
    there: Thread,
    server: &mut Server<P<R>>,
) -> Home<P<R>> {
    let here = client_thread(machine, 0);
    let answers = slots(0, plan.window, REPLY_BYTES).total();
    let mr = wiring::memory(room, here, clients * answers);
    let watches: Vec<Watch> = (0..clients)
        .map(|thread| Watch {
            range: thread * answers..(thread + 1) * answers,
            bell: room.context(client_thread(machine, thread)).bell(),
        })
        .collect();
    let export: Export = mr.export(&watches).expect("an export");
    let cq = wiring::completion_queue(room, here, CQ_DEPTH);
    let mut ours = wiring::queue_pair(room, here, QpKind::Uc, &cq);
    let mut theirs = wiring::queue_pair(room, there, QpKind::Uc, &server.desk.send_cq);
    wiring::connect::<P<R>>(&mut ours, &mut theirs);
    Home {
        region: mr.region().clone(),
        remote: room.context(there).import_region(&export).expect("imported"),
        lane: server.desk.add(theirs),
        clients: 0,
        kept: (vec![ours], vec![mr]),
    }
}

/// A client at `here`, connected with `server` at `there`, without operations yet.
fn client<R: Room>(
    room: &mut R,
    here: Thread,
    there: Thread,
    plan: &Emulation,
    server: &mut Server<P<R>>,
    home: Option<&mut Home<P<R>>>,
) -> Client<P<R>> {
    let reads = plan.window * plan.longest().next_multiple_of(64);
    let datagrams = slots(reads, plan.window, REPLY_BYTES + GRH_BYTES);
    let staged = reads + datagrams.total();
    let mr = wiring::memory(room, here, staged + plan.put_bytes());
    let mut desk = desk(room, here, &mr, staged, plan.put_bytes());
    let read_cq: Cq<R> = wiring::completion_queue(room, here, CQ_DEPTH);
    let mut qp = wiring::queue_pair(room, here, QpKind::Rc, &read_cq);
    let mut passive = wiring::queue_pair(room, there, QpKind::Rc, &server.desk.send_cq);
    wiring::connect::<P<R>>(&mut qp, &mut passive);
    server.passive.push(passive);
    let table = wiring::import(room, here, there, &server.mr, true);
    let (port, answers, recvs, passive) = match home {
        None => {
            receive_datagrams(room, here, &mut desk, &mr, &datagrams);
            let port = exchange_datagrams(room, (here, there), &desk, server, datagrams);
            (
                port,
                mr.region().clone(),
                Some(datagrams),
                (Vec::new(), Vec::new()),
            )
        }
        Some(home) => {
            let port = exchange_writes(room, (here, there), plan, &mut desk, server, home, table);
            let kept = std::mem::take(&mut home.kept);
            (port, home.region.clone(), None, kept)
        }
    };
    Client {
        plan: plan.clone(),
        qp,
        read_cq,
        mr,
        landing: 0,
        table,
        port,
        desk,
        answers,
        recvs,
        _passive: passive,
        lanes: Vec::new(),
        free: Vec::new(),
        puts: VecDeque::new(),
        list: SendList::with_capacity(1, 0),
        tally: Tally::default(),
        noted: (Ns::MAX, Latencies::default()),
    }
}

/// Both ends learn each other's datagram queue pair.
fn exchange_datagrams<R: Room>(
    room: &mut R,
    (here, there): (Thread, Thread),
    desk: &Desk<P<R>>,
    server: &mut Server<P<R>>,
    unused: Slots,
) -> Port {
    let to_client = wiring::address(room, there, desk.qp(0));
    let to_server = wiring::address(room, here, server.desk.qp(0));
    server.senders.push(desk.qp(0).qpn());
    server.ports.push(Port::new(0, To::Datagrams(to_client), unused));
    Port::new(0, To::Datagrams(to_server), unused)
}

/// A connection for PUTs; answers take that of the machine.
fn exchange_writes<R: Room>(
    room: &mut R,
    (here, there): (Thread, Thread),
    plan: &Emulation,
    desk: &mut Desk<P<R>>,
    server: &mut Server<P<R>>,
    home: &mut Home<P<R>>,
    table: RemoteRegion,
) -> Port {
    let mut ours = wiring::queue_pair_of(room, here, QpKind::Uc, &desk.send_cq, &desk.recv_cq);
    let mut theirs = wiring::queue_pair(room, there, QpKind::Uc, &server.desk.send_cq);
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
    Port::new(desk.add(ours), To::Memory(table, puts), answers)
}
