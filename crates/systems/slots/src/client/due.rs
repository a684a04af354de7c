//! What is due for a request without a reply, and what the server's last word on it means.

use super::{RETRIES_MAX, Rto, Slot, SlotPhase};
use crate::layout::{SlotOp, Status};
use drover_base::Ns;
use drover_kv::{Outcome, Refusal};

/// What the client must do about the request in a slot, as [`Slot::due`] finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Nothing, so far.
    Nothing,
    /// Its request must be sent again.
    Resend,
    /// The wait after the last attempt is over: the client must ask the server what became of the request.
    GiveUp,
    /// The deadline of its operation has passed.
    Expired,
}

impl Slot {
    /// What is due for this slot at `now`. [`Expired`](Due::Expired) if its operation was submitted `deadline` ago or
    /// longer; else, if the request is posted and `rto` says that the wait for its reply is over,
    /// [`Resend`](Due::Resend), or [`GiveUp`](Due::GiveUp) after the last attempt; else [`Nothing`](Due::Nothing), as
    /// always for free slots and slots of abandoned operations. The wait is at least `patience`. If requests cannot be sent again (`can_resend` is
    /// false, because their format has no attempt number), the only attempt is followed by one wait of
    /// [`rto.after(RETRIES_MAX)`](Rto::after).
    pub fn due(&self, now: Ns, deadline: Ns, rto: &Rto, patience: Ns, can_resend: bool) -> Due {
        match self.phase {
            SlotPhase::Free | SlotPhase::Ghost => return Due::Nothing,
            _ if now.since(self.submitted) >= deadline => return Due::Expired,
            SlotPhase::Quarantined => return Due::Nothing,
            SlotPhase::Posted => {}
        }
        let tries = if can_resend { self.tries } else { RETRIES_MAX };
        match now.since(self.sent) >= rto.after(tries).max(patience) {
            false => Due::Nothing,
            true if tries < RETRIES_MAX => Due::Resend,
            true => Due::GiveUp,
        }
    }
}

/// Outcome of an update (`op`) that the server answered with `status`. `Ok` gives `Deleted` for a DELETE, `Touched` for a
/// touch, else `Stored`; `NotFound` gives `NotFound` for a DELETE, a touch, and a PUT with a condition, `Exists` gives
/// `Exists` for updates with a condition; `TooLarge`, `Full` and `BadRequest` give `Refused`. Any other status, or none,
/// gives `Indeterminate`.
pub fn outcome_of_update(op: Option<SlotOp>, status: Option<Status>) -> Outcome<'static> {
    let has_condition = op.is_some_and(SlotOp::has_extension);
    match (op.map(SlotOp::base), status) {
        (Some(SlotOp::Delete), Some(Status::Ok)) => Outcome::Deleted,
        (Some(SlotOp::Touch), Some(Status::Ok)) => Outcome::Touched,
        (_, Some(Status::Ok)) => Outcome::Stored,
        (Some(SlotOp::Delete | SlotOp::Touch), Some(Status::NotFound)) => Outcome::NotFound,
        (_, Some(Status::NotFound)) if has_condition => Outcome::NotFound,
        (_, Some(Status::Exists)) if has_condition => Outcome::Exists,
        (_, Some(Status::TooLarge)) => Outcome::Refused(Refusal::TooLarge),
        (_, Some(Status::Full)) => Outcome::Refused(Refusal::Full),
        (_, Some(Status::BadRequest)) => Outcome::Refused(Refusal::BadRequest),
        (_, _) => Outcome::Indeterminate,
    }
}
