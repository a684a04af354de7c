//! What opening, registering and connecting say when they fail, word for word: what failed, where, the likely cause and
//! the next step. (Refusals of the choice itself, of which there are more: `src/choose/tests.rs`.)

use drover_base::Cpu;
use drover_mem::PageWish;
use drover_testkit::alone::alone;
use drover_verbs::{
    Access, Context, Device, Export, MaskedSwap, OpenError, QpKind, QpOptions, QueuePair, RemoteAddr,
    SendList, SendWr, Sge,
};
use drover_verbs_ibv::ffi::Library;
use drover_verbs_ibv::{Agreement, Ibv, IbvContext, IbvDevice, IbvOptions, IbvQp, Wish};
use drover_verbs_ibv_stub as stub;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
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
fn contexts_of_a_device_draw_different_numbers() {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let [a, b] = [(); 2].map(|()| device.context().expect("a context").cpu().random());
    assert_ne!(a, b);
}

#[test]
fn limits_are_read_from_the_device() {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let caps = device.caps();
    assert!(
        caps.supports.rc
            && caps.supports.uc
            && caps.supports.ud
            && caps.supports.atomics == drover_verbs::Atomics::Card
            && caps.supports.srq
    );
    assert!(!caps.writes.ordered && !caps.wakes.on_memory);
    assert_eq!((caps.inline_bytes_max, caps.mtu_bytes), (512, 1024));
    assert_eq!((caps.message_bytes_max, caps.send_depth_max), (8 << 20, 4096));
    assert_eq!((caps.sge_max, caps.reads.outstanding_max), (8, 16));
}

#[test]
fn no_library() {
    let error = Library::load("libnosuchverbs.so.1").expect_err("there is none of that name");
    assert_eq!(
        error.to_string(),
        "ibv is not available: libnosuchverbs.so.1 cannot be loaded (libnosuchverbs.so.1: cannot open shared object \
         file: No such file or directory); install it (Debian: apt-get install libibverbs1 ibverbs-providers), or \
         use another fabric"
    );
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
fn a_null_gid() {
    assert_eq!(
        refusal(stub::null_gid_library(), Wish::default()),
        "ibv is not available: stub0 port 1 has no address yet: every GID is null; give its network interface an IP \
         address (ip addr add)"
    );
    let wish = Wish {
        gid_index: Some(0),
        ..Wish::default()
    };
    assert_eq!(
        refusal(stub::null_gid_library(), wish),
        "ibv is not available: stub0 port 1 has no GID with index 0 (it is null or beyond the table); there are: none"
    );
}

#[test]
fn a_wrong_device_and_a_wrong_port() {
    let named = Wish {
        device: Some("mlx5_0".into()),
        ..Wish::default()
    };
    assert_eq!(
        refusal(stub::library(), named),
        "ibv is not available: no RDMA device is called mlx5_0; there are: stub0"
    );
    let second = Wish {
        port: Some(2),
        ..Wish::default()
    };
    assert_eq!(
        refusal(stub::library(), second),
        "ibv is not available: stub0 has no port 2; its ports are: 1"
    );
}

#[test]
fn a_port_that_is_down() {
    assert_eq!(
        refusal(stub::down_library(), Wish::default()),
        "ibv is not available: no port is active: stub0 port 1 is down; bring its network interface up (ip link set \
         DEV up) or plug the cable in"
    );
}

fn with_mtu(library: Arc<Library>, bytes: usize) -> Result<IbvDevice, OpenError> {
    let mut options = IbvOptions::default();
    (options.library, options.mtu_bytes) = (Some(library), Some(bytes));
    IbvDevice::open(options)
}

#[test]
fn packets_that_the_port_does_not_carry() {
    let text = |bytes| {
        with_mtu(stub::library(), bytes)
            .expect_err("a refusal")
            .to_string()
    };
    assert_eq!(
        text(4096),
        "ibv is not available: packets of stub0 port 1 carry up to 1024 bytes, not 4096: raise the MTU of its network \
         interface above that (ip link set DEV mtu 4196), or ask for less"
    );
    assert_eq!(
        text(1500),
        "ibv is not available: packets cannot carry 1500 bytes: verbs have 256, 512, 1024, 2048 and 4096"
    );
}

fn qp(ctx: &IbvContext, kind: QpKind) -> IbvQp {
    let cq = ctx.create_cq(8).expect("a queue");
    ctx.create_qp(&QpOptions::<Ibv>::new(kind, &cq, ctx.caps()))
        .expect("a queue pair")
}

/// A peer whose packets carry 1024 bytes, for a port with packets of 4096.
fn narrow_peer(kind: QpKind) -> Export {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    qp(&ctx, kind).export().expect("an export")
}

#[test]
fn ends_of_different_mtu() {
    let device = open(stub::wide_library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    assert_eq!(ctx.caps().mtu_bytes, 4096);
    let error = ctx.create_ah(&narrow_peer(QpKind::Ud)).expect_err("a mismatch");
    assert_eq!(
        error.to_string(),
        "the two ends are incompatible: Ud packets from stub0 port 1 carry up to 4096 bytes and the peer 10.9.0.1 \
         takes 1024, so that longer datagrams vanish; give the network interfaces of both ends the same MTU (ip link \
         set DEV mtu N)"
    );
    let error = qp(&ctx, QpKind::Uc)
        .connect(&narrow_peer(QpKind::Uc))
        .expect_err("a mismatch");
    assert_eq!(
        error.to_string(),
        "the two ends are incompatible: Uc packets from stub0 port 1 carry up to 4096 bytes and the peer 10.9.0.1 \
         takes 1024, so that longer WRITEs may land in part; give the network interfaces of both ends the same MTU (ip \
         link set DEV mtu N)"
    );
}

#[test]
fn reliable_ends_take_the_smaller_mtu_unless_one_was_asked_for() {
    let device = open(stub::wide_library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    let mut connected = qp(&ctx, QpKind::Rc);
    assert_eq!(connected.agreement(), None);
    connected.connect(&narrow_peer(QpKind::Rc)).expect("they fit");
    let agreement = Agreement {
        mtu_bytes: 1024,
        reads_outstanding: 16,
        inline_bytes: 512,
    };
    assert_eq!(connected.agreement(), Some(agreement));

    let ctx = with_mtu(stub::wide_library(), 2048)
        .expect("less than the port has")
        .context()
        .expect("a context");
    let error = qp(&ctx, QpKind::Rc)
        .connect(&narrow_peer(QpKind::Rc))
        .expect_err("a mismatch");
    assert_eq!(
        error.to_string(),
        "the two ends are incompatible: Rc packets from stub0 port 1 carry up to 2048 bytes and the peer 10.9.0.1 \
         takes 1024, so that the packets asked for cannot be sent; give the network interfaces of both ends the same \
         MTU (ip link set DEV mtu N)"
    );
}

#[test]
fn less_than_the_port_carries_makes_unequal_ends_fit() {
    let ctx = with_mtu(stub::wide_library(), 1024)
        .expect("less than the port has")
        .context()
        .expect("a context");
    assert_eq!(ctx.caps().mtu_bytes, 1024);
    ctx.create_ah(&narrow_peer(QpKind::Ud)).expect("they fit");
    qp(&ctx, QpKind::Uc)
        .connect(&narrow_peer(QpKind::Uc))
        .expect("they fit");
}

/// In a process of its own, whose limit it is, and in a thread that has no right to lock memory any more.
#[test]
fn a_memlock_limit_of_64_kib() {
    alone("texts::a_memlock_limit_of_64_kib", || {
        let unprivileged = std::thread::spawn(|| {
            let mut sets = capabilities(None).expect("our own");
            sets.effective.remove(CapabilitySet::IPC_LOCK);
            set_capabilities(None, sets).expect("less than before");
            let maximum = getrlimit(Resource::Memlock).maximum;
            let current = Some(64 << 10);
            setrlimit(Resource::Memlock, Rlimit { current, maximum }).expect("less than before");
            let device = open(stub::library(), Wish::default()).expect("a device");
            let ctx = device.context().expect("a context");
            let registered = |bytes| {
                let memory = ctx.alloc(bytes, PageWish::Small).expect("memory");
                ctx.register(&memory, Access::LOCAL)
                    .map_err(|error| error.to_string())
            };
            registered(64 << 10).expect("no more than the limit");
            registered(1 << 20).expect_err("more than the limit")
        });
        assert_eq!(
            unprivileged.join().expect("no panic"),
            "registering 1048576 bytes failed: 1048576 bytes would be pinned, and this process may pin 65536 \
             (RLIMIT_MEMLOCK), of which 0 are taken (stub0 port 1); raise the limit with `ulimit -l unlimited` in the \
             shell that starts it, with `* - memlock unlimited` in /etc/security/limits.conf and a new login, or with \
             `LimitMEMLOCK=infinity` in the service's unit"
        );
    });
}

#[test]
fn masked_atomics_are_refused_by_name() {
    let device = open(stub::library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    let mut list = SendList::default();
    let operands = list.masked_swap(&MaskedSwap::default());
    let into = Sge::default();
    list.push(SendWr::masked_compare_swap(RemoteAddr::default(), operands, into));
    let posted = qp(&ctx, QpKind::Rc).post_send(ctx.cpu(), &list);
    assert_eq!(
        posted.expect_err("there are none").to_string(),
        "request 0 of the list was refused: masked atomics are not supported by this fabric"
    );
}

#[test]
fn limits_of_the_device_are_respected() {
    let device = open(stub::narrow_library(), Wish::default()).expect("a device");
    let ctx = device.context().expect("a context");
    let memory = ctx.alloc(128 << 10, PageWish::Small).expect("memory");
    let error = ctx.register(&memory, Access::LOCAL).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "registering 131072 bytes failed: the device registers at most 65536 bytes at once (stub0 port 1); use \
         smaller regions"
    );
    let error = ctx.create_cq((1 << 16) + 1).err().expect("too deep");
    assert_eq!(
        error.to_string(),
        "a completion queue of 65537 requested, at most 65536 supported"
    );
    let error = ctx.create_srq(4097).err().expect("too deep");
    assert_eq!(
        error.to_string(),
        "a shared receive queue of 4097 requested, at most 4096 supported"
    );
    let cq = ctx.create_cq(8).expect("a queue");
    let text = |change: fn(&mut QpOptions<'_, Ibv>)| {
        let mut options = QpOptions::<Ibv>::new(QpKind::Rc, &cq, ctx.caps());
        change(&mut options);
        ctx.create_qp(&options).err().expect("too much").to_string()
    };
    assert_eq!(
        text(|options| options.send_depth = 4097),
        "a send queue of 4097 requested, at most 4096 supported"
    );
    assert_eq!(
        text(|options| options.recv_depth = 5000),
        "a receive queue of 5000 requested, at most 4096 supported"
    );
    assert_eq!(
        text(|options| options.inline_bytes = 513),
        "an inline payload of 513 requested, at most 512 supported"
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
