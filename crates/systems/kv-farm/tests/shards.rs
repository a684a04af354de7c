//! A client that lists the shards of a service in another order is refused. It would look for keys in
//! the wrong place, and find none.

#[path = "../../../lab/testkit/shards/lists.rs"]
mod lists;

mod system {
    pub use drover_kv_farm::client::{ClientOptions, FarmClient as Client, SetupError};
    pub use drover_kv_farm::server::{Server, ServerOptions};
}

use drover_kv_farm::control::WRONG_SHARD;
use drover_rt::control::ControlError;
use lists::connect;
use system::{ServerOptions, SetupError};

#[test]
fn farm_a_client_with_another_list_of_shards_is_refused() {
    let small = ServerOptions {
        home_count: 64,
        block_count: 8,
        ..ServerOptions::default()
    };
    assert!(connect([0, 1], &small).is_ok());
    match connect([1, 0], &small) {
        Err(SetupError::Control(ControlError::Refused { code, .. })) => assert_eq!(code, WRONG_SHARD),
        other => panic!("{other:?}"),
    }
}
