//! Goal: operations take the verbs and round trips that the crate's table says.

use crate::bed::{Bed, Fabric, META, Process};
use drover_kv_race::{Race, RaceError};
use drover_rt::TaskCx;
use drover_testkit::on_pool_fabrics;
use std::future::Future;

on_pool_fabrics! {
    verbs_per_operation
}

/// Requests, and lists of requests, of a task that does nothing else.
fn cost<F: Fabric, T: 'static, Fut: Future<Output = Result<T, RaceError>> + 'static>(
    bed: &Bed<F>,
    process: &Process<F::P>,
    task: impl FnOnce(TaskCx<F::P>, Race<F::P>) -> Fut,
) -> (u64, u64) {
    let before = process.stats().requests;
    bed.run(process, task);
    let after = process.stats().requests;
    (after.posted - before.posted, after.doorbells - before.doorbells)
}

fn verbs_per_operation<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 64);
    let process = bed.process();
    // The first block and version are the only ones that the node is asked for.
    bed.run(&process, |cx, race| async move {
        race.put(&cx, b"first", b"8 bytes.", META).await
    });
    let put = || {
        cost(&bed, &process, |cx, race| async move {
            race.put(&cx, b"8 bytes.", b"8 bytes.", META).await
        })
    };
    assert_eq!(put(), (7, 3), "insert");
    assert_eq!(put(), (5, 3), "update");
    let get = cost(&bed, &process, |cx, race| async move {
        race.get(&cx, b"8 bytes.").await
    });
    assert_eq!(get, (3, 2), "lookup");
    let modify = cost(&bed, &process, |cx, race| async move {
        let same = |old: &[u8], new: &mut Vec<u8>| new.extend_from_slice(old);
        race.modify(&cx, b"8 bytes.", META, same).await
    });
    assert_eq!(modify, (5, 3), "read, modify, write");
    let delete = cost(&bed, &process, |cx, race| async move {
        race.delete(&cx, b"8 bytes.").await
    });
    assert_eq!(delete, (4, 3), "delete");
    let add = cost(&bed, &process, |cx, race| async move {
        race.add(&cx, b"8 bytes.", b"8 bytes.", META).await
    });
    assert_eq!(add, (7, 3), "insert if absent");
    let miss = cost(&bed, &process, |cx, race| async move {
        race.get(&cx, b"absent..").await
    });
    let twice = if process.reads_are_torn() { 2 } else { 1 };
    assert_eq!(miss, (2 * twice, twice), "lookup of a missing key");
}
