//! Ways of posting: doorbells and completions of the same requests.

use crate::bed::{Bed, small};
use drover_rt::{Posting, TaskOptions};
use drover_verbs::QpKind;
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
use drover_verbs_suite::traced::{Traced, TracedDevice, What};

/// Three tasks with syncs of two WRITEs each: lists posted, and the completions that were asked for.
fn doorbells_and_signals(posting: Posting) -> (usize, usize) {
    let device = TracedDevice::<Loopback>::new(LoopbackDevice::new(), 1000);
    let options = TaskOptions {
        posting,
        send_depth: 64,
        ..small()
    };
    let mut bed = Bed::<Traced<Loopback>>::with(&device, QpKind::Rc, &options);
    let (peer, remote) = (bed.peer, bed.remote);
    for task in 0..3 {
        bed.spawn(move |cx| async move {
            for word in 0..2 {
                cx.write_inline(peer, b"8 bytes!", remote.at(16 * task + 8 * word))
                    .expect("staged");
            }
            cx.sync().await.expect("both");
        });
    }
    bed.run();
    let stats = bed.pool.stats();
    assert_eq!(
        (
            stats.requests.posted,
            stats.requests.ended,
            stats.requests.outstanding
        ),
        (6, 6, 0)
    );
    let (mut doorbells, mut signals) = (0, 0);
    for event in device.trace().events {
        if let What::Posted { index, wr, .. } = event.what {
            doorbells += usize::from(index == 0);
            signals += usize::from(wr.signaled);
        }
    }
    assert_eq!(stats.requests.doorbells, doorbells as u64);
    (doorbells, signals)
}

#[test]
fn lists_and_completions_are_as_the_option_says() {
    assert_eq!(doorbells_and_signals(Posting::PerStep), (1, 3));
    assert_eq!(doorbells_and_signals(Posting::PerSync), (3, 3));
    assert_eq!(doorbells_and_signals(Posting::PerRequest), (6, 6));
}
