//! A client that lists the shards of a service in another order is refused. It would look for keys in
//! the wrong place, and find none.

use drover_control::ControlError;
use drover_kv::SetupError;
use drover_kv::refused::WRONG_SHARD;
use drover_kv_farm::Farm;
use drover_kv_farm::server::ServerOptions;
use drover_testkit::beds::connect_in_order;

#[test]
fn farm_a_client_with_another_list_of_shards_is_refused() {
    let small = |options| ServerOptions {
        home_count: 64,
        block_count: 8,
        ..options
    };
    assert!(connect_in_order::<Farm>([0, 1], small).is_ok());
    match connect_in_order::<Farm>([1, 0], small) {
        Err(SetupError::Control(ControlError::Refused { code, .. })) => assert_eq!(code, WRONG_SHARD),
        other => panic!("{other:?}"),
    }
}
