//! kill -9 of compute processes of a pool over shared memory, half of them while they hold a lock, and pauses beyond their lease.
//!
//! After each the survivors go on, what the victim left is repaired, every key that it has added and acknowledged is there, and
//! nothing of it lands after it was shut out.
//!
//! `DROVER_KILLS` is the number of rounds (`cargo xtask kill`: 200); `DROVER_SYSTEM`, if set, must be `race`.

use crate::campaigns::journal::now;
use crate::campaigns::{Repeat, number};
use crate::common::drover;
use crate::pool::{MemoryNode, race_pool};
use drover_base::{Actor, Cpu, Ns, Rng};
use drover_control::{ControlAddr, Dial};
use drover_kv_race::{ItemMeta, POOL_KIND, Race, RaceError, RaceOptions};
use drover_memnode::recovery::{Recovery, RecoveryOptions, recover};
use drover_memnode::{Arena, ClientState, Keeper, MemoryError, PoolOptions};
use drover_rt::{TaskCx, TaskOptions, TaskPool};
use drover_verbs::{Context, Device, DomainOptions};
use drover_verbs_shm::{Shm, ShmDevice};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::cell::RefCell;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Rounds in an ordinary `cargo test`.
const ROUNDS: u64 = 5;
/// Processes that add keys.
const MEMBERS: usize = 3;
/// Tasks of each.
const TASKS: u64 = 4;
/// Keys after which a new pool begins, since they are only added: a quarter of what fits.
const KEYS_PER_POOL: usize = 1_000_000;
/// Keys beyond the last acknowledged ones that are looked at: those that were under way.
const UNDER_WAY: u64 = 2 * TASKS;
/// Rounds between two lines about progress.
const ROUNDS_PER_LINE: u64 = 20;

/// Environment variable with the addresses of the nodes for [`member_process`].
const NODES: &str = "DROVER_POOL_MEMBER";

/// What a member's last line begins with, which says why it ends.
const OVER: &str = "over: ";

/// A process, or this one, with one thread in the pool.
struct Member {
    race: Race<Shm>,
    arena: Arena<Shm>,
    tasks: TaskPool<Shm>,
    ctx: Rc<<Shm as drover_verbs::Provider>::Context>,
    keeper: Keeper<Shm>,
}

impl Member {
    fn enter(nodes: &str) -> Member {
        let addrs: Vec<ControlAddr> = nodes
            .split(',')
            .map(|addr| addr.parse().expect("an address"))
            .collect();
        let domain = ShmDevice::of_pool()
            .domain(&DomainOptions::default())
            .expect("a domain");
        let dials = move || addrs.iter().cloned().map(Dial::to).collect();
        let keeper = Keeper::<Shm>::start(&domain, dials, PoolOptions::new(POOL_KIND)).expect("in the pool");
        let pool = keeper.pool();
        let ctx = Rc::new(pool.context().expect("a context"));
        let mut tasks = TaskPool::<Shm>::new(&ctx, &TaskOptions::default()).expect("tasks");
        let deadline = ctx.cpu().refresh() + Ns::from_s(20);
        let mut joining = pool.join(&ctx, &tasks, deadline).expect("asked");
        let nodes = loop {
            if let Some(nodes) = joining.poll(&mut tasks, ctx.cpu().refresh()) {
                break nodes.expect("connections");
            }
            std::thread::yield_now();
        };
        let (arena, flight) = (Arena::new(&nodes), tasks.single_flight());
        let (own, caps) = (arena.clone(), ctx.caps().clone());
        let opened = Rc::new(RefCell::new(None));
        let put = opened.clone();
        let spawned = tasks.spawn(|cx| async move {
            *put.borrow_mut() = Some(Race::open(&cx, &own, &caps, flight, RaceOptions::default()).await);
        });
        spawned.expect("space");
        let race = loop {
            ctx.cpu().refresh();
            let _ = tasks.step(ctx.cpu());
            if let Some(race) = opened.borrow_mut().take() {
                break race.expect("tables");
            }
        };
        Member {
            race,
            arena,
            tasks,
            ctx,
            keeper,
        }
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        let _ = self.tasks.step(self.ctx.cpu());
    }

    /// Runs a task to its end.
    fn run<T: 'static, Fut: Future<Output = T> + 'static>(
        &mut self,
        task: impl FnOnce(TaskCx<Shm>, Race<Shm>, Arena<Shm>) -> Fut,
    ) -> T {
        let out = Rc::new(RefCell::new(None));
        let (put, race, arena) = (out.clone(), self.race.clone(), self.arena.clone());
        let spawned = self.tasks.spawn(|cx| {
            let work = task(cx, race, arena);
            async move { *put.borrow_mut() = Some(work.await) }
        });
        spawned.expect("space");
        loop {
            self.step();
            if let Some(value) = out.borrow_mut().take() {
                return value;
            }
        }
    }

    /// Which of the keys of `client` exist.
    fn keys(&mut self, client: &str, numbers: Vec<u64>) -> Vec<bool> {
        let client = client.to_owned();
        self.run(|cx, race, _| async move {
            let mut found = Vec::new();
            for number in numbers {
                let item = race.get(&cx, &key(&client, number)).await.expect("a lookup");
                if let Some(item) = &item {
                    assert_eq!(item.value(), number.to_le_bytes(), "key {number} of {client}");
                }
                found.push(item.is_some());
            }
            found
        })
    }
}

fn key(client: &str, number: u64) -> Vec<u8> {
    format!("{client}-{number}").into_bytes()
}

/// Not a test: a process that adds keys with numbers of its own, and acknowledges each with a line, until it is shut out.
#[test]
fn member_process() {
    let Ok(nodes) = std::env::var(NODES) else { return };
    let mut member = Member::enter(&nodes);
    let client = member.keeper.pool().client().to_string();
    println!("\nclient {client}");
    let over = Rc::new(RefCell::new(None::<RaceError>));
    let next = Rc::new(RefCell::new(0u64));
    for _ in 0..TASKS {
        let (race, over, next, client) = (member.race.clone(), over.clone(), next.clone(), client.clone());
        let spawned = member.tasks.spawn(|cx| async move {
            loop {
                let number = next.replace_with(|next| *next + 1);
                let value = number.to_le_bytes();
                match race
                    .add(&cx, &key(&client, number), &value, ItemMeta::default())
                    .await
                {
                    Ok(true) => {
                        // One write, so that a line is whole or not there.
                        let _ = std::io::stdout().write_all(format!("{number}\n").as_bytes());
                    }
                    Ok(false) => panic!("{number} was there"),
                    // Behind a lock of a dead client that nobody has repaired yet.
                    Err(RaceError::Deadline | RaceError::Indeterminate) => {}
                    // The machine was slow; the lease may be renewed.
                    Err(RaceError::Memory(MemoryError::LeaseOver { .. })) => cx.sleep(Ns::from_ms(1)).await,
                    Err(error) => {
                        *over.borrow_mut() = Some(error);
                        return;
                    }
                }
            }
        });
        spawned.expect("space");
    }
    let (arena, count) = (member.arena.clone(), member.arena.nodes().pool().node_count());
    let kept_up = member.tasks.spawn(|cx| async move {
        loop {
            for node in 0..count {
                let _ = arena.keep_up(&cx, node).await;
            }
            cx.sleep(Ns::from_us(500)).await;
        }
    });
    kept_up.expect("space");
    while over.borrow().is_none() {
        member.step();
    }
    println!("{OVER}{}", over.borrow().expect("set"));
    std::process::exit(0);
}

/// A member's process.
struct MemberProcess {
    child: Child,
    client: String,
    acknowledged: Arc<Mutex<Vec<u64>>>,
    over: Arc<Mutex<Option<String>>>,
}

impl MemberProcess {
    fn start(nodes: &str) -> MemberProcess {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "campaigns::kill_pool::member_process", "--nocapture"])
            .env(NODES, nodes)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut lines = stdout.lines().map_while(Result::ok);
        let client = lines.find_map(|line| line.strip_prefix("client ").map(str::to_owned));
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(Mutex::new(None));
        let (noted, why) = (acknowledged.clone(), over.clone());
        std::thread::spawn(move || {
            for line in lines {
                match (line.parse(), line.strip_prefix(OVER)) {
                    (Ok(number), _) => noted.lock().expect("no panic").push(number),
                    (_, Some(text)) => *why.lock().expect("no panic") = Some(text.to_owned()),
                    _ => {}
                }
            }
        });
        MemberProcess {
            child,
            client: client.expect("in the pool"),
            acknowledged,
            over,
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child");
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    /// Waits until it has added some keys. False: it was shut out, since the machine was too slow for its lease.
    fn wait_for_progress(&self, verifier: &mut Member) -> bool {
        let (before, start) = (self.count(), now());
        while self.count() < before + 10 {
            verifier.step();
            let over = self.over.lock().expect("no panic").clone();
            if let Some(why) = over {
                assert!(why.ends_with("is lost"), "{}: {why}", self.client);
                return false;
            }
            assert!(now() - start < 60_000_000_000, "{} does not go on", self.client);
        }
        true
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Bed {
    members: Vec<MemberProcess>,
    verifier: Member,
    list: String,
    /// Members that were shut out because the machine was too slow.
    late: u64,
    /// Keys that members which are gone have added.
    added_before: usize,
    _nodes: [MemoryNode; 2],
}

impl Bed {
    fn start(name: &str, repair_after_ms: &str) -> Bed {
        // Members add keys as fast as they can, and splits, whose locks campaigns wait for, become rarer as the tables grow.
        let args = ["-m", "1024", "--repair-after-ms", repair_after_ms];
        let (nodes, list) = race_pool(name, |_| args.map(str::to_owned).to_vec());
        Bed {
            members: (0..MEMBERS).map(|_| MemberProcess::start(&list)).collect(),
            verifier: Member::enter(&list),
            list,
            late: 0,
            added_before: 0,
            _nodes: nodes,
        }
    }

    /// Keys that were added to the pool and acknowledged.
    fn added(&self) -> usize {
        self.added_before + self.members.iter().map(MemberProcess::count).sum::<usize>()
    }

    /// Waits until this member goes on, or takes its place by another one if it was shut out by itself.
    fn wait_for_progress(&mut self, index: usize) {
        while !self.members[index].wait_for_progress(&mut self.verifier) {
            self.late += 1;
            let victim = self.replace(index);
            self.repair(&victim.client);
            self.check_acknowledged(&victim);
        }
    }

    /// A member that holds a lock now, if one does soon: while the table is small, in which there are most splits.
    fn lock_holder(&mut self) -> Option<usize> {
        for _ in 0..2_000 {
            if self.added() > KEYS_PER_POOL {
                break;
            }
            let held = self
                .verifier
                .run(|cx, race, _| async move { race.held_locks(&cx).await.expect("READs") });
            let owner = held.first().map(|lock| lock.owner().to_string());
            let found = self
                .members
                .iter()
                .position(|member| Some(&member.client) == owner.as_ref());
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Repairs what `client` left at both nodes; returns the number of its locks.
    fn repair(&mut self, client: &str) -> u64 {
        let before = self.verifier.race.stats().resumed;
        for node in 0..2 {
            let start = now();
            loop {
                let done = self.verifier.run(move |cx, race, arena| async move {
                    recover(&cx, &arena, node, &race, RecoveryOptions::default()).await
                });
                match done.expect("a recovery") {
                    Recovery::Done(done) if done.clients.iter().any(|dead| dead.to_string() == client) => {
                        break;
                    }
                    _ => assert!(now() - start < 20_000_000_000, "{client} is never repaired"),
                }
            }
        }
        self.verifier.race.stats().resumed - before
    }

    /// See [`Member::keys`].
    fn keys(&mut self, client: &str, numbers: Vec<u64>) -> Vec<bool> {
        self.verifier.keys(client, numbers)
    }

    fn check_acknowledged(&mut self, victim: &MemberProcess) {
        let numbers = victim.acknowledged.lock().expect("no panic").clone();
        let found = self.keys(&victim.client, numbers.clone());
        for (number, found) in numbers.into_iter().zip(found) {
            assert!(
                found,
                "{}: key {number} was acknowledged and is lost",
                victim.client
            );
        }
    }

    fn replace(&mut self, index: usize) -> MemberProcess {
        let next = MemberProcess::start(&self.list);
        self.added_before += self.members[index].count();
        std::mem::replace(&mut self.members[index], next)
    }

    /// Kills a member; returns the number of locks that it held.
    fn kill(&mut self, index: usize) -> u64 {
        self.members[index].send(Signal::KILL);
        self.members[index].child.wait().expect("it ends");
        let client = self.members[index].client.clone();
        let locks = self.repair(&client);
        for other in (0..MEMBERS).filter(|&other| other != index) {
            self.wait_for_progress(other);
        }
        let victim = self.replace(index);
        self.check_acknowledged(&victim);
        locks
    }

    /// Waits until no node takes `client` for live any more, and a while for those that shut it out. A node that hardly runs on a busy
    /// machine counts only the time in which it could have seen renewals.
    fn wait_until_noticed(&mut self, client: &str) {
        let id: u16 = client
            .split('.')
            .next()
            .and_then(|id| id.parse().ok())
            .expect("number.epoch");
        let start = now();
        let mut is_live = true;
        while is_live || now() - start < 1_500_000_000 {
            assert!(
                now() - start < 60_000_000_000,
                "{client} is stopped, and no node notices"
            );
            let owner = client.to_owned();
            is_live = self.verifier.run(move |cx, _, arena| async move {
                let mut is_live = false;
                for node in 0..2 {
                    let line = arena.nodes().client_line(&cx, node, id).await.expect("a READ");
                    let own = line.filter(|line| line.client.to_string() == owner);
                    is_live |= own.is_some_and(|line| line.state == ClientState::Live);
                }
                is_live
            });
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Stops a member beyond its lease, and lets it go on after it was shut out and repaired. False: it was stopped inside a
    /// request, and so was not shut out.
    fn pause(&mut self, index: usize) -> bool {
        self.members[index].send(Signal::STOP);
        let pid = Pid::from_child(&self.members[index].child);
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("our child");
        let client = self.members[index].client.clone();
        self.wait_until_noticed(&client);
        let (_, text, _) = drover(&["pool", "status", "--nodes", &self.list], "");
        let is_fenced = text.matches(&format!("client {client} fenced")).count() == 2;
        let newest = self.members[index].count() as u64;
        let numbers: Vec<u64> = (newest.saturating_sub(50)..newest + UNDER_WAY).collect();
        let mut before = Vec::new();
        if is_fenced {
            self.repair(&client);
            before = self.keys(&client, numbers.clone());
        }
        self.members[index].send(Signal::CONT);
        let mut victim = self.replace(index);
        victim.child.wait().expect("it ends by itself");
        if is_fenced {
            assert_eq!(
                before,
                self.keys(&client, numbers),
                "{client} wrote after it was shut out"
            );
        } else {
            self.repair(&client);
        }
        self.check_acknowledged(&victim);
        is_fenced
    }
}

#[test]
fn survivors_in_a_pool_go_on() {
    if std::env::var("DROVER_SYSTEM").is_ok_and(|chosen| chosen != "race") {
        return;
    }
    let seed = number("DROVER_SEED").unwrap_or_else(now);
    let rounds = number("DROVER_KILLS").unwrap_or(ROUNDS);
    let variables = format!("DROVER_SEED={seed} DROVER_KILLS={rounds} DROVER_SYSTEM=race");
    let _repeat = Repeat::new(&variables, "kill_pool", "survivors_in_a_pool_go_on");
    let mut rng = Rng::new(seed, 0, 0x6b12);
    let (mut kills, mut holders, mut pauses, mut inside) = (0, 0, 0, 0);
    let mut bed = Bed::start("kill-pool", "0");
    let (mut late, start) = (0, now());
    for round in 1..=rounds {
        if round % ROUNDS_PER_LINE == 0 {
            println!(
                "round {round} of {rounds}: {kills} kills, {holders} with locks, {pauses} pauses, {} keys in the pool, {} s",
                bed.added(),
                (now() - start) / 1_000_000_000
            );
        }
        if bed.added() > KEYS_PER_POOL {
            late += bed.late;
            // The next one has the same addresses.
            drop(bed);
            bed = Bed::start("kill-pool", "0");
        }
        for index in 0..MEMBERS {
            bed.wait_for_progress(index);
        }
        let drawn = rng.below(MEMBERS as u64) as usize;
        if round % 5 == 0 {
            pauses += 1;
            inside += u64::from(!bed.pause(drawn));
            continue;
        }
        let holder = (round % 2 == 0).then(|| bed.lock_holder()).flatten();
        kills += 1;
        holders += u64::from(bed.kill(holder.unwrap_or(drawn)) > 0);
    }
    println!(
        "{kills} kills, {holders} of them while the process held a lock; {pauses} pauses, {inside} inside a request; {} \
         processes were too slow for their lease",
        late + bed.late
    );
    assert!(rounds < 100 || holders >= rounds / 10, "too few held a lock");
}

/// All processes of a pool are killed while one holds a lock: its nodes repair what they have left, and the next process finds
/// no lock held.
#[test]
fn nodes_repair_what_the_last_processes_left() {
    if std::env::var("DROVER_SYSTEM").is_ok_and(|chosen| chosen != "race") {
        return;
    }
    // A new pool for each attempt: in a small table there are most splits, and a pool that is only added to gets full.
    let (mut bed, locks) = loop {
        let mut bed = Bed::start("last-pool", "2000");
        // None of them has to go on: on a busy machine a member may have ended, because its pool was full.
        let _ = bed.lock_holder();
        for member in &mut bed.members {
            member.send(Signal::KILL);
            member.child.wait().expect("it ends");
        }
        let locks = bed
            .verifier
            .run(|cx, race, _| async move { race.held_locks(&cx).await.expect("READs").len() });
        if locks > 0 {
            break (bed, locks);
        }
    };
    let dead = std::mem::take(&mut bed.members);
    println!("{locks} locks held by {} dead processes", dead.len());
    let Bed {
        list,
        verifier,
        _nodes,
        ..
    } = bed;
    // The last client that lives leaves, too.
    let Member {
        race,
        arena,
        tasks,
        keeper,
        ..
    } = verifier;
    drop((race, arena, tasks));
    keeper.leave();
    let start = now();
    while drover(&["pool", "status", "--nodes", &list], "")
        .1
        .contains("waits for repair")
    {
        assert!(now() - start < 60_000_000_000, "nobody repairs");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let mut next = Member::enter(&list);
    let added = next.run(|cx, race, _| async move {
        let locks = race.held_locks(&cx).await.expect("READs");
        let added = race.add(&cx, b"next", b"value", ItemMeta::default()).await;
        (locks.len(), added)
    });
    assert_eq!(added, (0, Ok(true)));
    for member in &dead {
        let numbers = member.acknowledged.lock().expect("no panic").clone();
        let found = next.keys(&member.client, numbers);
        assert!(
            found.iter().all(|&found| found),
            "{}: an acknowledged key is lost",
            member.client
        );
    }
}
