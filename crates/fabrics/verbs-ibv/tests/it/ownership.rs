//! Whatever is dropped first: no object is destroyed before what uses it, none twice, none never. In a process of its own,
//! because it counts the objects of one; the stub refuses to destroy what is in use.

use drover_mem::PageWish;
use drover_testkit::alone::alone;
use drover_verbs::{Access, Context, Device, QpKind, QpOptions, QueuePair};
use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
use drover_verbs_ibv_stub as stub;
use std::any::Any;

/// One object of each kind, parents first.
fn one_of_each() -> Vec<Box<dyn Any>> {
    let mut options = IbvOptions::default();
    options.library = Some(stub::library());
    let device = IbvDevice::open(options).expect("a device");
    let ctx = device.context().expect("a context");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let mr = ctx.register(&memory, Access::ALL).expect("registered");
    let (send_cq, recv_cq) = (
        ctx.create_cq(8).expect("a queue"),
        ctx.create_cq(8).expect("a queue"),
    );
    let card = ctx.alloc_device(64, Access::ALL).expect("memory on the card");
    let srq = ctx.create_srq(8).expect("a queue");
    let mut options = QpOptions::<Ibv>::new(QpKind::Ud, &send_cq, ctx.caps());
    (options.recv_cq, options.srq) = (&recv_cq, Some(&srq));
    let qp = ctx.create_qp(&options).expect("a queue pair");
    ctx.create_ah(&qp.export().expect("an export"))
        .expect("an address handle");
    vec![
        Box::new(device),
        Box::new(ctx),
        Box::new(memory),
        Box::new(mr),
        Box::new(card),
        Box::new(send_cq),
        Box::new(recv_cq),
        Box::new(srq),
        Box::new(qp),
    ]
}

#[test]
fn any_order_of_dropping_destroys_everything_once() {
    alone(
        "ownership::any_order_of_dropping_destroys_everything_once",
        || {
            let before = stub::objects_alive();
            let count = one_of_each().len();
            assert_eq!(stub::objects_alive(), before);
            for first in 0..count {
                for second in 0..count - 1 {
                    let mut objects = one_of_each();
                    assert!(stub::objects_alive() > before);
                    drop(objects.remove(first));
                    drop(objects.remove(second));
                    objects.reverse();
                    drop(objects);
                    assert_eq!(
                        stub::objects_alive(),
                        before,
                        "after dropping {first}, then {second} first"
                    );
                }
            }
        },
    );
}
