//! [`SimDevice`]: a machine's card, opened by a process.

use crate::model::objects::Ctx;
use crate::world;
use crate::{Sim, SimContext, SimDomain};
use drover_base::Ns;
use drover_sim::{CostTable, CpuOptions, LinePrices, Ps, VirtualCpu};
use drover_verbs::{Caps, Device, DomainOptions, Doorbells, OpenError};
use std::rc::Rc;
use std::sync::Arc;

/// The card of one machine, opened by one process: clones belong to the same process, so they share its doorbell
/// registers. It may move to other threads, but contexts can be created only on the world's thread.
#[derive(Clone, Debug)]
pub struct SimDevice {
    pub(crate) world: u64,
    pub(crate) machine: u16,
    pub(crate) registers: u32,
    pub(crate) caps: Arc<Caps>,
}

impl SimDevice {
    /// Index, from 0, of the machine whose card this is.
    pub fn machine(&self) -> u16 {
        self.machine
    }

    /// Creates a context on `cpu`, a core that an earlier context of this machine was created with.
    /// [`context`](Device::context) adds a new core instead.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if the world lives on another thread or has ended.
    ///
    /// # Panics
    /// If `cpu` belongs to another machine.
    pub fn context_on(&self, cpu: &VirtualCpu) -> Result<SimContext, OpenError> {
        self.context_in(None, cpu)
    }

    /// Creates a context of `domain`, or in one of its own, on `cpu`.
    pub(crate) fn context_in(&self, domain: Option<u32>, cpu: &VirtualCpu) -> Result<SimContext, OpenError> {
        let sim = world::find(self.world)?;
        assert_eq!(cpu.machine(), self.machine, "a core of the card's machine");
        let (id, domain) = sim.with(|net, _| {
            let domain = domain.unwrap_or_else(|| net.new_domain());
            let p = &net.prices.p.machine;
            let index = u64::from(cpu.report().index);
            let far_socket = p.sockets > 1 && index % p.cores >= p.cores / p.sockets;
            let id = net.ctxs.add(Ctx {
                machine: self.machine,
                cpu: cpu.clone(),
                far_socket,
                registers: self.registers,
                rung: false,
                lines_ahead: 0,
                posted_at: Ps::ZERO,
            });
            (id, domain)
        });
        Ok(SimContext::new(sim, (id, domain), cpu.clone(), self))
    }

    /// Adds a core of the profile's kind. Cores are assigned socket by socket, then as siblings of the first ones,
    /// which slows both siblings down from then on.
    pub(crate) fn add_core(&self, sim: &world::SimNet) -> VirtualCpu {
        let (options, siblings) = sim.with(|net, _| {
            let machine = &net.prices.p.machine;
            let siblings = (machine.cores, machine.sibling_factor);
            (core_options(net, self.machine), siblings)
        });
        let cpu = sim.add_core(self.machine, options);
        let index = u64::from(cpu.report().index);
        if let Some(sibling) = index.checked_sub(siblings.0) {
            let same = |other: &&VirtualCpu| {
                other.machine() == self.machine && u64::from(other.report().index) == sibling
            };
            let cores = sim.cores();
            for both in cores.iter().filter(same).chain([&cpu]) {
                both.set_slowdown(siblings.1);
            }
        }
        cpu
    }
}

fn core_options(net: &crate::model::Net, machine: u16) -> CpuOptions {
    let (p, options) = (&net.prices.p, &net.options);
    let mut costs = CostTable::new();
    let verbs = [
        ("verbs.post", p.cpu.post_ns),
        ("verbs.post_line", p.cpu.line_ns),
        ("verbs.post_list", p.cpu.list_ns),
        ("verbs.post_recv", p.cpu.recv_ns),
        ("verbs.post_recv_list", p.cpu.recv_list_ns),
        ("verbs.poll", p.cpu.poll_ns),
        ("verbs.poll_empty", p.cpu.poll_empty_ns),
    ];
    for (name, ns) in verbs {
        costs.set(name, ns);
    }
    for (name, ns) in &options.costs {
        costs.set(name, *ns);
    }
    let mut lines = LinePrices {
        hit: Ps::from_ns(1.0),
        miss: Ps::from_ns(p.memory.dram_ns),
        next: Ps::from_ns(64.0 * p.memory.copy_ns_per_byte),
        last_level: Ps::from_ns(p.memory.llc_ns),
        prefetch: Ps::from_ns(p.memory.prefetch_ns),
        in_flight_max: p.memory.prefetch_slots as usize,
    };
    if options.ablations.cpu {
        costs.scale(0.0);
        lines = LinePrices {
            hit: Ps::ZERO,
            miss: Ps::ZERO,
            next: Ps::ZERO,
            last_level: Ps::ZERO,
            prefetch: Ps::ZERO,
            ..lines
        };
    }
    CpuOptions {
        costs: Rc::new(costs),
        lines,
        last_level: net.nics[usize::from(machine)].last_level.clone(),
        address_space: net.fabric.address_space.clone(),
        locks: net.fabric.locks.clone(),
        detect: Ps::from_ns(p.cpu.detect_ns),
        phase: options.phase,
        slowdown: 1.0,
        step_cap: Ps::from(options.step_cap),
        noise: options.noise,
    }
}

impl Device<Sim> for SimDevice {
    /// Creates a context on a new core of the machine.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if the world lives on another thread or has ended.
    fn context(&self) -> Result<SimContext, OpenError> {
        let sim = world::find(self.world)?;
        let cpu = self.add_core(&sim);
        self.context_on(&cpu)
    }

    /// Creates a domain with doorbell registers of its own. Contexts created without a domain share those of the
    /// process.
    ///
    /// # Errors
    /// As [`context`](Device::context).
    fn domain(&self, options: &DomainOptions) -> Result<SimDomain, OpenError> {
        SimDomain::open(self, options)
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }
}

/// Opens the device of a process.
impl SimDevice {
    pub(crate) fn open(sim: &world::SimNet, world: u64, machine: u16, doorbells: Doorbells) -> SimDevice {
        let (registers, caps) = sim.with(|net, _| {
            assert!(
                usize::from(machine) < net.nics.len(),
                "machine {machine} of {}",
                net.nics.len()
            );
            let registers = net.new_registers(&DomainOptions::with(doorbells));
            (registers, net.fabric.caps.clone())
        });
        SimDevice {
            world,
            machine,
            registers,
            caps,
        }
    }
}

/// No deadline.
pub(crate) const NEVER: Ns = Ns::MAX;
