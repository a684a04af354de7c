//! A client that lists the shards of a service in another order is refused. In Pilaf's released code it looks for keys in
//! the wrong place, and finds none.

use drover_control::ControlError;
use drover_kv::SetupError;
use drover_kv::refused::WRONG_SHARD;
use drover_kv_pilaf::Pilaf;
use drover_kv_pilaf::server::ServerOptions;
use drover_testkit::beds::connect_in_order;

#[test]
fn pilaf_a_client_with_another_list_of_shards_is_refused() {
    let small = |options| ServerOptions {
        entry_count: 64,
        ..options
    };
    assert!(connect_in_order::<Pilaf>([0, 1], small).is_ok());
    match connect_in_order::<Pilaf>([1, 0], small) {
        Err(SetupError::Control(ControlError::Refused { code, .. })) => assert_eq!(code, WRONG_SHARD),
        other => panic!("{other:?}"),
    }
}
