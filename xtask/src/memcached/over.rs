//! Each file of memcached's suite that applies to `serve`: how it runs against a gateway, or why it does not apply there.
//! The wrapper leaves out flags about items, and starts the service that the gateway connects to. A system that is a pool of
//! memory nodes has its gateway in the process of the nodes, and takes most of these flags.

use super::table::Fit::{No, Own, Tls};
use super::table::{Line, line};

/// Systems whose services are pools of memory nodes with a gateway beside them.
const POOLS: &[&str] = &["race"];

/// The one that CI runs.
pub const POOL_OF_CI: &str = POOLS[0];

/// Whether `system` is a pool of memory nodes.
pub fn is_pool(system: &str) -> bool {
    POOLS.contains(&system)
}

/// Memory of a node, MiB. A full pool refuses a value if no item's blocks are as long as it needs, so what tests store must
/// fit, but for the file that fills memory.
pub fn memory_mib(file: &str) -> &'static str {
    match file {
        "dash-M.t" => "64",
        _ => "512",
    }
}

/// How each file runs against a gateway to `system`.
pub fn table(system: &str) -> Vec<&'static Line> {
    let own = |line: &'static Line| {
        let mut own = POOL.iter().filter(|own| is_pool(system) && own.file == line.file);
        own.next().unwrap_or(line)
    };
    TABLE.iter().map(own).collect()
}

/// Files that apply to a pool otherwise than to other systems.
#[rustfmt::skip]
const POOL: &[Line] = &[
    line("flush-all.t", Own).but(&[(27, 27, "-C is refused; besides, it wants a value that is stored after flush_all lost")]),
    line("dash-M.t", Own),
    line("00-startup.t", Own).but(&[
        (5, 5, "-C is refused: the versions are the system's"),
        (12, 12, "-B binary: drover refuses the binary protocol"),
        (15, 15, "-vv -B binary, as above"),
        (21, 21, "-C has one assertion less"),
    ]),
];

/// All files that apply to `serve`, completely or in part.
#[rustfmt::skip]
const TABLE: &[Line] = &[
    line("getset.t", Own),
    line("chunked-items.t", Own),
    line("metaget.t", No("`me`, and flags t, h, l, N, R, I and E of meta commands: items of other systems have no such facts")),
    line("idle-timeout.t", Own),
    line("shutdown.t", Own),
    line("flush-all.t", No("flush_all: the items are others', too")),
    line("expirations.t", Own),
    line("item_size_max.t", Own).but(&[(7, 7, "-I 32m: 8 MiB is the most, as in `serve`")]),
    line("maxconns.t", Own),
    line("issue_14.t", Own),
    line("cas.t", Own),
    line("ssl_cert_refresh.t", Tls),
    line("ssl_ports.t", Tls),
    line("ssl_proto_version.t", Tls),
    line("ssl_session_resumption.t", Tls),
    line("ssl_settings.t", Tls),
    line("ssl_verify_modes.t", Tls),
    line("ascii-auth.t", Own),
    line("bogus-commands.t", Own),
    line("dash-M.t", No("-M: whether a full service evicts is decided at its server")),
    line("flags.t", Own),
    line("getandtouch.t", Own),
    line("incrdecr.t", Own),
    line("issue_104.t", Own),
    line("issue_108.t", Own),
    line("issue_152.t", Own),
    line("issue_192.t", Own),
    line("issue_3.t", Own),
    line("issue_41.t", Own),
    line("issue_61.t", Own),
    line("issue_68.t", Own),
    line("issue_70.t", Own),
    line("malicious-commands.t", Own),
    line("multiversioning.t", Own),
    line("noreply.t", Own),
    line("quit.t", Own),
    line("stats-detail.t", No("`stats detail`: a gateway keeps no counts by prefix")),
    line("stats.t", No("numbers of items, which the system does not tell, and `stats detail`")),
    line("strtol-testing.t", Own),
    line("touch.t", Own),
    line("unixsocket.t", Own),
    line("watcher.t", No("watch: a gateway sees its own commands only")),
    line("watcher_connid.t", No("watch, as above")),
    line("00-startup.t", Own).but(&[
        (5, 5, "-C: the versions are the system's"),
        (13, 13, "-B binary: drover refuses the binary protocol"),
        (16, 16, "-vv -B binary, as above"),
    ]),
];
