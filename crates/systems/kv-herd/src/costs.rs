//! The instructions that this crate's own code charges: one [`Work`] for each charged piece of code.
//!
//! Verbs and memory accesses are charged by the fabric and the memory. The code in between is charged here, so that a
//! simulated core is busy for the time that it takes; on hardware a charge does nothing. The numbers are callgrind's
//! for our release build, without the instructions inside the fabric; `docs/herd-costs.md` explains how each was
//! counted, and how many nanoseconds it takes on a core of a profile.

use drover_base::Work;

pub(crate) const POLL: Work = Work::new("herd.poll", 10.0, "look at a slot without news");
pub(crate) const STEP: Work = Work::new("herd.step", 51.0, "step of a worker");
pub(crate) const SWEEP: Work = Work::new("herd.sweep", 60.0, "sweep, without its looks");
pub(crate) const TAKE: Work = Work::new("herd.take", 72.0, "request taken, our format");
pub(crate) const TAKE_PAPER: Work = Work::new("herd.take_paper", 120.0, "request taken, the paper's format");
pub(crate) const ITEM: Work = Work::new("herd.item", 48.0, "request whose bucket is looked through");
pub(crate) const BATCH: Work = Work::new("herd.batch", 171.0, "batch, beside its requests");
pub(crate) const ADVANCE: Work = Work::new("herd.advance", 76.0, "step of the pipeline");
pub(crate) const EXECUTE: Work = Work::new("herd.execute", 88.0, "run of a batch's requests executed");
pub(crate) const GET: Work = Work::new("herd.get", 139.0, "GET executed and its reply built");
pub(crate) const GET_HASHED: Work = Work::new(
    "herd.get_hashed",
    112.0,
    "GET of the paper's format executed and its reply built",
);
pub(crate) const PUT: Work = Work::new("herd.put", 182.0, "PUT executed and its reply built");
pub(crate) const REPLY: Work = Work::new("herd.reply", 20.0, "list of replies handed over");
pub(crate) const SUBMIT_GET: Work = Work::new(
    "herd.submit_get",
    143.0,
    "GET or PUT of a 16-byte key submitted, our format",
);
pub(crate) const SUBMIT_PAPER: Work = Work::new(
    "herd.submit_paper",
    189.0,
    "GET of a 16-byte key submitted, the paper's format",
);
pub(crate) const SUBMIT: Work = Work::new("herd.submit", 372.0, "other operation submitted");
pub(crate) const LOOK: Work = Work::new("herd.look", 20.0, "look for replies");
pub(crate) const ANSWER: Work = Work::new("herd.answer", 92.0, "reply taken");

/// All kinds of work that this crate's code charges to the simulated core that runs it.
pub const BUDGET: &[Work] = &[
    POLL,
    STEP,
    SWEEP,
    TAKE,
    TAKE_PAPER,
    ITEM,
    BATCH,
    ADVANCE,
    EXECUTE,
    GET,
    GET_HASHED,
    PUT,
    REPLY,
    SUBMIT_GET,
    SUBMIT_PAPER,
    SUBMIT,
    LOOK,
    ANSWER,
];
