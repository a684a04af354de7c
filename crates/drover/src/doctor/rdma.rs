//! Checks for RDMA: the library, a port, an address.

use super::Finding;
use super::machine::Machine;
use drover_verbs_ibv::Wish;
use drover_verbs_ibv::choose::{GidKind, PortState};
use drover_verbs_ibv::survey::{Details, PortDetails};

/// Checks whether libibverbs can be loaded and lists devices, and which version it is.
pub fn library(machine: &Machine) -> Finding {
    let what = "libibverbs";
    match machine.survey() {
        Ok(_) => Finding::good(what, version(&machine.text("proc/self/maps"))),
        Err(why) => {
            let (found, fix) = cut(why);
            let fix = fix.unwrap_or("install it (Debian: apt-get install libibverbs1 ibverbs-providers)");
            Finding::fair(what, format!("{found}; shared memory needs none"), fix)
        }
    }
}

/// Version from the name of the loaded file: `libibverbs.so.1.14.44.0` belongs to rdma-core 44.0.
fn version(maps: &str) -> String {
    let files = maps.lines().filter_map(|line| line.split_whitespace().last());
    let name = files
        .filter_map(|path| path.rsplit('/').next())
        .find(|name| name.starts_with("libibverbs.so"));
    let Some(name) = name else {
        return "found".to_string();
    };
    match name
        .trim_start_matches("libibverbs.so.")
        .split('.')
        .collect::<Vec<_>>()[..]
    {
        [_, _, major, minor] => format!("{name}, of rdma-core {major}.{minor}"),
        _ => name.to_string(),
    }
}

/// Splits a text into the problem and the advice.
fn cut(text: &str) -> (&str, Option<&str>) {
    match text.split_once("; ") {
        Some((found, fix)) => (found, Some(fix)),
        None => (text, None),
    }
}

/// The ports of all devices that can be opened.
fn ports(machine: &Machine) -> Vec<&PortDetails> {
    let devices = machine
        .survey()
        .map(|survey| &survey.devices[..])
        .unwrap_or_default();
    let details = devices.iter().flat_map(|device| device.details.as_ref());
    details.flat_map(|Details { ports, .. }| ports).collect()
}

/// Checks whether an RDMA port is active, and whether all ports use their maximum MTU.
pub fn active_ports(machine: &Machine) -> Finding {
    let what = "RDMA ports";
    let ports = ports(machine);
    let told = |port: &&PortDetails| {
        let facts = &port.facts;
        let (mtu, most) = (port.mtu_bytes, port.mtu_bytes_max);
        format!(
            "{} port {} is {}, MTU {mtu} of {most}",
            facts.device, facts.port, facts.state
        )
    };
    let all: Vec<String> = ports.iter().map(told).collect();
    let (active, short): (Vec<_>, Vec<_>) = (
        ports
            .iter()
            .filter(|port| port.facts.state == PortState::Active)
            .collect(),
        ports
            .iter()
            .filter(|port| port.mtu_bytes < port.mtu_bytes_max)
            .collect(),
    );
    match (ports.is_empty(), active.is_empty()) {
        (true, _) => Finding::fair(
            what,
            "none",
            "a device brings its ports: see the lines above, and drover devices",
        ),
        (_, true) => Finding::fair(
            what,
            all.join(", "),
            "bring the network interface up (ip link set DEV up), or plug the cable in",
        ),
        _ if !short.is_empty() => Finding::fair(
            what,
            all.join(", "),
            "longer packets carry large values faster: ip link set DEV mtu 4200 at both ends and on the switches between",
        ),
        _ => Finding::good(what, all.join(", ")),
    }
}

/// Checks which RDMA address (GID) is used without options. RoCE v1 and link-local addresses, whose packets routers do
/// not carry: [`Grade::Fair`](super::Grade::Fair).
pub fn address(machine: &Machine) -> Finding {
    let what = "RDMA address";
    let none = "give the port's network interface an IP address: ip addr add ADDRESS/24 dev DEV";
    let Ok(survey) = machine.survey() else {
        return Finding::fair(what, "none, without the library", "see the line about libibverbs");
    };
    let choice = match survey.choose(&Wish::default()) {
        Ok(choice) => choice,
        Err(error) => {
            let text = error.to_string();
            let (found, fix) = cut(&text);
            return Finding::fair(what, found, fix.unwrap_or(none));
        }
    };
    let found = format!("{} port {}: {}", choice.device, choice.port, choice.gid);
    let is_near = match choice.gid.address() {
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
        std::net::IpAddr::V4(_) => false,
    };
    match choice.gid.kind {
        GidKind::Infiniband => Finding::good(what, found),
        GidKind::RoceV1 => Finding::fair(
            what,
            format!("{found}: no router carries RoCE v1"),
            "switch the port to RoCE v2 (cma_roce_mode, or the card's own tool)",
        ),
        GidKind::RoceV2 if is_near => Finding::fair(
            what,
            format!("{found}: an address of its own segment only, which listeners cannot be named by"),
            none,
        ),
        GidKind::RoceV2 => Finding::good(what, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;
    use drover_verbs::Caps;
    use drover_verbs_ibv::Survey;
    use drover_verbs_ibv::choose::{GidFacts, PortFacts};
    use drover_verbs_ibv::survey::{Atomics, DeviceFacts, Limits, LinkLayer};

    const LIMITS: Limits = Limits {
        qp: 1,
        qp_wr: 1,
        sge: 1,
        cq: 1,
        cqe: 1,
        mr: 1,
        mr_bytes: 1,
        qp_rd_atom: 1,
        qp_init_rd_atom: 1,
        srq: 0,
        srq_wr: 0,
        atomics: Atomics::None,
    };

    fn machine(state: PortState, mtu_bytes: usize, kind: GidKind, address: &str) -> Machine {
        let address: std::net::Ipv6Addr = address.parse().expect("an address");
        let gid = GidFacts {
            index: 1,
            kind,
            gid: address.octets(),
        };
        let port = PortDetails {
            facts: PortFacts {
                device: "rxe0".into(),
                port: 1,
                state,
                gids: vec![gid],
            },
            link_layer: LinkLayer::Ethernet,
            mtu_bytes,
            mtu_bytes_max: 4096,
            message_bytes_max: 1,
            caps: Caps::none(),
        };
        let details = Details {
            firmware: String::new(),
            limits: LIMITS,
            thread_domains: false,
            ports: vec![port],
        };
        let device = DeviceFacts {
            name: "rxe0".into(),
            details: Ok(details),
        };
        Machine::empty().with(Survey {
            devices: vec![device],
        })
    }

    #[test]
    fn the_version_is_in_the_name_of_the_file() {
        let maps = "7f0 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0\n";
        assert_eq!(version(maps), "libibverbs.so.1.14.44.0, of rdma-core 44.0");
        assert_eq!(
            version("7f0 r-xp 0 08:01 1 /opt/libibverbs.so.1\n"),
            "libibverbs.so.1"
        );
        assert_eq!(version(""), "found");
    }

    #[test]
    fn all_is_well() {
        let machine = machine(PortState::Active, 4096, GidKind::RoceV2, "::ffff:10.9.0.1");
        assert_eq!(library(&machine).grade, Grade::Good);
        let ports = active_ports(&machine);
        assert_eq!(
            (ports.grade, ports.found.as_str()),
            (Grade::Good, "rxe0 port 1 is active, MTU 4096 of 4096")
        );
        let address = address(&machine);
        assert_eq!(
            (address.grade, address.found.as_str()),
            (Grade::Good, "rxe0 port 1: GID 1 (RoCE v2, 10.9.0.1)")
        );
    }

    #[test]
    fn what_is_wrong_says_how_to_mend_it() {
        let fix = |finding: Finding| finding.fix.expect("not good");
        let short = machine(PortState::Active, 1024, GidKind::RoceV2, "::ffff:10.9.0.1");
        assert!(fix(active_ports(&short)).starts_with("longer packets"));
        let down = machine(PortState::Down, 4096, GidKind::RoceV2, "::ffff:10.9.0.1");
        assert!(fix(active_ports(&down)).starts_with("bring the network interface up"));
        let finding = address(&down);
        assert_eq!(finding.found, "no port is active: rxe0 port 1 is down");
        assert!(fix(finding).starts_with("bring its network interface up (ip link set DEV up)"));
        let near = machine(PortState::Active, 4096, GidKind::RoceV2, "fe80::1");
        assert!(fix(address(&near)).contains("ip addr add"));
        let old = machine(PortState::Active, 4096, GidKind::RoceV1, "::ffff:10.9.0.1");
        assert!(fix(address(&old)).contains("RoCE v2"));
    }
}
