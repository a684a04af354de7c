//! Memory nodes as processes: made a pool by command, used by this process, killed.

use crate::common::{drover, folder};
use drover_base::{Actor, Cpu, Ns};
use drover_control::{ControlAddr, Dial};
use drover_memnode::{Arena, Need, Pool, PoolKind, PoolOptions};
use drover_rt::{TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// A `drover memory-node`, killed when dropped.
struct MemoryNode {
    child: Child,
    addr: String,
}

impl MemoryNode {
    fn start(name: &str, args: &[&str]) -> MemoryNode {
        let addr = format!("unix:{}", folder(name).join("n.sock").display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["memory-node", "--bind", &addr, "-m", "8"])
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
        MemoryNode { child, addr }
    }

    fn dial(&self) -> Dial {
        Dial::to(self.addr.parse::<ControlAddr>().expect("an address"))
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let options = PoolOptions {
        secret: b"sesame".to_vec(),
        ..PoolOptions::new(PoolKind::new("test"))
    };
    let dials = nodes.iter().map(MemoryNode::dial).collect();
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

    nodes[1].child.kill().expect("it runs");
    while !pool.node(1).is_lost() {
        step(&mut tasks);
    }
    assert!(!pool.node(0).is_lost());
    let (status, _, error) = ask(&["pool", "status", "--timeout-ms", "200"]);
    assert_eq!(status, 69);
    assert!(error.contains(&nodes[1].addr), "{error}");
}
