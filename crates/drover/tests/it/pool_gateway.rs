//! `drover serve --pool`: memcached's clients of a pool of memory nodes; and `serve --system race`, which is both.

use crate::common::{Serving, ask_memcached as ask, drover, folder};
use crate::gateway::{add_up, cas, connect};
use crate::pool::{MemoryNode, race_pool, with_nodes};
use drover_client::{CallError, Client};
use drover_kv::Refusal;
use drover_mem::timestamp;
use rustix::process::{Signal, kill_process};
use std::net::TcpStream;

/// Longer than anything here takes, ticks of the clock.
const PATIENCE: u64 = 1 << 38;

/// Options of a node with a file.
fn with_file(name: &str) -> Vec<String> {
    vec!["-e".to_owned(), folder(name).join("memory").display().to_string()]
}

/// Two nodes with files, a pool of them, and two gateways to it.
fn pool_and_gateways(name: &str) -> ([MemoryNode; 2], String, [Serving; 2]) {
    let (nodes, list) = race_pool(name, with_file);
    let gateways = ["2", "1"].map(|threads| Serving::pool_gateway(&list, &["-t", threads]));
    (nodes, list, gateways)
}

/// Whether each of 32 keys can be set, through any of `gateways` that is asked again and again until `wanted` says so.
fn set_until(gateway: &Serving, wanted: impl Fn(usize) -> bool) -> usize {
    let mut client = connect(gateway);
    let began = timestamp();
    loop {
        let mut stored = 0;
        for key in 0..32 {
            match ask(&mut client, &format!("set key{key} 0 0 2\r\nok\r\n")).as_str() {
                "STORED\r\n" => stored += 1,
                other => assert!(other.starts_with("SERVER_ERROR "), "{other}"),
            }
        }
        if wanted(stored) {
            return stored;
        }
        assert!(timestamp() - began < PATIENCE, "{stored} keys can be set");
    }
}

/// A flush that is ahead leaves items there until another one takes its place.
fn flush_later(one: &mut TcpStream, two: &mut TcpStream) {
    assert_eq!(ask(two, "set f 0 0 1\r\n1\r\n"), "STORED\r\n");
    assert_eq!(ask(one, "flush_all 100000\r\n"), "OK\r\n");
    assert_eq!(ask(two, "get f\r\n"), "VALUE f 0 1\r\n1\r\nEND\r\n");
    assert_eq!(ask(one, "flush_all 1 noreply\r\n"), "");
    // Each node has a clock of its own, and each process its knowledge of them.
    let began = timestamp();
    for client in [&mut *one, two] {
        while ask(client, "get a f\r\n") != "END\r\n" {
            assert!(timestamp() - began < PATIENCE, "they are still there");
        }
    }
    assert_eq!(ask(one, "set a 0 0 3\r\nwon\r\nget f\r\n"), "STORED\r\nEND\r\n");
}

#[test]
fn gateways_to_one_pool_are_one_cache() {
    let (mut nodes, list, gateways) = pool_and_gateways("one-cache");
    let [mut one, mut two] = gateways.each_ref().map(connect);
    assert_eq!(ask(&mut one, "set a 7 0 2\r\nhi\r\n"), "STORED\r\n");
    assert_eq!(ask(&mut two, "get a b\r\n"), "VALUE a 7 2\r\nhi\r\nEND\r\n");
    // Processes of commands, too.
    let got = with_nodes("--pool", &[&nodes[0], &nodes[1]], &["get", "a"]);
    assert_eq!(got, (0, "hi".into(), String::new()));
    // The other's write makes the version old.
    let version = cas(&mut one, "a");
    assert_eq!(ask(&mut two, "append a 0 0 1\r\n!\r\n"), "STORED\r\n");
    let told = ask(&mut one, &format!("cas a 0 0 4 {version}\r\nlost\r\n"));
    assert_eq!(told, "EXISTS\r\n");
    let version = cas(&mut one, "a");
    let told = ask(&mut one, &format!("cas a 0 0 3 {version}\r\nwon\r\nget a\r\n"));
    assert_eq!(told, "STORED\r\nVALUE a 0 3\r\nwon\r\nEND\r\n");
    let told = ask(&mut two, "stats settings\r\n");
    assert!(
        told.contains(&format!("STAT gateway_address {list}\r\n")),
        "{told}"
    );
    add_up(&gateways.each_ref());
    // What was there is gone for both; the connection's next command waits for that.
    assert_eq!(ask(&mut two, "set f 0 0 1\r\n1\r\n"), "STORED\r\n");
    let told = ask(
        &mut one,
        "append f 0 0 1\r\n2\r\ngat -1 f\r\nflush_all\r\nset a 0 0 3\r\nwon\r\nget a f\r\n",
    );
    let before = "STORED\r\nVALUE f 0 2\r\n12\r\nEND\r\n";
    assert_eq!(
        told,
        format!("{before}OK\r\nSTORED\r\nVALUE a 0 3\r\nwon\r\nEND\r\n")
    );
    assert_eq!(ask(&mut two, "get a f\r\n"), "VALUE a 0 3\r\nwon\r\nEND\r\n");
    flush_later(&mut one, &mut two);

    // A gateway dies: the other serves all.
    let [killed, rest] = gateways;
    killed.kill();
    assert_eq!(set_until(&rest, |_| true), 32);
    // A node dies: keys of the other are served, and the commands say what is lost.
    nodes[1].kill();
    let stored = set_until(&rest, |stored| stored < 32);
    assert!(stored > 0, "the keys of the other node");
    let mut client = connect(&rest);
    let lost =
        "SERVER_ERROR memory node 1 of the pool is lost, and the key with it until the node is back\r\n";
    wait_until("commands say which node is lost", || {
        (0..32).any(|key| ask(&mut client, &format!("delete key{key}\r\n")) == lost)
    });
    let (status, text, error) = with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "status"]);
    assert_eq!(status, 69);
    assert!(error.contains(&nodes[1].addr), "{error}");
    assert!(
        text.contains(&format!("server {}\nlost: ", nodes[1].addr)),
        "{text}"
    );
    // It returns with its file, and the gateway to it.
    let file = folder("one-cache-b").join("memory").display().to_string();
    nodes[1] = MemoryNode::at(&nodes[1].addr.clone(), &["-e", &file]);
    set_until(&rest, |stored| stored == 32);
    let mut client = connect(&rest);
    assert_eq!(ask(&mut client, "get a\r\n"), "VALUE a 0 3\r\nwon\r\nEND\r\n");
    let (status, log) = rest.stop_with_log();
    assert_eq!(status, 0);
    assert!(log.contains("a memory node is lost"), "{log}");
    assert!(log.contains("entered again"), "{log}");
    // It has left in order.
    let (_, text, _) = with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "status"]);
    assert_eq!(text.matches("\nclients 0\n").count(), 2, "{text}");
}

#[test]
fn a_gateway_that_has_lost_its_lease_enters_again() {
    let (nodes, _, [one, two]) = pool_and_gateways("lease");
    let mut client = connect(&one);
    assert_eq!(ask(&mut client, "set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    let live = |text: &str| text.matches(" live").count();
    let status = || with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "status"]).1;
    kill_process(one.pid(), Signal::STOP).expect("it is our child");
    let began = timestamp();
    while live(&status()) == 4 {
        assert!(timestamp() - began < PATIENCE);
    }
    let mut other = connect(&two);
    assert_eq!(ask(&mut other, "incr a 1\r\n"), "2\r\n");
    kill_process(one.pid(), Signal::CONT).expect("it is our child");
    set_until(&one, |stored| stored == 32);
    assert_eq!(ask(&mut client, "incr a 1\r\n"), "3\r\n");
    assert_eq!(ask(&mut other, "get a\r\n"), "VALUE a 0 1\r\n3\r\nEND\r\n");
    assert_eq!(one.stop(), 0);
}

/// Asks until `is_so`, again and again.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = timestamp();
    while !is_so() {
        assert!(timestamp() - began < PATIENCE, "never: {what}");
    }
}

#[test]
fn a_gateway_shows_what_it_does_in_its_pool() {
    let (mut nodes, list) = race_pool("shown", |name| {
        [with_file(name), vec!["-m".into(), "64".into()]].concat()
    });
    let start = || Serving::pool_gateway(&list, &["--metrics-listen", "127.0.0.1:0"]);
    let (one, two) = (start(), start());
    let [mut client, mut other] = [&one, &two].map(connect);
    for name in ["retries", "repairs", "reentries"] {
        assert_eq!(one.metric(&format!("drover_pool_{name}_total")), 0, "{name}");
    }
    assert_eq!(one.metric("drover_pool_nodes_lost"), 0);
    // Updates free blocks, which wait. Keys that come until tables are split make requests wait for that.
    let mut next = 0;
    let mut fill = |client: &mut _, name: &str| {
        let sets = |key: u32| format!("set {name}{key} 0 0 1 noreply\r\n1\r\n");
        let text: String = (next..next + 4_000).chain(next..next + 4_000).map(sets).collect();
        next += 4_000;
        assert_eq!(
            ask(client, &format!("{text}set last 0 0 1\r\n1\r\n")),
            "STORED\r\n"
        );
    };
    wait_until("freed blocks wait", || {
        fill(&mut client, "one");
        one.metric("drover_pool_limbo") > 0
    });
    assert!(one.metric("drover_pool_chunks_held") > 0);
    wait_until("requests wait for a split", || {
        fill(&mut client, "one");
        one.metric("drover_pool_retries_total") > 0
    });
    // The other's splits make directories old.
    let before = one.metric("drover_onesided_retries_total");
    wait_until("a bucket has moved", || {
        fill(&mut other, "two");
        let gets: String = (0..1_000).map(|key| format!(" one{key}")).take(50).collect();
        assert!(ask(&mut client, &format!("get{gets}\r\n")).ends_with("END\r\n"));
        one.metric("drover_onesided_retries_total") > before
    });
    let renewals = one.metric("drover_pool_lease_renewals_total");
    wait_until("leases are renewed", || {
        one.metric("drover_pool_lease_renewals_total") > renewals
    });
    two.kill();
    wait_until("what the other left is repaired", || {
        one.metric("drover_pool_repairs_total") >= 2
    });
    nodes[1].kill();
    wait_until("a node is lost", || one.metric("drover_pool_nodes_lost") == 1);
    let memory = with_file("shown-b");
    let args: Vec<&str> = memory.iter().map(String::as_str).chain(["-m", "64"]).collect();
    nodes[1] = MemoryNode::at(&nodes[1].addr.clone(), &args);
    wait_until("the gateway enters again", || {
        one.metric("drover_pool_reentries_total") >= 1 && one.metric("drover_pool_nodes_lost") == 0
    });
    assert_eq!(one.stop(), 0);
}

#[test]
fn a_service_of_memory_nodes_has_a_gateway() {
    let args = [
        "--system",
        "race",
        "-p",
        "-1",
        "-t",
        "2",
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    let server = Serving::start("race", &args);
    wait_until("its lease is renewed", || {
        server.metric("drover_pool_lease_renewals_total") > 2
    });
    assert!(server.metric("drover_current_chunks_used") > 0);
    let mut client = connect(&server);
    assert_eq!(ask(&mut client, "set a 7 0 2\r\nhi\r\n"), "STORED\r\n");
    // The cores publish their counters when they have time.
    wait_until("the sockets' numbers are shown", || {
        let (connections, text) = (server.metric("drover_connections_total"), server.metrics());
        connections > 0 && text.contains("drover_commands_total{command=\"set\",status=\"done\"} 1\n")
    });
    assert_eq!(server.ask(&["get", "a"]), (0, "hi".into(), String::new()));
    assert_eq!(server.ask(&["set", "a", "native"]).0, 0);
    assert_eq!(ask(&mut client, "get a\r\n"), "VALUE a 0 6\r\nnative\r\nEND\r\n");
    let gateway = Serving::gateway(&server.addr, &[]);
    let mut other = connect(&gateway);
    assert_eq!(ask(&mut other, "append a 0 0 1\r\n!\r\n"), "STORED\r\n");
    assert_eq!(ask(&mut client, "get a\r\n"), "VALUE a 0 7\r\nnative!\r\nEND\r\n");
    assert_eq!(gateway.stop(), 0);
    assert_eq!(server.stop(), 0);
    let (status, _, said) = drover(&["serve", "--system", "race", "-C"], "");
    let why =
        "--disable-cas true: does not apply to --system race: the versions of its items are always there";
    assert!(status == 64 && said.contains(why), "{said}");
    // Without a port it is nodes alone.
    let server = Serving::start("race-alone", &["--system", "race", "-p", "0"]);
    assert!(!server.said.contains("memcached"), "{}", server.said);
    assert_eq!(server.stop(), 0);
}

/// It is a cache for native clients, too, unless `-M` says otherwise; the log says which.
#[test]
fn a_full_service_of_memory_nodes_removes_or_refuses_items() {
    for (flags, says) in [
        (&[][..], "clients remove the oldest"),
        (&["-M"], "clients refuse to store more"),
    ] {
        let name = format!("race-full{}", flags.len());
        let args = [&["--system", "race", "-t", "1", "-m", "8"], flags].concat();
        let server = Serving::start(&name, &args);
        assert!(server.said.contains(says), "{}", server.said);
        let mut client = Client::connect(&server.addr).expect("it serves");
        // Four times as much as there is.
        let stored = (0..4 * 1024u32).map(|key| client.set(&key.to_le_bytes(), &[7; 8000]));
        let first = stored.filter_map(Result::err).next();
        match flags {
            [] => assert_eq!(first, None),
            _ => assert_eq!(first, Some(CallError::Refused(Refusal::Full))),
        }
        drop(client);
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn a_secret_is_asked_for_and_what_is_the_pools_refused() {
    let secret = folder("secret").join("secret");
    std::fs::write(&secret, "sesame\n").expect("a file");
    let secret = secret.display().to_string();
    let node = MemoryNode::start("secret-node", &["--secret-file", &secret]);
    let made = with_nodes(
        "--nodes",
        &[&node],
        &["pool", "create", "--system", "race", "--secret-file", &secret],
    );
    assert_eq!(made.0, 0, "{}", made.2);
    let gateway = Serving::pool_gateway(&node.addr, &["--secret-file", &secret]);
    assert_eq!(ask(&mut connect(&gateway), "set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    for (args, why) in [
        (&["-p", "-1"][..], "requires another secret"),
        (
            &["-m", "100"],
            "--memory-limit 100 MiB: does not apply to a gateway (--pool): items are the pool's",
        ),
        (&["-p", "0"], "--pool: a gateway without -p and -s serves nobody"),
        (&["--connect", "shm:x"], "cannot be used with"),
    ] {
        let words = [&["serve", "--pool", &node.addr], args].concat();
        let (status, _, said) = drover(&words, "");
        assert!(status != 0 && said.contains(why), "{args:?}: {said}");
    }
}
