//! A GET and a PUT of Pilaf, at both ends and down to the fabric's rings, allocate nothing.

#[path = "../../../lab/testkit/shards/allocation.rs"]
mod allocation;

mod system {
    pub use drover_kv_pilaf::client::{ClientOptions, PilafClient as Client};
    pub use drover_kv_pilaf::server::{Server, ServerOptions};
}

#[test]
fn operations_allocate_nothing() {
    allocation::allocates_nothing();
}
