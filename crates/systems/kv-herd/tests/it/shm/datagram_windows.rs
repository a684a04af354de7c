//! Clients that send datagrams at full tilt lose none of them for want of RECVs: server and clients on shared
//! memory, in one thread.

use crate::planted::Planted;
use drover_base::{Actor, Cpu};
use drover_control::LocalListener;
use drover_kv::{KvClient, Op, Outcome};
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::control::FrontEnd;
use drover_kv_herd::server::{Acceptor, ClientLimits, Mistake, Server, ServerOptions, Worker};
use drover_store::PartitionOptions;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const CLIENTS: usize = 16;

fn step_server(acceptor: &mut Acceptor<Shm, Planted>, worker: &mut Worker<Shm, Planted>) {
    let (control, ctx) = (acceptor.context(), worker.context());
    control.cpu().refresh();
    acceptor.step(control.cpu());
    ctx.cpu().refresh();
    worker.step(ctx.cpu());
}

/// Datagrams lost while clients that want wide windows keep them full.
fn lost(mistake: Option<Mistake>) -> u64 {
    let device = ShmDevice::default();
    let options = ServerOptions {
        partition: PartitionOptions {
            log_bytes: 1 << 18,
            bucket_count: 1 << 10,
            ..PartitionOptions::default()
        },
        clients: ClientLimits {
            datagram_recvs: 256,
            ..ClientLimits::default()
        },
        idle_sweeps: 1,
        ..ServerOptions::default()
    };
    let (mut acceptor, mut workers) =
        Server::<Shm>::in_pieces_as(&device, &options, Planted(mistake)).expect("a server");
    let mut worker = workers.remove(0);
    let listener = LocalListener::new();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let wishes = ClientOptions {
            window: 64,
            front_end: FrontEnd::Datagrams,
            ..ClientOptions::default()
        };
        let ctx = Rc::new(device.context().expect("a context"));
        let mut client: HerdClient<Shm> = HerdClient::new(ctx.clone(), Dial::at(&listener), wishes);
        client.poll(ctx.cpu(), &mut |_| {});
        acceptor.adopt(listener.accept().expect("the first poll dials"));
        for _ in 0..1_000_000 {
            ctx.cpu().refresh();
            client.poll(ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                break;
            }
            step_server(&mut acceptor, &mut worker);
        }
        assert!(client.is_ready(), "{:?}", client.take_error());
        clients.push((ctx, client));
    }
    let mut done = 0;
    for round in 0..50u64 {
        for (ctx, client) in &mut clients {
            ctx.cpu().refresh();
            let key = round.to_le_bytes();
            let put = Op::put(&key, b"v");
            let get = Op::Get { key: &key };
            // Different keys would do as well: GETs of one key do not wait for each other.
            while client
                .submit(ctx.cpu(), if round == 0 { &put } else { &get }, 0)
                .is_ok()
            {
                if round == 0 {
                    break;
                }
            }
            client.poll(ctx.cpu(), &mut |completion| {
                assert_ne!(completion.outcome, Outcome::Indeterminate);
                done += 1;
            });
        }
        step_server(&mut acceptor, &mut worker);
    }
    assert!(done > 100, "{done} requests were answered");
    worker.context().stats().dropped_no_recv
}

#[test]
fn no_datagram_is_lost_for_want_of_recvs() {
    assert_eq!(lost(None), 0);
}

#[test]
fn flaw_any_datagram_window_is_caught() {
    assert!(lost(Some(Mistake::AnyDatagramWindow)) > 0);
}
