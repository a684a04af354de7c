//! A GET and a PUT of FaRM-KV, at both ends and down to the fabric's rings, allocate nothing.

#[path = "../../../lab/testkit/shards/allocation.rs"]
mod allocation;

mod system {
    pub use drover_kv_farm::client::{ClientOptions, FarmClient as Client};
    pub use drover_kv_farm::server::{Server, ServerOptions};
}

#[test]
fn operations_allocate_nothing() {
    allocation::allocates_nothing();
}
