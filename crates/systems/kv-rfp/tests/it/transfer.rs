//! How results travel: as the client asks, and as it measures.

use crate::raw::Cluster;
use drover_kv::{ConnectOptions, KvClient, Op, ResultTransfer, ServiceClient};
use drover_kv_rfp::{JakiroVariant, ServerReplyVariant, Variant};
use drover_testkit::beds::put;
use drover_verbs::Provider;
use drover_verbs_shm::{Shm, ShmDevice};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};

const KEY: &[u8] = b"key";
const GETS: u64 = 200;

/// What a client's calls took that was opened with `transfer`: one PUT, and GETs.
fn calls<P: Provider, V: Variant>(device: P::Device, transfer: ResultTransfer) -> drover_kv::Calls {
    let mut cluster = Cluster::<P, V>::new(device);
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
