//! GETs that are submitted before one poll are one list of READs, as many at a time as a queue pair may have.

use crate::service::bed::{Cluster, Player, fabric, get, small, value};
use drover_base::Ns;
use drover_kv_pilaf::client::ClientOptions;
use drover_kv_pilaf::server::ServerOptions;
use drover_verbs::SendOp;
use drover_verbs_suite::loopback::Loopback;
use drover_verbs_suite::traced::{Event, Traced, TracedDevice, What};

type P = Traced<Loopback>;

const KEYS: u32 = 64;

/// A reader of keys that are there, with a window for all of them; what its context does is traced as 2.
fn cluster() -> (Cluster<P>, Player<P>) {
    let device = TracedDevice::<Loopback>::new(fabric(Ns(1)), 1 << 16);
    let options = ServerOptions {
        entry_count: 1024,
        ..small()
    };
    let mut cluster = Cluster::<P>::on(device, options);
    cluster.client().fill(&mut cluster, 0..KEYS);
    let reader = cluster.client_with(ClientOptions {
        window: KEYS as usize,
        ..ClientOptions::default()
    });
    (cluster, reader)
}

const READER: u64 = 2;

/// What the reader did from event `from` on.
fn events(cluster: &Cluster<P>, from: u64) -> Vec<Event> {
    let trace = cluster.device.trace();
    let ours = trace.events.into_iter();
    ours.filter(|event| event.context == READER && event.number >= from)
        .collect()
}

fn now(cluster: &Cluster<P>) -> u64 {
    cluster
        .device
        .trace()
        .events
        .back()
        .map_or(0, |event| event.number + 1)
}

fn is_read(event: &Event) -> bool {
    matches!(&event.what, What::Posted { wr, .. } if matches!(wr.op, SendOp::Read { .. }))
}

fn doorbells(events: &[Event]) -> usize {
    let rang = |event: &&Event| matches!(event.what, What::Posted { index: 0, .. });
    events.iter().filter(rang).count()
}

#[test]
fn gets_submitted_together_ring_once() {
    let (mut cluster, mut reader) = cluster();
    let from = now(&cluster);
    let tokens: Vec<_> = (0..8u32)
        .map(|key| reader.submit(&get(&key.to_le_bytes())))
        .collect();
    reader.poll();
    let posted = events(&cluster, from);
    assert_eq!(posted.iter().filter(|event| is_read(event)).count(), 8);
    assert_eq!(doorbells(&posted), 1, "{posted:?}");
    for (key, token) in tokens.into_iter().enumerate() {
        assert_eq!(
            reader.wait(&mut cluster, token),
            value(&(key as u32).to_le_bytes())
        );
    }
    let all = events(&cluster, from);
    let reads = all.iter().filter(|event| is_read(event)).count();
    let rings = doorbells(&all);
    println!("8 GETs: {reads} READs, {rings} doorbells");
    assert!(rings * 3 <= reads, "{rings} doorbells for {reads} READs");
}

#[test]
fn no_more_reads_are_under_way_than_a_queue_pair_may_have() {
    let (mut cluster, mut reader) = cluster();
    let from = now(&cluster);
    let tokens: Vec<_> = (0..KEYS)
        .map(|key| reader.submit(&get(&key.to_le_bytes())))
        .collect();
    for (key, token) in tokens.into_iter().enumerate() {
        assert_eq!(
            reader.wait(&mut cluster, token),
            value(&(key as u32).to_le_bytes())
        );
    }
    let (mut outstanding, mut most) = (0i32, 0);
    for event in events(&cluster, from) {
        outstanding += i32::from(is_read(&event));
        outstanding -= i32::from(matches!(event.what, What::Completed(_)));
        most = most.max(outstanding);
    }
    assert_eq!((outstanding, most), (0, 16));
}
