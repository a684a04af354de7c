//! Calls allocate nothing, in client, server and provider.

use crate::bed::{connect, params};
use drover_base::{Actor, Cpu};
use drover_mem::CountingAlloc;
use drover_rpc::fetch::{CallerOptions, Transfer};
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmDevice};
use std::rc::Rc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn calls_allocate_nothing() {
    for transfer in [Transfer::Auto, Transfer::Fetch, Transfer::Reply] {
        let device = ShmDevice::default();
        let context = || Rc::new(device.context().expect("a context"));
        let (there, here) = (context(), context());
        let options = CallerOptions {
            transfer,
            ..CallerOptions::default()
        };
        let (mut server, mut client) = connect::<Shm>((&there, &here), &params(8), options);
        client.book.size_of = |number| number as usize % 1001;
        let mut run = |count: u64| {
            client.count += count;
            while client.book.seen.borrow().ended < client.count {
                here.cpu().refresh();
                client.step(here.cpu());
                there.cpu().refresh();
                server.step(there.cpu());
            }
        };
        run(10_000);
        let before = ALLOC.count();
        run(4_096);
        assert_eq!(ALLOC.count() - before, 0, "{transfer:?}");
        assert!(client.book.seen.borrow().failed.is_empty());
    }
    let before = ALLOC.count();
    drop(std::hint::black_box(Box::new(0)));
    assert!(ALLOC.count() > before, "one that allocates is noticed");
}
