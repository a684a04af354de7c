//! What a call costs client or server, in instructions: `rpc_instructions fetch|reply|idle COUNT`, to be run under
//! callgrind with `--toggle-collect='rpc_instructions::turn*'` (the client, with the posting over shared memory and the
//! loop around it) or `--toggle-collect='rpc_instructions::serve*'` (the server, which echoes). `fetch` and `reply` are
//! the modes; `idle` counts server steps that find nothing to do. Without callgrind it says how long a call takes.
//!
//! Shared memory, one process, 16 places, requests and results of 48 bytes.

use drover_base::{Cpu, Ns};
use drover_mem::NativeCpu;
use drover_rpc::fetch::{
    CalleeOptions, CallerOptions, ConnParams, FetchClient, FetchServer, Format, Layout, Transfer,
};
use drover_rt::{Depths, Port, Queues};
use drover_verbs::{Context, Device, Provider, QueuePair, Wc};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

const PLACES: usize = 16;
const REQUEST: [u8; 48] = [7; 48];
const BATCH: usize = 32;

type Ctx = Rc<<Shm as Provider>::Context>;

struct Client {
    queues: Queues<Shm>,
    end: FetchClient<Shm>,
    out: Vec<u8>,
    sent: usize,
    good: usize,
}

struct Server {
    queues: Queues<Shm>,
    end: FetchServer<Shm>,
    request: Vec<u8>,
}

/// The client's part: what has come is looked at, and every free place gets a call. The server serves between the WRITE of
/// a request and the READ that follows it, so each call takes one.
#[inline(never)]
fn turn(client: &mut Client, cpu: &NativeCpu, count: usize) {
    let (queues, end, out) = (&mut client.queues, &mut client.end, &mut client.out);
    let mut wcs = [Wc::default(); BATCH];
    let polled = queues.poll(cpu, &mut wcs);
    for wc in &wcs[..polled] {
        let ended = end.completed(queues, wc.wr_id.0, cpu.now(), out);
        client.good += usize::from(ended.is_some_and(|(_, result)| result == Ok(REQUEST.len())));
    }
    let good = &mut client.good;
    end.poll(queues, cpu.now(), out, |_, result| {
        *good += usize::from(result == Ok(&REQUEST));
    });
    for place in 0..PLACES {
        if client.sent < count && end.is_free(place) {
            let sent = end.send(queues, (place, 0), &[&REQUEST], Ns::MAX);
            sent.expect("it fits");
            client.sent += 1;
        }
    }
    queues.post(cpu).expect("space in the queue");
}

/// The server's part.
#[inline(never)]
fn serve(server: &mut Server, cpu: &NativeCpu) {
    let (queues, end) = (&mut server.queues, &mut server.end);
    let mut wcs = [Wc::default(); BATCH];
    let polled = queues.poll(cpu, &mut wcs);
    wcs[..polled].iter().for_each(|wc| end.completed(wc.wr_id.0));
    while let Some(call) = end.next(cpu, &mut server.request).expect("an honest client") {
        end.reply(cpu, &call, &[&server.request]);
    }
    end.look_again(queues, cpu.now());
    queues.post(cpu).expect("space in the queue");
}

fn connect(there: &Ctx, here: &Ctx, transfer: Transfer) -> (Server, Client) {
    let params = ConnParams {
        layout: Layout {
            format: Format::V1,
            place_count: PLACES,
            rpc_count: 4,
            request_bytes: 2048,
            result_bytes: 2048,
        },
        incarnations: (1, 2),
        first_kind: 0,
    };
    let (callee, caller) = (
        CalleeOptions {
            transfer,
            ..CalleeOptions::default()
        },
        CallerOptions {
            transfer,
            first_bytes: 64,
            ..CallerOptions::default()
        },
    );
    let depths = Depths::of_sends(FetchClient::<Shm>::sends_max(PLACES));
    let [mut theirs, mut ours] = [there, here].map(|ctx| Queues::<Shm>::new(ctx, depths).expect("queues"));
    let mut server = FetchServer::new(&Port::shared(there), &params, callee).expect("memory");
    let (inbound, results) = server.exports().expect("exports");
    let client = FetchClient::new(here, &params, caller, (&inbound, &results)).expect("memory");
    server
        .attach(&client.export().expect("an export"))
        .expect("the client's memory");
    let exports = (
        theirs.qp.export().expect("an export"),
        ours.qp.export().expect("an export"),
    );
    ours.qp.connect(&exports.0).expect("a connection");
    theirs.qp.connect(&exports.1).expect("a connection");
    (
        Server {
            queues: theirs,
            end: server,
            request: Vec::with_capacity(2048),
        },
        Client {
            queues: ours,
            end: client,
            out: Vec::with_capacity(2048),
            sent: 0,
            good: 0,
        },
    )
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let count = args
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(100_000);
    let transfer = match mode.as_str() {
        "fetch" | "idle" => Transfer::Fetch,
        "reply" => Transfer::Reply,
        other => panic!("no mode {other}"),
    };
    let device = ShmDevice::default();
    let [there, here] = [(), ()].map(|()| Rc::new(device.context().expect("a context")));
    let (mut server, mut client) = connect(&there, &here, transfer);
    // From here on time stands still, so that every run is the same.
    let before = here.cpu().refresh();
    match mode.as_str() {
        "idle" => (0..count).for_each(|_| serve(&mut server, there.cpu())),
        _ => {
            while client.good < count {
                turn(&mut client, here.cpu(), count);
                serve(&mut server, there.cpu());
            }
        }
    }
    let took = here.cpu().refresh().since(before);
    println!("{:.1} ns per operation", took.0 as f64 / count as f64);
}
