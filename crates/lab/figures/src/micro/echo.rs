//! Requests and replies: [`Server`] answers the requests of [`Client`]s, each by any [`Via`].
//!
//! ```text
//! client                          server
//! slot w of window  --request-->  slot w of this client: polled in order, or a RECV
//! slot w, or a RECV <--reply----
//! ```

use super::accesses::Lookups;
use super::costs::ECHO_SCAN;
use super::wiring::{self, Cq, P, Qp};
use super::{Echo, Tally, Via};
use crate::cluster::{Cluster, Thread};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{
    Context, GRH_BYTES, MemoryRegion, Payload, Provider, QpKind, QueuePair, RecvList, RecvWr, RemoteRegion,
    SendList, SendOp, SendWr, UdDest, Wc, WrId,
};
use std::sync::atomic::Ordering;

/// Unless every request is signaled, one in this many is.
const SIGNAL_EVERY: usize = 64;

/// Outgoing direction of one connection.
struct Out<P: Provider> {
    /// Connected queue pair; `None` for datagrams.
    qp: Option<P::Qp>,
    remote: RemoteRegion,
    dest: Option<UdDest>,
    since_signal: usize,
}

/// State that both ends have.
struct End<P: Provider> {
    via_in: Via,
    via_out: Via,
    plan: Echo,
    send_cq: P::Cq,
    recv_cq: P::Cq,
    /// Slots (or RECV buffers) of all peers, followed by outgoing messages.
    mr: P::Mr,
    datagrams: Option<P::Qp>,
    peers: Vec<Out<P>>,
    datagrams_since_signal: usize,
    owed: usize,
    list: SendList,
    recvs: RecvList,
    bytes: Vec<u8>,
    /// Next slot to poll, per peer.
    next: Vec<usize>,
    cursor: usize,
}

impl<P: Provider> End<P> {
    fn stride(&self) -> usize {
        stride(&self.plan)
    }

    /// Offset where the message of slot `slot` of `peer` arrives.
    fn place(&self, peer: usize, slot: usize) -> usize {
        (peer * self.plan.window + slot) * self.stride()
    }

    /// Polls for a message; returns its peer.
    fn receive(&mut self, cpu: &P::Cpu) -> Option<usize> {
        match self.via_in {
            Via::Write => self.scan(cpu),
            Via::Send | Via::Datagram => {
                let mut wcs = [Wc::default(); 1];
                let found = wiring::poll::<P>(&mut self.recv_cq, cpu, &mut wcs);
                let peer = (found > 0).then(|| wcs[0].wr_id.0 as usize)?;
                self.post_recvs(cpu, peer, 1);
                Some(peer)
            }
        }
    }

    /// Polls the next slot of every peer once, starting where the last scan ended.
    fn scan(&mut self, cpu: &P::Cpu) -> Option<usize> {
        let count = self.next.len();
        for looked in 0..count {
            let peer = (self.cursor + looked) % count;
            let word = self.place(peer, self.next[peer]) + last_word(self.plan.bytes);
            if self.mr.region().load_u64(word, Ordering::Acquire) != 0 {
                cpu.charge(ECHO_SCAN, looked as u32 + 1);
                self.mr.region().store_u64(word, 0, Ordering::Relaxed);
                self.next[peer] = (self.next[peer] + 1) % self.plan.window;
                self.cursor = (peer + 1) % count;
                return Some(peer);
            }
        }
        cpu.charge(ECHO_SCAN, count as u32);
        None
    }

    /// Posts RECVs for messages of `peer`; over UD for any peer.
    fn post_recvs(&mut self, cpu: &P::Cpu, peer: usize, count: usize) {
        let place = self.place(peer, 0);
        self.recvs.clear();
        for _ in 0..count {
            self.recvs.push(RecvWr {
                wr_id: WrId(peer as u64),
                sge: self.mr.sge(place, self.stride()),
            });
        }
        let qp = match self.via_in {
            Via::Datagram => self.datagrams.as_mut(),
            _ => self.peers[peer].qp.as_mut(),
        };
        let qp = qp.expect("messages come by some queue pair");
        qp.post_recv(cpu, &self.recvs)
            .expect("space for what was used up");
    }

    /// Sends a message to slot `slot` of `peer`, which knows this end as its peer `number`.
    fn send(&mut self, cpu: &P::Cpu, peer: usize, slot: usize, number: usize) {
        let plan = &self.plan;
        let offset = (number * plan.window + slot) * stride(plan);
        let out = &mut self.peers[peer];
        let op = match self.via_out {
            Via::Write => SendOp::Write {
                remote: out.remote.at(offset),
                imm: None,
            },
            Via::Send => SendOp::Send {
                dest: None,
                imm: None,
            },
            Via::Datagram => SendOp::Send {
                dest: out.dest,
                imm: None,
            },
        };
        let (qp, since) = match self.via_out {
            Via::Datagram => (self.datagrams.as_mut(), &mut self.datagrams_since_signal),
            _ => (out.qp.as_mut(), &mut out.since_signal),
        };
        *since += 1;
        let signaled = plan.signaled || *since >= SIGNAL_EVERY;
        if signaled {
            *since = 0;
            self.owed += 1;
        }
        self.list.clear();
        let staged = self.mr.region().len() - 4096;
        let payload = match plan.inline {
            true => self.list.inline(&self.bytes),
            false => Payload::Region(self.mr.sge(staged, plan.bytes)),
        };
        self.list
            .push(SendWr::new(op, payload).signaled_if(signaled, WrId(0)));
        let posted = qp
            .expect("messages go by some queue pair")
            .post_send(cpu, &self.list);
        posted.expect("a window fits the queue");
    }

    /// Polls completions of sent messages.
    fn reap(&mut self, cpu: &P::Cpu) {
        if self.owed > 0 {
            let mut wcs = [Wc::default(); 4];
            self.owed -= wiring::poll::<P>(&mut self.send_cq, cpu, &mut wcs);
        }
    }
}

/// Bytes per slot.
fn stride(plan: &Echo) -> usize {
    plan.bytes.next_multiple_of(8) + GRH_BYTES
}

/// Offset of the word that arrives last.
fn last_word(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - 8
}

/// A thread of the server.
struct Server<P: Provider> {
    end: End<P>,
    /// Next reply slot in each client's window.
    reply_slot: Vec<usize>,
    /// Peers whose requests wait for memory accesses.
    lookups: Lookups<usize>,
}

impl<P: Provider> Actor<P::Cpu> for Server<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.end.reap(cpu);
        let arrived = self.end.receive(cpu);
        let Some(peer) = self.lookups.turn(cpu, arrived) else {
            return match self.lookups.is_waiting() {
                true => Progress::Busy,
                false => Progress::Idle { wake_at: Ns::MAX },
            };
        };
        // Datagrams do not identify their sender here: replies go round robin.
        let slot = self.reply_slot[peer];
        self.reply_slot[peer] = (slot + 1) % self.end.plan.window;
        self.end.send(cpu, peer, slot, 0);
        Progress::Busy
    }
}

/// A client process.
struct Client<P: Provider> {
    end: End<P>,
    /// Index of this client among those of its server thread.
    number: usize,
    slot: usize,
    outstanding: usize,
    tally: Tally,
}

impl<P: Provider> Actor<P::Cpu> for Client<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.end.reap(cpu);
        let mut progress = Progress::Idle { wake_at: Ns::MAX };
        if self.outstanding > 0 && self.end.receive(cpu).is_some() {
            self.outstanding -= 1;
            self.tally.add_done(1);
            progress = Progress::Busy;
        }
        if self.outstanding < self.end.plan.window {
            self.end.send(cpu, 0, self.slot, self.number);
            self.slot = (self.slot + 1) % self.end.plan.window;
            self.outstanding += 1;
            progress = Progress::Busy;
        }
        progress
    }
}

/// Builds and starts the server threads and clients of `plan` in `cluster`; clients count completed requests in
/// `tally`.
pub fn set_up<R: Cluster>(cluster: &mut R, plan: &Echo, tally: &Tally) {
    let clients = plan.client_machines * plan.clients;
    let server_of = |client: usize| client % plan.server_threads;
    let mut servers: Vec<End<P<R>>> = (0..plan.server_threads)
        .map(|n| {
            end(
                cluster,
                server_thread(n),
                plan,
                clients.div_ceil(plan.server_threads),
                true,
            )
        })
        .collect();
    for client in 0..clients {
        let here = Thread {
            machine: 1 + client % plan.client_machines,
            process: client / plan.client_machines,
            thread: 0,
        };
        let mut end = end(cluster, here, plan, 1, false);
        let server = &mut servers[server_of(client)];
        join(
            cluster,
            [here, server_thread(server_of(client))],
            &mut end,
            server,
        );
        let number = server.peers.len() - 1;
        receive_from(cluster, here, &mut end, 0);
        receive_from(cluster, server_thread(server_of(client)), server, number);
        let actor = Client {
            end,
            number,
            slot: 0,
            outstanding: 0,
            tally: tally.clone(),
        };
        cluster.spawn(here, Box::new(actor));
    }
    for (n, end) in servers.into_iter().enumerate() {
        let reply_slot = vec![0; end.peers.len()];
        let server = Server {
            end,
            reply_slot,
            lookups: Lookups::new(plan.accesses),
        };
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

/// An end for up to `peers` peers, not connected yet.
fn end<R: Cluster>(cluster: &mut R, thread: Thread, plan: &Echo, peers: usize, server: bool) -> End<P<R>> {
    let send_cq: Cq<R> = wiring::completion_queue(cluster, thread, 4096);
    let recv_cq: Cq<R> = wiring::completion_queue(cluster, thread, 4096);
    let slots = (peers * plan.window * stride(plan)).next_multiple_of(4096);
    let mr = wiring::memory(cluster, thread, slots + 4096);
    let staged = vec![7; plan.bytes];
    mr.region().copy_in(mr.region().len() - 4096, &staged);
    let uses_datagrams = [plan.request, plan.reply].contains(&Via::Datagram);
    let datagrams: Option<Qp<R>> =
        uses_datagrams.then(|| wiring::queue_pair_of(cluster, thread, QpKind::Ud, &send_cq, &recv_cq));
    let (via_in, via_out) = if server {
        (plan.request, plan.reply)
    } else {
        (plan.reply, plan.request)
    };
    End {
        via_in,
        via_out,
        plan: plan.clone(),
        send_cq,
        recv_cq,
        mr,
        datagrams,
        peers: Vec::new(),
        datagrams_since_signal: 0,
        owed: 0,
        list: SendList::with_capacity(1, plan.bytes),
        recvs: RecvList::with_capacity(1),
        bytes: staged,
        next: Vec::new(),
        cursor: 0,
    }
}

/// Connects a client's end with its server's.
fn join<R: Cluster>(cluster: &mut R, at: [Thread; 2], client: &mut End<P<R>>, server: &mut End<P<R>>) {
    let kind = client.plan.kind;
    let [here, there] = at;
    let mut a = wiring::queue_pair_of(cluster, here, kind, &client.send_cq, &client.recv_cq);
    let mut b = wiring::queue_pair_of(cluster, there, kind, &server.send_cq, &server.recv_cq);
    wiring::connect::<P<R>>(&mut a, &mut b);
    let to_server = wiring::import(cluster, here, there, &server.mr, true);
    let to_client = wiring::import(cluster, there, here, &client.mr, true);
    let dest = |cluster: &mut R, from: Thread, to: &End<P<R>>| {
        to.datagrams.as_ref().map(|qp| wiring::address(cluster, from, qp))
    };
    let (dest_server, dest_client) = (dest(cluster, here, server), dest(cluster, there, client));
    client.add(a, to_server, dest_server);
    server.add(b, to_client, dest_client);
}

/// Posts RECVs for messages of peer `number`, if it sends messages.
fn receive_from<R: Cluster>(cluster: &mut R, thread: Thread, end: &mut End<P<R>>, number: usize) {
    if end.via_in != Via::Write {
        let count = 2 * end.plan.window;
        end.post_recvs(cluster.context(thread).cpu(), number, count);
    }
}

impl<P: Provider> End<P> {
    fn add(&mut self, qp: P::Qp, remote: RemoteRegion, dest: Option<UdDest>) {
        self.next.push(0);
        self.peers.push(Out {
            qp: Some(qp),
            remote,
            dest,
            since_signal: 0,
        });
    }
}
