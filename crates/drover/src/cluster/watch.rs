//! `drover cluster watch`: what changes, a line each.

use super::members::{self, MemberView};
use super::{Service, ViewArgs};
use crate::exit::{self, Failure};
use drover_cluster::{Map, View};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Changes that are not reported are looked for after this time.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Change {
    /// Epoch of the map after it.
    epoch: u64,
    /// The member; empty: the service as a whole.
    member: String,
    what: String,
}

/// Prints changes until the output is closed or the process is stopped. An etcd that is away is waited for.
pub(super) fn run(args: &ViewArgs) -> Result<(), Failure> {
    let mut service = args.open()?;
    let (view, map) = service.look()?;
    let mut last = seen(&view, &map);
    if !print(&differences(&Seen::default(), &last), args.json) {
        return Ok(());
    }
    loop {
        let view = match service.next_change(LOOK_EVERY) {
            Some(view) => view,
            None => look_again(&mut service)?,
        };
        let Some(map) = view.map.clone() else { continue };
        let next = seen(&view, &map);
        if next.epoch < last.epoch {
            continue;
        }
        if !print(&differences(&last, &next), args.json) {
            return Ok(());
        }
        last = next;
    }
}

/// What etcd knows; waits for an etcd that does not answer.
fn look_again(service: &mut Service) -> Result<View, Failure> {
    let mut is_said = false;
    loop {
        match service.view() {
            Err(failure) if failure.code == exit::UNAVAILABLE => {
                if !std::mem::replace(&mut is_said, true) {
                    eprintln!("drover: {failure}: waiting for etcd");
                }
            }
            answer => return answer,
        }
    }
}

/// What is compared.
#[derive(Default)]
struct Seen {
    epoch: u64,
    holes: usize,
    members: BTreeMap<Arc<str>, MemberView>,
}

fn seen(view: &View, map: &Map) -> Seen {
    let all = members::of(view, map).into_iter();
    Seen {
        epoch: map.epoch().0,
        holes: members::holes(map),
        members: all
            .rev()
            .map(|it| (it.member.advert.name().clone(), it))
            .collect(),
    }
}

fn differences(before: &Seen, after: &Seen) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut say = |member: &str, what: String| {
        let (epoch, member) = (after.epoch, member.to_owned());
        changes.push(Change { epoch, member, what });
    };
    for (name, now) in &after.members {
        match before.members.get(name) {
            None => say(
                name,
                format!("is here, {}, with {} shards", now.state.name(), now.shards),
            ),
            Some(old) => {
                if old.member.incarnation != now.member.incarnation {
                    say(name, "has registered again".to_owned());
                }
                if old.state != now.state {
                    say(name, format!("was {}, is {}", old.state.name(), now.state.name()));
                }
                if old.shards != now.shards {
                    say(name, format!("had {} shards, has {}", old.shards, now.shards));
                }
                if (old.moving_in, old.moving_out) != (now.moving_in, now.moving_out) {
                    say(
                        name,
                        format!("moving: {} to it, {} from it", now.moving_in, now.moving_out),
                    );
                }
            }
        }
    }
    for name in before
        .members
        .keys()
        .filter(|name| !after.members.contains_key(*name))
    {
        say(name, "has left".to_owned());
    }
    if before.holes != after.holes {
        say("", format!("{} shards without an owner", after.holes));
    }
    changes
}

/// Prints lines; returns `false` when the output is closed.
fn print(changes: &[Change], json: bool) -> bool {
    let mut out = std::io::stdout().lock();
    let line = |change: &Change| match json {
        true => serde_json::json!(change).to_string(),
        false if change.member.is_empty() => format!("epoch {}: {}", change.epoch, change.what),
        false => format!("epoch {}: {} {}", change.epoch, change.member, change.what),
    };
    let mut lines = changes.iter().map(line);
    lines
        .try_for_each(|line| writeln!(out, "{line}"))
        .and_then(|()| out.flush())
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::members::State;
    use drover_cluster::{Advert, Member};

    #[test]
    fn each_difference_is_a_line() {
        let view = |name: &str, incarnation, state, shards| {
            let advert =
                Advert::new(name, 1, vec!["member://a:1?cores=1".to_owned()]).expect("a sound advert");
            let member = Member { advert, incarnation };
            MemberView {
                member,
                state,
                shards,
                moving_in: 0,
                moving_out: 0,
                copied: 0,
                kept: 0,
            }
        };
        let seen = |epoch, members: Vec<MemberView>| Seen {
            epoch,
            holes: 0,
            members: members
                .into_iter()
                .map(|it| (it.member.advert.name().clone(), it))
                .collect(),
        };
        let before = seen(
            4,
            vec![view("a", 1, State::Settled, 9), view("b", 2, State::Settled, 1)],
        );
        let after = seen(
            5,
            vec![view("a", 3, State::Joining, 7), view("c", 4, State::Waiting, 0)],
        );
        let lines: Vec<String> = differences(&before, &after)
            .iter()
            .map(|change| format!("{} {}", change.member, change.what))
            .collect();
        assert_eq!(
            lines,
            [
                "a has registered again",
                "a was settled, is joining",
                "a had 9 shards, has 7",
                "c is here, waiting, with 0 shards",
                "b has left",
            ]
        );
        assert!(differences(&after, &after).is_empty());
    }
}
