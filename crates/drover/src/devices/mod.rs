//! `drover devices`: RDMA devices with their ports, addresses and limits, and which one would be used and why.

mod text;

use crate::exit::{self, Failure};
use crate::rdma::DeviceArgs;
use drover_verbs_ibv::choose::{Choice, ChooseError};
use drover_verbs_ibv::survey::{Details, DeviceFacts, PortDetails};
use drover_verbs_ibv::{Survey, Wish};
use serde_json::{Value, json};
use std::process::ExitCode;

const TEACH: &str = "\
Exit status: 0 if a device can be used, 69 if not; the last line says why and what to do.

Every command that uses a device takes the same three options: drover perf, bench, serve.";

/// Arguments of `devices`.
#[derive(clap::Args)]
#[command(after_help = TEACH)]
pub struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Prints all RDMA devices and the choice among them. Exit status 69: no device can be used that fits the options, or
/// libibverbs is missing.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(devices(args))
}

fn devices(args: &Args) -> Result<(), Failure> {
    let survey = Survey::take(None).map_err(|error| Failure::new(exit::UNAVAILABLE, error))?;
    let (text, chosen) = shown(&survey, &args.device.choice().wish(None), args.json);
    print!("{text}");
    chosen.map_err(|error| Failure::new(exit::UNAVAILABLE, format!("ibv is not available: {error}")))
}

/// The output, and whether a device can be used.
fn shown(survey: &Survey, wish: &Wish, as_json: bool) -> (String, Result<(), ChooseError>) {
    let choice = survey.choose(wish);
    let text = match as_json {
        true => format!("{:#}\n", json_of(survey, &choice)),
        false => text::of(survey, choice.as_ref().ok()),
    };
    (text, choice.map(drop))
}

fn json_of(survey: &Survey, choice: &Result<Choice, ChooseError>) -> Value {
    let devices: Vec<Value> = survey.devices.iter().map(json_of_device).collect();
    match choice {
        Ok(choice) => json!({ "devices": devices, "choice": {
            "ib_dev": choice.device,
            "ib_port": choice.port,
            "gid_index": choice.gid.index,
            "address": choice.gid.address(),
            "reason": choice.reason,
        }}),
        Err(error) => json!({ "devices": devices, "choice": null, "error": error.to_string() }),
    }
}

fn json_of_device(device: &DeviceFacts) -> Value {
    match &device.details {
        Ok(details) => json!({
            "ib_dev": device.name,
            "firmware": details.firmware,
            "limits": json_of_limits(details),
            "ports": details.ports.iter().map(json_of_port).collect::<Vec<_>>(),
        }),
        Err(why) => json!({ "ib_dev": device.name, "error": why }),
    }
}

/// Limits under the names that verbs give them.
fn json_of_limits(details: &Details) -> Value {
    let limits = &details.limits;
    json!({
        "max_qp": limits.qp,
        "max_qp_wr": limits.qp_wr,
        "max_sge": limits.sge,
        "max_cq": limits.cq,
        "max_cqe": limits.cqe,
        "max_mr": limits.mr,
        "max_mr_size": limits.mr_bytes,
        "max_qp_rd_atom": limits.qp_rd_atom,
        "max_qp_init_rd_atom": limits.qp_init_rd_atom,
        "max_srq": limits.srq,
        "max_srq_wr": limits.srq_wr,
        "atomics": limits.atomics.to_string(),
    })
}

fn json_of_port(port: &PortDetails) -> Value {
    let (facts, caps) = (&port.facts, &port.caps);
    let gids = facts
        .gids
        .iter()
        .map(|gid| json!({ "gid_index": gid.index, "type": gid.kind.to_string(), "address": gid.address() }));
    json!({
        "ib_port": facts.port,
        "state": facts.state.to_string(),
        "link_layer": port.link_layer.to_string(),
        "mtu": port.mtu_bytes,
        "max_mtu": port.mtu_bytes_max,
        "max_msg_sz": port.message_bytes_max,
        "queue_pairs": text::kinds(caps),
        "max_inline_data": caps.inline_bytes_max,
        "gids": gids.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
