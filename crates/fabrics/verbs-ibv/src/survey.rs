//! [`Survey`]: all devices, usable or not, with their ports, addresses and limits, for people.

use crate::choose::{Choice, ChooseError, PortFacts, Wish, choose};
use crate::device::{caps, device_names, load, number, open_one, ports};
use crate::ffi::{self, Library};
use drover_verbs::{Caps, OpenError};
use std::fmt;
use std::io;
use std::sync::Arc;

/// The devices found.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Devices in the order of the library's list.
    pub devices: Vec<DeviceFacts>,
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// Name of the device.
    pub name: String,
    /// Its properties, or why it cannot be opened and what to do.
    pub details: Result<Details, String>,
}

/// Properties of an opened device.
#[derive(Clone, Debug)]
pub struct Details {
    /// Firmware version; empty if the device has none.
    pub firmware: String,
    /// Limits of the device.
    pub limits: Limits,
    /// Ports of the device.
    pub ports: Vec<PortDetails>,
}

/// Limits of a device as it reports them; 0 if it does not report one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of queue pairs.
    pub qp: usize,
    /// Maximum number of outstanding requests per queue.
    pub qp_wr: usize,
    /// Maximum number of scatter/gather elements per request.
    pub sge: usize,
    /// Maximum number of completion queues.
    pub cq: usize,
    /// Maximum number of completions per queue.
    pub cqe: usize,
    /// Maximum number of registered regions.
    pub mr: usize,
    /// Longest registered region, bytes.
    pub mr_bytes: u64,
    /// Maximum number of READs and atomics that a queue pair answers at a time.
    pub qp_rd_atom: usize,
    /// Maximum number of READs and atomics that a queue pair requests at a time.
    pub qp_init_rd_atom: usize,
    /// Maximum number of shared receive queues.
    pub srq: usize,
    /// Maximum number of RECVs per shared receive queue.
    pub srq_wr: usize,
    /// Scope of CAS and FAA.
    pub atomics: Atomics,
}

/// Scope in which CAS and FAA are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// The device has no atomics.
    None,
    /// Atomic with respect to the same device.
    Device,
    /// Atomic with respect to all accesses, including those of the machine's cores.
    Machine,
}

/// One port.
#[derive(Clone, Debug)]
pub struct PortDetails {
    /// Number, state and addresses.
    pub facts: PortFacts,
    /// Link layer of the port.
    pub link_layer: LinkLayer,
    /// Longest payload of a packet as configured, bytes.
    pub mtu_bytes: usize,
    /// Longest payload of a packet that the port supports, bytes.
    pub mtu_bytes_max: usize,
    /// Longest message, bytes.
    pub message_bytes_max: u64,
    /// Capabilities of drover on this port: kinds of queue pairs and inline payloads are found by trial.
    pub caps: Caps,
}

/// Link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// Native InfiniBand links.
    Infiniband,
    /// Ethernet, that is, RoCE.
    Ethernet,
}

impl Survey {
    /// Reads the properties of all devices, with the machine's library or another one.
    ///
    /// # Errors
    /// There is no verbs library, or it cannot list devices. An empty list is no error here, but an error of
    /// [`choose`](Survey::choose).
    pub fn take(library: Option<Arc<Library>>) -> Result<Survey, OpenError> {
        let lib = load(library)?;
        let look = |name: String| DeviceFacts {
            details: details(&lib, &name),
            name,
        };
        let devices = device_names(&lib)?.into_iter().map(look).collect();
        Ok(Survey { devices })
    }

    /// Chooses the device and port that `IbvDevice::open` would use for `wish`, and says why.
    ///
    /// # Errors
    /// [`ChooseError`]; if devices exist and none can be opened, it is [`ChooseError::Unopened`].
    pub fn choose(&self, wish: &Wish) -> Result<Choice, ChooseError> {
        let opened = self.devices.iter().flat_map(|device| device.details.as_ref());
        let ports = opened.flat_map(|details| details.ports.iter().map(|port| port.facts.clone()));
        let reasons = self.devices.iter().filter_map(|d| d.details.as_ref().err());
        let reasons: Vec<String> = reasons.cloned().collect();
        match choose(&ports.collect::<Vec<_>>(), wish) {
            Err(ChooseError::NoDevice) if !reasons.is_empty() => Err(ChooseError::Unopened {
                reasons: reasons.join("; "),
            }),
            other => other,
        }
    }
}

fn details(lib: &Arc<Library>, name: &str) -> Result<Details, String> {
    let opened = open_one(lib, name)?;
    let silent = |error: io::Error| format!("{name} does not tell what it can do: {error}");
    let device = opened.device_attr().map_err(silent)?;
    let mut found = Vec::new();
    for facts in ports(name, &opened).map_err(silent)? {
        let port = opened.port_attr(facts.port).map_err(silent)?;
        found.push(PortDetails {
            facts,
            link_layer: match port.link_layer {
                ffi::LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Infiniband,
            },
            mtu_bytes: 128 << port.active_mtu.clamp(1, 5),
            mtu_bytes_max: 128 << port.max_mtu.clamp(1, 5),
            message_bytes_max: u64::from(port.max_msg_sz),
            caps: caps(&opened, &device, &port).map_err(silent)?,
        });
    }
    let end = device.fw_ver.iter().position(|&byte| byte == 0).unwrap_or(64);
    Ok(Details {
        firmware: String::from_utf8_lossy(&device.fw_ver[..end]).into_owned(),
        limits: limits(&device),
        ports: found,
    })
}

fn limits(device: &ffi::DeviceAttr) -> Limits {
    Limits {
        qp: number(device.max_qp),
        qp_wr: number(device.max_qp_wr),
        sge: number(device.max_sge),
        cq: number(device.max_cq),
        cqe: number(device.max_cqe),
        mr: number(device.max_mr),
        mr_bytes: device.max_mr_size,
        qp_rd_atom: number(device.max_qp_rd_atom),
        qp_init_rd_atom: number(device.max_qp_init_rd_atom),
        srq: number(device.max_srq),
        srq_wr: number(device.max_srq_wr),
        atomics: match device.atomic_cap {
            ffi::ATOMIC_NONE => Atomics::None,
            ffi::ATOMIC_GLOB => Atomics::Machine,
            _ => Atomics::Device,
        },
    }
}

impl fmt::Display for Atomics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Atomics::None => "none",
            Atomics::Device => "towards this device",
            Atomics::Machine => "towards everything",
        })
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::Infiniband => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        })
    }
}
