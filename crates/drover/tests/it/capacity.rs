//! `-m` with any `-t`: every place that tells the capacity tells the one that was asked for.

use crate::common::{Serving, ask_memcached, drover};
use std::net::TcpStream;

/// MiB and threads. None of them divides evenly, or the parts are no whole huge pages.
const PAIRS: [(u64, u64); 12] = [
    (64, 3),
    (65, 2),
    (67, 3),
    (97, 5),
    (100, 7),
    (101, 2),
    (127, 4),
    (129, 6),
    (191, 5),
    (255, 8),
    (333, 7),
    (1000, 3),
];
/// A partition may miss its share by one page.
const PAGE_BYTES: u64 = 4096;

/// The number that a line of memcached's statistics gives for `name`.
fn stat(stats: &str, name: &str) -> u64 {
    let prefix = format!("STAT {name} ");
    let found = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    let value = found.unwrap_or_else(|| panic!("no {name} in {stats}"));
    value.trim_end().parse().expect("a number")
}

#[test]
fn odd_shares_of_memory_are_honoured_and_told_alike() {
    for (mib, threads) in PAIRS {
        let (limit, count) = (mib.to_string(), threads.to_string());
        let sizes = ["-m", &limit, "-t", &count];
        let listeners = ["-p", "-1", "--metrics-listen", "127.0.0.1:0"];
        let server = Serving::start(
            &format!("share-{mib}-{threads}"),
            &[&sizes[..], &listeners].concat(),
        );
        let bytes = mib << 20;
        let mut client = TcpStream::connect(("127.0.0.1", server.memcached_port())).expect("it listens");
        let stats = ask_memcached(&mut client, "stats\r\n");
        let settings = ask_memcached(&mut client, "stats settings\r\n");
        assert_eq!(stat(&stats, "limit_maxbytes"), bytes, "-m {mib} -t {threads}");
        assert_eq!(stat(&settings, "maxbytes"), bytes, "-m {mib} -t {threads}");

        let metrics = server.metrics();
        let of_partition = |line: &&str| line.starts_with("drover_limit_bytes{");
        let shares = metrics.lines().filter(of_partition).map(|line| {
            let value = line.rsplit(' ').next().and_then(|value| value.parse().ok());
            value.expect("a number")
        });
        let shares: Vec<u64> = shares.collect();
        assert_eq!(shares.len() as u64, threads, "a sample for each partition");
        for share in shares {
            let missed = share.abs_diff(bytes / threads);
            assert!(
                missed <= PAGE_BYTES,
                "-m {mib} -t {threads}: a share of {share} bytes"
            );
        }

        let (status, config, _) = drover(&[&["config"][..], &sizes].concat(), "");
        let line = config.lines().find(|line| line.starts_with("memory-limit "));
        let told = line.and_then(|line| line.split_whitespace().nth(1));
        assert_eq!((status, told), (0, Some(limit.as_str())), "{config}");
        assert_eq!(server.stop(), 0);
    }
}
