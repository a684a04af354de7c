//! The instructions that this crate's own code charges: one [`Work`] for each charged piece of code.
//!
//! Verbs are charged by the fabric, a suspension by the pool of tasks. The code in between, the pool's own work for each
//! request included, is charged here, so that a simulated core is busy for the time that it takes; on hardware a charge
//! does nothing. The numbers are callgrind's for our release build, without the instructions inside the fabric;
//! `docs/race-costs.md` explains how each was counted, and how many nanoseconds it takes on a core of a profile.

use drover_base::Work;
use drover_rt::TASK_SWITCH;

pub(crate) const BEGIN: Work = Work::new("race.begin", 603.0, "operation begun and ended");
pub(crate) const LOOK: Work = Work::new("race.look", 2674.0, "READ of both pairs of a key's buckets");
pub(crate) const BLOCK: Work = Work::new("race.block", 1521.0, "READ of an item's block");
pub(crate) const NEW: Work = Work::new("race.new", 2278.0, "item's block allocated, built and written");
pub(crate) const CAS: Work = Work::new("race.cas", 851.0, "CAS of a slot");
pub(crate) const RETRY: Work = Work::new("race.retry", 297.0, "CAS that lost a race");

/// All kinds of work that a client's thread charges to the simulated core that runs it.
pub const BUDGET: &[Work] = &[BEGIN, LOOK, BLOCK, NEW, CAS, RETRY, TASK_SWITCH];
