//! The bodies of all fuzzers, in one table. Each takes any bytes and panics if the code under test breaks
//! its promise; `fuzz/corpus/<name>/` holds inputs worth keeping, which `tests/it/replay.rs` runs in `cargo test`.
#![forbid(unsafe_code)]

mod command_line;
mod control;
mod farm;
pub mod herd;
mod input;
mod member;
mod memcached;
mod pilaf;
mod request;
mod rfp;
mod rpc;
mod slots;
mod trace;

/// A fuzzer: its name and the function that takes one input.
pub struct Target {
    /// Name of the fuzzer in `cargo xtask fuzz`, and of its folder in `fuzz/corpus/`.
    pub name: &'static str,
    /// Runs the code under test with one input of any bytes. Panics if it finds a bug.
    pub run: fn(&[u8]),
}

/// Name of the fuzzer that must crash: `cargo xtask fuzz` fails if fuzzing does not find its planted bug.
pub const CANARY: &str = "canary";

/// All fuzzers, including [`CANARY`].
pub const TARGETS: &[Target] = &[
    Target {
        name: CANARY,
        run: canary,
    },
    Target {
        name: "cluster_map",
        run: drover_cluster::fuzz_map,
    },
    Target {
        name: "command_line",
        run: command_line::words,
    },
    Target {
        name: "commit_word",
        run: slots::commit_word,
    },
    Target {
        name: "config_file",
        run: command_line::config_file,
    },
    Target {
        name: "control_address",
        run: control::address,
    },
    Target {
        name: "control_frame",
        run: control::frame,
    },
    Target {
        name: "control_message",
        run: herd::control_message,
    },
    Target {
        name: "farm_control",
        run: farm::control_message,
    },
    Target {
        name: "farm_lookup",
        run: farm::lookup,
    },
    Target {
        name: "link",
        run: drover_links::fuzz_link,
    },
    Target {
        name: "member_messages",
        run: member::messages,
    },
    Target {
        name: "memcached_parse",
        run: memcached::parse_bytes,
    },
    Target {
        name: "memcached_talk",
        run: memcached::talk,
    },
    Target {
        name: "one_sided_request",
        run: request::any,
    },
    Target {
        name: "pilaf_control",
        run: pilaf::control_message,
    },
    Target {
        name: "pilaf_lookup",
        run: pilaf::lookup,
    },
    Target {
        name: "pilaf_reply",
        run: pilaf::reply,
    },
    Target {
        name: "rfp_control",
        run: rfp::control_message,
    },
    Target {
        name: "rpc_mailbox",
        run: rpc::mailbox,
    },
    Target {
        name: "rpc_requests",
        run: drover_rpc::fetch::fuzz_requests,
    },
    Target {
        name: "rpc_results",
        run: drover_rpc::fetch::fuzz_results,
    },
    Target {
        name: "rpc_ring",
        run: rpc::ring,
    },
    Target {
        name: "server_slots",
        run: herd::slots,
    },
    Target {
        name: "slots",
        run: slots::slots,
    },
    Target {
        name: "trace",
        run: trace::any,
    },
];

/// Panics if the input starts with `drove`, which a fuzzer without coverage would not find in years.
fn canary(input: &[u8]) {
    let found = input.len() >= 5
        && input[0] == b'd'
        && input[1] == b'r'
        && input[2] == b'o'
        && input[3] == b'v'
        && input[4] == b'e';
    assert!(!found, "the canary was found");
}
