//! Memory nodes as processes: made a pool by command, used by this process, killed.

use crate::common::{drover, folder};
use drover_base::{Actor, Cpu, Ns};
use drover_control::{ControlAddr, Credentials, Dial};
use drover_memnode::{Addr, Arena, Keeper, Need, Pool, PoolKind, PoolOptions};
use drover_rt::{BufferClass, TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

/// A `drover memory-node`, killed when dropped.
pub struct MemoryNode {
    child: Child,
    pub addr: String,
}

impl MemoryNode {
    pub fn start(name: &str, args: &[&str]) -> MemoryNode {
        MemoryNode::at(&format!("unix:{}", folder(name).join("n.sock").display()), args)
    }

    pub fn at(addr: &str, args: &[&str]) -> MemoryNode {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["memory-node", "--bind", addr])
            .args(if args.contains(&"-m") {
                &[][..]
            } else {
                &["-m", "8"]
            })
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready: "), "{line}");
        let addr = addr.to_owned();
        MemoryNode { child, addr }
    }

    fn dial(&self, user: &Arc<Credentials>) -> Dial {
        let addr: ControlAddr = self.addr.parse().expect("an address");
        Dial::to(addr.with_credentials(Some(user.clone())))
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What `drover` says with `--nodes` or `--pool` of these nodes.
pub fn with_nodes(flag: &str, nodes: &[&MemoryNode], words: &[&str]) -> (i32, String, String) {
    let addrs: Vec<&str> = nodes.iter().map(|node| &node.addr[..]).collect();
    let list = addrs.join(",");
    drover(&[words, &[flag, &list, "--timeout-ms", "5000"]].concat(), "")
}

/// Two nodes, made a pool for RACE, and their list; `args` has the options of the node of a name.
pub fn race_pool(name: &str, args: impl Fn(&str) -> Vec<String>) -> ([MemoryNode; 2], String) {
    let nodes = ["a", "b"].map(|node| {
        let name = format!("{name}-{node}");
        let args = args(&name);
        MemoryNode::start(&name, &args.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let made = with_nodes(
        "--nodes",
        &[&nodes[0], &nodes[1]],
        &["pool", "create", "--system", "race"],
    );
    assert_eq!(made.0, 0, "{}", made.2);
    let list = format!("{},{}", nodes[0].addr, nodes[1].addr);
    (nodes, list)
}

#[test]
fn nodes_become_a_pool_and_are_used_and_lost() {
    let secret = folder("pool-secret").join("secret");
    std::fs::write(&secret, "sesame\n").expect("a file");
    let secret = secret.display().to_string();
    let mut nodes = [
        MemoryNode::start("pool-a", &["--secret-file", &secret]),
        MemoryNode::start("pool-b", &["--secret-file", &secret]),
    ];
    let list = format!("{},{}", nodes[0].addr, nodes[1].addr);
    let ask = |words: &[&str]| {
        let all = [words, &["--nodes", &list, "--secret-file", &secret]].concat();
        drover(&all, "")
    };
    let (status, _, error) = drover(&["pool", "status", "--nodes", &list], "");
    assert_eq!(status, 69);
    assert!(error.ends_with("requires another secret\n"), "{error}");
    let (status, text, error) = ask(&["pool", "create", "--system", "test"]);
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(
        text.contains("\nnode 0 of 2\n") && text.contains("\nnode 1 of 2\n"),
        "{text}"
    );
    let (status, _, error) = ask(&["pool", "create", "--system", "test"]);
    assert_eq!(status, 69);
    assert!(error.ends_with("is part of a pool already\n"), "{error}");

    // This process enters, and one of its threads writes a block and finds it again.
    let device = ShmDevice::default();
    let domain = device.domain(&DomainOptions::default()).expect("a domain");
    let options = PoolOptions::new(PoolKind::new("test"));
    let user = Arc::new(Credentials::parse(b"pool:sesame").expect("credentials"));
    let dials = nodes.iter().map(|node| node.dial(&user)).collect();
    let opened = Pool::<Shm>::open(&domain, dials, options, std::thread::yield_now);
    let (pool, mut lease) = opened.unwrap_or_else(|error| panic!("{error}"));
    let ctx = pool.context().expect("a context");
    let mut tasks = TaskPool::<Shm>::new(&ctx, &TaskOptions::default()).expect("tasks");
    let deadline = ctx.cpu().refresh() + Ns::from_s(60);
    let mut joining = pool.join(&ctx, &tasks, deadline).expect("asked");
    let connections = loop {
        if let Some(done) = joining.poll(&mut tasks, ctx.cpu().refresh()) {
            break done.expect("connections");
        }
        std::thread::yield_now();
    };
    let arena = Arena::new(&connections);
    let found = Rc::new(Cell::new(None));
    let put = found.clone();
    let spawned = tasks.spawn(|cx| async move {
        let pin = connections.pin(1);
        let addr = arena.alloc(&cx, 1, 64, Need::Ordinary).await.expect("a block");
        let at = connections.locate_to_write(&cx, addr, 64).expect("inside");
        let mut bytes = cx.buffer(64).expect("a buffer");
        bytes.fill(0x5a);
        cx.write(at.peer, bytes, at.remote).expect("staged");
        cx.sync().await.expect("a WRITE");
        let ticket = cx
            .read(at.peer, cx.buffer(64).expect("a buffer"), at.remote)
            .expect("staged");
        let bytes = cx.sync().await.expect("a READ").take(ticket);
        drop(pin);
        put.set(Some(bytes.iter().all(|&byte| byte == 0x5a)));
    });
    spawned.expect("space");
    let lease_ctx = lease.context().clone();
    let mut step = |tasks: &mut TaskPool<Shm>| {
        lease_ctx.cpu().refresh();
        let _ = lease.step(lease_ctx.cpu());
        ctx.cpu().refresh();
        let _ = tasks.step(ctx.cpu());
        std::thread::yield_now();
    };
    while found.get().is_none() {
        step(&mut tasks);
    }
    assert_eq!(found.get(), Some(true));
    let (_, text, _) = ask(&["pool", "status"]);
    assert_eq!(text.matches("\nclients 1\n").count(), 2, "{text}");

    nodes[1].kill();
    while !pool.node(1).is_lost() {
        step(&mut tasks);
    }
    assert!(!pool.node(0).is_lost());
    let (status, text, error) = ask(&["pool", "status", "--timeout-ms", "200"]);
    assert_eq!(status, 69);
    assert!(error.contains(&nodes[1].addr), "{error}");
    assert!(text.contains("\nnode 0 of 2\n"), "the other is shown: {text}");
    assert!(
        text.contains(&format!("server {}\nlost: ", nodes[1].addr)),
        "{text}"
    );
}

#[test]
fn keys_of_a_pool_are_used_without_a_server() {
    let nodes = [MemoryNode::start("keys-a", &[]), MemoryNode::start("keys-b", &[])];
    let nodes = [&nodes[0], &nodes[1]];
    let ok = |text: &str| (0, text.to_owned(), String::new());
    let pool = |words: &[&str]| with_nodes("--pool", &nodes, words);
    let (status, _, error) = with_nodes("--nodes", &nodes, &["pool", "create", "--system", "race"]);
    assert_eq!((status, error.as_str()), (0, ""));
    assert_eq!(
        pool(&["get", "fox"]),
        (1, String::new(), "drover: no key fox\n".into())
    );
    for (key, value) in [("fox", "red"), ("owl", "grey"), ("hen", "brown")] {
        assert_eq!(pool(&["set", key, value]), ok(""));
    }
    assert_eq!(pool(&["get", "owl"]), ok("grey"));
    assert_eq!(pool(&["set", "fox", "white", "--if", "absent"]).0, 1);
    assert_eq!(pool(&["set", "bat", "black", "--if", "present"]).0, 1);
    assert_eq!(
        pool(&["set", "fox", "white", "--if", "present", "--flags", "9"]),
        ok("")
    );
    let (status, text, _) = pool(&["get", "fox", "--details"]);
    assert_eq!(status, 0);
    assert!(
        text.starts_with("version ") && text.ends_with(" flags 9\nwhite\n"),
        "{text}"
    );
    assert_eq!(pool(&["delete", "hen"]), ok(""));
    assert_eq!(pool(&["delete", "hen"]).0, 1);
    let another = "drover: key fox has another version than 7\n";
    assert_eq!(
        pool(&["cas", "fox", "7", "x"]),
        (1, String::new(), another.into())
    );
    assert_eq!(
        pool(&["get", "fox", "hen", "owl"]),
        (1, "whitegrey".into(), "drover: no key hen\n".into())
    );
    assert_eq!(pool(&["touch", "fox", "0"]), ok(""));
    let long = folder("keys").join("long");
    std::fs::write(&long, vec![b'v'; (1 << 20) + 1]).expect("temporary file");
    let long = long.to_str().expect("UTF-8");
    let (status, _, error) = pool(&["set", "owl", "--file", long]);
    assert_eq!(status, 2);
    assert!(
        error.starts_with("drover: value of 1,048,577 B; the tables of this pool take 1,0"),
        "{error}"
    );
    // Each process has left blocks that nothing leads to; after one check there are none.
    let check = || with_nodes("--nodes", &nodes, &["pool", "check", "--json"]);
    let (status, text, error) = check();
    assert_eq!((status, error.as_str()), (1, ""), "{text}");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["clean"], false);
    let reached: u64 = (0..2)
        .map(|node| {
            json["nodes"][node]["reachable_pieces"]
                .as_u64()
                .expect("a number")
        })
        .sum();
    // At each node a table and a subtable; the two values.
    assert_eq!(reached, 6, "{text}");
    assert!(
        json["nodes"][0]["repaired_clients"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    assert_eq!(pool(&["get", "fox"]), ok("white"));
}

#[test]
fn what_is_wrong_with_a_pool_is_said() {
    let file = folder("wrong-secret").join("secret");
    std::fs::write(&file, "sesame").expect("a file");
    let secret = file.display().to_string();
    let (a, b) = (
        MemoryNode::start("wrong-a", &[]),
        MemoryNode::start("wrong-b", &[]),
    );
    let (other, lone) = (
        MemoryNode::start("wrong-c", &[]),
        MemoryNode::start("wrong-d", &[]),
    );
    let guarded = MemoryNode::start("wrong-e", &["--secret-file", &secret]);
    let create = |nodes: &[&MemoryNode], system: &str| {
        let made = with_nodes("--nodes", nodes, &["pool", "create", "--system", system]);
        assert_eq!((made.0, made.2.as_str()), (0, ""));
    };
    create(&[&a, &b], "race");
    create(&[&other], "sherman");
    let says = |nodes: &[&MemoryNode], expected: String| {
        let (status, text, error) = with_nodes("--pool", nodes, &["get", "fox"]);
        assert_eq!(
            (status, text, error),
            (2, String::new(), format!("drover: {expected}\n"))
        );
    };
    says(&[&a], "node 1 of the pool's 2 is missing".to_owned());
    says(
        &[&a, &a],
        format!("{0} and {0} are both node 0 of the pool", a.addr),
    );
    says(
        &[&b, &lone],
        format!("{} is part of no pool: create one first", lone.addr),
    );
    says(
        &[&other],
        format!("{} belongs to a pool of kind sherman, not race", other.addr),
    );
    says(&[&guarded], format!("{} requires another secret", guarded.addr));
    let (status, _, error) = with_nodes("--nodes", &[&a], &["pool", "status"]);
    assert_eq!(
        (status, error.as_str()),
        (69, "drover: node 1 of the pool's 2 is missing\n")
    );
    let (status, _, error) = with_nodes("--nodes", &[&a, &b, &other], &["pool", "status"]);
    assert_eq!(status, 69);
    assert!(error.contains("belong to different pools\n"), "{error}");
    let (status, _, error) = with_nodes("--nodes", &[&lone, &a], &["pool", "create", "--system", "race"]);
    let expected = format!("drover: {} is part of a pool already\n", a.addr);
    assert_eq!((status, error), (69, expected));
    let (status, _, error) = with_nodes(
        "--nodes",
        &[&lone],
        &["pool", "create", "--system", "much-too-long"],
    );
    assert_eq!(status, 64);
    assert!(error.contains("1 to 8 letters"), "{error}");
}

#[test]
fn a_quota_and_a_full_node_refuse_and_say_so() {
    // Header, tables, and the first table of keys fit; few values do.
    let quota = MemoryNode::start("quota", &["--quota", "2m"]);
    let made = with_nodes("--nodes", &[&quota], &["pool", "create", "--system", "race"]);
    assert_eq!(made.0, 0, "{}", made.2);
    // A process has its chunks for itself, so one value is enough for one of them.
    let set = with_nodes("--pool", &[&quota], &["set", "k", "v"]);
    assert_eq!((set.0, set.2.as_str()), (0, ""));
    let tiny = MemoryNode::start("quota-tiny", &["--quota", "16k"]);
    let (status, _, error) = with_nodes("--nodes", &[&tiny], &["pool", "create", "--system", "race"]);
    assert_eq!(
        (status, error.as_str()),
        (69, "drover: the quota of this client at node 0 is used up\n")
    );
    let full = MemoryNode::start("full", &["-m", "600k", "--clients", "8"]);
    let (status, _, error) = with_nodes("--nodes", &[&full], &["pool", "create", "--system", "race"]);
    assert_eq!((status, error.as_str()), (69, "drover: node 0 is full\n"));
}

/// A pool that was made with `--evict` is a cache to every process; without it a full node refuses.
#[test]
fn a_pool_says_whether_it_is_a_cache() {
    let value = "x".repeat(10_000);
    for (args, expected) in [(&["--evict"][..], 0), (&[], 2)] {
        let node = MemoryNode::start("cache", &["-m", "2", "--clients", "8"]);
        let create = [&["pool", "create", "--system", "race"], args].concat();
        let made = with_nodes("--nodes", &[&node], &create);
        assert_eq!((made.0, made.2.as_str()), (0, ""));
        let mut last = 0;
        for key in 0..80 {
            let set = with_nodes("--pool", &[&node], &["set", &key.to_string(), &value]);
            last = set.0;
            if last != 0 {
                assert!(set.2.contains("node 0 is full"), "{}", set.2);
                break;
            }
        }
        assert_eq!(last, expected, "{args:?}");
    }
    let node = MemoryNode::start("no-cache", &[]);
    let made = with_nodes(
        "--nodes",
        &[&node],
        &["pool", "create", "--system", "test", "--evict"],
    );
    let expected = "drover: --evict: not in a pool of kind test\n";
    assert_eq!((made.0, made.2.as_str()), (64, expected));
}

#[test]
fn a_node_shows_its_numbers() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args([
            "memory-node",
            "-m",
            "8",
            "--metrics-listen",
            "127.0.0.1:0",
            "--bind",
        ])
        .arg(format!("unix:{}", folder("metrics").join("n.sock").display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut lines = stdout.lines().map_while(Result::ok);
    let first = lines.next().expect("a line");
    let port = first.strip_prefix("metrics: ").expect("the port");
    assert!(lines.next().is_some_and(|line| line.starts_with("ready: ")));
    let mut text = String::new();
    while !text.contains("drover_pool_") {
        let mut stream = std::net::TcpStream::connect(port).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        text.clear();
        stream.read_to_string(&mut text).expect("an answer");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    for line in [
        "drover_up 1",
        "drover_pool_chunks 512",
        "drover_pool_alarm{percent=\"95\"} 0",
        "drover_pool_clients{state=\"live\"} 0",
        "drover_pool_kills_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn a_node_that_was_killed_returns_with_its_file() {
    let file = folder("returns").join("memory");
    let file = file.display().to_string();
    let mut nodes = [
        MemoryNode::start("returns-a", &["--repair-after-ms", "0"]),
        MemoryNode::start("returns-b", &["-e", &file, "--repair-after-ms", "0"]),
    ];
    let made = with_nodes(
        "--nodes",
        &[&nodes[0], &nodes[1]],
        &["pool", "create", "--system", "race"],
    );
    assert_eq!(made.0, 0, "{}", made.2);
    let keys: Vec<String> = (0..8).map(|key| format!("key{key}")).collect();
    for key in &keys {
        let set = with_nodes("--pool", &[&nodes[0], &nodes[1]], &["set", key, key]);
        assert_eq!((set.0, set.2.as_str()), (0, ""));
    }
    // A process that is in the pool all the while.
    let device = ShmDevice::of_pool();
    let domain = device.domain(&DomainOptions::default()).expect("a domain");
    let addrs: Vec<ControlAddr> = nodes
        .iter()
        .map(|node| node.addr.parse().expect("an address"))
        .collect();
    let dials = move || addrs.iter().cloned().map(Dial::to).collect();
    let options = PoolOptions::new(PoolKind::new("race"));
    let keeper = Keeper::<Shm>::start(&domain, dials, options).expect("in the pool");
    let before = keeper.pool();
    let (generation, client) = (keeper.generation(), before.client());

    nodes[1].kill();
    while !before.node(1).is_lost() {
        std::thread::yield_now();
    }
    let (status, text, error) = with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "status"]);
    assert_eq!(status, 69);
    assert!(error.contains(&nodes[1].addr), "{error}");
    assert!(
        text.contains(&format!("server {}\nlost: ", nodes[1].addr)),
        "{text}"
    );
    assert!(!before.node(0).is_lost(), "the other node is not disturbed");

    nodes[1] = MemoryNode::at(&nodes[1].addr.clone(), &["-e", &file, "--repair-after-ms", "0"]);
    while keeper.generation() == generation {
        std::thread::yield_now();
    }
    let pool = keeper.pool();
    assert_ne!(pool.client(), client, "another identity");
    assert!(pool.nodes().iter().all(|node| !node.is_lost()));
    assert_ne!(
        pool.node(1).header().incarnation,
        before.node(1).header().incarnation
    );
    drop(before);
    let status = || with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "status"]);
    // What this process was before has stopped, so it is shut out at the node that returned; it has left the other.
    let (_, text, _) = status();
    assert!(!text.contains("suspected"), "{text}");
    for key in &keys {
        let (status, text, error) = with_nodes("--pool", &[&nodes[0], &nodes[1]], &["get", key]);
        assert_eq!((status, text, error.as_str()), (0, key.clone(), ""));
    }
    let check = with_nodes("--nodes", &[&nodes[0], &nodes[1]], &["pool", "check"]);
    assert_eq!(check.0, 1, "{} {}", check.1, check.2);
    assert!(
        check.1.contains(&format!("repaired_clients {client}\n")),
        "{}",
        check.1
    );
    drop(pool);
    keeper.leave();
    let (code, text, error) = status();
    assert_eq!((code, error.as_str()), (0, ""));
    assert_eq!(text.matches("\nclients 0\n").count(), 2, "{text}");
}

/// Environment variable with the addresses of a pool's nodes for [`writing_process`].
const WRITER: &str = "DROVER_POOL_WRITER";

/// Not a test: a process that WRITEs a mebibyte to node 0 again and again.
#[test]
fn writing_process() {
    let Ok(addr) = std::env::var(WRITER) else { return };
    let device = ShmDevice::of_pool();
    let domain = device.domain(&DomainOptions::default()).expect("a domain");
    let dials = vec![Dial::to(addr.parse().expect("an address"))];
    let options = PoolOptions::new(PoolKind::new("test"));
    let (pool, mut lease) =
        Pool::<Shm>::open(&domain, dials, options, std::thread::yield_now).expect("in the pool");
    let ctx = pool.context().expect("a context");
    let mut options = TaskOptions::default();
    options.buffers[3] = BufferClass {
        bytes: 1 << 20,
        count: 2,
    };
    let mut tasks = TaskPool::<Shm>::new(&ctx, &options).expect("tasks");
    let deadline = ctx.cpu().refresh() + Ns::from_s(60);
    let mut joining = pool.join(&ctx, &tasks, deadline).expect("asked");
    let nodes = loop {
        if let Some(done) = joining.poll(&mut tasks, ctx.cpu().refresh()) {
            break done.expect("connections");
        }
        std::thread::yield_now();
    };
    let spawned = tasks.spawn(|cx| async move {
        let addr = Addr::new(0, 4 << 20);
        let mut buffer = cx.buffer(1 << 20).expect("a buffer");
        loop {
            let at = nodes.locate_to_write(&cx, addr, buffer.len()).expect("a lease");
            let ticket = cx.write(at.peer, buffer, at.remote).expect("staged");
            buffer = cx.sync().await.expect("a WRITE").take(ticket);
        }
    });
    spawned.expect("space");
    println!("\n{WRITER}");
    loop {
        lease.context().cpu().refresh();
        let ctx_of_lease = lease.context().clone();
        let _ = lease.step(ctx_of_lease.cpu());
        ctx.cpu().refresh();
        let _ = tasks.step(ctx.cpu());
    }
}

/// A process that was stopped, in the midst of a WRITE.
struct Stopped(Child);

impl Stopped {
    /// Starts a writer, and stops it once it writes.
    fn writing(node: &MemoryNode) -> Stopped {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "pool::writing_process", "--nocapture"])
            .env(WRITER, &node.addr)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let writer = Stopped(child);
        let mut lines = stdout.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(WRITER)), "it writes");
        let pid = rustix::process::Pid::from_child(&writer.0);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("our child");
        writer
    }

    /// Whether the process is there, and stopped: nobody has ended it.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()));
        // The state stands behind the name, which is in parentheses.
        stat.is_ok_and(|stat| stat[stat.rfind(')').expect("a name")..].starts_with(") T"))
    }

    /// Starts writers and stops them until one is stopped inside a request, which the node then shows.
    fn inside_a_request(node: &MemoryNode) -> (Stopped, String) {
        for _ in 0..20 {
            let writer = Stopped::writing(node);
            let wanted = format!("process {},", writer.0.id());
            // It is suspected after a second; if it is outside of a request, it is fenced at once then.
            loop {
                let (_, text, _) = with_nodes("--nodes", &[node], &["pool", "status"]);
                let line = text
                    .lines()
                    .find(|line| line.contains(&format!("process {}", writer.0.id())));
                match line {
                    Some(line) if line.contains("suspected") && line.contains(&wanted) => {
                        return (writer, line.to_owned());
                    }
                    Some(line) if line.contains("live") => {}
                    _ => break,
                }
                std::thread::yield_now();
            }
        }
        panic!("never stopped inside a request");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_stopped_inside_a_request_is_waited_for() {
    let node = MemoryNode::start("fence-wait", &["--fence", "wait"]);
    let made = with_nodes("--nodes", &[&node], &["pool", "create", "--system", "test"]);
    assert_eq!(made.0, 0, "{}", made.2);
    let (writer, line) = Stopped::inside_a_request(&node);
    assert!(
        line.contains("it may still write until it goes on or ends"),
        "{line}"
    );
    // It goes on: it finds itself shut out, and nothing of it lands any more.
    let pid = rustix::process::Pid::from_child(&writer.0);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("our child");
    loop {
        let (_, text, _) = with_nodes("--nodes", &[&node], &["pool", "status"]);
        if text
            .lines()
            .any(|line| line.ends_with("fenced, waits for repair"))
        {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_process_stopped_inside_a_request_is_ended() {
    let node = MemoryNode::start("fence-kill", &["--fence", "kill"]);
    let made = with_nodes("--nodes", &[&node], &["pool", "create", "--system", "test"]);
    assert_eq!(made.0, 0, "{}", made.2);
    // The node shows it as suspected for a second only, which a slow machine misses: what counts is that it ends.
    let ended = (0..20).find_map(|_| {
        let mut writer = Stopped::writing(&node);
        let name = format!("process {}", writer.0.id());
        while with_nodes("--nodes", &[&node], &["pool", "status"])
            .1
            .contains(&name)
        {
            std::thread::yield_now();
        }
        // Shut out by now. If it was outside of requests, it was not ended.
        let ended = (!writer.is_stopped()).then(|| writer.0.wait().expect("it ends, though it was stopped"));
        ended.filter(|status| std::os::unix::process::ExitStatusExt::signal(status) == Some(9))
    });
    assert!(
        ended.is_some(),
        "no process that was stopped inside a request is ended"
    );
    loop {
        let (_, text, _) = with_nodes("--nodes", &[&node], &["pool", "status"]);
        if text
            .lines()
            .any(|line| line.ends_with("fenced, waits for repair"))
        {
            return;
        }
        std::thread::yield_now();
    }
}
