//! [`Members`]: the clients of single members, each made when it is first needed.

use super::addresses::{dial, usable};
use crate::Options;
use crate::core::{Core, Rest};
use crate::fabric::{Fabric, Job};
use drover_base::{Cpu, Ns};
use drover_cluster::{Map, Member, MemberId, ShardId};
use drover_control::ControlAddr;
use drover_kv::{
    Completion, ConnectError, Op, ServiceClient, SizeLimits, SubmitError, System, SystemJob, Token,
};
use drover_mem::NativeCpu;
use drover_systems::System as Named;
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// Time without a session after which the next address of a member is tried, if it has several.
const PATIENCE: Ns = Ns::from_ms(1_500);

/// A client of one member, for any provider.
pub(super) trait MemberClient {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;
    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize;
    fn next_timer(&self) -> Ns;
    fn is_ready(&mut self) -> bool;
    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits>;
    /// Ends all its operations.
    fn close(&mut self, sink: &mut dyn FnMut(Completion<'_>));
}

struct ClientOn<P: Provider, C> {
    /// Declared before the context: its queue pairs must be destroyed first.
    client: C,
    ctx: Rc<P::Context>,
}

impl<P: Provider, C: ServiceClient<P>> MemberClient for ClientOn<P, C> {
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.client.submit(self.ctx.cpu(), op, token)
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        self.client
            .poll(self.ctx.cpu(), &mut |completion: Completion<'_>| sink(completion))
    }

    fn next_timer(&self) -> Ns {
        self.client.next_timer()
    }

    fn is_ready(&mut self) -> bool {
        self.client.is_ready()
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.client.size_limits(op)
    }

    fn close(&mut self, sink: &mut dyn FnMut(Completion<'_>)) {
        self.client.close(sink);
    }
}

/// A fabric with a context, which the clients of all members that are reached over it share.
trait Open {
    fn client(&self, addr: ControlAddr, options: &Options) -> Box<dyn MemberClient>;
    fn rest(&self) -> Box<dyn Rest>;
    fn refresh(&self);
}

struct OpenOn<P: Provider>(Rc<P::Context>);

impl<P: Provider<Cpu = NativeCpu>> Open for OpenOn<P> {
    fn client(&self, addr: ControlAddr, options: &Options) -> Box<dyn MemberClient> {
        let ctx = self.0.clone();
        system().run(MakeClient::<P> { ctx, addr, options })
    }

    fn rest(&self) -> Box<dyn Rest> {
        Box::new(Core::<P>::new(self.0.clone()))
    }

    fn refresh(&self) {
        self.0.cpu().refresh();
    }
}

/// The system of the service. Members do not say it: there is one whose services span members.
fn system() -> Named {
    let mut spanning = Named::ALL.iter().filter(|system| system.facts().cluster.is_ok());
    *spanning.next().expect("a system whose services span members")
}

struct MakeClient<'a, P: Provider> {
    ctx: Rc<P::Context>,
    addr: ControlAddr,
    options: &'a Options,
}

impl<P: Provider> SystemJob for MakeClient<'_, P> {
    type Answer = Box<dyn MemberClient>;

    fn run<S: System>(self) -> Box<dyn MemberClient> {
        let connection = self.options.of_connection();
        let client = S::Client::<P>::open(self.ctx.clone(), vec![dial(self.addr)], &connection);
        let ctx = self.ctx;
        Box::new(ClientOn::<P, S::Client<P>> { client, ctx })
    }
}

struct OpenFabric;

impl Job for OpenFabric {
    type Answer = Result<Box<dyn Open>, ConnectError>;

    fn run<P: Provider<Cpu = NativeCpu>>(self, device: &P::Device) -> Self::Answer {
        Ok(Box::new(OpenOn::<P>(Rc::new(device.context()?))))
    }
}

/// Why a client may have to be given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its member is not in the map any more. It answers what it is asked as long as it has a session.
    GoneWithSession,
    /// Its member is not in the map any more, and there is no session.
    Gone,
    /// There was no session for long, and its member has other addresses.
    Silent,
    /// There is no session now.
    WithoutSession,
}

/// A member that was asked for something.
struct Known {
    id: MemberId,
    client: Box<dyn MemberClient>,
    addresses: Vec<ControlAddr>,
    /// Which of the addresses the client dials.
    address: usize,
    /// Fabric of that address.
    fabric: usize,
    dialled_at: Ns,
    was_ready: bool,
}

/// The members, in places that they keep as long as they are known.
pub(super) struct Members {
    options: Options,
    /// With the name of each; the first is the one on which the client's thread sleeps.
    fabrics: Vec<(String, Box<dyn Open>)>,
    known: Vec<Option<Known>>,
    /// Places of the map's members, by their index there, as far as they are known.
    places: Vec<Option<usize>>,
    /// Place of each shard's owner, as far as it was asked for: far less memory than the map.
    owners: Vec<u16>,
}

/// The place of a shard's owner was not asked for since the map changed.
const NOT_ASKED: u16 = u16::MAX;

impl Members {
    /// Opens a fabric over which a member of `map` can be reached, if there is one.
    ///
    /// # Errors
    /// No member has an address that this machine can use.
    pub(super) fn new(map: &Map, options: &Options) -> Result<Members, ConnectError> {
        let mut members = Members {
            options: options.clone(),
            fabrics: Vec::new(),
            known: Vec::new(),
            places: Vec::new(),
            owners: vec![NOT_ASKED; map.shard_count()],
        };
        let mut why = "the service has no members now".to_string();
        for listed in map.members() {
            let addresses = usable(&listed.member);
            if addresses.is_empty() {
                let (name, all) = (listed.member.advert.name(), listed.member.advert.addresses());
                why = format!(
                    "no address of member {name} is one for native clients on this machine: {}",
                    all.join(", ")
                );
            }
            for addr in addresses {
                match members.fabric_towards(&addr) {
                    Ok(_) => return Ok(members),
                    Err(error) => why = error.to_string(),
                }
            }
        }
        Err(ConnectError::Service(why.into()))
    }

    /// Forgets who is where in the map, because there is a newer one.
    pub(super) fn learn(&mut self, map: &Map) {
        let place_of = |id: &MemberId| {
            let mut known = self.known.iter();
            known.position(|known| known.as_ref().is_some_and(|known| known.id == *id))
        };
        let places = map.members().iter().map(|listed| place_of(&listed.member.id()));
        self.places = places.collect();
        self.owners.clear();
        self.owners.resize(map.shard_count(), NOT_ASKED);
    }

    /// Place of the owner of `shard`. `None`: nobody owns it, or the owner cannot be reached from here.
    #[inline]
    pub(super) fn owner(&mut self, map: &Map, shard: ShardId, now: Ns) -> Option<usize> {
        match self.owners[shard.index()] {
            NOT_ASKED => self.find_owner(map, shard, now),
            place => Some(usize::from(place)),
        }
    }

    #[cold]
    fn find_owner(&mut self, map: &Map, shard: ShardId, now: Ns) -> Option<usize> {
        let owner = usize::from(map.tenure(shard).owner?);
        let place = match self.places.get(owner).copied().flatten() {
            Some(place) => place,
            None => self.meet(&map.members().get(owner)?.member, owner, now)?,
        };
        self.owners[shard.index()] = place as u16;
        Some(place)
    }

    /// Makes the client of a member.
    #[cold]
    fn meet(&mut self, member: &Member, owner: usize, now: Ns) -> Option<usize> {
        let addresses = usable(member);
        let (address, fabric) = (0..addresses.len()).find_map(|address| {
            let fabric = self.fabric_towards(&addresses[address]);
            let fabric = fabric.inspect_err(
                |error| tracing::debug!(%error, member = %member.id(), "an address is of no use here"),
            );
            Some((address, fabric.ok()?))
        })?;
        let client = self.client(&addresses[address], fabric);
        let known = Some(Known {
            id: member.id(),
            client,
            addresses,
            address,
            fabric,
            dialled_at: now,
            was_ready: false,
        });
        let place = self.known.iter().position(Option::is_none);
        let place = place.unwrap_or(self.known.len());
        match place == self.known.len() {
            true => self.known.push(known),
            false => self.known[place] = known,
        }
        self.places.resize(self.places.len().max(owner + 1), None);
        self.places[owner] = Some(place);
        Some(place)
    }

    fn client(&self, addr: &ControlAddr, fabric: usize) -> Box<dyn MemberClient> {
        let options = &self.options;
        let mut addr = addr.clone();
        if let Some(credentials) = &options.credentials {
            addr = addr.with_credentials(Some(credentials.clone()));
        }
        if let Some(tls) = &options.tls {
            addr = addr.with_tls(Some(tls.clone()));
        }
        self.fabrics[fabric].1.client(addr, options)
    }

    /// Index of the fabric of `addr`, which is opened if it is not yet.
    fn fabric_towards(&mut self, addr: &ControlAddr) -> Result<usize, ConnectError> {
        let fabric = Fabric::towards(addr).map_err(|error| ConnectError::Service(error.into()))?;
        let name = fabric.choice().unwrap_or_default();
        if let Some(index) = self.fabrics.iter().position(|(other, _)| *other == name) {
            return Ok(index);
        }
        self.fabrics.push((name, fabric.run(OpenFabric)?));
        Ok(self.fabrics.len() - 1)
    }

    /// The context on which the client's thread sleeps.
    pub(super) fn rest(&self) -> Box<dyn Rest> {
        self.fabrics[0].1.rest()
    }

    /// Reads the clocks of all contexts.
    pub(super) fn refresh(&self) {
        for (_, fabric) in &self.fabrics {
            fabric.refresh();
        }
    }

    /// Whether the context on which the thread sleeps is not the only one in use, so that it does not notice everything.
    pub(super) fn are_on_several_fabrics(&self) -> bool {
        self.known.iter().flatten().any(|known| known.fabric != 0)
    }

    /// The clients of the members that have been asked.
    pub(super) fn clients(&mut self) -> impl Iterator<Item = &mut Box<dyn MemberClient>> {
        self.known.iter_mut().flatten().map(|known| &mut known.client)
    }

    /// Time of the next poll that a client needs.
    pub(super) fn next_timer(&self) -> Ns {
        let timers = self.known.iter().flatten().map(|known| known.client.next_timer());
        timers.min().unwrap_or(Ns::MAX)
    }

    /// The client of the member in this place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Box<dyn MemberClient>> {
        Some(&mut self.known.get_mut(place)?.as_mut()?.client)
    }

    /// The members whose client may have to be given up.
    pub(super) fn fates(&mut self, map: &Map, now: Ns) -> Vec<(usize, Fate)> {
        let fate = |(place, known): (usize, &mut Option<Known>)| {
            let known = known.as_mut()?;
            let is_ready = known.client.is_ready();
            known.was_ready |= is_ready;
            let has_others = known.addresses.len() > 1;
            let fate = match (map.index_of(&known.id), is_ready) {
                (None, true) => Fate::GoneWithSession,
                (None, false) => Fate::Gone,
                (Some(_), true) => return None,
                (Some(_), false) if known.was_ready || !has_others => Fate::WithoutSession,
                (Some(_), false) if now.since(known.dialled_at) < PATIENCE => Fate::WithoutSession,
                (Some(_), false) => Fate::Silent,
            };
            Some((place, fate))
        };
        self.known.iter_mut().enumerate().filter_map(fate).collect()
    }

    /// Whether the member in this place owns the shard.
    pub(super) fn owns(&self, place: usize, map: &Map, shard: ShardId) -> bool {
        let owner = map.tenure(shard).owner.map(usize::from);
        owner.is_some_and(|owner| self.places.get(owner) == Some(&Some(place)))
    }

    /// Closes the client of the member in this place; `sink` gets its operations.
    pub(super) fn give_up(
        &mut self,
        place: usize,
        fate: Fate,
        now: Ns,
        sink: &mut dyn FnMut(Completion<'_>),
    ) {
        let Some(mut known) = self.known[place].take() else {
            return;
        };
        known.client.close(sink);
        let address = match fate {
            Fate::GoneWithSession | Fate::Gone => return,
            Fate::WithoutSession => known.address,
            Fate::Silent => (known.address + 1) % known.addresses.len(),
        };
        if let Ok(fabric) = self.fabric_towards(&known.addresses[address]) {
            known.client = self.client(&known.addresses[address], fabric);
            if known.address != address {
                known.dialled_at = now;
            }
            (known.address, known.fabric) = (address, fabric);
            self.known[place] = Some(known);
        }
    }
}
