use drover_kv_pilaf::Pilaf;
use drover_kv_pilaf::server::ServerOptions;
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
    allocates_nothing::<Pilaf>(&ALLOC, &options);
}
