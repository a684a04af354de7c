use drover_kv_rfp::server::ServerOptions;
use drover_kv_rfp::{Jakiro, RdmaMemcached, ServerReply};
use drover_mem::{CountingAlloc, PageWish};
use drover_testkit::beds::allocates_nothing;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

#[test]
fn operations_allocate_nothing() {
    let options = ServerOptions {
        pages: PageWish::Small,
        ..ServerOptions::default()
    };
    allocates_nothing::<Jakiro>(&ALLOC, &options);
    allocates_nothing::<ServerReply>(&ALLOC, &options);
    allocates_nothing::<RdmaMemcached>(&ALLOC, &options);
}
