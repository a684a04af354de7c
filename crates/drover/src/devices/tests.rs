//! Exact output for made-up devices.

use super::*;
use drover_verbs::Caps;
use drover_verbs_ibv::choose::{GidFacts, GidKind, PortFacts, PortState};
use drover_verbs_ibv::survey::{Atomics, Limits, LinkLayer};
use std::net::Ipv6Addr;

const LIMITS: Limits = Limits {
    qp: 1_048_560,
    qp_wr: 1_048_576,
    sge: 32,
    cq: 1_048_576,
    cqe: 32_767,
    mr: 524_287,
    mr_bytes: u64::MAX,
    qp_rd_atom: 128,
    qp_init_rd_atom: 128,
    srq: 917_503,
    srq_wr: 32_767,
    atomics: Atomics::Device,
};

fn gid(index: u32, kind: GidKind, address: &str) -> GidFacts {
    let address: Ipv6Addr = address.parse().expect("an address");
    let gid = address.octets();
    GidFacts { index, kind, gid }
}

fn port(state: PortState, gids: Vec<GidFacts>) -> PortDetails {
    let mut caps = Caps::none();
    (caps.supports.rc, caps.supports.uc, caps.supports.ud) = (true, true, true);
    (caps.inline_bytes_max, caps.reads.outstanding_max) = (512, 16);
    PortDetails {
        facts: PortFacts {
            device: "rxe0".into(),
            port: 1,
            state,
            gids,
        },
        link_layer: LinkLayer::Ethernet,
        mtu_bytes: 1024,
        mtu_bytes_max: 4096,
        message_bytes_max: 8 << 20,
        caps,
    }
}

fn survey(state: PortState) -> Survey {
    let gids = vec![
        gid(0, GidKind::RoceV2, "fe80::1"),
        gid(1, GidKind::RoceV2, "::ffff:10.9.0.1"),
    ];
    let open = DeviceFacts {
        name: "rxe0".into(),
        details: Ok(Details {
            firmware: String::new(),
            limits: LIMITS,
            thread_domains: false,
            ports: vec![port(state, gids)],
        }),
    };
    let locked = DeviceFacts {
        name: "mlx5_0".into(),
        details: Err("mlx5_0 cannot be opened: Permission denied".into()),
    };
    Survey {
        devices: vec![locked, open],
    }
}

#[test]
fn devices_and_the_choice() {
    let (text, chosen) = shown(&survey(PortState::Active), &Wish::default(), false);
    assert_eq!(chosen, Ok(()));
    assert_eq!(
        text,
        "\
mlx5_0
  mlx5_0 cannot be opened: Permission denied
rxe0
  max_qp 1048560, max_qp_wr 1048576, max_sge 32, max_cq 1048576, max_cqe 32767
  max_mr 524287, max_mr_size unlimited
  max_qp_rd_atom 128, max_qp_init_rd_atom 128, atomics: towards this device
  max_srq 917503, max_srq_wr 32767
  port 1: active, Ethernet, MTU 1024 of 4096, messages up to 8 MiB
    queue pairs RC UC UD, inline found up to 512 B, 16 READs or atomics under way
    GID 0   RoCE v2    fe80::1
  * GID 1   RoCE v2    10.9.0.1
drover takes rxe0 port 1: GID 1 (RoCE v2, 10.9.0.1), the first of 2 that fit of 2: RoCE v2 goes before v1, IPv4 \
before global IPv6 before link-local
"
    );
}

#[test]
fn an_override_moves_the_star() {
    let wish = Wish {
        gid_index: Some(0),
        ..Wish::default()
    };
    let (text, _) = shown(&survey(PortState::Active), &wish, false);
    assert!(text.contains("  * GID 0   RoCE v2    fe80::1\n"), "{text}");
    assert!(
        text.ends_with("GID 0 (RoCE v2, fe80::1), of 2: its index was asked for\n"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_used_is_shown_all_the_same() {
    let (text, chosen) = shown(&survey(PortState::Down), &Wish::default(), false);
    assert!(
        text.contains("port 1: down, Ethernet") && !text.contains("drover takes"),
        "{text}"
    );
    assert_eq!(
        chosen.expect_err("no port is active").to_string(),
        "no port is active: rxe0 port 1 is down; bring its network interface up (ip link set DEV up) or plug the \
         cable in"
    );
}

#[test]
fn the_same_as_json() {
    let (text, _) = shown(&survey(PortState::Active), &Wish::default(), true);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["choice"]["ib_dev"], "rxe0");
    assert_eq!(value["choice"]["address"], "10.9.0.1");
    assert_eq!(
        value["devices"][0]["error"],
        "mlx5_0 cannot be opened: Permission denied"
    );
    let port = &value["devices"][1]["ports"][0];
    assert_eq!(
        (&port["mtu"], &port["max_inline_data"]),
        (&json!(1024), &json!(512))
    );
    assert_eq!(
        port["gids"][1],
        json!({ "gid_index": 1, "type": "RoCE v2", "address": "10.9.0.1" })
    );
    assert_eq!(value["devices"][1]["limits"]["max_qp_rd_atom"], 128);
}

#[test]
fn json_without_a_choice_says_why() {
    let empty = Survey { devices: Vec::new() };
    let (text, chosen) = shown(&empty, &Wish::default(), true);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["choice"].is_null() && chosen.is_err());
    let error = value["error"].as_str().expect("a reason");
    assert!(error.starts_with("no RDMA device on this machine;"), "{error}");
}
