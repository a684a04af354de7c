//! [`World`]: members, clients, a registry and the network between them, in virtual time.

use super::check::{self, Broken};
use super::client::{Client, Step, TIMEOUT};
use super::faults::Trouble;
use super::host::{Answer, Decision, Host, Message, Op, Outgoing, Request};
use super::scenario::{CALM, ENDS_AT, HEALED_AT, KEY_COUNT, SETTLED_AT, SHARD_COUNT, STEP_EVERY, Scenario};
use super::{Counts, Flaw};
use drover_base::{Ns, Rng};
use drover_cluster::{
    Advert, Agent, AgentOptions, Draft, MapMember, MemberId, Registry, RegistryRequest, SimulatedClient,
    SimulatedRegistry, Standing, Transaction,
};
use drover_testkit::history::History;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

enum Event {
    Step(usize),
    Start(usize),
    /// A process that has left ends, and another one starts after this time.
    End {
        member: usize,
        life: u64,
        time: Ns,
    },
    ToMember {
        member: usize,
        life: u64,
        message: Message,
    },
    ToClient {
        request: Request,
        answer: Answer,
    },
    Wake(usize),
    Timeout {
        client: usize,
        number: u64,
    },
    Trouble,
    Heal,
}

/// A place where a member's process runs, or will.
struct Slot {
    host: Option<Host>,
    life: u64,
    /// Speed of its clock in thousandths, and what it shows at the beginning.
    clock: (u64, Ns),
    paused_until: Ns,
    cut_until: Ns,
    /// What this other member sends for copies arrives after this time, or never.
    copies_cut: (usize, Ns),
    /// The next request is interrupted for so long.
    interrupt: Option<Ns>,
    /// A request that was decided about before the process was stopped, and is not executed yet.
    unfinished: Option<(Request, Decision)>,
}

impl Slot {
    fn time(&self, now: Ns) -> Ns {
        Ns(now.0 / 1_000 * self.clock.0) + self.clock.1
    }
}

pub struct World {
    scenario: Scenario,
    replicas: u8,
    flaw: Option<Flaw>,
    rng: Rng,
    now: Ns,
    events: BTreeMap<(Ns, u64), Event>,
    scheduled: u64,
    registry: SimulatedRegistry,
    operator: SimulatedClient,
    slots: Vec<Slot>,
    clients: Vec<Client>,
    /// Client and number of each request that was executed.
    executed: BTreeSet<(usize, u64)>,
    losses: History,
    counts: Counts,
    /// Keys that are still to be read after all has settled.
    unread: Vec<u32>,
}

/// Share of the messages about copies that are lost, late, or come twice.
const TROUBLED_COPIES: f64 = 0.3;
/// How late they come then: the shard may have another owner.
const LATE_MAX: Ns = Ns::from_ms(400);

/// Index of the member with this name.
pub fn index_of(name: &str) -> usize {
    name.trim_start_matches('m')
        .parse()
        .expect("names are m0, m1, ...")
}

impl World {
    pub fn new(seed: u64, replicas: u8, flaw: Option<Flaw>) -> World {
        let mut rng = Rng::new(seed, 0, 0);
        let scenario = Scenario::draw(&mut rng, flaw);
        let registry = SimulatedRegistry::new(scenario.faults, Rng::new(seed, 1, 0));
        let slot = |rng: &mut Rng| Slot {
            host: None,
            life: 0,
            clock: match flaw {
                Some(Flaw::SlowClocks) => (300 + rng.below(300), Ns::ZERO),
                // Two thirds of the registry's speed is the least that leases allow.
                _ if scenario.uneven_clocks => (670 + rng.below(700), Ns(rng.below(1 << 40))),
                _ => (1_000, Ns::ZERO),
            },
            paused_until: Ns::ZERO,
            cut_until: Ns::ZERO,
            copies_cut: (0, Ns::ZERO),
            interrupt: None,
            unfinished: None,
        };
        let slots = (0..scenario.member_count).map(|_| slot(&mut rng)).collect();
        let client = |index| Client::new(index, Rng::new(seed, index as u64, 2), registry.client());
        World {
            clients: (0..scenario.client_count).map(client).collect(),
            slots,
            flaw,
            now: Ns::ZERO,
            events: BTreeMap::new(),
            scheduled: 0,
            operator: registry.client(),
            registry,
            executed: BTreeSet::new(),
            losses: History::default(),
            counts: Counts::default(),
            unread: (0..KEY_COUNT).collect(),
            scenario,
            replicas,
            rng,
        }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        for client in &self.clients {
            counts.operations += client.completed;
            counts.elsewhere += client.elsewhere;
        }
        for host in self.slots.iter().filter_map(|slot| slot.host.as_ref()) {
            counts.suppressed += host.suppressed;
        }
        counts
    }

    /// Plays to the end, or until a rule is broken.
    pub fn play(&mut self) -> Result<(), Broken> {
        for member in 0..self.slots.len() {
            // The last one comes later, into a service that works.
            let is_late = member + 1 == self.slots.len();
            let at = if is_late {
                Ns::from_ms(600)
            } else {
                Ns(self.rng.below(50_000_000))
            };
            self.schedule(at, Event::Start(member));
        }
        for client in 0..self.clients.len() {
            self.schedule(Ns::from_ms(100), Event::Wake(client));
        }
        self.schedule(Ns::from_ms(300), Event::Trouble);
        self.schedule(HEALED_AT, Event::Heal);
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > ENDS_AT {
                break;
            }
            self.now = at;
            self.registry.advance(at);
            for accepted in self.registry.take_accepted() {
                check::accepted(&accepted, &mut self.losses, &mut self.counts)?;
            }
            self.handle(event)?;
        }
        self.check_settled()?;
        let mut history = std::mem::take(&mut self.losses);
        for client in &mut self.clients {
            let executed = &self.executed;
            client.add_unknown(|client, number| executed.contains(&(client, number)));
            history.merge(std::mem::take(&mut client.history));
        }
        check::histories(&history)
    }

    fn check_settled(&self) -> Result<(), Broken> {
        let view = self.registry.view();
        let map = view.map.expect("a map");
        let takes = |it: &&MapMember| it.standing != Standing::Draining;
        let needs_copies = self.replicas > 1 && map.members().iter().filter(takes).count() > 1;
        let is_copied = |shard| map.copy(shard).is_some_and(|copy| copy.is_complete);
        let are_copied = !needs_copies || map.shards().all(is_copied);
        if self.unread.is_empty() && map.moves().is_empty() && are_copied {
            return Ok(());
        }
        let listed: Vec<_> = map
            .members()
            .iter()
            .map(|it| (it.member.id(), it.standing))
            .collect();
        let hosts = self.slots.iter().filter_map(|slot| slot.host.as_ref());
        let known: Vec<_> = hosts
            .map(|host| (host.agent.id(), host.agent.map().epoch()))
            .collect();
        let why = format!(
            "keys {:?} are not answered for, {:?} go on, copies {:?}; epoch {}, {listed:?} own {:?}; members know {known:?}",
            self.unread,
            map.moves(),
            map.shards().map(|shard| map.copy(shard)).collect::<Vec<_>>(),
            map.epoch(),
            map.counts(),
        );
        Err(Broken::NotSettled { why })
    }

    fn schedule(&mut self, at: Ns, event: Event) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), event);
    }

    fn handle(&mut self, event: Event) -> Result<(), Broken> {
        // A stopped process finds later what has arrived meanwhile.
        if let Event::Step(member) | Event::ToMember { member, .. } = event
            && self.slots[member].paused_until > self.now
        {
            self.schedule(self.slots[member].paused_until, event);
            return Ok(());
        }
        match event {
            Event::Start(member) => self.start(member),
            Event::End { member, life, time } => {
                if self.slots[member].life == life {
                    self.kill(member, time);
                }
            }
            Event::Step(member) => self.step(member),
            Event::ToMember {
                member,
                life,
                message,
            } => return self.deliver(member, life, message),
            Event::ToClient { request, answer } => {
                let step = self.clients[request.client].receive(&request, answer, self.now);
                if let Some(step) = step {
                    let is_read = self.now >= SETTLED_AT && !matches!(answer, Answer::Elsewhere(_));
                    self.unread.retain(|key| !(is_read && *key == request.key));
                    self.follow(request.client, step);
                }
            }
            Event::Wake(client) => self.wake(client),
            Event::Timeout { client, number } => {
                if self.clients[client].waits_for(number) {
                    let step = self.clients[client].give_up();
                    self.follow(client, step);
                }
            }
            Event::Trouble => self.trouble(),
            Event::Heal => self.heal(),
        }
        Ok(())
    }

    fn start(&mut self, member: usize) {
        if self.slots[member].host.is_some() {
            return;
        }
        let name = format!("m{member}");
        let address = vec![format!("tcp://{name}:1")];
        let agent = Agent::new(AgentOptions {
            advert: Advert::new(&name, 1, address).expect("a sound advert"),
            terms: self.scenario.terms,
            handover: self.scenario.handover,
            handovers_max: 3,
            shard_count: SHARD_COUNT,
            instance: self.rng.next_u64(),
            replicas: self.replicas,
        });
        let slot = &mut self.slots[member];
        slot.host = Some(Host::new(agent, self.registry.client(), self.flaw));
        slot.life += 1;
        self.schedule(self.now, Event::Step(member));
    }

    fn step(&mut self, member: usize) {
        let life = self.slots[member].life;
        if self.slots[member].host.is_some() {
            self.with_host(member, life, Host::step);
            let every = Ns(STEP_EVERY.0 * 1_000 / self.slots[member].clock.0);
            self.schedule(self.now + every, Event::Step(member));
        }
    }

    /// Has a host do something, if it still lives, and sends what comes of it.
    fn with_host(&mut self, member: usize, life: u64, act: impl FnOnce(&mut Host, Ns, &mut Vec<Outgoing>)) {
        let slot = &mut self.slots[member];
        let time = slot.time(self.now);
        let Some(host) = slot.host.as_mut().filter(|_| slot.life == life) else {
            return;
        };
        let mut out = Vec::new();
        // A thread goes on where it was stopped.
        if let Some((request, decision)) = slot.unfinished.take() {
            host.execute(request, decision, time, &mut out);
            host.end_round(time, &mut out);
        }
        act(host, time, &mut out);
        for outgoing in out {
            match outgoing {
                Outgoing::Member(to, message) => self.send(Some(member), index_of(&to.name), message),
                Outgoing::Executed(request) => drop(self.executed.insert((request.client, request.number))),
                Outgoing::Client(request, answer) => {
                    if self.is_connected(member) {
                        let at = self.arrival();
                        self.schedule(at, Event::ToClient { request, answer });
                    }
                }
            }
        }
    }

    fn deliver(&mut self, member: usize, life: u64, message: Message) -> Result<(), Broken> {
        if let Message::Request(request) = &message {
            self.counts.forwarded += u64::from(request.hops);
            if request.hops > 1 {
                return Err(Broken::ForwardedTwice { hops: request.hops });
            }
            let is_held = self.slots[member].host.as_ref().is_some_and(Host::is_held);
            if let Some(time) = self.slots[member].interrupt.take_if(|_| !is_held) {
                self.interrupt(member, life, *request, time);
                return Ok(());
            }
        }
        self.with_host(member, life, |host, now, out| host.receive(message, now, out));
        Ok(())
    }

    /// Stops the process between the decision about a request and its execution.
    fn interrupt(&mut self, member: usize, life: u64, request: Request, time: Ns) {
        let slot = &mut self.slots[member];
        let now = slot.time(self.now);
        if let Some(host) = slot.host.as_ref().filter(|_| slot.life == life) {
            slot.unfinished = Some((request, host.decide(&request, now)));
            slot.paused_until = self.now + time;
            self.counts.pauses += 1;
        }
    }

    fn is_connected(&self, member: usize) -> bool {
        self.slots[member].cut_until <= self.now
    }

    /// When a message that is sent now arrives. Messages overtake each other.
    fn arrival(&mut self) -> Ns {
        let late = if self.rng.chance(0.02) {
            20_000_000
        } else {
            1_000_000
        };
        self.now + Ns(50_000 + self.rng.below(late))
    }

    fn send(&mut self, from: Option<usize>, member: usize, message: Message) {
        let is_cut = !self.is_connected(member) || from.is_some_and(|from| !self.is_connected(from));
        if self.slots[member].host.is_some() && !is_cut {
            let (life, is_copy) = (self.slots[member].life, matches!(message, Message::Copy(_)));
            let mut at = self.arrival();
            if is_copy && let Some(late) = self.delay_of_copy(from, member) {
                match self.rng.below(3) {
                    0 => return,
                    1 => at = late,
                    _ => {
                        let message = message.clone();
                        self.schedule(
                            late,
                            Event::ToMember {
                                member,
                                life,
                                message,
                            },
                        );
                    }
                }
            }
            self.schedule(
                at,
                Event::ToMember {
                    member,
                    life,
                    message,
                },
            );
        }
    }

    /// When a message about copies arrives that is late or comes twice; `None`: it is neither.
    fn delay_of_copy(&mut self, from: Option<usize>, keeper: usize) -> Option<Ns> {
        let (owner, cut_until) = self.slots[keeper].copies_cut;
        let cut_until = if from == Some(owner) { cut_until } else { Ns::ZERO };
        let is_troubled = cut_until > self.now || self.rng.chance(TROUBLED_COPIES);
        is_troubled.then(|| cut_until.max(self.now) + Ns(self.rng.below(LATE_MAX.0)))
    }

    fn wake(&mut self, client: usize) {
        let member_count = self.slots.len();
        let step = if !self.clients[client].is_idle() {
            self.clients[client].send(member_count)
        } else if self.now < HEALED_AT {
            self.clients[client].begin(self.now, member_count)
        } else if self.now < SETTLED_AT {
            Step::Sleep(SETTLED_AT - self.now)
        } else if let Some(key) = self.unread.first().copied() {
            self.clients[client].begin_with(key, Op::Get, self.now, member_count)
        } else {
            return;
        };
        self.follow(client, step);
    }

    fn follow(&mut self, client: usize, step: Step) {
        match step {
            Step::Send(member, request) => {
                self.send(None, member, Message::Request(request));
                let number = request.number;
                self.schedule(self.now + TIMEOUT, Event::Timeout { client, number });
            }
            Step::Sleep(time) => self.schedule(self.now + time, Event::Wake(client)),
        }
    }

    fn trouble(&mut self) {
        if self.now >= HEALED_AT {
            return;
        }
        if let Some(trouble) = Trouble::draw(&self.scenario, &mut self.rng) {
            self.bring(trouble);
        }
        let mean = self.scenario.trouble_every.0;
        let at = self.now + Ns(self.rng.below(mean * 2));
        self.schedule(at, Event::Trouble);
    }

    fn bring(&mut self, trouble: Trouble) {
        let now = self.now;
        match trouble {
            Trouble::Pause(member, time) => {
                self.counts.pauses += 1;
                let slot = &mut self.slots[member];
                slot.paused_until = slot.paused_until.max(now + time);
            }
            Trouble::PauseInRequest(member, time) => self.slots[member].interrupt = Some(time),
            Trouble::Crash(member, time) => {
                self.counts.crashes += 1;
                self.kill(member, time);
            }
            Trouble::CutFromRegistry(member, time) => {
                if let Some(host) = &self.slots[member].host {
                    self.registry.cut_off(&host.registry, now + time);
                }
            }
            Trouble::CutFromNetwork(member, time) => self.slots[member].cut_until = now + time,
            Trouble::CutCopies(from, to, time) => self.slots[to].copies_cut = (from, now + time),
            Trouble::Outage(time) => self.registry.go_away(now + time),
            Trouble::DrainOrJoin(member) => self.drain_or_join(member),
            Trouble::Leave(member, time) => {
                let life = self.slots[member].life;
                let is_stopped = self.slots[member].paused_until > now;
                if !is_stopped {
                    self.with_host(member, life, |host, now, _| {
                        host.agent.leave(now, &mut host.registry);
                        host.publish();
                    });
                    let at = self.now + Ns(self.rng.below(100_000_000));
                    self.schedule(at, Event::End { member, life, time });
                }
            }
        }
    }

    /// Ends a member's process; another one starts later.
    fn kill(&mut self, member: usize, time: Ns) {
        let slot = &mut self.slots[member];
        if let Some(host) = slot.host.take() {
            self.counts.suppressed += host.suppressed;
        }
        (slot.paused_until, slot.unfinished) = (Ns::ZERO, None);
        self.schedule(self.now + time, Event::Start(member));
    }

    fn drain_or_join(&mut self, member: usize) {
        let Some(map) = self.registry.view().map else {
            return;
        };
        let name = format!("m{member}");
        let listed = map.members().iter().find(|it| **it.member.advert.name() == *name);
        let is_draining = listed.is_some_and(|it| it.standing == Standing::Draining);
        let mut draft = Draft::after(&map);
        draft.set_standing(
            &name,
            if is_draining {
                Standing::Joining
            } else {
                Standing::Draining
            },
        );
        if let Some(map) = draft.finish() {
            let (map, nobody): (_, Vec<MemberId>) = (Arc::new(map), Vec::new());
            let transaction = Transaction {
                map,
                alive: nobody.clone(),
                gone: nobody,
            };
            self.operator
                .submit(self.now, 0, RegistryRequest::Commit(transaction));
        }
    }

    fn heal(&mut self) {
        self.registry.set_faults(CALM);
        self.registry.go_away(Ns::ZERO);
        for member in 0..self.slots.len() {
            let slot = &mut self.slots[member];
            slot.paused_until = slot.paused_until.min(self.now);
            (slot.cut_until, slot.copies_cut.1) = (Ns::ZERO, Ns::ZERO);
            slot.interrupt = None;
            if let Some(host) = &slot.host {
                self.registry.cut_off(&host.registry, Ns::ZERO);
            }
            self.schedule(self.now, Event::Start(member));
        }
    }
}
