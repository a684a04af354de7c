//! [`Copies`]: how many members have an item.

use crate::common::drover;
use crate::deployed::bed::CLUSTER;

/// Members that have an item, each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    /// Its owner alone: what a lost member had is lost.
    One,
    /// Its owner and a keeper (`--replicas 2`): nothing is lost with one member.
    Two,
}

impl Copies {
    /// Arguments of members.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Copies::One => &[],
            Copies::Two => &["--replicas", "2"],
        }
    }

    /// Whether operators see, too, that every shard has them.
    pub fn are_shown(self) -> bool {
        if self == Copies::One {
            return true;
        }
        let (_, status, _) = drover(&["cluster", "status", "--cluster", CLUSTER, "--json"], "");
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        status["single"] == 0
    }
}
