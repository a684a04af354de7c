//! Converts settings to the plan of a service.

use super::settings::{Origin, Settings};
use drover_base::Ns;
use drover_kv::{Capacity, Policy, Sizes, SlotPolicy, System};
use drover_rt::Idle;

/// Reason why [`plan_of`] finds no plan for the settings.
pub enum NoPlan {
    /// The memory (`-m`) does not suit the number of shards, for the given reason.
    Memory(String),
    /// The memory (`-m`) has more bytes than a pointer can address.
    TooMuch,
    /// The item size (`-I`), which was given, is larger than the longest item that fits.
    Item {
        /// Length of the longest item that fits, bytes.
        most: usize,
    },
}

/// The plan of a service with these settings: its sizes and policies. An item size that is a default is not checked; it
/// may exceed the longest item that fits.
///
/// # Errors
/// [`NoPlan`] if the memory is unsuitable, or an item size that was given is too large.
pub fn plan_of<S: System>(settings: &Settings) -> Result<S::Plan, NoPlan> {
    let (capacity, workers) = (&settings.capacity, &settings.workers);
    let bytes = (capacity.memory_mib.value as usize).checked_mul(1 << 20);
    let sizes = Sizes {
        shard_count: capacity.threads.value,
        capacity: Capacity::Memory {
            bytes: bytes.ok_or(NoPlan::TooMuch)?,
        },
        value_bytes_max: capacity.max_item_bytes.value,
        window: workers.window_max.value.into(),
    };
    let mut plan = S::plan(&sizes).map_err(NoPlan::Memory)?;
    let (most, longest) = S::item_bytes_max(&mut plan);
    if *longest > most && capacity.max_item_bytes.origin != Origin::Default {
        return Err(NoPlan::Item { most });
    }
    let policy = Policy {
        evicts: !capacity.disable_evictions.value,
        eviction: capacity.eviction.value,
        clients_max: capacity.conn_limit.value,
        large_pages: settings.memory.large_pages.value,
        idle: idle_of(settings),
        slots: SlotPolicy {
            clients_max: capacity.slot_clients.value,
            bytes_max: workers.slot_bytes_max.value.into(),
        },
        transfer: workers.transfer.value,
    };
    S::set_policy(&mut plan, &policy);
    *S::hash(&mut plan) = settings.service.hash.value;
    Ok(plan)
}

/// What a core does when it has nothing to do.
pub fn idle_of(settings: &Settings) -> Idle {
    match settings.workers.spin_us.value {
        0 => Idle::Spin,
        us => Idle::Adaptive {
            spin: Ns::from_us(us),
        },
    }
}
