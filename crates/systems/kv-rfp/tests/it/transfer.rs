//! How results travel: as the client asks, and as it measures.

use crate::raw::Cluster;
use drover_kv::{ConnectOptions, KvClient, Op, ResultTransfer, ServiceClient};
use drover_kv_rfp::server::ServerOptions;
use drover_kv_rfp::{JakiroVariant, ServerReplyVariant, Variant};
use drover_rpc::fetch::Transfer;
use drover_testkit::beds::put;
use drover_verbs::Provider;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};

const KEY: &[u8] = b"key";
const GETS: u64 = 200;

/// What a client's calls took that was opened with `transfer`: one PUT, and GETs.
fn calls<P: Provider, V: Variant>(device: P::Device, transfer: ResultTransfer) -> drover_kv::Calls {
    calls_in(Cluster::<P, V>::new(device), transfer)
}

fn calls_in<P: Provider, V: Variant>(
    mut cluster: Cluster<P, V>,
    transfer: ResultTransfer,
) -> drover_kv::Calls {
    let mut client = cluster.client_with(&ConnectOptions {
        transfer,
        ..ConnectOptions::default()
    });
    let value = [7; 32];
    assert_eq!(cluster.ask(&mut client, put(KEY, &value)), "stored");
    for _ in 0..GETS {
        assert_eq!(
            cluster.ask(&mut client, Op::Get { key: KEY }),
            format!("{value:?}")
        );
    }
    // The control channels, and with them the counters, are looked at now and then.
    for _ in 0..1_000_000 {
        cluster.poll(&mut client);
        let calls = client.calls().expect("it counts calls");
        if calls.calls == GETS + 1 {
            assert_eq!(client.in_flight(), 0);
            return calls;
        }
    }
    panic!("the counters do not come");
}

fn each_way<P: Provider>(device: impl Fn() -> P::Device) {
    let fetched = calls::<P, JakiroVariant>(device(), ResultTransfer::Fetch);
    let count = fetched.failed_reads.iter().sum::<u64>();
    assert_eq!((count, fetched.pushed), (GETS + 1, 0), "{fetched:?}");
    assert!(
        fetched.in_use.slow_reads >= 2 && fetched.in_use.push_time_ns > 0,
        "{fetched:?}"
    );
    assert!(
        fetched.in_use.first_bytes > 0 && fetched.second_reads == 0,
        "{fetched:?}"
    );
    let auto = calls::<P, JakiroVariant>(device(), ResultTransfer::Auto);
    let count = auto.failed_reads.iter().sum::<u64>() + auto.pushed;
    assert_eq!(count, GETS + 1, "{auto:?}");
    for pushed in [
        calls::<P, JakiroVariant>(device(), ResultTransfer::Reply),
        calls::<P, ServerReplyVariant>(device(), ResultTransfer::Fetch),
    ] {
        assert_eq!(
            (pushed.pushed, pushed.operations),
            (GETS + 1, GETS + 1),
            "{pushed:?}"
        );
    }
}

#[test]
fn rfp_clients_choose_how_results_travel() {
    each_way::<Loopback>(LoopbackDevice::new);
    each_way::<Shm>(ShmDevice::default);
}

/// What the operator says holds for clients that leave it open, and for no others.
#[test]
fn rfp_an_operator_names_the_usual_way() {
    let calls = |operator, client| {
        let cluster = Cluster::<Loopback, JakiroVariant>::with_options(LoopbackDevice::new(), |options| {
            ServerOptions {
                transfer: operator,
                ..options
            }
        });
        let calls = calls_in(cluster, client);
        (calls.failed_reads.iter().sum::<u64>(), calls.pushed)
    };
    assert_eq!(calls(Transfer::Reply, ResultTransfer::Auto), (0, GETS + 1));
    assert_eq!(calls(Transfer::Reply, ResultTransfer::Fetch), (GETS + 1, 0));
    assert_eq!(calls(Transfer::Fetch, ResultTransfer::Auto), (GETS + 1, 0));
    assert_eq!(calls(Transfer::Fetch, ResultTransfer::Reply), (0, GETS + 1));
}

/// Measurements of two clients in succession, and R and P of both.
fn measurements<P: Provider>(device: impl Fn() -> P::Device) -> (Vec<u64>, bool) {
    let mut cluster = Cluster::<P, JakiroVariant>::new(device());
    let clients = [(); 2].map(|()| {
        let mut client = cluster.client();
        for _ in 0..1_000_000 {
            cluster.poll(&mut client);
            if client.calls().is_some_and(|calls| calls.in_use.slow_reads > 0) {
                return client;
            }
        }
        panic!("nothing is measured");
    });
    let in_use = clients.each_ref().map(|client| client.stats().in_use);
    let counts = clients.iter().map(|client| client.stats().measurements);
    (counts.collect(), in_use[0] == in_use[1])
}

#[test]
fn rfp_what_verbs_take_is_measured_once_for_each_device() {
    drover_testkit::alone::alone(
        "transfer::rfp_what_verbs_take_is_measured_once_for_each_device",
        || {
            assert_eq!(measurements::<Shm>(ShmDevice::default), (vec![1, 0], true));
            assert_eq!(
                measurements::<Shm>(ShmDevice::default),
                (vec![0, 0], true),
                "in this process"
            );
            let (counts, _) = measurements::<Loopback>(LoopbackDevice::new);
            assert_eq!(counts, [1, 1], "loopback names no device");
        },
    );
}
