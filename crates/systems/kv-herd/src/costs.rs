//! The instructions that this crate's own code charges: one [`Work`] for each charged piece of code.
//!
//! Verbs and memory accesses are charged by the fabric and the memory. The code in between is charged here, so that a
//! simulated core is busy for the time that it takes; on hardware a charge does nothing. The numbers are callgrind's
//! for our release build, without the instructions inside the fabric; `docs/herd-costs.md` explains how each was
//! counted, and how many nanoseconds it takes on a core of a profile.

use drover_base::Cost;

/// A piece of this crate's code, and the instructions that it is charged with on a simulated core.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The cost that is charged; its name appears in cost tables and reports.
    pub cost: Cost,
    /// Instructions charged per [`unit`](Work::unit).
    pub instructions: f64,
    /// Description of one unit, such as `request taken, our format`.
    pub unit: &'static str,
}

const fn work(cost: Cost, instructions: f64, unit: &'static str) -> Work {
    Work {
        cost,
        instructions,
        unit,
    }
}

/// Worker: a look at a slot that has no news.
pub(crate) const POLL: Cost = Cost::new("herd.poll");
/// Worker: what a step does whatever it finds.
pub(crate) const STEP: Cost = Cost::new("herd.step");
/// Worker: a sweep, without its looks.
pub(crate) const SWEEP: Cost = Cost::new("herd.sweep");
/// Worker: taking a request out of its slot.
pub(crate) const TAKE: Cost = Cost::new("herd.take");
/// Worker: taking a request of the paper's format.
pub(crate) const TAKE_PAPER: Cost = Cost::new("herd.take_paper");
/// Worker: looking through a bucket for a request's items.
pub(crate) const ITEM: Cost = Cost::new("herd.item");
/// Worker: what a batch costs beside its requests.
pub(crate) const BATCH: Cost = Cost::new("herd.batch");
/// Worker: moving the pipeline on.
pub(crate) const ADVANCE: Cost = Cost::new("herd.advance");
/// Worker: beginning to execute what was gathered.
pub(crate) const EXECUTE: Cost = Cost::new("herd.execute");
/// Worker: a GET and its reply.
pub(crate) const GET: Cost = Cost::new("herd.get");
/// Worker: a PUT and its reply.
pub(crate) const PUT: Cost = Cost::new("herd.put");
/// Worker: handing a list of replies to the fabric.
pub(crate) const REPLY: Cost = Cost::new("herd.reply");
/// Client: a GET of a 16-byte key, submitted the short way.
pub(crate) const SUBMIT_GET: Cost = Cost::new("herd.submit_get");
/// Client: any other operation submitted.
pub(crate) const SUBMIT: Cost = Cost::new("herd.submit");
/// Client: a look for replies.
pub(crate) const LOOK: Cost = Cost::new("herd.look");
/// Client: a reply taken.
pub(crate) const ANSWER: Cost = Cost::new("herd.answer");

/// All work that this crate charges for, of worker and client.
pub const BUDGET: &[Work] = &[
    work(POLL, 12.0, "look at a slot without news"),
    work(STEP, 57.0, "step of a worker"),
    work(SWEEP, 62.0, "sweep, without its looks"),
    work(TAKE, 104.0, "request taken, our format"),
    work(TAKE_PAPER, 212.0, "request taken, the paper's format"),
    work(ITEM, 45.0, "request whose bucket is looked through"),
    work(BATCH, 136.0, "batch, beside its requests"),
    work(ADVANCE, 147.0, "step of the pipeline"),
    work(EXECUTE, 79.0, "run of requests executed"),
    work(GET, 157.0, "GET executed and its reply built"),
    work(PUT, 169.0, "PUT executed and its reply built"),
    work(REPLY, 30.0, "list of replies handed over"),
    work(SUBMIT_GET, 179.0, "GET of a 16-byte key submitted, our format"),
    work(SUBMIT, 430.0, "other operation submitted"),
    work(LOOK, 20.0, "look for replies"),
    work(ANSWER, 161.0, "reply taken"),
];
