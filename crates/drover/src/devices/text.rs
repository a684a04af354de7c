//! Devices as text for people. Limits have the names that verbs give them, for comparison with other tools and manuals.

use drover_verbs::{Caps, QpKind};
use drover_verbs_ibv::Survey;
use drover_verbs_ibv::choose::{Choice, GidFacts};
use drover_verbs_ibv::survey::{Details, Limits, PortDetails};
use std::fmt::{self, Write};

/// Describes all devices and, if there is a `choice`, the chosen one; a star marks its GID.
pub fn of(survey: &Survey, choice: Option<&Choice>) -> String {
    let mut text = String::new();
    write(&mut text, survey, choice).expect("writing to a string");
    text
}

fn write(to: &mut String, survey: &Survey, choice: Option<&Choice>) -> fmt::Result {
    for device in &survey.devices {
        match &device.details {
            Ok(details) => write_device(to, &device.name, details, choice)?,
            Err(why) => writeln!(to, "{}\n  {why}", device.name)?,
        }
    }
    match choice {
        Some(choice) => writeln!(
            to,
            "drover takes {} port {}: {}",
            choice.device, choice.port, choice.reason
        ),
        None => Ok(()),
    }
}

fn write_device(to: &mut String, name: &str, details: &Details, choice: Option<&Choice>) -> fmt::Result {
    match details.firmware.as_str() {
        "" => writeln!(to, "{name}")?,
        firmware => writeln!(to, "{name}, firmware {firmware}")?,
    }
    write_limits(to, &details.limits)?;
    let ours = choice.filter(|choice| choice.device == name);
    for port in &details.ports {
        let ours = ours.filter(|choice| choice.port == port.facts.port);
        write_port(to, port, ours.map(|choice| &choice.gid))?;
    }
    Ok(())
}

fn write_limits(to: &mut String, limits: &Limits) -> fmt::Result {
    let Limits {
        qp,
        qp_wr,
        sge,
        cq,
        cqe,
        mr,
        mr_bytes,
        qp_rd_atom,
        qp_init_rd_atom,
        srq,
        srq_wr,
        atomics,
    } = limits;
    writeln!(
        to,
        "  max_qp {qp}, max_qp_wr {qp_wr}, max_sge {sge}, max_cq {cq}, max_cqe {cqe}"
    )?;
    writeln!(to, "  max_mr {mr}, max_mr_size {}", bytes(*mr_bytes))?;
    writeln!(
        to,
        "  max_qp_rd_atom {qp_rd_atom}, max_qp_init_rd_atom {qp_init_rd_atom}, atomics: {atomics}"
    )?;
    match srq {
        0 => writeln!(to, "  no shared receive queues"),
        _ => writeln!(to, "  max_srq {srq}, max_srq_wr {srq_wr}"),
    }
}

fn write_port(to: &mut String, port: &PortDetails, ours: Option<&GidFacts>) -> fmt::Result {
    let facts = &port.facts;
    writeln!(
        to,
        "  port {}: {}, {}, MTU {} of {}, messages up to {}",
        facts.port,
        facts.state,
        port.link_layer,
        port.mtu_bytes,
        port.mtu_bytes_max,
        bytes(port.message_bytes_max)
    )?;
    writeln!(
        to,
        "    queue pairs {}, inline found up to {} B, {} READs or atomics under way",
        kinds(&port.caps).join(" "),
        port.caps.inline_bytes_max,
        port.caps.reads.outstanding_max
    )?;
    if facts.gids.is_empty() {
        writeln!(to, "    no GIDs")?;
    }
    for gid in &facts.gids {
        let mark = if ours == Some(gid) { '*' } else { ' ' };
        writeln!(
            to,
            "  {mark} GID {:<3} {:<10} {}",
            gid.index,
            gid.kind.to_string(),
            gid.address()
        )?;
    }
    Ok(())
}

/// Names of the kinds of queue pairs that `caps` has: RC, UC, UD.
pub fn kinds(caps: &Caps) -> Vec<&'static str> {
    let all = [(QpKind::Rc, "RC"), (QpKind::Uc, "UC"), (QpKind::Ud, "UD")];
    all.into_iter()
        .filter(|(kind, _)| caps.has(*kind))
        .map(|(_, name)| name)
        .collect()
}

/// A number of bytes in the unit that makes it shortest.
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    match count {
        u64::MAX => "unlimited".to_string(),
        0 => "unknown".to_string(),
        _ => {
            let power = (count.ilog2() / 10) as usize;
            let scaled = count as f64 / (1u64 << (10 * power)) as f64;
            let digits = usize::from(scaled.fract() > 0.0);
            format!("{scaled:.digits$} {}", units[power])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_in_short() {
        let texts = [1, 1023, 1024, 1536, 8 << 20, 1 << 63, u64::MAX, 0].map(bytes);
        let expected = [
            "1 B",
            "1023 B",
            "1 KiB",
            "1.5 KiB",
            "8 MiB",
            "8 EiB",
            "unlimited",
            "unknown",
        ];
        assert_eq!(texts, expected);
    }
}
