//! What must hold in every run.
//!
//! 1. The operations on each key are linearizable, for a register that loses its value at the moment the registry accepts a map that gives the
//!    key's shard to another member with neither a hand-over nor a complete copy, and at no other time. So nothing stale is read, planned
//!    changes lose nothing, and nothing acknowledged is lost with an owner whose copies are complete.
//! 2. No map takes a shard from a registered member without a hand-over, or from one that is gone, if a registered member keeps a complete copy,
//!    for any other member.
//! 3. No request is forwarded twice.
//! 4. When trouble has ended, all moves end, copies are complete where members may keep some, and every key is answered for.

use super::Counts;
use super::host::shard_of;
use super::scenario::KEY_COUNT;
use drover_cluster::{Accepted, ShardId};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::{Model, Strict};

/// A rule that a run has broken.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
pub enum Broken {
    NotLinearizable {
        key: u32,
        events: Vec<Event>,
    },
    /// More overlaps than can be searched: not a mistake of the service, but of the check.
    Undecided {
        key: u32,
    },
    TakenFromLiving {
        shard: ShardId,
        accepted: Box<Accepted>,
    },
    NotPromoted {
        shard: ShardId,
        accepted: Box<Accepted>,
    },
    ForwardedTwice {
        hops: u8,
    },
    NotSettled {
        why: String,
    },
}

/// The client that stands for losses in histories.
const LOSSES: u32 = u32::MAX;
/// See [`Strict`].
const CONFIGURATIONS_MAX: usize = 1 << 18;

/// Looks at a map that was accepted, and notes what was lost with it in `history`.
pub fn accepted(accepted: &Accepted, history: &mut History, counts: &mut Counts) -> Result<(), Broken> {
    let (Some(before), Some(map)) = (&accepted.before, &accepted.view.map) else {
        return Ok(());
    };
    for shard in map.shards() {
        if let (Some(old), Some(new)) = (before.copy(shard), map.copy(shard)) {
            counts.completed_copies += u64::from(!old.is_complete && new.is_complete);
            counts.restarted_copies += u64::from(old.keeper == new.keeper && old.tenure != new.tenure);
        }
        let (from, to) = (before.tenure(shard), map.tenure(shard));
        if from.since == to.since && to.owner.is_some() {
            continue;
        }
        if before
            .moving(shard)
            .is_some_and(|moving| moving.tenure == to.since)
        {
            counts.handed_over += 1;
            continue;
        }
        let Some(owner) = before.owner(shard) else {
            continue;
        };
        let copy = before.copy(shard).filter(|copy| copy.is_complete);
        if let Some((copy, keeper)) =
            copy.map(|copy| (copy, &before.members()[usize::from(copy.keeper)].member))
        {
            if map.owner(shard) == Some(keeper) && to.since == copy.tenure {
                counts.promoted += 1;
                // Nothing may be lost.
                continue;
            }
            if accepted.view.members.contains(keeper) {
                let accepted = Box::new(accepted.clone());
                return Err(Broken::NotPromoted { shard, accepted });
            }
        }
        if accepted.view.members.contains(owner) {
            let accepted = Box::new(accepted.clone());
            return Err(Broken::TakenFromLiving { shard, accepted });
        }
        counts.lost += 1;
        for key in (0..KEY_COUNT).filter(|key| shard_of(*key) == shard) {
            let event = Event {
                client: LOSSES,
                call: Call::Delete(None),
                called_at: accepted.at.0,
                returned_at: Some(accepted.at.0),
            };
            history.push(&key.to_le_bytes(), event);
        }
    }
    Ok(())
}

/// Whether the operations on each key are linearizable.
pub fn histories(history: &History) -> Result<(), Broken> {
    let strict = Strict {
        unknown_until: u64::MAX,
        configurations_max: CONFIGURATIONS_MAX,
    };
    for (key, events) in history.keys() {
        let key = u32::from_le_bytes(key.try_into().expect("keys are four bytes"));
        let mut events = events.to_vec();
        events.sort_by_key(|event| event.called_at);
        match strict.is_linearizable(&events, Model::Register) {
            Some(true) => {}
            Some(false) => return Err(Broken::NotLinearizable { key, events }),
            None => return Err(Broken::Undecided { key }),
        }
    }
    Ok(())
}
