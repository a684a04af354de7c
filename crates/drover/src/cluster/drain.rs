//! `drover cluster drain` and `undrain`: an operator says which members take shards.

use super::members::{self, MemberView, State};
use super::{Service, ServiceArgs};
use crate::exit::{self, Failure};
use drover_cluster::{Draft, Map, Standing, View};
use std::time::Duration;

/// Arguments of `cluster drain`.
#[derive(clap::Args)]
#[command(after_help = "\
The other members copy the items while the member serves them, so that nothing is lost. It stays a member without shards, and \
may then be stopped; when it comes back it has none, either, until `drover cluster undrain`.")]
pub(super) struct DrainArgs {
    /// Name of the member
    #[arg(value_name = "MEMBER")]
    name: String,
    /// Do not wait until the member has no shards any more
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Arguments of `cluster undrain`.
#[derive(clap::Args)]
pub(super) struct UndrainArgs {
    /// Name of the member
    #[arg(value_name = "MEMBER")]
    name: String,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(super) fn drain(args: &DrainArgs) -> Result<(), Failure> {
    let mut service = args.service.etcd.open(&args.service.url)?;
    let map = service.change(|view, draft| {
        refuse_last(view, draft.map(), &args.name)?;
        set(draft, &args.name, Standing::Draining)
    })?;
    if args.no_wait {
        println!("{} gives its shards away", args.name);
        return Ok(());
    }
    wait_until_empty(&mut service, &args.name, shards_of(&map, &args.name))
}

pub(super) fn undrain(args: &UndrainArgs) -> Result<(), Failure> {
    let mut service = args.service.etcd.open(&args.service.url)?;
    service.change(|_, draft| {
        if draft.undrain_absent(&args.name) {
            return Ok(());
        }
        let members = draft.map().members();
        let is_drained = |name: &str| {
            let mut members = members.iter();
            members.any(|it| &**it.member.advert.name() == name && it.standing == Standing::Draining)
        };
        match is_drained(&args.name) {
            true => set(draft, &args.name, Standing::Joining),
            false => known(draft.map(), &args.name),
        }
    })?;
    println!("{} takes its share of the shards", args.name);
    Ok(())
}

fn set(draft: &mut Draft, name: &str, standing: Standing) -> Result<(), Failure> {
    known(draft.map(), name)?;
    draft.set_standing(name, standing);
    Ok(())
}

/// Refuses a name that no member has.
fn known(map: &Map, name: &str) -> Result<(), Failure> {
    let names: Vec<&str> = map
        .members()
        .iter()
        .map(|it| &**it.member.advert.name())
        .collect();
    match names.contains(&name) {
        true => Ok(()),
        false => {
            let text = format!("{name}: no member has this name; there are {}", names.join(", "));
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// Refuses to drain a member if nobody would take its shards.
fn refuse_last(view: &View, map: &Map, name: &str) -> Result<(), Failure> {
    let takes = |it: &MemberView| {
        matches!(it.state, State::Joining | State::Settled | State::Waiting)
            && &**it.member.advert.name() != name
    };
    match members::of(view, map).iter().any(takes) {
        true => Ok(()),
        false => {
            let text = format!(
                "{name}: it is the last member that takes shards, and its items would have nowhere to go: start another \
                 one, or undrain one; to end the service, stop its members"
            );
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

fn shards_of(map: &Map, name: &str) -> usize {
    let counts = map.counts();
    let mut members = map.members().iter().zip(counts);
    let found = members.find(|(it, _)| &**it.member.advert.name() == name);
    found.map_or(0, |(_, count)| count)
}

/// Prints how many shards the member still has, until it has none.
fn wait_until_empty(service: &mut Service, name: &str, first: usize) -> Result<(), Failure> {
    /// A change that was not reported is looked for after this time.
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let mut shown = usize::MAX;
    loop {
        let (view, map) = service.look()?;
        let left = shards_of(&map, name);
        let is_there = view.members.iter().any(|member| &**member.advert.name() == name);
        if left == 0 {
            println!("{name} has no shards any more, and may be stopped");
            return Ok(());
        }
        if !is_there {
            let text = format!("{name} is gone, with {left} shards that it had not handed over");
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        let drains = |it: &drover_cluster::MapMember| {
            &**it.member.advert.name() == name && it.standing == Standing::Draining
        };
        if !map.members().iter().any(drains) {
            let text =
                format!("{name} is not drained any more: somebody has undrained it; it has {left} shards");
            return Err(Failure::new(exit::UNAVAILABLE, text));
        }
        if left != shown {
            println!(
                "{name}: {left} of {first} shards left, {} moving",
                map.moves().len()
            );
            shown = left;
        }
        service.next_change(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_cluster::{Advert, Member, ShardId};
    use std::sync::Arc;

    #[test]
    fn the_last_member_that_takes_shards_is_not_drained() {
        let member = |name: &str| {
            let advert =
                Advert::new(name, 1, vec!["member://a:1?cores=1".to_owned()]).expect("a sound advert");
            Member {
                advert,
                incarnation: 7,
            }
        };
        let mut draft = Draft::after(&Map::none(2));
        draft.add(member("a"), Standing::Settled);
        draft.add(member("b"), Standing::Draining);
        draft.assign(ShardId(0), 0);
        let map = draft.finish().expect("a change");
        let view = |names: &[&str]| View {
            revision: 1,
            members: Arc::new(names.iter().map(|name| member(name)).collect()),
            map: None,
        };
        let refused = refuse_last(&view(&["a", "b"]), &map, "a").expect_err("b is drained");
        assert!(refused.text.contains("the last member"), "{}", refused.text);
        assert!(refuse_last(&view(&["a", "b"]), &map, "b").is_ok());
        assert!(refuse_last(&view(&["b"]), &map, "b").is_err(), "a is gone");
        assert!(refuse_last(&view(&["a", "b", "c"]), &map, "a").is_ok(), "c waits");
        let unknown = known(&map, "x").expect_err("nobody");
        assert_eq!(unknown.text, "x: no member has this name; there are a, b");
        assert_eq!((shards_of(&map, "a"), shards_of(&map, "b")), (1, 0));
    }
}
