//! Which member should own each shard: rendezvous hashing with weights, kept within bounds, and from where shards are now.
//!
//! Every member has a score for every shard, which depends on the two alone, and a shard wants the member with the highest. So a member
//! that comes takes shards from all others alike, and one that goes leaves its shards to all others alike; nothing else moves.
//! Chance alone would give one of three equal members up to 36 % of the shards now and then, so there is a limit somewhat above the
//! fair share (`SLACK`); a shard whose favourite is full has its next favourite. Since limits change with the members, a shard then
//! stays where it is, unless its owner goes or a new member wants it.
//!
//! Source: weighted rendezvous hashing: a score of `-w / ln(u)` for `u` uniform in (0, 1) is the highest with a probability in
//! proportion to `w` `[WeightedRendezvous]`. The bound is *our choice*.

use crate::ShardId;
use drover_base::{crc64, mix};

/// A member owns at most its fair share of shards and one in so many of it more.
const SLACK: f64 = 32.0;

/// A member, as far as placement is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Name of the member.
    pub name: &'a str,
    /// Share of the shards, relative to the other members'. 0: it gives all its shards away.
    pub weight: u32,
    /// Whether it takes shards that want it from other members, until it has its share.
    pub is_new: bool,
}

/// The owner that each shard should have, as an index into `candidates`. `owners` says where they are now. If no candidate has a
/// weight, all stay where they are. Cost: a logarithm per candidate for each shard that has no owner or may go to a new member.
pub fn place(candidates: &[Candidate<'_>], owners: &[Option<usize>]) -> Vec<Option<usize>> {
    let total: f64 = candidates.iter().map(|it| f64::from(it.weight)).sum();
    if total == 0.0 {
        return owners.to_vec();
    }
    let mut placement = Placement::new(candidates, owners, total);
    placement.house_orphans();
    placement.fill_newcomers(|placement, shard, owner, newcomer| {
        let preferences = &placement.preferences;
        preferences.score(newcomer, shard) > preferences.score(owner, shard)
    });
    placement.fill_newcomers(|placement, _, owner, _| placement.counts[owner] > placement.limits[owner]);
    placement.owners
}

/// How much each shard wants each candidate.
pub struct Preferences<'c> {
    candidates: &'c [Candidate<'c>],
    /// Hash of each candidate's name.
    seeds: Vec<u64>,
}

impl<'c> Preferences<'c> {
    /// The preferences among these candidates, which depend on their names and weights alone.
    pub fn new(candidates: &'c [Candidate<'c>]) -> Preferences<'c> {
        let seeds = candidates.iter().map(|it| crc64(it.name.as_bytes())).collect();
        Preferences { candidates, seeds }
    }

    /// How much a shard wants a candidate: 0 for one that gives its shards away.
    fn score(&self, candidate: usize, shard: ShardId) -> f64 {
        let bits = mix(self.seeds[candidate] ^ mix(u64::from(shard.0) + 1));
        // Never 0 or 1, so that the logarithm is finite and not 0.
        let uniform = ((bits >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        -f64::from(self.candidates[candidate].weight) / uniform.ln()
    }

    /// The candidate among `from` that a shard wants most; of equal ones, that with the lesser name. Cost: a logarithm for each.
    pub fn favourite(&self, shard: ShardId, from: impl Iterator<Item = usize>) -> Option<usize> {
        let name = |index: usize| self.candidates[index].name;
        let scored = from.map(|index| (self.score(index, shard), index));
        let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(name(b.1).cmp(name(a.1)));
        scored.max_by(order).map(|(_, index)| index)
    }
}

struct Placement<'c> {
    preferences: Preferences<'c>,
    owners: Vec<Option<usize>>,
    /// Shards of each candidate.
    counts: Vec<usize>,
    /// Most shards of each candidate.
    limits: Vec<usize>,
    newcomers: Vec<usize>,
}

impl<'c> Placement<'c> {
    fn new(candidates: &'c [Candidate<'c>], owners: &[Option<usize>], total: f64) -> Placement<'c> {
        let takes = |owner: &usize| candidates[*owner].weight > 0;
        let owners: Vec<_> = owners.iter().map(|owner| owner.filter(takes)).collect();
        let mut counts = vec![0; candidates.len()];
        for owner in owners.iter().flatten() {
            counts[*owner] += 1;
        }
        let share = |it: &Candidate<'_>| owners.len() as f64 * f64::from(it.weight) / total;
        let limit = |it: &Candidate<'_>| (share(it) + share(it) / SLACK).ceil() as usize;
        let is_new = |index: &usize| candidates[*index].is_new && candidates[*index].weight > 0;
        Placement {
            preferences: Preferences::new(candidates),
            limits: candidates.iter().map(limit).collect(),
            newcomers: (0..candidates.len()).filter(is_new).collect(),
            owners,
            counts,
        }
    }

    /// Gives shards without an owner to their favourites.
    fn house_orphans(&mut self) {
        let candidates = self.preferences.candidates;
        let takes = |index: &usize| candidates[*index].weight > 0;
        let all: Vec<usize> = (0..candidates.len()).filter(takes).collect();
        for (index, shard) in (0..self.owners.len()).zip((0..).map(ShardId)) {
            if self.owners[index].is_some() {
                continue;
            }
            let with_space = all
                .iter()
                .copied()
                .filter(|&it| self.counts[it] < self.limits[it]);
            let chosen = self.preferences.favourite(shard, with_space);
            // There is space somewhere, unless owners from before have more than their limits.
            let chosen = chosen.or_else(|| self.preferences.favourite(shard, all.iter().copied()));
            self.move_to(index, chosen.expect("a candidate has a weight"));
        }
    }

    /// Gives shards to the new members that want them, as far as `is_due` says so of shard, owner and new member.
    fn fill_newcomers(&mut self, is_due: impl Fn(&Placement<'_>, ShardId, usize, usize) -> bool) {
        for (index, shard) in (0..self.owners.len()).zip((0..).map(ShardId)) {
            let with_space = self.newcomers.iter().copied();
            let with_space = with_space.filter(|&it| self.counts[it] < self.limits[it]);
            let (Some(newcomer), Some(owner)) =
                (self.preferences.favourite(shard, with_space), self.owners[index])
            else {
                continue;
            };
            if newcomer != owner && is_due(self, shard, owner, newcomer) {
                self.move_to(index, newcomer);
            }
        }
    }

    fn move_to(&mut self, index: usize, owner: usize) {
        if let Some(before) = self.owners[index].replace(owner) {
            self.counts[before] -= 1;
        }
        self.counts[owner] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHARD_COUNT;
    use proptest::prelude::*;

    /// Candidates of which the last one is new.
    fn candidates(weights: &[(String, u32)]) -> Vec<Candidate<'_>> {
        let last = weights.len() - 1;
        let numbered = weights.iter().enumerate();
        numbered
            .map(|(index, (name, weight))| Candidate {
                name,
                weight: *weight,
                is_new: index == last,
            })
            .collect()
    }

    fn shares(owners: &[Option<usize>], count: usize) -> Vec<f64> {
        let mut shares = vec![0.0; count];
        for owner in owners {
            shares[owner.expect("an owner")] += 1.0 / owners.len() as f64;
        }
        shares
    }

    fn moved(from: &[Option<usize>], to: &[Option<usize>]) -> f64 {
        from.iter().zip(to).filter(|(a, b)| a != b).count() as f64 / from.len() as f64
    }

    /// Three names that differ.
    fn names() -> impl Strategy<Value = [String; 3]> {
        let name = "[a-z0-9.-]{1,20}";
        [name, name, name].prop_filter("names differ", |[a, b, c]| a != b && b != c && a != c)
    }

    static NOBODY: [Option<usize>; SHARD_COUNT] = [None; SHARD_COUNT];

    proptest! {
           #[test]
           fn one_of_three_comes_and_goes_with_its_own_shards_alone(names in names()) {
               let three = names.clone().map(|name| (name, 1));
               let mut two = three.clone();
               two[2].1 = 0;
               let (three, two) = (candidates(&three), candidates(&two));
               let before = place(&two, &NOBODY);
               let joined = place(&three, &before);
               for (before, after) in before.iter().zip(&joined) {
                   prop_assert!(before == after || *after == Some(2));
               }
               prop_assert!(moved(&before, &joined) <= 0.36);
               prop_assert!(moved(&before, &joined) >= 0.30);
               prop_assert_eq!(&place(&three, &joined), &joined, "nothing is left to do");
               let left = place(&two, &joined);
               for (before, after) in joined.iter().zip(&left) {
                   let has_left = *before == Some(2);
    prop_assert_eq!(has_left, before != after);
               }
               prop_assert!(moved(&joined, &left) <= 0.36);
           }

           #[test]
           fn shares_follow_weights(weights in prop::collection::vec(1..100u32, 1..10), salt in any::<u32>()) {
               let named: Vec<_> = (0..).map(|i| format!("{salt}-{i}")).zip(weights.iter().copied()).collect();
               let owners = place(&candidates(&named), &NOBODY);
               let total: u32 = weights.iter().sum();
               for (share, weight) in shares(&owners, weights.len()).iter().zip(&weights) {
                   let fair = f64::from(*weight) / f64::from(total);
                   let most = fair * (1.0 + 1.0 / SLACK) + 1.0 / SHARD_COUNT as f64;
                   prop_assert!(*share <= most, "{share} of {fair}");
                   prop_assert!(*share >= fair * 0.6 - 0.01, "{share} of {fair}");
               }
           }

           #[test]
           fn the_order_of_members_does_not_matter(names in names(), weights in [1..9u32, 1..9, 1..9]) {
               let named: Vec<_> = names.into_iter().zip(weights).collect();
               let reversed: Vec<_> = named.iter().rev().cloned().collect();
               let mirrored = place(&candidates(&reversed), &NOBODY);
               let mirrored: Vec<_> = mirrored.into_iter().map(|owner| owner.map(|it| 2 - it)).collect();
               prop_assert_eq!(place(&candidates(&named), &NOBODY), mirrored);
           }

           #[test]
           fn whatever_happened_before_every_shard_is_placed(
               owners in prop::collection::vec(prop::option::of(0..4usize), 1..300),
               weights in [0..5u32, 0..5, 0..5, 0..5],
           ) {
               let named: Vec<_> = (0..).map(|i| i.to_string()).zip(weights).collect();
               let placed = place(&candidates(&named), &owners);
               if weights == [0; 4] {
                   prop_assert_eq!(placed, owners);
               } else {
                   prop_assert!(placed.iter().all(|owner| owner.is_some_and(|it| weights[it] > 0)));
               }
           }
       }
}
