//! [`Survey`]: all devices, usable or not, with their ports, addresses and limits, for people.

use crate::choose::{Choice, ChooseError, PortFacts, UnopenedDevice, Wish, choose_among};
use crate::device::{caps, device_names, load, open_one, ports};
use crate::ffi::{self, Library};
pub use crate::limits::{Atomics, Limits};
use crate::raw::{Opened, Protection};
use drover_verbs::{Caps, OpenError};
use std::fmt;
use std::io;
use std::sync::Arc;

/// All RDMA devices of this machine, usable or not, as [`take`](Survey::take) found them. None of them stays open.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Devices, sorted by name.
    pub devices: Vec<DeviceFacts>,
}

/// A device of a [`Survey`].
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// Name of the device.
    pub name: String,
    /// Properties of the device; or text that says why they cannot be read.
    pub details: Result<Details, String>,
}

/// Properties of an opened device.
#[derive(Clone, Debug)]
pub struct Details {
    /// Firmware version as the device reports it; empty if it has none.
    pub firmware: String,
    /// Limits of the device.
    pub limits: Limits,
    /// Whether the driver has thread domains, which give each thread a doorbell register of its own; found by trial.
    pub thread_domains: bool,
    /// Ports of the device.
    pub ports: Vec<PortDetails>,
}

/// A port of a device, with its limits.
#[derive(Clone, Debug)]
pub struct PortDetails {
    /// Device, number, state and addresses.
    pub facts: PortFacts,
    /// Link layer of the port.
    pub link_layer: LinkLayer,
    /// Longest payload of a packet as the port is configured (active MTU), in bytes.
    pub mtu_bytes: usize,
    /// Longest payload of a packet that the port supports, in bytes.
    pub mtu_bytes_max: usize,
    /// Longest message, in bytes.
    pub message_bytes_max: u64,
    /// Capabilities that an [`IbvDevice`](crate::IbvDevice) on this port has with default options. Kinds of queue pairs
    /// and the longest inline payload were found by trial.
    pub caps: Caps,
}

/// Link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// Native InfiniBand, or any link layer other than Ethernet.
    Infiniband,
    /// Ethernet, that is, RoCE.
    Ethernet,
}

impl Survey {
    /// Opens each device and reads its properties. `library` is the verbs library to use; `None` loads the machine's.
    ///
    /// # Errors
    /// [`OpenError`] if there is no verbs library or it cannot list devices. An empty list, which is also the result
    /// without the kernel's modules for verbs, and a device that cannot be opened are no errors here.
    pub fn take(library: Option<Arc<Library>>) -> Result<Survey, OpenError> {
        let lib = load(library)?;
        let look = |name: String| DeviceFacts {
            details: details(&lib, &name),
            name,
        };
        let devices = device_names(&lib)?.into_iter().map(look).collect();
        Ok(Survey { devices })
    }

    /// Chooses the device, port and address that `IbvDevice::open` would use for `wish`.
    ///
    /// # Errors
    /// [`ChooseError`] if nothing fits.
    pub fn choose(&self, wish: &Wish) -> Result<Choice, ChooseError> {
        let opened = self.devices.iter().flat_map(|device| device.details.as_ref());
        let ports = opened.flat_map(|details| details.ports.iter().map(|port| port.facts.clone()));
        let unopened = self.devices.iter().filter_map(|device| {
            let (name, reason) = (&device.name, device.details.as_ref().err()?);
            Some(UnopenedDevice {
                name: name.clone(),
                reason: reason.clone(),
            })
        });
        choose_among(&ports.collect::<Vec<_>>(), &unopened.collect::<Vec<_>>(), wish)
    }
}

fn details(lib: &Arc<Library>, name: &str) -> Result<Details, String> {
    let opened = open_one(lib, name)?;
    let silent = |error: io::Error| format!("{name} does not tell what it can do: {error}");
    let device = opened.device_attr().map_err(silent)?;
    let limits = device.limits();
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
            caps: caps(&opened, &limits, &port).map_err(silent)?,
        });
    }
    Ok(Details {
        firmware: device.firmware(),
        limits,
        thread_domains: has_thread_domains(&opened),
        ports: found,
    })
}

fn has_thread_domains(opened: &Arc<Opened>) -> bool {
    Protection::new(opened).is_ok_and(|base| base.for_thread().is_some())
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::Infiniband => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        })
    }
}
