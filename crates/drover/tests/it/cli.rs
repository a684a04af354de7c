//! The binary as users meet it: a server process, client commands against it, and every way to fail that
//! users run into first, with its exact text and exit status.

use crate::common::{Serving, drover, folder};
use drover_base::Ns;
use drover_client::{Client, Error, Options};

#[test]
fn set_get_delete_and_their_statuses() {
    let server = Serving::start("basics", &[]);
    assert_eq!(
        server.ask(&["get", "greeting"]),
        (1, String::new(), "drover: no key greeting\n".into())
    );
    assert_eq!(
        server.ask(&["set", "greeting", "hello"]),
        (0, String::new(), String::new())
    );
    assert_eq!(
        server.ask(&["get", "greeting"]),
        (0, "hello".into(), String::new())
    );
    assert_eq!(
        server.ask(&["get", "greeting", "--raw"]),
        (0, "hello".into(), String::new())
    );
    assert_eq!(
        server.ask(&["delete", "greeting"]),
        (0, String::new(), String::new())
    );
    assert_eq!(
        server.ask(&["delete", "greeting"]),
        (1, String::new(), "drover: no key greeting\n".into())
    );
    let (status, text, _) = server.ask(&["stats"]);
    assert_eq!(status, 0);
    assert!(text.contains("cmd_set 1\n"), "{text}");
    assert_eq!(
        server.ask(&["set", "-key", "--value"]).0,
        0,
        "words that look like options"
    );
    assert_eq!(server.ask(&["get", "-key", "--raw"]).1, "--value");
    assert_eq!(server.ask(&["delete", "-key"]).0, 0);
    assert_eq!(server.stop(), 0);
}

/// `get` with the environment variable that names the server.
fn get_from(server: &str, key: &str) -> (Option<i32>, String) {
    let mut get = std::process::Command::new(env!("CARGO_BIN_EXE_drover"));
    let out = get.args(["get", key]).env("DROVER_SERVER", server).output();
    let out = out.expect("the binary runs");
    let all = [out.stdout, out.stderr].concat();
    (out.status.code(), String::from_utf8(all).expect("text"))
}

#[test]
fn the_environment_may_name_the_server() {
    let server = Serving::start("named", &[]);
    assert_eq!(server.ask(&["set", "a", "b"]).0, 0);
    assert_eq!(get_from(&server.addr, "a"), (Some(0), "b".into()));
    let (status, said) = get_from("nowhere", "a");
    assert_eq!(status, Some(2));
    assert!(said.starts_with("drover: DROVER_SERVER=nowhere: "), "{said}");
}

#[test]
fn values_from_none_to_the_largest_and_one_more() {
    let server = Serving::start("values", &["-I", "100k"]);
    for bytes in [0, 1, 900, 1100, 100 << 10] {
        let value = "v".repeat(bytes);
        assert_eq!(server.ask_with(&["set", "key"], &value).0, 0, "{bytes} bytes");
        assert_eq!(
            server.ask(&["get", "key", "--raw"]),
            (0, value, String::new()),
            "{bytes} bytes"
        );
    }
    let (status, _, error) = server.ask_with(&["set", "key"], &"v".repeat((100 << 10) + 1));
    assert_eq!(
        (status, error.as_str()),
        (
            2,
            "drover: value of 102,401 B; this server takes 102,400: serve -I\n"
        )
    );
    let (status, _, error) = server.ask(&["get", &"k".repeat(251)]);
    assert_eq!(
        (status, error.as_str()),
        (2, "drover: a key has 1 to 250 bytes; this one has 251\n")
    );
}

/// Every command says so, whatever the length of the value.
#[test]
fn keys_too_long_for_short_slots_are_refused() {
    let server = Serving::start("slots", &["--slot-bytes-max", "256"]);
    let (fits, longer) = ("k".repeat(256 - 40), "k".repeat(250));
    assert_eq!(server.ask_with(&["set", &fits], &"v".repeat(5000)).0, 0);
    for command in ["get", "delete", "set"] {
        let (status, _, error) = server.ask_with(&[command, &longer], "v");
        assert_eq!(status, 2, "{command}");
        assert!(
            error.starts_with("drover: key of 250 B; this server takes ")
                && error.ends_with(": serve --slot-bytes-max\n"),
            "{command}: {error}"
        );
    }
}

#[test]
fn store_mode_says_full_and_forgets_nothing() {
    let server = Serving::start("full", &["-m", "1", "-M", "-I", "300k"]);
    let value = "v".repeat(300 << 10);
    let stored: Vec<bool> = (0..6)
        .map(|i| server.ask_with(&["set", &format!("key{i}")], &value).0 == 0)
        .collect();
    let count = stored.iter().filter(|done| **done).count();
    assert!((1..6).contains(&count), "{stored:?}");
    let (status, _, error) = server.ask_with(&["set", "another"], &value);
    let full =
        "drover: the store is full: the server needs more memory (-m), or must be allowed to evict (no -M)\n";
    assert_eq!((status, error.as_str()), (2, full));
    for (i, done) in stored.iter().enumerate() {
        assert_eq!(server.ask(&["get", &format!("key{i}")]).0 == 0, *done, "key{i}");
    }
}

#[test]
fn further_ways_in() {
    let socket = folder("ways").join("second.sock");
    let second = format!("unix:{}", socket.display());
    let server = Serving::start("ways", &["--control-listen", &second]);
    assert_eq!(server.ask(&["set", "a", "1"]).0, 0);
    assert_eq!(
        drover(&["get", "a", "--server", &second], ""),
        (0, "1".into(), String::new())
    );
}

fn client_of(server: &Serving) -> Result<Client, Error> {
    let options = Options {
        connect_timeout: Ns::from_s(20),
        ..Options::default()
    };
    Client::connect_with(&server.addr, &options)
}

#[test]
fn more_clients_than_slots_are_served_by_datagrams() {
    let server = Serving::start("datagrams", &["-t", "2", "--slot-clients", "2", "-c", "5"]);
    let mut clients: Vec<_> = (0..4).map(|_| client_of(&server).expect("let in")).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        for i in 0..50 {
            let key = format!("key-{nth}-{i}");
            client
                .put(key.as_bytes(), &vec![i; 200 * usize::from(i)], 0)
                .expect("stored");
        }
    }
    for (nth, client) in clients.iter_mut().enumerate() {
        for i in 0..50 {
            let key = format!("key-{}-{i}", (nth + 1) % 4);
            let value = client.get(key.as_bytes()).expect("an answer");
            assert_eq!(value, Some(vec![i; 200 * usize::from(i)]), "{key}");
        }
    }
    // The commands are clients like others.
    assert_eq!(server.ask(&["get", "key-0-0"]), (0, String::new(), String::new()));
    let (_, text, _) = server.ask(&["stats"]);
    assert!(text.contains("\ndatagram_connections 2\n"), "{text}");
    assert!(text.contains("\ncurr_connections 4\n"), "{text}");
    clients.push(client_of(&server).expect("let in"));
    let (status, _, error) = server.ask(&["get", "key-0-0"]);
    let reason = "drover: refused by the server: as many clients as this server takes (TooManyClients)\n";
    assert_eq!((status, error.as_str()), (2, reason));
    drop(clients);
    assert_eq!(server.stop(), 0);
}

#[test]
fn an_address_in_use() {
    let server = Serving::start("in-use", &[]);
    let (status, _, error) = drover(&["serve", "--fabric", &server.addr], "");
    let last = error.lines().last().unwrap_or_default().to_string();
    assert_eq!(
        (status, last),
        (
            69,
            format!(
                "drover: --fabric {0}: address in use: another server listens at {0}: stop that one, or choose \
                 another address",
                server.addr
            )
        )
    );
    assert_eq!(
        server.ask(&["set", "still", "here"]).0,
        0,
        "the first server goes on"
    );
}

#[test]
fn the_address_of_a_server_that_was_killed() {
    let server = Serving::start("killed", &[]);
    let addr = server.addr.clone();
    server.kill();
    let (status, _, error) = drover(&["get", "a", "--server", &addr], "");
    let expected = format!(
        "drover: no server answers at {addr}: connection refused (a server that died leaves its socket file behind)\n"
    );
    assert_eq!((status, error), (2, expected));
    // Its address can be taken again at once.
    let again = Serving::start_at(&addr, &[]);
    assert_eq!(again.ask(&["get", "a"]).0, 1);
}

#[test]
fn the_address_of_nobody() {
    let path = folder("nobody").join("nobody.sock");
    let addr = format!("shm:{}", path.display());
    let (status, _, error) = drover(&["get", "a", "--server", &addr], "");
    let expected = format!(
        "drover: no server at {addr}: {} does not exist (start one with `drover serve`)\n",
        path.display()
    );
    assert_eq!((status, error), (2, expected));
}

#[test]
fn too_few_huge_pages() {
    let addr = format!("shm:{}", folder("pages").join("x.sock").display());
    let (status, _, error) = drover(&["serve", "--fabric", &addr, "-L", "-m", "1000000000"], "");
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(status, 71, "{error}");
    assert!(
        last.starts_with("drover: not enough huge pages: 1000000000 MiB wanted, "),
        "{last}"
    );
    assert!(last.contains("sysctl -w vm.nr_hugepages="), "{last}");
}

/// What is missing differs between machines, the library or only a device; each is said, and what to do.
#[test]
fn without_an_rdma_device_every_command_says_what_is_missing() {
    if std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some()) {
        println!("skipped: this machine has an RDMA device");
        return;
    }
    let is_said = |addr: &str, error: &str| {
        let why = error.strip_prefix(&format!("drover: {addr}: ibv is not available: "));
        why.is_some_and(|why| {
            why.starts_with("libibverbs.so.1 cannot be loaded (")
                || why == "no RDMA device on this machine; load its driver, or make a software one: rdma link add rxe0 type rxe netdev eth0\n"
        })
    };
    for (args, addr, status) in [
        (
            &["serve", "-l", "rdma://127.0.0.1:0"][..],
            "rdma://127.0.0.1:0",
            69,
        ),
        (
            &["serve", "--fabric", "rdma://127.0.0.1:0", "--ib-port", "1"],
            "rdma://127.0.0.1:0?port=1",
            69,
        ),
        (
            &["bench", "--address", "rdma://127.0.0.1:9"],
            "rdma://127.0.0.1:9",
            69,
        ),
    ] {
        let (code, _, error) = drover(args, "");
        assert_eq!(code, status, "{args:?}: {error}");
        assert!(is_said(addr, &error), "{args:?}: {error}");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = format!("rdma://{}", listener.local_addr().expect("its number"));
    let (code, _, error) = drover(&["get", "key", "--server", &addr], "");
    assert_eq!(code, 2, "{error}");
    assert!(is_said(&addr, &error), "{error}");
}

#[test]
fn usage_errors() {
    let (status, _, error) = drover(&["serve", "-d"], "");
    assert_eq!(status, 64);
    assert!(
        error.starts_with("drover: -d is refused: run it under a service manager"),
        "{error}"
    );
    let (status, _, error) = drover(&["serve", "--fabric", "tcp://127.0.0.1:1"], "");
    assert_eq!(status, 64);
    assert_eq!(
        error,
        "drover: --fabric tcp://127.0.0.1:1: data goes by shm:NAME, shm:/path.sock or rdma://host:port\n"
    );
    let (status, _, error) = drover(&["serve", "--ib-dev", "mlx5_0"], "");
    assert_eq!(
        (status, error.as_str()),
        (
            64,
            "drover: --ib-dev, --ib-port and --gid-index choose an RDMA device, and shm:drover needs none\n"
        )
    );
    assert_eq!(drover(&["serve", "--no-such-flag"], "").0, 64);
    assert_eq!(drover(&["get"], "").0, 2);
    let (status, _, error) = drover(&["get", "a", "--server", "nonsense"], "");
    assert_eq!(status, 2);
    assert!(
        error.contains("nonsense: an address begins with shm:, unix:, tcp:// or rdma://"),
        "{error}"
    );
}

#[test]
fn the_configuration_file_and_where_values_come_from() {
    let file = folder("config").join("drover.conf");
    std::fs::write(&file, "memory-limit = 256\nthreads = 1\n").expect("temporary file");
    let file = file.to_str().expect("UTF-8");
    let (status, text, _) = drover(&["config", "--config", file, "-m", "100"], "");
    assert_eq!(status, 0);
    let line = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_string()
    };
    assert!(line("memory-limit").ends_with("command line"), "{text}");
    assert!(line("threads").ends_with("configuration file"), "{text}");
    assert!(line("conn-limit").ends_with("default"), "{text}");
    let (status, _, error) = drover(&["config", "--config", "/nonexistent/drover.conf"], "");
    assert_eq!(status, 66, "{error}");
}

#[test]
fn doctor_speaks_json_and_people() {
    let (status, text, _) = drover(&["doctor", "--json"], "");
    assert_eq!(status, 0, "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        json["findings"].as_array().is_some_and(|all| all.len() >= 10),
        "{text}"
    );
    assert!(drover(&["doctor"], "").1.contains("huge pages"));
}

#[test]
fn cache_sim_tells_how_much_memory_is_enough() {
    let hits = folder("cache-sim").join("hits");
    let [csv, svg] = ["csv", "svg"].map(|end| hits.with_extension(end));
    let [csv_arg, svg_arg] = [&csv, &svg].map(|path| path.to_str().expect("UTF-8"));
    let trace = "key,size\na,100\nb,100\na,100\nb,100\n";
    let sizes = ["cache-sim", "--trace", "-", "--size", "64k..1m"];
    let files = ["--csv", csv_arg, "--svg", svg_arg];
    let (status, text, error) = drover(&[&sizes[..], &files].concat(), trace);
    assert_eq!((status, error.as_str()), (0, ""));
    let want = "s3fifo: 64 KiB is enough: 100.00 % hits, within 1 point of the largest (100.00 % at 1 MiB). \
                LRU has 100.00 % there. From 64 KiB on nearly nothing is evicted.\n";
    assert!(text.contains(want), "{text}");
    let rows = std::fs::read_to_string(&csv).expect("the file of rows");
    assert_eq!(rows.lines().count(), 1 + 5 * 3, "{rows}");
    let drawing = std::fs::read_to_string(&svg).expect("the drawing");
    assert!(
        drawing.contains(">s3fifo</text>") && drawing.contains(">64k</text>"),
        "{drawing}"
    );
    // Each value has a place to be pointed at.
    assert_eq!(drawing.matches("<title>").count(), 5 * 3);
    let json = ["--json", "--policy", "lru", "--warmup", "0"];
    let (_, text, _) = drover(&[&sizes[..], &json].concat(), trace);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["rows"][0]["hit_rate"], 0.5, "{text}");

    let (status, _, error) = drover(&sizes, "key,size\na,x\n");
    let want = "drover: standard input line 2: size `x`: expected a number of bytes (--skip-bad leaves such lines out)\n";
    assert_eq!((status, error.as_str()), (66, want));
    let (status, _, error) = drover(&["cache-sim", "--trace", "zipf:1", "--size", "0"], "");
    assert_eq!(
        (status, error.as_str()),
        (64, "drover: --size 0: a cache has from 64k to 1024t\n")
    );
}

#[test]
fn help_teaches() {
    let (status, text, _) = drover(&["--help"], "");
    assert_eq!(status, 0);
    for word in [
        "drover serve",
        "drover get",
        "drover bench",
        "drover doctor",
        "shm:NAME",
    ] {
        assert!(text.contains(word), "{word}");
    }
}
