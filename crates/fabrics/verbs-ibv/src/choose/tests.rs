//! Tables written by hand, the choice from each, and the exact text of every refusal.

use super::*;

const LINK_LOCAL: &str = "fe80::1";

fn gid(index: u32, kind: GidKind, address: &str) -> GidFacts {
    let gid = match address {
        "null" => [0; 16],
        address => mapped(address.parse().expect("an address")),
    };
    GidFacts { index, kind, gid }
}

fn port(device: &str, port: u8, gids: Vec<GidFacts>) -> PortFacts {
    PortFacts {
        device: device.to_string(),
        port,
        state: PortState::Active,
        gids,
    }
}

/// A dual-port card with a software device after it.
fn machine() -> Vec<PortFacts> {
    use GidKind::{RoceV1, RoceV2};
    let mut second = port("mlx5_0", 2, vec![gid(0, RoceV2, LINK_LOCAL)]);
    second.state = PortState::Down;
    vec![
        port(
            "mlx5_0",
            1,
            vec![
                gid(0, RoceV1, LINK_LOCAL),
                gid(1, RoceV2, LINK_LOCAL),
                gid(2, RoceV1, "10.0.0.5"),
                gid(3, RoceV2, "2001:db8::5"),
                gid(4, RoceV2, "10.0.0.5"),
                gid(5, RoceV2, "null"),
            ],
        ),
        second,
        port(
            "rxe0",
            1,
            vec![gid(0, RoceV2, LINK_LOCAL), gid(1, RoceV2, "10.9.0.1")],
        ),
    ]
}

fn chosen(table: &[PortFacts], wish: &Wish) -> (String, u8, u32) {
    let choice = choose(table, wish).expect("something fits");
    (choice.device, choice.port, choice.gid.index)
}

fn refusal(table: &[PortFacts], wish: &Wish) -> String {
    choose(table, wish).expect_err("nothing fits").to_string()
}

fn by_address(address: &str) -> Wish {
    Wish {
        address: Some(address.parse().expect("an address")),
        ..Wish::default()
    }
}

#[test]
fn version_2_and_ipv4_come_first() {
    let choice = choose(&machine(), &Wish::default()).expect("a GID");
    assert_eq!(
        (choice.device.as_str(), choice.port, choice.gid.index),
        ("mlx5_0", 1, 4)
    );
    assert_eq!(
        choice.reason,
        "GID 4 (RoCE v2, 10.0.0.5), the first of 7 that fit of 7: RoCE v2 goes before v1, IPv4 before global IPv6 \
         before link-local"
    );
}

#[test]
fn each_preference_decides_alone() {
    use GidKind::{Infiniband, RoceV1, RoceV2};
    for (worse, better) in [
        (gid(0, RoceV1, "10.0.0.1"), gid(1, RoceV2, LINK_LOCAL)),
        (gid(0, RoceV2, LINK_LOCAL), gid(1, RoceV2, "2001:db8::1")),
        (gid(0, RoceV2, "2001:db8::1"), gid(1, RoceV2, "10.0.0.1")),
        (gid(0, RoceV1, "10.0.0.1"), gid(1, Infiniband, LINK_LOCAL)),
    ] {
        for gids in [vec![worse, better], vec![better, worse]] {
            let (.., index) = chosen(&[port("a", 1, gids)], &Wish::default());
            assert_eq!(index, 1, "{worse} before {better}");
        }
    }
}

#[test]
fn an_address_finds_its_device() {
    let choice = choose(&machine(), &by_address("10.9.0.1")).expect("a GID");
    assert_eq!((choice.device.as_str(), choice.gid.index), ("rxe0", 1));
    assert_eq!(
        choice.reason,
        "GID 1 (RoCE v2, 10.9.0.1), of 7: its address was asked for"
    );
    let (device, _, index) = chosen(&machine(), &by_address("10.0.0.5"));
    assert_eq!(
        (device.as_str(), index),
        ("mlx5_0", 4),
        "v1 and v2 have this address"
    );
    assert_eq!(
        chosen(&machine(), &by_address("0.0.0.0")),
        chosen(&machine(), &Wish::default())
    );
}

#[test]
fn overrides_are_taken_at_their_word() {
    let wish = Wish {
        device: Some("mlx5_0".to_string()),
        port: Some(1),
        gid_index: Some(0),
        ..Wish::default()
    };
    let choice = choose(&machine(), &wish).expect("a GID");
    assert_eq!((choice.port, choice.gid.index), (1, 0));
    assert_eq!(
        choice.reason,
        "GID 0 (RoCE v1, fe80::1), of 5: its index was asked for"
    );
    let only = [port("rxe0", 1, vec![gid(0, GidKind::RoceV2, "10.9.0.1")])];
    let choice = choose(&only, &Wish::default()).expect("a GID");
    assert_eq!(choice.reason, "GID 0 (RoCE v2, 10.9.0.1), the only one there is");
}

#[test]
fn no_device() {
    assert_eq!(
        refusal(&[], &Wish::default()),
        "no RDMA device on this machine; load its driver, or make a software one: rdma link add rxe0 type rxe \
         netdev eth0"
    );
}

#[test]
fn no_such_device_or_port() {
    let wish = Wish {
        device: Some("mlx5_1".to_string()),
        ..Wish::default()
    };
    assert_eq!(
        refusal(&machine(), &wish),
        "no RDMA device is called mlx5_1; there are: mlx5_0, rxe0"
    );
    let wish = Wish {
        device: Some("mlx5_0".to_string()),
        port: Some(3),
        ..Wish::default()
    };
    assert_eq!(
        refusal(&machine(), &wish),
        "mlx5_0 has no port 3; its ports are: 1, 2"
    );
}

#[test]
fn no_active_port() {
    let wish = Wish {
        port: Some(2),
        ..Wish::default()
    };
    assert_eq!(
        refusal(&machine(), &wish),
        "no port is active: mlx5_0 port 2 is down; bring its network interface up (ip link set DEV up) or plug the \
         cable in"
    );
}

#[test]
fn a_null_gid_is_none() {
    let wish = Wish {
        device: Some("mlx5_0".to_string()),
        gid_index: Some(5),
        ..Wish::default()
    };
    assert_eq!(
        refusal(&machine()[..1], &wish),
        "mlx5_0 port 1 has no GID with index 5 (it is null or beyond the table); there are: mlx5_0/1 GID 0 (RoCE \
         v1, fe80::1), mlx5_0/1 GID 1 (RoCE v2, fe80::1), mlx5_0/1 GID 2 (RoCE v1, 10.0.0.5), mlx5_0/1 GID 3 (RoCE \
         v2, 2001:db8::5), mlx5_0/1 GID 4 (RoCE v2, 10.0.0.5)"
    );
    let nulls = [port("rxe0", 1, vec![gid(0, GidKind::RoceV2, "null")])];
    assert_eq!(
        refusal(&nulls, &Wish::default()),
        "rxe0 port 1 has no address yet: every GID is null; give its network interface an IP address (ip addr add)"
    );
}

#[test]
fn no_such_address() {
    assert_eq!(
        refusal(&machine()[2..], &by_address("192.0.2.7")),
        "no active RDMA port has the address 192.0.2.7; there are: rxe0/1 GID 0 (RoCE v2, fe80::1), rxe0/1 GID 1 \
         (RoCE v2, 10.9.0.1)"
    );
}

#[test]
fn a_device_that_cannot_be_opened_is_not_called_missing() {
    let unopened = ["mlx5_1", "mlx5_2"].map(|name| UnopenedDevice {
        name: name.to_string(),
        reason: format!("{name} cannot be opened"),
    });
    let chosen = |table: &[PortFacts], device: &str| {
        let wish = Wish {
            device: Some(device.to_string()),
            ..Wish::default()
        };
        choose_among(table, &unopened, &wish)
            .map(|choice| choice.device)
            .map_err(|error| error.to_string())
    };
    assert_eq!(chosen(&machine(), "rxe0"), Ok("rxe0".to_string()));
    assert_eq!(
        chosen(&machine(), "mlx5_2"),
        Err("mlx5_2 cannot be opened".to_string())
    );
    assert_eq!(
        chosen(&machine(), "rxe7"),
        Err("no RDMA device is called rxe7; there are: mlx5_0, rxe0".to_string())
    );
    assert_eq!(
        chosen(&[], "mlx5_2"),
        Err("mlx5_1 cannot be opened; mlx5_2 cannot be opened".to_string())
    );
}
