//! A system gets everything by its crate and one line: a [sample](sample::Sample) that only these tests have, in a table of
//! their own with one row more than ours.

mod conformance;
mod hosted;
mod program;
mod sample;
mod simulated;

use drover_mem::CountingAlloc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

drover_systems::systems! {
    /// Our systems, and the sample.
    pub enum Table {
        /// As in the one table.
        Herd = drover_kv_herd::Herd,
        /// As in the one table.
        Pilaf = drover_kv_pilaf::Pilaf,
        /// As in the one table.
        Farm = drover_kv_farm::Farm,
        /// As in the one table.
        Jakiro = drover_kv_rfp::Jakiro,
        /// As in the one table.
        ServerReply = drover_kv_rfp::ServerReply,
        /// As in the one table.
        ServerReplyFaithful = drover_kv_rfp::ServerReplyFaithful,
        /// As in the one table.
        RdmaMemcached = drover_kv_rfp::RdmaMemcached,
        /// As in the one table.
        Race = drover_kv_race::RaceSystem,
        /// The one line.
        Sample = sample::Sample,
    }
}
