//! What opening and registering say when they fail, word for word.

mod stub;

use drover_mem::PageWish;
use drover_verbs::{Access, Context, Device};
use drover_verbs_ibv::ffi::Library;
use drover_verbs_ibv::{IbvDevice, IbvOptions, Wish};
use std::sync::Arc;

fn open(library: Arc<Library>, wish: Wish) -> Result<IbvDevice, String> {
    let mut options = IbvOptions::default();
    (options.library, options.wish) = (Some(library), wish);
    IbvDevice::open(options).map_err(|error| error.to_string())
}

fn refusal(library: Arc<Library>, wish: Wish) -> String {
    open(library, wish).expect_err("a refusal")
}

#[test]
fn the_choice_says_what_and_why() {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let choice = device.choice();
    assert_eq!(
        (choice.device.as_str(), choice.port, choice.gid.index),
        ("stub0", 1, 1)
    );
    assert_eq!(
        choice.reason,
        "GID 1 (RoCE v2, 10.9.0.1), the first of 2 that fit of 2: RoCE v2 goes before v1, IPv4 before global IPv6 \
         before link-local"
    );
}

#[test]
fn limits_are_read_from_the_device() {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let caps = device.caps();
    assert!(caps.rc && caps.uc && caps.ud && caps.atomics && caps.srq);
    assert!(!caps.ordered_writes && !caps.memory_wait);
    assert_eq!((caps.inline_bytes_max, caps.mtu_bytes), (512, 1024));
    assert_eq!((caps.message_bytes_max, caps.send_depth_max), (8 << 20, 4096));
    assert_eq!((caps.sge_max, caps.reads_outstanding_max), (8, 16));
}

#[test]
fn no_device_at_all() {
    let text = "ibv is not available: no RDMA device on this machine; load its driver, or make a software one: \
                rdma link add rxe0 type rxe netdev eth0";
    assert_eq!(refusal(stub::empty_library(), Wish::default()), text);
    assert_eq!(refusal(stub::kernel_less_library(), Wish::default()), text);
}

#[test]
fn a_device_that_may_not_be_opened() {
    assert_eq!(
        refusal(stub::locked_library(), Wish::default()),
        "ibv is not available: stub0 cannot be opened: Permission denied (os error 13); this process needs to read \
         and write /dev/infiniband/uverbs*"
    );
}

#[test]
fn a_wrong_gid_index() {
    let wish = Wish {
        gid_index: Some(7),
        ..Wish::default()
    };
    assert_eq!(
        refusal(stub::library(), wish),
        "ibv is not available: stub0 port 1 has no GID with index 7 (it is null or beyond the table); there are: \
         stub0/1 GID 0 (RoCE v2, fe80::1), stub0/1 GID 1 (RoCE v2, 10.9.0.1)"
    );
}

#[test]
fn a_refused_registration_says_where() {
    let device = open(stub::full_library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    let memory = ctx.alloc(4096, PageWish::Small).expect("memory");
    let error = ctx
        .register(&memory, Access::LOCAL)
        .expect_err("no memory")
        .to_string();
    assert!(
        error.starts_with(
            "registering 4096 bytes failed: Cannot allocate memory (os error 12) (stub0 port 1); "
        ),
        "{error}"
    );
}
