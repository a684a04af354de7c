//! [`Survey`]: all devices, usable or not, with their ports, addresses and limits, for people.

use crate::choose::{Choice, ChooseError, PortFacts, Wish, choose};
use crate::device::{caps, device_names, load, open_one, ports};
use crate::ffi::{self, Library};
pub use crate::limits::{Atomics, Limits};
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
        ports: found,
    })
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::Infiniband => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
        })
    }
}
