//! The instructions that this crate's own code charges: one [`Work`] for each charged piece of code.
//!
//! Verbs and memory accesses are charged by the fabric and the memory. The code in between is charged here, so that a
//! simulated core is busy for the time that it takes; on hardware a charge does nothing. The numbers are callgrind's
//! for our release build, without the instructions inside the fabric; `docs/rfp-costs.md` explains how each was counted,
//! and how many nanoseconds it takes on a core of a profile.

use drover_base::Work;

pub(crate) const LOOK: Work = Work::new("rfp.look", 238.0, "look of a shard at one client");
pub(crate) const PLACE: Work = Work::new("rfp.place", 22.0, "request slot looked at");
pub(crate) const BATCH: Work = Work::new("rfp.batch", 24.0, "batch of requests of one client");
pub(crate) const GET: Work = Work::new("rfp.get", 1274.0, "GET taken, executed and its result published");
pub(crate) const PUT: Work = Work::new(
    "rfp.put",
    1397.0,
    "other request taken, executed and its result published",
);
pub(crate) const PUSH: Work = Work::new("rfp.push", 202.0, "result handed over to be pushed");
pub(crate) const POLL: Work = Work::new("rfp.poll", 122.0, "poll of a client");
pub(crate) const SHARD: Work = Work::new("rfp.shard", 161.0, "look of a client at one shard");
pub(crate) const SUBMIT: Work = Work::new("rfp.submit", 826.0, "operation submitted and its request built");
pub(crate) const SENT: Work = Work::new("rfp.sent", 231.0, "completion of a request taken");
pub(crate) const AGAIN: Work = Work::new("rfp.again", 286.0, "READ that found nothing, or not all");
pub(crate) const FETCHED: Work = Work::new("rfp.fetched", 580.0, "fetched result taken");
pub(crate) const PUSHED: Work = Work::new("rfp.pushed", 452.0, "pushed result taken");

/// All kinds of work that this crate's code charges to the simulated core that runs it.
pub const BUDGET: &[Work] = &[
    LOOK, PLACE, BATCH, GET, PUT, PUSH, POLL, SHARD, SUBMIT, SENT, AGAIN, FETCHED, PUSHED,
];
