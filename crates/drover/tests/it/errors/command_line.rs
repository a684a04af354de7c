//! Bad command lines.

use super::{Said, compare};
use crate::common::drover;

/// Command lines, and what their text must name.
const LINES: &[(&str, &str)] = &[
    ("frobnicate", "frobnicate"),
    ("serve --no-such-flag", "--no-such-flag"),
    ("serve -t 0", "--threads"),
    ("serve -m 0", "--memory-limit"),
    ("serve -m lots", "--memory-limit"),
    ("serve -I 2g", "--max-item-size 2g"),
    ("serve -I 1m -m 1", "-I"),
    ("serve -c 0", "--conn-limit"),
    ("serve -p 99999", "99999"),
    ("serve -l 300.1.1.1", "-l 300.1.1.1"),
    ("serve -l 0.0.0.0", "-l 0.0.0.0"),
    ("serve -a 999", "-a 999"),
    ("serve --cores 0-x", "--cores 0-x"),
    ("serve --eviction lru", "--eviction lru"),
    ("serve --system nope", "--system nope"),
    ("serve --hash md5", "--hash md5"),
    ("serve --fabric nowhere", "nowhere"),
    ("serve --fabric tcp://127.0.0.1:1", "--fabric tcp://127.0.0.1:1"),
    ("serve --control-listen shm:x", "--control-listen shm:x"),
    ("serve --ib-dev mlx5_9", "--ib-dev"),
    (
        "serve --metrics-listen 0.0.0.0:9150",
        "--metrics-listen 0.0.0.0:9150",
    ),
    ("serve --system pilaf -e items", "-e"),
    ("serve -Z", "-Z"),
    ("serve -o ssl_key=k", "-o ssl_key"),
    ("serve -o no_such_option", "no_such_option"),
    ("serve -d", "-d"),
    ("serve --cluster nowhere", "--cluster nowhere"),
    (
        "serve --cluster etcd://127.0.0.1:1/x?tls-name=etcd --advertise 127.0.0.1",
        "tls-ca is missing",
    ),
    (
        "serve --cluster etcd://127.0.0.1:1/x?tls-ca=/nowhere/ca.pem --advertise 127.0.0.1",
        "tls-ca=/nowhere/ca.pem",
    ),
    ("serve --cluster etcd://127.0.0.1:1/x", "--advertise"),
    ("serve --advertise 127.0.0.1", "--advertise"),
    (
        "serve --cluster etcd://127.0.0.1:1/x --advertise 0.0.0.0",
        "--advertise 0.0.0.0",
    ),
    (
        "serve --cluster etcd://127.0.0.1:1/x --advertise 127.0.0.1 --lease 1",
        "--lease 1",
    ),
    (
        "serve --cluster etcd://127.0.0.1:1/x --advertise 127.0.0.1 --on-registry-loss hope",
        "--on-registry-loss hope",
    ),
    (
        "serve --cluster etcd://127.0.0.1:1/x --advertise 127.0.0.1 -e items",
        "-e items",
    ),
    (
        "serve --system pilaf --cluster etcd://127.0.0.1:1/x --advertise 127.0.0.1",
        "--cluster etcd://127.0.0.1:1/x",
    ),
    (
        "cluster status --cluster etcd://127.0.0.1:1/x --timeout-ms 300",
        "etcd://127.0.0.1:1/x",
    ),
    (
        "cluster status --cluster etcd://127.0.0.1:1/x?tls-ca=/nowhere/ca.pem",
        "tls-ca=/nowhere/ca.pem",
    ),
    ("cluster drain --cluster etcd://127.0.0.1:1/x", "MEMBER"),
    ("get", "KEY"),
    ("get k --server nonsense", "nonsense"),
    ("get k --server tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
    (
        "get k --server etcd://127.0.0.1:1/x?tls-ca=/nowhere/ca.pem",
        "tls-ca=/nowhere/ca.pem",
    ),
    ("get k --json --raw", "--raw"),
    ("get k --tls-name x", "--tls-ca"),
    ("set k v --if maybe", "--if"),
    ("set k v --ttl never", "--ttl"),
    ("incr k --ttl 5", "--initial"),
    ("cas k latest v", "latest"),
    ("top shm:drover", "shm:drover"),
    ("bench --client-cores 0", "--client-cores"),
    ("bench --mix e", "--mix e"),
    ("bench --system nope", "--system nope"),
    ("bench --auth-file users", "--auth-file"),
    ("perf read-all", "read-all"),
    ("figure herd-99", "herd-99"),
    ("completions tcsh", "tcsh"),
];

#[test]
fn bad_command_lines() {
    let said = LINES.iter().map(|(line, named)| {
        let words: Vec<&str> = line.split(' ').collect();
        let shown = format!("drover {line}");
        Said::new(&shown, &drover(&words, ""), named, &[])
    });
    compare("command-line", &said.collect::<Vec<_>>());
}
