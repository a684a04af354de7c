//! A client process that means harm: it rewrites the memory that its session shares with the server, what it says on the
//! control channel, and the descriptors that it passes.
//!
//! An ordinary client connects through a proxy in the same process. The proxy maps every descriptor that passes, in both
//! directions, and keeps the mappings when the session ends; a thread rewrites words of them at random. So nothing here
//! knows a system or a layout.

use crate::campaigns::bed::wait;
use crate::campaigns::client::{self, Role};
use crate::campaigns::proxy::{self, Speaker};
use drover_base::Rng;
use drover_control::{ControlAddr, Endpoint, Frame, HEADER_BYTES, Header, kind};
use drover_mem::Region;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Environment variable by which this test binary, started as an attacker, gets its [`Attack`].
pub const ATTACK: &str = "DROVER_CAMPAIGN_ATTACKER";

/// What the line begins with by which an attacker reports what it did.
pub const REPORT: &str = "attacker: ";

/// Most mappings that an attacker keeps.
const REGIONS_MAX: usize = 256;
/// Most unfinished connections at a time.
const NOISE_MAX: usize = 24;

static WORDS: AtomicU64 = AtomicU64::new(0);
static FRAMES: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// What the parent passes to an attacker.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Whether it does harm; else it does the same work, but writes nothing.
    pub harmful: bool,
    /// Whether the server's system is HERD.
    pub is_herd: bool,
    pub seed: u64,
    /// Address of the server.
    pub addr: String,
    /// Path of the proxy's socket.
    pub proxy: PathBuf,
}

impl Attack {
    /// Encodes it as one line.
    pub fn encode(&self) -> String {
        let Attack {
            harmful,
            is_herd,
            seed,
            addr,
            proxy,
        } = self;
        format!("{harmful}|{is_herd}|{seed}|{addr}|{}", proxy.display())
    }

    fn decode(text: &str) -> Attack {
        let words: Vec<&str> = text.splitn(5, '|').collect();
        Attack {
            harmful: words[0] == "true",
            is_herd: words[1] == "true",
            seed: words[2].parse().expect("a number"),
            addr: words[3].to_owned(),
            proxy: words[4].into(),
        }
    }

    fn rng(&self, purpose: u64) -> Rng {
        Rng::new(self.seed, purpose, 0xa77a)
    }

    fn server(&self) -> ControlAddr {
        self.addr.parse().expect("an address")
    }
}

/// Memory that the attacker can write to.
type Reached = Arc<Mutex<Vec<Region>>>;

/// Main function of an attacker, which lives for a random time below a second and then dies without a farewell.
pub fn run(text: &str) {
    let attack = Attack::decode(text);
    let reached = Reached::default();
    let (there, words) = (attack.clone(), reached.clone());
    let mut spoiler = Spoiler::new(attack.clone(), reached);
    proxy::start(&attack.proxy, &attack.addr, move |session, who, frame| {
        spoiler.pass(session, who, frame)
    });
    std::thread::spawn(move || rewrite(&there, &words));
    let noisy = attack.clone();
    std::thread::spawn(move || noise(&noisy));
    let life = Duration::from_millis(200 + attack.rng(1).below(700));
    std::thread::spawn(move || {
        // What it reads of its own ruins may make it panic.
        for session in 0.. {
            let attack = attack.clone();
            let _ = std::thread::spawn(move || live(&attack, session)).join();
        }
    });
    wait(life);
    let [words, frames, mapped, answered] =
        [&WORDS, &FRAMES, &MAPPED, &ANSWERED].map(|count| count.load(Ordering::Relaxed));
    println!("\n{REPORT}{words} {frames} {mapped} {answered}");
    std::process::exit(0);
}

/// One session: operations on keys of its own.
fn live(attack: &Attack, session: u64) {
    let mut rng = attack.rng(0x100 + session);
    let role = Role {
        addr: format!("unix:{}", attack.proxy.display()),
        id: 0,
        place: 0,
        seed: rng.next_u64(),
        datagrams: rng.chance(0.5),
        is_herd: attack.is_herd,
        guarded: false,
        deadline_ms: 20,
        rest_ms: 0,
    };
    let mut kv = client::connect(&role, rng.clone());
    let mut failed = 0;
    while failed < 10 {
        let key = format!("attacker-{}", rng.below(32));
        let bytes = if rng.chance(0.1) { 5000 } else { 64 };
        let value = vec![7; rng.below(bytes) as usize];
        let done = match rng.below(3) {
            0 => kv.get(key.as_bytes()).is_ok(),
            1 => kv.put(key.as_bytes(), &value, 0).is_ok(),
            _ => kv.delete(key.as_bytes()).is_ok(),
        };
        failed += u64::from(!done);
        ANSWERED.fetch_add(u64::from(done), Ordering::Relaxed);
    }
}

/// Rewrites words of everything reached, in bursts; how fast is drawn for each life, since fast ones ruin a session before
/// it does anything.
fn rewrite(attack: &Attack, reached: &Reached) {
    let mut rng = attack.rng(2);
    let pause = Duration::from_micros(1 << rng.below(15));
    let burst = 1 << rng.below(8);
    loop {
        let regions = reached.lock().expect("no panic").clone();
        for _ in 0..burst {
            let Some(region) = regions.get(rng.below(regions.len().max(1) as u64) as usize) else {
                break;
            };
            rewrite_word(&mut rng, region, attack.harmful);
        }
        wait(pause);
    }
}

fn rewrite_word(rng: &mut Rng, region: &Region, harmful: bool) {
    let words = region.len() as u64 / 8;
    let draw = |rng: &mut Rng| match rng.chance(0.5) {
        true => rng.below(words.min(512)) as usize * 8,
        false => rng.below(words) as usize * 8,
    };
    let mut at = draw(rng);
    let mut now = region.load_u64(at, Ordering::Relaxed);
    // Most words were never used.
    for _ in 0..16 {
        if now != 0 {
            break;
        }
        at = draw(rng);
        now = region.load_u64(at, Ordering::Relaxed);
    }
    let word = match rng.below(7) {
        0 => rng.next_u64(),
        1 => rng.below(4),
        2 => now.wrapping_add(1),
        3 => now.wrapping_sub(1),
        4 => now ^ (1 << rng.below(64)),
        5 => now ^ (rng.below(256) << (8 * rng.below(8))),
        _ => region.load_u64(draw(rng), Ordering::Relaxed),
    };
    if harmful {
        region.store_u64(at, word, Ordering::Release);
        WORDS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does harm to frames between the attacker's client and the server, and maps what they carry.
struct Spoiler {
    attack: Attack,
    rng: Rng,
    reached: Reached,
}

impl Spoiler {
    fn new(attack: Attack, reached: Reached) -> Spoiler {
        Spoiler {
            rng: attack.rng(3),
            attack,
            reached,
        }
    }

    /// Changes a frame of a session, perhaps; returns how often to send it.
    fn pass(&mut self, session: u64, who: Speaker, frame: &mut Frame) -> usize {
        frame.fds.iter().for_each(|fd| self.reach(fd));
        // Some sessions get as far as honest ones do.
        let spoils = self.attack.harmful && self.attack.rng(0x1_0000 + session).chance(0.7);
        let spoiled = spoils && who == Speaker::Client && self.rng.chance(0.3);
        FRAMES.fetch_add(u64::from(spoiled), Ordering::Relaxed);
        match spoiled {
            true => self.spoil(frame),
            false => 1,
        }
    }

    fn reach(&self, fd: &Arc<OwnedFd>) {
        let mut reached = self.reached.lock().expect("no panic");
        if reached.len() == REGIONS_MAX {
            reached.remove(0);
        }
        let size = fstat(fd).map_or(0, |stat| stat.st_size);
        let copy = fd.try_clone().ok().filter(|_| size >= 8);
        // The kernel refuses what may only be read.
        if let Some(Ok(region)) = copy.map(|fd| Region::from_fd(fd, size as usize, true)) {
            reached.push(region);
            MAPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Changes a frame; returns how often to send it.
    fn spoil(&mut self, frame: &mut Frame) -> usize {
        let rng = &mut self.rng;
        let at = rng.below(frame.body.len().max(1) as u64) as usize;
        match rng.below(9) {
            0 => frame.body.truncate(at),
            1 => frame.body.extend((0..rng.below(40)).map(|i| i as u8)),
            2 => frame.kind = kind::APPLICATION + rng.below(16) as u16,
            3 => frame.kind = rng.below(1 << 16) as u16,
            4 => drop(frame.fds.pop()),
            5 => frame.fds.reverse(),
            6 if !frame.fds.is_empty() => {
                let index = rng.below(frame.fds.len() as u64) as usize;
                let size = fstat(&frame.fds[index]).map_or(4096, |stat| stat.st_size as u64);
                if let Some(fd) = wrong_descriptor(rng, size) {
                    frame.fds[index] = Arc::new(fd);
                }
            }
            7 => return rng.below(3) as usize,
            _ => {
                let edges = [0, 1, 0x7f, 0x80, 0xff, rng.below(256) as u8];
                let (edge, bytes) = (edges[rng.below(6) as usize], 1 << rng.below(4));
                frame
                    .body
                    .iter_mut()
                    .skip(at)
                    .take(bytes)
                    .for_each(|byte| *byte = edge);
            }
        }
        1
    }
}

/// A directory, a pipe, a device, memory that is short, not sealed, sealed against writing, or huge.
fn wrong_descriptor(rng: &mut Rng, size: u64) -> Option<OwnedFd> {
    let memory = |bytes: u64, seals: SealFlags| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("wrong", flags).ok()?;
        ftruncate(&fd, bytes).ok()?;
        fcntl_add_seals(&fd, seals).ok()?;
        Some(fd)
    };
    let whole = SealFlags::SHRINK | SealFlags::GROW;
    match rng.below(8) {
        0 => Some(std::fs::File::open("/").ok()?.into()),
        1 => Some(std::io::pipe().ok()?.0.into()),
        2 => Some(std::fs::File::open("/dev/zero").ok()?.into()),
        3 => memory(size / 2, whole),
        4 => memory(size, whole | SealFlags::WRITE),
        5 => memory(1 << 42, whole),
        6 => memory(size, whole),
        _ => {
            // A process that has mapped it is killed at its next access after it shrinks.
            let fd = memory(size, SealFlags::empty())?;
            let later = fd.try_clone().ok()?;
            std::thread::spawn(move || {
                wait(Duration::from_millis(2));
                let _ = ftruncate(&later, 0);
            });
            Some(fd)
        }
    }
}

/// Connections that say something random, or a part of it, and then nothing.
fn noise(attack: &Attack) {
    let mut rng = attack.rng(4);
    let addr = attack.server();
    let Endpoint::Path(path) = addr.place() else {
        return;
    };
    let mut open = std::collections::VecDeque::new();
    loop {
        wait(Duration::from_millis(1 + rng.below(30)));
        let Ok(mut stream) = UnixStream::connect(path) else {
            continue;
        };
        let body: Vec<u8> = (0..rng.below(300)).map(|_| rng.next_u64() as u8).collect();
        let mut bytes = Header {
            kind: rng.below(40) as u16,
            body_bytes: body.len(),
            fd_count: rng.below(2) as usize,
        }
        .encode()
        .to_vec();
        bytes.extend(body);
        if rng.chance(0.3) {
            bytes[rng.below(HEADER_BYTES as u64) as usize] = rng.next_u64() as u8;
        }
        bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
        if attack.harmful {
            let _ = stream.write_all(&bytes);
            FRAMES.fetch_add(1, Ordering::Relaxed);
        }
        open.push_back(stream);
        if open.len() > NOISE_MAX {
            open.pop_front();
        }
    }
}
