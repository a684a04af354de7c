//! Contents of a survey; and that it chooses as opening does.

use drover_verbs_ibv::choose::{GidKind, PortState};
use drover_verbs_ibv::survey::{Atomics, LinkLayer};
use drover_verbs_ibv::{IbvDevice, IbvOptions, Survey, Wish};
use drover_verbs_ibv_stub as stub;

#[test]
fn ports_addresses_and_limits() {
    let survey = Survey::take(Some(stub::library())).expect("a survey");
    let [device] = &survey.devices[..] else {
        panic!("{survey:?}")
    };
    assert_eq!(device.name, "stub0");
    let details = device.details.as_ref().expect("it can be opened");
    assert_eq!(
        (details.limits.qp_wr, details.limits.sge, details.limits.cqe),
        (4096, 16, 1 << 16)
    );
    assert_eq!(
        (details.limits.qp_rd_atom, details.limits.atomics),
        (128, Atomics::Device)
    );
    let [port] = &details.ports[..] else {
        panic!("{details:?}")
    };
    assert_eq!((port.facts.port, port.facts.state), (1, PortState::Active));
    assert_eq!((port.link_layer, port.mtu_bytes), (LinkLayer::Ethernet, 1024));
    assert_eq!((port.caps.inline_bytes_max, port.caps.supports.srq), (512, true));
    let gids: Vec<String> = port.facts.gids.iter().map(|gid| gid.to_string()).collect();
    assert_eq!(gids, ["GID 0 (RoCE v2, fe80::1)", "GID 1 (RoCE v2, 10.9.0.1)"]);
    assert!(port.facts.gids.iter().all(|gid| gid.kind == GidKind::RoceV2));
}

#[test]
fn it_chooses_as_opening_does() {
    for gid_index in [None, Some(0), Some(7)] {
        let wish = Wish {
            gid_index,
            ..Wish::default()
        };
        let survey = Survey::take(Some(stub::library())).expect("a survey");
        let mut options = IbvOptions::default();
        (options.library, options.wish) = (Some(stub::library()), wish.clone());
        let opened = IbvDevice::open(options).map(|device| device.choice().clone());
        match (survey.choose(&wish), opened) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
            (Err(ours), Err(theirs)) => {
                assert_eq!(format!("ibv is not available: {ours}"), theirs.to_string());
            }
            differing => panic!("{differing:?}"),
        }
    }
}

#[test]
fn what_cannot_be_opened_is_listed_with_its_reason() {
    let survey = Survey::take(Some(stub::locked_library())).expect("a survey");
    let why = survey.devices[0].details.as_ref().expect_err("locked");
    assert!(
        why.starts_with("stub0 cannot be opened: Permission denied"),
        "{why}"
    );
    let error = survey.choose(&Wish::default()).expect_err("nothing to choose");
    assert_eq!(&error.to_string(), why);
}

#[test]
fn no_device_is_an_empty_survey() {
    for library in [stub::empty_library(), stub::kernel_less_library()] {
        let survey = Survey::take(Some(library)).expect("a survey");
        assert!(survey.devices.is_empty());
        let error = survey.choose(&Wish::default()).expect_err("nothing to choose");
        assert!(error.to_string().starts_with("no RDMA device on this machine"));
    }
}
