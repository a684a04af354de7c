//! [`World`]: three members, their cores stepped in an order that a seed decides, and what their clients were told.

use super::control::{Control, Fill};
use super::network::{CoreId, Link, Network, TestLinks};
use super::site::{HeldTime, Site, State};
use super::{CORES, Clock, Flaw, KEYS, SHARDS, name};
use crate::bed::{partition, server, settings};
use drover_base::{Ns, Rng};
use drover_cluster::{ServedShards, ShardId};
use drover_mem::NativeCpu;
use drover_memcached::handover::{END, Reply};
use drover_memcached::replicas::{drained_message, fill_message};
use drover_memcached::{Core, NoHooks, Rings};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Steps in which all copies are completed, if nothing goes wrong.
const CALM_STEPS: usize = 20_000;

pub struct World {
    rng: Rng,
    time: Rc<Cell<u64>>,
    flaw: Option<Flaw>,
    /// By member and core.
    sites: Vec<Vec<Site>>,
    network: Rc<RefCell<Network>>,
    control: Control,
    /// All states that a key has had, and the last one that a client knows of.
    history: Vec<Vec<State>>,
    known: Vec<usize>,
    values: u64,
    /// The member whose registration has ended, whether its cores still run, and its shards with complete copies.
    lost: Option<usize>,
    is_crashed: bool,
    promoted: Vec<ShardId>,
    operations: u64,
    checked: u64,
}

impl World {
    pub fn new(seed: u64, flaw: Option<Flaw>) -> World {
        let time = Rc::new(Cell::new(1_000_000_000));
        let network: Rc<RefCell<Network>> = Rc::default();
        let shards: Vec<Arc<ServedShards>> = CORES
            .iter()
            .map(|cores| ServedShards::new(SHARDS, *cores))
            .collect();
        let member = |(member, cores): (usize, &usize)| {
            let server = Arc::new(server(*cores, settings(), Box::new(NoHooks)));
            let rings = Rings::between(*cores, 512).expect("memory");
            let site = |(core, rings): (usize, Rings)| {
                let held_time = HeldTime::default();
                Site {
                    id: (member, core),
                    partition: partition(4 << 20),
                    core: Core::of_member(shards[member].clone(), core, held_time.counters.clone())
                        .with_replicas(seed << 8 | member as u64),
                    server: server.clone(),
                    outbound: rings.outbound,
                    clock: Clock {
                        cpu: NativeCpu::new(1),
                        time: time.clone(),
                    },
                    links: TestLinks {
                        own: (member, core),
                        shards: shards[member].clone(),
                        network: network.clone(),
                        is_down: false,
                    },
                    flaw,
                    waiting: Vec::new(),
                    held: 0,
                    void: 0,
                    held_time,
                }
            };
            rings.into_iter().enumerate().map(site).collect()
        };
        World {
            rng: Rng::new(seed, 0, 0x4158),
            sites: CORES.iter().enumerate().map(member).collect(),
            time,
            flaw,
            network,
            control: Control::new(seed, &shards),
            history: vec![vec![None]; KEYS],
            known: vec![0; KEYS],
            values: 0,
            lost: None,
            is_crashed: false,
            promoted: Vec::new(),
            operations: 0,
            checked: 0,
        }
    }

    /// Operations, steps that ended held and void, copies completed and begun again, and keys compared with their copies.
    pub fn counts(&self) -> [u64; 6] {
        let sum = |of: fn(&Site) -> u64| self.sites.iter().flatten().map(of).sum();
        [
            self.operations,
            sum(|site| site.held),
            sum(|site| site.void),
            self.control.completed,
            self.control.restarted,
            self.checked,
        ]
    }

    fn any_core(&mut self) -> CoreId {
        let member = self.rng.below(CORES.len() as u64) as usize;
        (member, self.rng.below(CORES[member] as u64) as usize)
    }

    fn runs(&self, (member, _): CoreId) -> bool {
        !(self.is_crashed && self.lost == Some(member))
    }

    /// Something happens.
    pub fn step(&mut self) -> Result<(), String> {
        let most = if self.rng.chance(0.02) { 3_000_000 } else { 40_000 };
        self.time.set(self.time.get() + 1 + self.rng.below(most));
        let at = self.any_core();
        match self.rng.below(16) {
            0..5 => self.operate(at)?,
            5..8 => self.deliver()?,
            8..11 => self.answer()?,
            11 if self.rng.chance(0.1) => self.cut()?,
            11 if self.rng.chance(0.3) => self.deliver_late(),
            12 if self.rng.chance(0.2) => {
                let links = &mut self.sites[at.0][at.1].links;
                links.is_down = !links.is_down;
            }
            12 if self.lost.is_none() => self.control.plan(),
            _ if self.runs(at) => self.run_thread(at.0),
            _ => {}
        }
        Ok(())
    }

    /// A shard is handed over while its copy is filled and nothing can be sent to the keeper; clients of its owner's core go on writing. Returns
    /// how often replies became void.
    pub fn hand_over_while_filling(&mut self) -> u64 {
        let shard = self.shard_of(0);
        let owner = self.owner_of(shard).expect("one of the members");
        let [next, keeper] = [1, 2].map(|step| ((owner + step) % CORES.len()) as u16);
        let at = (owner, self.sites[owner][0].hash(0).partition_index(CORES[owner]));
        self.sites[at.0][at.1].settle();
        let stored = self.sites[at.0][at.1].execute(0, "set key0 0 0 1\r\na\r\n");
        assert!(self.sites[at.0][at.1].state(0).is_some(), "{stored:?}");
        self.control.commit(|draft| _ = draft.begin_copy(shard, keeper));
        self.control.learn(owner);
        let site = &mut self.sites[at.0][at.1];
        site.settle().expect("nothing is gated");
        self.control.threads[owner].begin_fill();
        site.links.is_down = true;
        let set = self.control.threads[owner].set();
        assert!(set.has(shard), "its copy is filled");
        site.serve_copies(&fill_message(&set, 0));
        site.settle().expect("nothing is gated");

        self.control.commit(|draft| _ = draft.begin_move(shard, next));
        let moving = self.control.map.moving(shard).expect("it has begun");
        self.control
            .commit(|draft| draft.complete_move(shard, moving.tenure));
        self.control.learn(owner);
        self.time.set(self.time.get() + 100_000_000);
        let site = &mut self.sites[at.0][at.1];
        site.links.is_down = false;
        assert!(!site.links.shards.holds(shard), "it has left");
        site.settle().expect("nothing is gated");
        site.void
    }

    /// Nothing goes wrong any more, and no client asks: soon all copies are complete, and no core is held.
    pub fn calm(&mut self) -> Result<(), String> {
        self.sites
            .iter_mut()
            .flatten()
            .for_each(|site| site.links.is_down = false);
        for _ in 0..CALM_STEPS {
            self.time.set(self.time.get() + 10_000);
            let at = self.any_core();
            while let Some((from, to)) = self.any_link(|link| !link.under_way.is_empty()) {
                match self.runs(from) && self.runs(to) {
                    true => break,
                    false => self.cut_link(from, to)?,
                }
            }
            self.deliver()?;
            self.answer()?;
            if self.runs(at) {
                self.settle_core(at)?;
                self.run_thread(at.0);
            }
            let is_calm = |site: &Site| !self.runs(site.id) || !site.core.is_held();
            if self.control.is_complete() && self.sites.iter().flatten().all(is_calm) {
                return Ok(());
            }
        }
        Err("copies are not completed".to_owned())
    }

    /// Clients of a core ask, if it takes requests.
    fn operate(&mut self, at: CoreId) -> Result<(), String> {
        if !self.runs(at) {
            return Ok(());
        }
        self.settle_core(at)?;
        let keys = self.sites[at.0][at.1].keys(CORES[at.0]);
        if self.sites[at.0][at.1].core.is_held() || keys.is_empty() {
            return Ok(());
        }
        if self.lost.is_none() && self.rng.chance(0.02) {
            self.flush(at, &keys);
        }
        for _ in 0..1 + self.rng.below(3) {
            let key = keys[self.rng.below(keys.len() as u64) as usize];
            // Leases do not end in this test: the keeper changes nothing while the former owner may still answer.
            if self.lost == Some(at.0) || !self.promoted.contains(&self.shard_of(key)) {
                self.ask(at, key);
            }
        }
        self.settle_core(at)
    }

    fn ask(&mut self, at: CoreId, key: usize) {
        self.values += 1;
        let (number, text) = (self.values, name(key));
        let request = match self.rng.below(20) {
            0..4 => format!("delete {text}\r\n"),
            4..6 => format!("mg {text} v\r\n"),
            6 => format!("set {text} 0 0 60000\r\n{number:060000}\r\n"),
            _ => format!("set {text} 0 0 20\r\n{number:020}\r\n"),
        };
        let site = &mut self.sites[at.0][at.1];
        let reply = site.execute(key, &request);
        if reply.first() == Some(&0) {
            return; // another member's
        }
        self.operations += 1;
        let (state, history) = (site.state(key), &mut self.history[key]);
        if history.last() != Some(&state) {
            history.push(state);
        }
        site.waiting.push((key, history.len() - 1));
    }

    fn flush(&mut self, at: CoreId, keys: &[usize]) {
        let site = &mut self.sites[at.0][at.1];
        site.flush();
        for &key in keys {
            let shard = site.links.shards.shard_of(site.hash(key));
            if site.links.shards.holds(shard) {
                self.history[key].push(None);
                site.waiting.push((key, self.history[key].len() - 1));
            }
        }
    }

    /// A core sends what it may, and the replies leave that need not wait: what they say must be at the keeper.
    fn settle_core(&mut self, at: CoreId) -> Result<(), String> {
        let Some(told) = self.sites[at.0][at.1].settle() else {
            return Ok(());
        };
        for (key, number) in told {
            self.known[key] = self.known[key].max(number);
            let shard = self.shard_of(key);
            let (owner, copy) = (self.owner_of(shard), self.control.map.copy(shard));
            if owner == Some(at.0)
                && let Some(copy) = copy.filter(|copy| copy.is_complete)
            {
                let (here, there) = (
                    self.state_at(at.0, key),
                    self.state_at(self.member(copy.keeper), key),
                );
                self.checked += 1;
                if here != there {
                    return Err(format!(
                        "{}: told {here:?}, but the keeper has {there:?}",
                        name(key)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Any link like that, by its ends.
    fn any_link(&mut self, is_meant: impl Fn(&Link) -> bool) -> Option<(CoreId, CoreId)> {
        let network = self.network.borrow();
        let links = network.links.iter().filter(|(_, link)| is_meant(link));
        let links: Vec<_> = links.map(|(ends, _)| *ends).collect();
        let nth = self.rng.below(links.len().max(1) as u64) as usize;
        links.get(nth).copied()
    }

    fn deliver(&mut self) -> Result<(), String> {
        let Some((from, to)) = self.any_link(|link| !link.messages.is_empty()) else {
            return Ok(());
        };
        let message = {
            let mut network = self.network.borrow_mut();
            let link = network.links.get_mut(&(from, to));
            link.and_then(|link| link.messages.pop_front())
        };
        let Some((pending, message)) = message.filter(|_| self.runs(to)) else {
            return Ok(());
        };
        let reply = self.sites[to.0][to.1].serve_copies(&message);
        if let Some(link) = self.network.borrow_mut().links.get_mut(&(from, to)) {
            link.replies.push_back((pending, reply));
        }
        self.settle_core(to)
    }

    fn answer(&mut self) -> Result<(), String> {
        let found = self.any_link(|link| !link.replies.is_empty());
        let Some((at, from)) = found.filter(|(at, _)| self.runs(*at)) else {
            return Ok(());
        };
        let reply = {
            let mut network = self.network.borrow_mut();
            let link = network.links.get_mut(&(at, from));
            link.and_then(|link| {
                let reply = link.replies.pop_front()?;
                link.under_way.pop_front();
                Some(reply)
            })
        };
        if let Some((pending, reply)) = reply {
            self.sites[at.0][at.1].take_reply(pending, Some(&reply));
        }
        self.settle_core(at)
    }

    /// A link breaks on which something is under way.
    fn cut(&mut self) -> Result<(), String> {
        match self.any_link(|link| !link.under_way.is_empty()) {
            Some((from, to)) => self.cut_link(from, to),
            None => Ok(()),
        }
    }

    fn cut_link(&mut self, from: CoreId, to: CoreId) -> Result<(), String> {
        let lost = self.network.borrow_mut().cut(from, to);
        if !self.runs(from) {
            return Ok(());
        }
        for pending in lost {
            self.sites[from.0][from.1].take_reply(pending, None);
        }
        self.settle_core(from)
    }

    /// A message of a link that broke arrives.
    fn deliver_late(&mut self) {
        let (to, mut message) = {
            let late = &mut self.network.borrow_mut().late;
            if late.is_empty() {
                return;
            }
            late.swap_remove(self.rng.below(late.len() as u64) as usize)
        };
        if self.flaw == Some(Flaw::TakesLateMessages) {
            // As if nothing of its source had come before.
            message[21..29].copy_from_slice(&self.values.to_le_bytes());
        }
        if self.runs(to) {
            self.sites[to.0][to.1].serve_copies(&message);
        }
    }

    /// A control thread goes on.
    fn run_thread(&mut self, index: usize) {
        if self.rng.chance(0.3) {
            let void = self.control.learn(index);
            return self.clean(index, &void);
        }
        if self.lost == Some(index) {
            return; // It can commit nothing.
        }
        let now = Ns(self.time.get());
        self.control.watch(index, now);
        let thread = &mut self.control.threads[index];
        let has_passed = thread.has_passed();
        match thread.fill.clone() {
            Fill::Idle => thread.begin_fill(),
            Fill::Sending if has_passed => {
                thread.fill = Fill::Scanning { core: 0, cursor: 0 };
            }
            Fill::Scanning { core, .. } if core == CORES[index] => thread.scanned(),
            Fill::Scanning { core, .. } if self.flaw == Some(Flaw::ScansNothing) => {
                thread.fill = Fill::Scanning {
                    core: core + 1,
                    cursor: 0,
                };
            }
            Fill::Scanning { core, cursor } => {
                let message = fill_message(&thread.set(), cursor);
                let cursor = number(&self.sites[index][core].serve_copies(&message));
                thread.fill = match cursor {
                    END => Fill::Scanning {
                        core: core + 1,
                        cursor: 0,
                    },
                    cursor => Fill::Scanning { core, cursor },
                };
            }
            Fill::Gating if has_passed => {
                let mark = self.control.new_mark();
                self.control.threads[index].fill = Fill::Draining { core: 0, mark };
            }
            Fill::Draining { core, .. } if core == CORES[index] || self.flaw == Some(Flaw::DrainsNothing) => {
                self.control.filled(index);
            }
            Fill::Draining { core, mark } => {
                let message = drained_message(&thread.set(), mark);
                if number(&self.sites[index][core].serve_copies(&message)) == 1 {
                    thread.fill = Fill::Draining { core: core + 1, mark };
                }
            }
            Fill::Sending | Fill::Gating => {}
        }
    }

    /// Deletes the items of shards that are void at a member.
    fn clean(&mut self, index: usize, void: &[ShardId]) {
        for key in 0..KEYS {
            if void.contains(&self.shard_of(key)) {
                self.sites[index].iter_mut().for_each(|site| site.delete(key));
            }
        }
    }

    /// The registration of a member ends. Its cores go on until it knows, or have ended.
    pub fn lose_an_owner(&mut self) {
        let lost = self.rng.below(CORES.len() as u64) as usize;
        let map = self.control.map.clone();
        let is_promoted = |shard: &ShardId| {
            self.owner_of(*shard) == Some(lost) && map.copy(*shard).is_some_and(|copy| copy.is_complete)
        };
        self.promoted = map.shards().filter(is_promoted).collect();
        self.is_crashed = self.rng.chance(0.4);
        self.lost = Some(lost);
        let gone = format!("m{lost}");
        self.control
            .commit(|draft| draft.remove(|member| *member.id().name == *gone));
    }

    /// Everybody learns what has happened; then the keepers must have what clients know.
    pub fn settle(&mut self) -> Result<(), String> {
        for index in 0..CORES.len() {
            if self.runs((index, 0)) {
                let void = self.control.learn(index);
                self.clean(index, &void);
            }
        }
        for _ in 0..300 {
            self.time.set(self.time.get() + 1_000_000);
            let at = self.any_core();
            if self.runs(at) {
                self.settle_core(at)?;
            }
            self.deliver()?;
            self.answer()?;
        }
        for key in 0..KEYS {
            let shard = self.shard_of(key);
            if !self.promoted.contains(&shard) {
                continue;
            }
            let owner = self.owner_of(shard).expect("it was promoted");
            let (state, known) = (self.state_at(owner, key), self.known[key]);
            self.checked += 1;
            if !self.history[key][known..].contains(&state) {
                return Err(format!(
                    "{}: {known} was known, and the keeper has {state:?}",
                    name(key)
                ));
            }
        }
        Ok(())
    }

    fn shard_of(&self, key: usize) -> ShardId {
        let site = &self.sites[0][0];
        site.links.shards.shard_of(site.hash(key))
    }

    /// The member with this index in the map.
    fn member(&self, index: u16) -> usize {
        let id = self.control.map.members()[usize::from(index)].member.id();
        id.name[1..].parse().expect("a number")
    }

    fn owner_of(&self, shard: ShardId) -> Option<usize> {
        self.control
            .map
            .tenure(shard)
            .owner
            .map(|owner| self.member(owner))
    }

    fn state_at(&mut self, member: usize, key: usize) -> State {
        let core = self.sites[0][0].hash(key).partition_index(CORES[member]);
        self.sites[member][core].state(key)
    }
}

/// The number in a reply.
fn number(reply: &[u8]) -> u64 {
    Reply::of(&reply[..24]).expect("a reply").number
}
