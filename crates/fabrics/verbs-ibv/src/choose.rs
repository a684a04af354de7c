//! Chooses device, port and address: a pure function over a table of those that exist.
//!
//! By address, never by index: the order of devices and of GIDs changes with every boot and every new interface. Among
//! the GIDs of active ports that the wish allows, the best is chosen:
//!
//! 1. RoCE v2 (or InfiniBand) before RoCE v1, which cannot be routed;
//! 2. an IPv4 address before a global IPv6 one before a link-local one, which does not identify its network;
//! 3. then the first in the table: devices by name, ports and GIDs by number.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Device, port and address that the user asks for. A field that is `None` permits any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// IP address whose GID must be used, for example that of a listener. `None` and an unspecified address (`0.0.0.0`,
    /// `::`) permit any.
    pub address: Option<IpAddr>,
    /// Name of the device that must be used, for example `rxe0`.
    pub device: Option<String>,
    /// Number of the port that must be used, from 1.
    pub port: Option<u8>,
    /// Index, in its port's table, of the GID that must be used.
    pub gid_index: Option<u32>,
}

/// A port of a device: its state and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// State of the port.
    pub state: PortState,
    /// Addresses of the port, in the order of its GID table.
    pub gids: Vec<GidFacts>,
}

/// State of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// There is a link, which is not configured yet.
    Initializing,
    /// Configured but not yet in use.
    Armed,
    /// Packets can pass.
    Active,
    /// Another state, by its number in `ibv_port_state`.
    Other(u32),
}

/// One address (GID) of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidFacts {
    /// Index in the port's table of GIDs.
    pub index: u32,
    /// Type of the packets that are sent from this GID.
    pub kind: GidKind,
    /// The GID: an IPv6 address in network byte order; an IPv4 address is mapped to one.
    pub gid: [u8; 16],
}

/// Type of packets sent from a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GidKind {
    /// InfiniBand.
    Infiniband,
    /// RoCE over UDP.
    RoceV2,
    /// RoCE in Ethernet frames, limited to one network segment.
    RoceV1,
}

/// The chosen device, port and address, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// The chosen address of the port.
    pub gid: GidFacts,
    /// Text for people: the chosen GID, how many there were to choose from, and why it was preferred.
    pub reason: String,
}

/// Reason why no device, port and GID fit a [`Wish`]. The text lists what exists and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChooseError {
    /// The table of ports is empty: there is no device, or none that can be opened.
    #[error(
        "no RDMA device on this machine; load its driver, or make a software one: rdma link add rxe0 type rxe netdev eth0"
    )]
    NoDevice,
    /// The requested device cannot be opened; or there are devices, but none can be opened. [`choose`] does not return
    /// it: its table has only devices that were opened.
    #[error("{reasons}")]
    Unopened {
        /// Reason of the requested device, or of all devices, one after the other.
        reasons: String,
    },
    /// No device in the table has the requested name. A device that cannot be opened is not in the table.
    #[error("no RDMA device is called {wanted}; there are: {present}")]
    NoSuchDevice {
        /// Requested name.
        wanted: String,
        /// Names of the devices in the table.
        present: String,
    },
    /// No port of the permitted devices has the requested number.
    #[error("{device} has no port {port}; its ports are: {present}")]
    NoSuchPort {
        /// Name of the requested device; if none was requested, of the first one.
        device: String,
        /// Requested number.
        port: u8,
        /// Port numbers that the permitted devices have.
        present: String,
    },
    /// No permitted port is active.
    #[error(
        "no port is active: {states}; bring its network interface up (ip link set DEV up) or plug the cable in"
    )]
    NoActivePort {
        /// The permitted ports with their states.
        states: String,
    },
    /// No permitted active port has a GID with the requested index that is not null.
    #[error("{place} has no GID with index {index} (it is null or beyond the table); there are: {present}")]
    NoSuchGid {
        /// The permitted active ports.
        place: String,
        /// Requested index.
        index: u32,
        /// GIDs of the permitted active ports that are not null.
        present: String,
    },
    /// No permitted active port has a GID with the requested address and, if an index was requested too, that index.
    #[error("no active RDMA port has the address {address}; there are: {present}")]
    NoSuchAddress {
        /// Requested address.
        address: IpAddr,
        /// GIDs of the permitted active ports that are not null.
        present: String,
    },
    /// All GIDs of the permitted active ports are null, and no index was requested.
    #[error(
        "{place} has no address yet: every GID is null; give its network interface an IP address (ip addr add)"
    )]
    NoGid {
        /// The permitted active ports.
        place: String,
    },
}

/// Chooses device, port and GID from `table`: the best that `wish` permits, in the order of the [module](self)'s
/// documentation.
///
/// # Errors
/// [`ChooseError`] for the first condition that no candidate meets.
pub fn choose(table: &[PortFacts], wish: &Wish) -> Result<Choice, ChooseError> {
    let ports = active_ports(table, wish)?;
    let place = listed(ports.iter().map(|port| place(port)));
    let all: Vec<(&PortFacts, GidFacts)> = ports
        .iter()
        .flat_map(|port| port.gids.iter().map(move |gid| (*port, *gid)))
        .filter(|(_, gid)| gid.gid != [0; 16])
        .collect();
    let present = || listed(all.iter().map(|(port, gid)| format!("{} {gid}", place_of(port))));
    if all.is_empty() && wish.gid_index.is_none() {
        return Err(ChooseError::NoGid { place });
    }
    let mut fitting = all.clone();
    if let Some(index) = wish.gid_index {
        fitting.retain(|(_, gid)| gid.index == index);
        if fitting.is_empty() {
            let present = present();
            return Err(ChooseError::NoSuchGid {
                place,
                index,
                present,
            });
        }
    }
    if let Some(address) = wish.address.filter(|address| !address.is_unspecified()) {
        fitting.retain(|(_, gid)| gid.gid == mapped(address));
        if fitting.is_empty() {
            let present = present();
            return Err(ChooseError::NoSuchAddress { address, present });
        }
    }
    // The first of the best: `min_by_key` keeps the order of the table.
    let best = fitting.iter().min_by_key(|(_, gid)| gid.rank());
    let (port, gid) = best.expect("what is empty was refused above");
    Ok(Choice {
        device: port.device.clone(),
        port: port.port,
        gid: *gid,
        reason: reason(wish, gid, fitting.len(), all.len()),
    })
}

/// A device that cannot be opened.
pub(crate) struct UnopenedDevice {
    pub(crate) name: String,
    /// Text that names the device.
    pub(crate) reason: String,
}

/// As [`choose`], on a machine that has devices that cannot be opened, besides those of `table`.
pub(crate) fn choose_among(
    table: &[PortFacts],
    unopened: &[UnopenedDevice],
    wish: &Wish,
) -> Result<Choice, ChooseError> {
    let reasons_of = |all: bool, name: &str| {
        let devices = unopened.iter().filter(|device| all || device.name == name);
        let reasons: Vec<&str> = devices.map(|device| device.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    };
    choose(table, wish).map_err(|error| {
        let reasons = match &error {
            ChooseError::NoDevice => reasons_of(true, ""),
            ChooseError::NoSuchDevice { wanted, .. } => reasons_of(false, wanted),
            _ => None,
        };
        reasons.map_or(error, |reasons| ChooseError::Unopened { reasons })
    })
}

/// The active ports that the wish allows.
fn active_ports<'t>(table: &'t [PortFacts], wish: &Wish) -> Result<Vec<&'t PortFacts>, ChooseError> {
    if table.is_empty() {
        return Err(ChooseError::NoDevice);
    }
    let mut ports: Vec<&PortFacts> = table.iter().collect();
    if let Some(wanted) = &wish.device {
        ports.retain(|port| port.device == *wanted);
        if ports.is_empty() {
            let mut names: Vec<String> = table.iter().map(|port| port.device.clone()).collect();
            names.dedup();
            return Err(ChooseError::NoSuchDevice {
                wanted: wanted.clone(),
                present: listed(names.into_iter()),
            });
        }
    }
    if let Some(wanted) = wish.port {
        let present = listed(ports.iter().map(|port| port.port.to_string()));
        let device = ports[0].device.clone();
        ports.retain(|port| port.port == wanted);
        if ports.is_empty() {
            return Err(ChooseError::NoSuchPort {
                device,
                port: wanted,
                present,
            });
        }
    }
    let states = listed(
        ports
            .iter()
            .map(|port| format!("{} is {}", place(port), port.state)),
    );
    ports.retain(|port| port.state == PortState::Active);
    match ports.is_empty() {
        true => Err(ChooseError::NoActivePort { states }),
        false => Ok(ports),
    }
}

fn reason(wish: &Wish, gid: &GidFacts, fitting: usize, all: usize) -> String {
    let why = if wish.gid_index.is_some() {
        "its index was asked for"
    } else if wish.address.is_some_and(|address| !address.is_unspecified()) {
        "its address was asked for"
    } else {
        "RoCE v2 goes before v1, IPv4 before global IPv6 before link-local"
    };
    match fitting {
        1 if all == 1 => format!("{gid}, the only one there is"),
        1 => format!("{gid}, of {all}: {why}"),
        _ => format!("{gid}, the first of {fitting} that fit of {all}: {why}"),
    }
}

fn place(port: &PortFacts) -> String {
    format!("{} port {}", port.device, port.port)
}

fn place_of(port: &PortFacts) -> String {
    format!("{}/{}", port.device, port.port)
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.is_empty() {
        true => "none".to_string(),
        false => items.join(", "),
    }
}

/// The GID of an IP address.
fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl GidFacts {
    /// Preference of a GID; smaller is better.
    fn rank(&self) -> (bool, u8) {
        let address = Ipv6Addr::from(self.gid);
        let reach = match address.to_ipv4_mapped() {
            Some(_) => 0,
            None if !address.is_unicast_link_local() => 1,
            None => 2,
        };
        (self.kind == GidKind::RoceV1, reach)
    }

    /// The IP address of the GID: IPv4 if it is a mapped one, else IPv6.
    pub fn address(&self) -> IpAddr {
        let address = Ipv6Addr::from(self.gid);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    }
}

impl fmt::Display for GidFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GidFacts { index, kind, .. } = self;
        write!(f, "GID {index} ({kind}, {})", self.address())
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::Infiniband => "InfiniBand",
            GidKind::RoceV1 => "RoCE v1",
            GidKind::RoceV2 => "RoCE v2",
        })
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortState::Down => f.write_str("down"),
            PortState::Initializing => f.write_str("initializing (no subnet manager?)"),
            PortState::Armed => f.write_str("armed"),
            PortState::Active => f.write_str("active"),
            PortState::Other(number) => write!(f, "in state {number}"),
        }
    }
}

#[cfg(test)]
mod tests;
