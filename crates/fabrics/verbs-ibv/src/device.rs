//! [`IbvDevice`]: finds devices, chooses one and reads its capabilities.

use crate::Ibv;
use crate::agree::{asked_mtu, mtu_bytes};
use crate::chain::SGE_MAX;
use crate::choose::{Choice, GidFacts, GidKind, PortFacts, PortState, UnopenedDevice, Wish, choose_among};
use crate::context::IbvContext;
use crate::counters::Counters;
use crate::domain::IbvDomain;
use crate::ffi::{self, Library};
use crate::limits::{Atomics, Limits};
use crate::qp::HOP_LIMIT;
use crate::raw::{Channel, Completions, DeviceList, Opened, Pair, Protection};
use drover_base::Ns;
use drover_mem::entropy;
use drover_verbs::{Caps, Device, DeviceCounters, Domain, DomainOptions, OpenError};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Options for opening a device. The default chooses the best device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IbvOptions {
    /// Device, port and address that must be used. What it leaves open is chosen as [`choose`](crate::choose) says.
    pub wish: Wish,
    /// Seed of the random numbers of the device's contexts (`ctx.cpu().random()`). Each context has a stream of its
    /// own, which depends on this seed and on how many contexts the device opened before. Servers draw their epoch
    /// from these streams, so the default is unpredictable.
    pub seed: u64,
    /// RC: time without an answer after which a request is retransmitted, as a code of verbs: 4.096 us times 2 to this
    /// power; 0 waits for ever. More than 31 counts as 31.
    pub timeout_code: u8,
    /// RC: number of retransmissions after which a request fails. More than 6 counts as 6: software RoCE takes 7 for
    /// infinite and never notices a dead peer.
    pub retry_count: u8,
    /// Most payload bytes of a packet: 256, 512, 1024, 2048 or 4096, at most the port's MTU; otherwise opening fails.
    /// `None`: the port's MTU. Set a smaller one if a switch on the way requires it. If set, peers with a smaller MTU
    /// are refused over RC, too.
    pub mtu_bytes: Option<usize>,
    /// Time for which a queue pair may have signaled send requests outstanding, without any of their completions
    /// polled, before its context logs a warning with the device's report. The queue pair is left as it is. A context
    /// checks about once a second, when it parks or finds its completion queues empty.
    pub stuck_after: Ns,
    /// What the operator states of this machine and its card: aligned bytes that a READ sees as they were before or after
    /// a WRITE ([`ReadCaps::unit_bytes`](drover_verbs::ReadCaps::unit_bytes)). 8, the default, or 64, which holds on x86 with the cards that we know, but
    /// which nobody promises. Other numbers are refused.
    pub read_unit_bytes: usize,
    /// Verbs library to use; `None` loads the machine's.
    pub library: Option<Arc<Library>>,
}

impl Default for IbvOptions {
    /// With these values an RC request to a dead peer fails after 0.47 s: it is sent seven times, each followed by a
    /// wait of 67 ms.
    fn default() -> IbvOptions {
        IbvOptions {
            wish: Wish::default(),
            seed: entropy(),
            timeout_code: 14,
            retry_count: 6,
            mtu_bytes: None,
            stuck_after: Ns::from_s(5),
            read_unit_bytes: READ_UNIT_BYTES,
            library: None,
        }
    }
}

/// A chosen device, port and address, with the limits read from it. It holds no open device: every domain opens the
/// device for itself.
#[derive(Clone, Debug)]
pub struct IbvDevice {
    opening: Arc<Opening>,
    caps: Caps,
}

/// Parameters that contexts need to open and to connect.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) lib: Arc<Library>,
    pub(crate) choice: Choice,
    pub(crate) seed: u64,
    /// Number of contexts opened so far: the next one's index among the random streams.
    pub(crate) opened: AtomicU64,
    pub(crate) vendor_id: u32,
    pub(crate) limits: Limits,
    pub(crate) end: EndParams,
    pub(crate) retries: Retries,
    pub(crate) stuck_after: Ns,
    pub(crate) counters: Arc<Counters>,
}

/// Parameters of this end that it sends to its peers, so that both agree on those of a connection.
#[derive(Debug)]
pub(crate) struct EndParams {
    pub(crate) mtu_code: u8,
    /// Whether the user requested the MTU.
    pub(crate) mtu_asked: bool,
    pub(crate) inline_bytes_max: u16,
    pub(crate) lid: u16,
    pub(crate) reads_max: u8,
}

/// Retransmission by RC queue pairs.
#[derive(Debug)]
pub(crate) struct Retries {
    /// Time without an answer before a retransmission, as a code of verbs.
    pub(crate) timeout_code: u8,
    pub(crate) count: u8,
}

impl Opening {
    /// Device and port for errors: `rxe0 port 1`.
    pub(crate) fn place(&self) -> String {
        format!("{} port {}", self.choice.device, self.choice.port)
    }

    /// Adds the place of a failure and advice to its error.
    pub(crate) fn explain(&self, why: &dyn std::error::Error, advice: &str) -> io::Error {
        io::Error::other(format!("{why} ({}); {advice}", self.place()))
    }

    /// Route to a peer.
    pub(crate) fn route(&self, gid: &[u8; 16], lid: u16) -> ffi::AhAttr {
        ffi::AhAttr {
            grh: ffi::GlobalRoute {
                dgid: *gid,
                flow_label: 0,
                sgid_index: self.choice.gid.index as u8,
                hop_limit: HOP_LIMIT,
                traffic_class: 0,
            },
            dlid: lid,
            is_global: 1,
            port_num: self.choice.port,
            ..ffi::AhAttr::default()
        }
    }
}

fn unavailable(reason: impl Into<String>) -> OpenError {
    let reason = reason.into();
    OpenError::Unavailable {
        fabric: "ibv",
        reason,
    }
}

impl IbvDevice {
    /// Loads the library, reads the properties of all devices, chooses one and reads its limits.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if there is no library or device, none fits `options`, or it cannot be opened; the
    /// text names the cause and mostly the remedy. [`OpenError::System`] if the library cannot list devices or report
    /// their limits.
    pub fn open(options: IbvOptions) -> Result<IbvDevice, OpenError> {
        let lib = load(options.library.clone())?;
        let (table, unopened) = survey(&lib)?;
        let choice =
            choose_among(&table, &unopened, &options.wish).map_err(|error| unavailable(error.to_string()))?;
        let opened = open_one(&lib, &choice.device).map_err(unavailable)?;
        IbvDevice::read(lib, &opened, choice, &options)
    }

    /// Opens the device called `name` with its best port and address; with `None`, the best device.
    ///
    /// # Errors
    /// As [`open`](IbvDevice::open).
    pub fn named(name: Option<&str>) -> Result<IbvDevice, OpenError> {
        let mut options = IbvOptions::default();
        options.wish.device = name.map(str::to_owned);
        IbvDevice::open(options)
    }

    fn read(
        lib: Arc<Library>,
        opened: &Arc<Opened>,
        choice: Choice,
        options: &IbvOptions,
    ) -> Result<IbvDevice, OpenError> {
        let failed = |source| OpenError::System {
            what: "reading what the device can do",
            source,
        };
        let device = opened.device_attr().map_err(failed)?;
        let port = opened.port_attr(choice.port).map_err(failed)?;
        let limits = device.limits();
        let mut caps = caps(opened, &limits, &port).map_err(failed)?;
        caps.reads.unit_bytes = match options.read_unit_bytes {
            bytes @ (8 | 64) => bytes,
            bytes => {
                return Err(unavailable(format!(
                    "a READ sees 8 or 64 bytes whole, not {bytes}"
                )));
            }
        };
        let mut opening = Opening {
            lib,
            choice,
            seed: options.seed,
            opened: AtomicU64::new(0),
            vendor_id: device.vendor_id(),
            limits,
            end: EndParams {
                mtu_code: port.active_mtu.clamp(1, 5) as u8,
                mtu_asked: options.mtu_bytes.is_some(),
                inline_bytes_max: caps.inline_bytes_max as u16,
                lid: port.lid,
                reads_max: caps.reads.outstanding_max as u8,
            },
            retries: Retries {
                timeout_code: options.timeout_code.min(31),
                count: options.retry_count.min(6),
            },
            stuck_after: options.stuck_after,
            counters: Arc::default(),
        };
        if let Some(bytes) = options.mtu_bytes {
            let most = opening.end.mtu_code;
            opening.end.mtu_code = asked_mtu(bytes, most, &opening.place()).map_err(unavailable)?;
            caps.mtu_bytes = bytes;
        }
        let opening = Arc::new(opening);
        Ok(IbvDevice { opening, caps })
    }

    /// Number of the device's maker, assigned by IEEE, as the device reports it.
    pub fn vendor_id(&self) -> u32 {
        self.opening.vendor_id
    }

    /// The chosen device, port and address, and the reason for the choice.
    pub fn choice(&self) -> &Choice {
        &self.opening.choice
    }
}

impl Device<Ibv> for IbvDevice {
    fn context(&self) -> Result<IbvContext, OpenError> {
        self.domain(&DomainOptions::default())?.context()
    }

    fn domain(&self, options: &DomainOptions) -> Result<IbvDomain, OpenError> {
        IbvDomain::open(&self.opening, &self.caps, options)
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn counters(&self) -> Option<DeviceCounters> {
        Some(self.opening.counters.snapshot(&self.opening.choice))
    }
}

/// Returns the given library, or loads the machine's.
pub(crate) fn load(library: Option<Arc<Library>>) -> Result<Arc<Library>, OpenError> {
    match library {
        Some(library) => Ok(library),
        None => Ok(Arc::new(Library::load(ffi::SONAME)?)),
    }
}

/// Names of the devices.
pub(crate) fn device_names(lib: &Arc<Library>) -> Result<Vec<String>, OpenError> {
    match DeviceList::get(lib) {
        Ok(list) => Ok(list.names()),
        // The kernel modules are not loaded.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(Vec::new()),
        Err(source) => {
            let what = "ibv_get_device_list";
            Err(OpenError::System { what, source })
        }
    }
}

/// All ports of the devices that can be opened, and why the others cannot.
fn survey(lib: &Arc<Library>) -> Result<(Vec<PortFacts>, Vec<UnopenedDevice>), OpenError> {
    let (mut table, mut unopened) = (Vec::new(), Vec::new());
    for name in device_names(lib)? {
        match open_one(lib, &name).and_then(|opened| {
            ports(&name, &opened).map_err(|error| format!("{name} does not tell its ports: {error}"))
        }) {
            Ok(ports) => table.extend(ports),
            Err(reason) => unopened.push(UnopenedDevice { name, reason }),
        }
    }
    Ok((table, unopened))
}

pub(crate) fn open_one(lib: &Arc<Library>, name: &str) -> Result<Arc<Opened>, String> {
    match Opened::open(lib, name) {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => Err(format!("{name} is gone again")),
        Err(error) => Err(format!(
            "{name} cannot be opened: {error}; this process needs to read and write /dev/infiniband/uverbs*"
        )),
    }
}

pub(crate) fn ports(name: &str, opened: &Opened) -> io::Result<Vec<PortFacts>> {
    let count = opened.device_attr()?.port_count();
    let mut ports = Vec::new();
    let mut gids = 0;
    for port in 1..=count {
        let attr = opened.port_attr(port)?;
        gids += usize::try_from(attr.gid_tbl_len).unwrap_or(0);
        ports.push(PortFacts {
            device: name.to_string(),
            port,
            state: state(attr.state),
            gids: Vec::new(),
        });
    }
    for entry in opened.gids(gids.clamp(1, 4096))? {
        let gid = GidFacts {
            index: entry.gid_index,
            kind: kind(entry.gid_type),
            gid: entry.gid,
        };
        if let Some(port) = ports
            .iter_mut()
            .find(|port| u32::from(port.port) == entry.port_num)
        {
            port.gids.push(gid);
        }
    }
    Ok(ports)
}

fn state(state: u32) -> PortState {
    match state {
        ffi::PORT_DOWN => PortState::Down,
        ffi::PORT_INIT => PortState::Initializing,
        ffi::PORT_ARMED => PortState::Armed,
        ffi::PORT_ACTIVE => PortState::Active,
        other => PortState::Other(other),
    }
}

fn kind(gid_type: u32) -> GidKind {
    match gid_type {
        ffi::GID_TYPE_ROCE_V2 => GidKind::RoceV2,
        ffi::GID_TYPE_ROCE_V1 => GidKind::RoceV1,
        _ => GidKind::Infiniband,
    }
}

/// Most READs and atomics in flight per queue pair, whatever a device offers. *(our choice)*
const READS_MAX: usize = 16;
/// Aligned bytes that a READ sees whole, unless [`IbvOptions::read_unit_bytes`] says more.
const READ_UNIT_BYTES: usize = 8;
/// Number of requests worth one doorbell: with software RoCE each doorbell is a system call. *(our choice)*
const POST_BATCH: usize = 16;
/// Inline payload lengths to try, longest first: devices do not report their limit.
const INLINE_BYTES: [u32; 8] = [1024, 512, 256, 220, 128, 64, 32, 0];

/// Capabilities of a device, as it reports them and as trial creation of queue pairs shows.
pub(crate) fn caps(opened: &Arc<Opened>, limits: &Limits, port: &ffi::PortAttr) -> io::Result<Caps> {
    let pd = Protection::new(opened)?;
    let cq = Completions::new(&Channel::new(opened)?, 1, Arc::default())?;
    let mut caps = Caps::none();
    caps.sge_max = limits.sge.clamp(1, SGE_MAX);
    let inline = [ffi::QPT_RC, ffi::QPT_UC, ffi::QPT_UD].map(|kind| probe(&pd, &cq, kind, caps.sge_max));
    [caps.supports.rc, caps.supports.uc, caps.supports.ud] = inline.map(|bytes| bytes.is_some());
    caps.inline_bytes_max = inline.into_iter().flatten().min().unwrap_or(0) as usize;
    caps.supports.atomics = match limits.atomics {
        Atomics::None => drover_verbs::Atomics::None,
        Atomics::Device => drover_verbs::Atomics::Card,
        Atomics::Machine => drover_verbs::Atomics::Host,
    };
    // No card promises more than a word. Requests of one RC queue pair execute in order. [IBTA 10.8.3]
    (caps.reads.unit_bytes, caps.reads.see_earlier) = (READ_UNIT_BYTES, true);
    caps.supports.srq = limits.srq > 0 && opened.path.post_srq_recv.is_some();
    caps.mtu_bytes = mtu_bytes(port.active_mtu.clamp(1, 5) as u8);
    caps.message_bytes_max = port.max_msg_sz as usize;
    caps.send_bytes_max = caps.message_bytes_max;
    caps.send_depth_max = limits.qp_wr;
    caps.recv_depth_max = caps.send_depth_max;
    let reads = limits.qp_rd_atom.min(limits.qp_init_rd_atom);
    caps.reads.outstanding_max = reads.min(READS_MAX);
    caps.wakes.on_fd = true;
    caps.supports.shared_queues = true;
    caps.supports.device_memory_bytes = opened.card_memory_bytes();
    caps.post_batch = POST_BATCH;
    Ok(caps)
}

/// Longest inline payload of queue pairs of this kind, found by trial; `None` if the device lacks the kind.
fn probe(pd: &Arc<Protection>, cq: &Rc<Completions>, kind: u32, sge_max: usize) -> Option<u32> {
    INLINE_BYTES.into_iter().find(|&max_inline_data| {
        let cap = ffi::QpCap {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: sge_max as u32,
            max_recv_sge: 1,
            max_inline_data,
        };
        Pair::new(pd, cq, cq, None, cap, kind).is_ok()
    })
}
