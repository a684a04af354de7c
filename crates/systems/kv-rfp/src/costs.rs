//! The instructions that this crate's own code charges: one [`Work`] for each charged piece of code.
//!
//! Verbs and memory accesses are charged by the fabric and the memory. The code in between is charged here, so that a
//! simulated core is busy for the time that it takes; on hardware a charge does nothing. The numbers are callgrind's
//! for our release build, without the instructions inside the fabric; `docs/rfp-costs.md` explains how each was counted,
//! and how many nanoseconds it takes on a core of a profile.

use drover_base::Work;
use drover_store::{LIST, STRIPE};

pub(crate) const LOOK: Work = Work::new("rfp.look", 39.0, "look of a shard at one client");
pub(crate) const PLACE: Work = Work::new("rfp.place", 16.0, "request slot looked at");
pub(crate) const LOOK_AGAIN: Work = Work::new("rfp.look_again", 70.0, "second look at a client's results");
pub(crate) const BATCH: Work = Work::new("rfp.batch", 291.0, "batch of requests of one client");
pub(crate) const GET: Work = Work::new("rfp.get", 1223.0, "GET taken, executed and its result published");
pub(crate) const PUT: Work = Work::new(
    "rfp.put",
    1381.0,
    "other request taken, executed and its result published",
);
pub(crate) const SHARED_GET: Work = Work::new(
    "rfp.shared_get",
    1141.0,
    "the same GET, without what the locks of a shared store protect",
);
pub(crate) const SHARED_PUT: Work = Work::new("rfp.shared_put", 1348.0, "the same of other requests");
pub(crate) const PUSH: Work = Work::new("rfp.push", 258.0, "result handed over to be pushed");
pub(crate) const POLL: Work = Work::new("rfp.poll", 130.0, "poll of a client");
pub(crate) const SHARD: Work = Work::new("rfp.shard", 180.0, "look of a client at one shard");
pub(crate) const SUBMIT: Work = Work::new("rfp.submit", 823.0, "operation submitted and its request built");
pub(crate) const SENT: Work = Work::new("rfp.sent", 257.0, "completion of a request taken");
pub(crate) const AGAIN: Work = Work::new("rfp.again", 312.0, "READ that found nothing, or not all");
pub(crate) const FETCHED: Work = Work::new("rfp.fetched", 594.0, "fetched result taken");
pub(crate) const PUSHED: Work = Work::new("rfp.pushed", 439.0, "pushed result taken");

/// All kinds of work that this crate's code charges to the simulated core that runs it.
pub const BUDGET: &[Work] = &[
    LOOK, PLACE, LOOK_AGAIN, BATCH, GET, PUT, SHARED_GET, SHARED_PUT, STRIPE, LIST, PUSH, POLL, SHARD,
    SUBMIT, SENT, AGAIN, FETCHED, PUSHED,
];
