//! An environment that lacks something, or has something in the way.

use super::namespace::{self, Mounted};
use super::{Said, compare};
use crate::common::{Serving, drover, folder};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

/// What is wrong with the environment.
enum Wrong {
    /// Nothing but what the command names.
    Named,
    /// The file system at FOLDER/mounted is like this.
    Disk(Mounted),
    /// These words of a shell limit the process.
    Limit(&'static str),
}
use Wrong::{Disk, Limit, Named};

/// Command lines, what is wrong, and what their text must name.
const CASES: &[(&str, Wrong, &str)] = &[
    (
        "serve -t 1 -e MOUNTED/items",
        Disk(Mounted::Empty),
        "-e MOUNTED/items",
    ),
    (
        "serve -m 4 -e MOUNTED/items",
        Disk(Mounted::Full),
        "-e MOUNTED/items",
    ),
    ("serve -P MOUNTED/pid", Disk(Mounted::Full), "-P MOUNTED/pid"),
    (
        "serve -s MOUNTED/socket",
        Disk(Mounted::ReadOnly),
        "-s MOUNTED/socket",
    ),
    (
        "serve -m 4 -e MOUNTED/items",
        Disk(Mounted::ReadOnly),
        "-e MOUNTED/items",
    ),
    (
        "get here --file MOUNTED/value",
        Disk(Mounted::Full),
        "--file MOUNTED/value",
    ),
    ("serve -m 4000", Limit("ulimit -v 2000000"), "-m 4000"),
    ("serve -t 2", Limit("ulimit -n 12"), "ulimit -n"),
    ("serve -L -m 1000000000", Named, "-L"),
    ("serve -p PORT", Named, "127.0.0.1:PORT"),
    ("serve --fabric SERVER", Named, "--fabric SERVER"),
    (
        "serve --metrics-listen 127.0.0.1:PORT",
        Named,
        "--metrics-listen 127.0.0.1:PORT",
    ),
    ("serve -l 192.0.2.1:11211 --insecure", Named, "-l 192.0.2.1:11211"),
    ("serve -u nobody-of-that-name", Named, "-u nobody-of-that-name"),
    (
        "serve --group no-group-of-that-name",
        Named,
        "--group no-group-of-that-name",
    ),
    (
        "serve -Z -o ssl_chain_cert=FOLDER/junk,ssl_key=FOLDER/junk",
        Named,
        "FOLDER/junk",
    ),
    (
        "serve -Z -o ssl_chain_cert=FOLDER/none,ssl_key=FOLDER/none",
        Named,
        "FOLDER/none",
    ),
    ("serve -Y FOLDER/everybodys", Named, "-Y FOLDER/everybodys"),
    ("serve -Y FOLDER/none", Named, "-Y FOLDER/none"),
    ("serve -Y FOLDER/junk", Named, "-Y FOLDER/junk"),
    ("serve -s FOLDER/no/socket", Named, "-s FOLDER/no/socket"),
    (
        "serve --fabric shm:FOLDER/no/socket",
        Named,
        "--fabric FOLDER/no/socket",
    ),
    ("serve -e FOLDER", Named, "-e FOLDER"),
    ("serve --config FOLDER/none", Named, "--config FOLDER/none"),
    ("serve --config FOLDER/junk", Named, "FOLDER/junk"),
    ("get k --server shm:FOLDER/nobody", Named, "shm:FOLDER/nobody"),
    ("set k --file FOLDER/none", Named, "--file FOLDER/none"),
    ("get k --auth-file FOLDER/none", Named, "--auth-file FOLDER/none"),
    (
        "get k --server rdma://127.0.0.1:PORT --tls-ca FOLDER/junk",
        Named,
        "FOLDER/junk",
    ),
    (
        "stats --server tcp://127.0.0.1:PORT",
        Named,
        "tcp://127.0.0.1:PORT",
    ),
    (
        "stats --server tcp://127.0.0.1:MEMCACHED",
        Named,
        "tcp://127.0.0.1:MEMCACHED",
    ),
    (
        "stats --server tcp://127.0.0.1:ADMIN",
        Named,
        "tcp://127.0.0.1:ADMIN",
    ),
    (
        "stats --server tcp://127.0.0.1:CLOSED",
        Named,
        "tcp://127.0.0.1:CLOSED",
    ),
    ("top 127.0.0.1:MEMCACHED --once", Named, "127.0.0.1:MEMCACHED"),
    ("top 127.0.0.1:CLOSED --once", Named, "127.0.0.1:CLOSED"),
];

/// Where `serve` listens if a case does not say: nothing else is in the way.
fn elsewhere(words: &[&str], place: &str) -> Vec<String> {
    let mut more = Vec::new();
    if words[0] == "serve" {
        let has = |flag: &str| words.contains(&flag);
        let own = format!("shm:{place}/own");
        if !has("--fabric") {
            more.extend(["--fabric".to_owned(), own]);
        }
        if !has("-p") {
            more.extend(["-p", "-1"].map(str::to_owned));
        }
    }
    more
}

/// Port of the admin port in a server's log.
fn admin_port(server: &Serving) -> String {
    let rest = server
        .said
        .split("metrics: http://127.0.0.1:")
        .nth(1)
        .expect("an admin port");
    rest.split('/').next().expect("a number").to_owned()
}

/// How a text names the huge pages of this machine that are free.
fn free_huge_pages() -> String {
    let table = std::fs::read_to_string("/proc/meminfo").expect("Linux");
    let number = |name: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(name));
        let text = line.and_then(|line| line.split_whitespace().next());
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let kib = number("HugePages_Free:") * number("Hugepagesize:");
    format!("wanted, {} MiB free", kib >> 10)
}

#[test]
fn an_environment_that_does_not_fit() {
    if !namespace::is_allowed() {
        return;
    }
    let place = folder("environment");
    for (name, mode) in [("junk", 0o600), ("everybodys", 0o666)] {
        let path = place.join(name);
        std::fs::write(&path, "x\n").expect("temporary file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("our own");
    }
    let server = Serving::start("environment", &["-p", "-1", "--metrics-listen", "127.0.0.1:0"]);
    assert_eq!(server.ask(&["set", "here", &"v".repeat(5000)]).0, 0);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = |listener: &TcpListener| listener.local_addr().expect("bound").port().to_string();
    let numbers = [
        port(&taken),
        port(&closed),
        server.memcached_port().to_string(),
        admin_port(&server),
    ];
    drop(closed);
    let [taken_port, closed_port, memcached_port, admin_port] = &numbers;
    let (mounted, place) = (namespace::place(), place.to_str().expect("UTF-8").to_owned());
    let mounted = mounted.to_str().expect("UTF-8").to_owned();
    let free_pages = free_huge_pages();
    let names: Vec<(&str, &str)> = vec![
        (&free_pages, "wanted, FREE MiB free"),
        (&server.addr, "SERVER"),
        (&mounted, "MOUNTED"),
        (&place, "FOLDER"),
        (taken_port, "PORT"),
        (closed_port, "CLOSED"),
        (memcached_port, "MEMCACHED"),
        (admin_port, "ADMIN"),
    ];
    let said = CASES.iter().map(|(line, wrong, named)| {
        let real = names
            .iter()
            .fold((*line).to_owned(), |line, (word, name)| line.replace(name, word));
        let mut words: Vec<&str> = real.split(' ').collect();
        let more = elsewhere(&words, &place);
        words.extend(more.iter().map(String::as_str));
        if line.starts_with("get here") {
            words.extend(["--server", &server.addr]);
        }
        let answer = match wrong {
            Named => drover(&words, ""),
            Disk(mounted) => namespace::run(*mounted, "true", &words),
            Limit(limit) => namespace::run(Mounted::Empty, limit, &words),
        };
        Said::new(&format!("drover {line}"), &answer, named, &names)
    });
    compare("environment", &said.collect::<Vec<_>>());
    drop(taken);
}
