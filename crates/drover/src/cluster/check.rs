//! `drover cluster check`: what is wrong with a service and does not end by itself.

use super::addresses::{MEMBER, host_port};
use super::members::{self, State};
use super::{Service, ViewArgs, load};
use crate::exit::Failure;
use drover_cluster::{Advert, Map, Standing, View};
use drover_control::Credentials;
use std::collections::BTreeSet;
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `cluster check`.
#[derive(clap::Args)]
#[command(after_help = "\
Services that change have shards without an owner and members that are behind, for a moment; so what is found is looked for again \
after --settle seconds, and only what is still there is reported. Exit status: 0 all is well, 1 something is not, 69 etcd does \
not answer.")]
pub(super) struct CheckArgs {
    /// Seconds after which what was found is looked for again
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    settle: u64,
    #[command(flatten)]
    view: ViewArgs,
}

/// Longest wait for a member's port.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let credentials = args.view.credentials()?;
    let mut service = args.view.open()?;
    let mut problems = look(&mut service, credentials.as_deref())?;
    if !problems.is_empty() {
        std::thread::park_timeout(Duration::from_secs(args.settle));
        let again = look(&mut service, credentials.as_deref())?;
        problems = problems.intersection(&again).cloned().collect();
    }
    match args.view.json {
        true => {
            let json = serde_json::json!({ "problems": problems, "good": problems.is_empty() });
            println!("{json}");
        }
        false if problems.is_empty() => println!("{}: all is well", service.url()),
        false => problems.iter().for_each(|problem| println!("{problem}")),
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

/// What is wrong now, each in a line that stays the same as long as it is wrong.
fn look(service: &mut Service, credentials: Option<&Credentials>) -> Result<BTreeSet<String>, Failure> {
    let (view, map) = service.look()?;
    let mut problems: BTreeSet<String> = of_map(&view, &map).into_iter().collect();
    if service.replicas()? > 1 {
        problems.extend(without_copies(&map));
    }
    let adverts: Vec<&Advert> = view.members.iter().map(|member| &member.advert).collect();
    problems.extend(adverts.iter().filter_map(|advert| unreachable(advert)));
    let loads = load::of_all(&adverts, credentials);
    for (advert, load) in adverts.iter().zip(loads) {
        let epoch = load.and_then(|load| load.epoch);
        // Members go on while they are asked; what they knew of the map that was looked at first is what counts.
        if epoch.is_some_and(|epoch| epoch < map.epoch().0) {
            problems.insert(format!("member {} does not follow the map", advert.name()));
        }
    }
    Ok(problems)
}

/// What is wrong with the map.
fn of_map(view: &View, map: &Map) -> Vec<String> {
    let mut problems = Vec::new();
    if map.shards().any(|shard| map.tenure(shard).owner.is_none()) {
        problems.push("there are shards without an owner: gets of their keys fail".to_owned());
    }
    for it in members::of(view, map) {
        let name = it.member.advert.name();
        match it.state {
            State::Gone => problems.push(format!(
                "member {name} is gone, and nobody has taken its shards over: no member plans"
            )),
            State::Waiting => problems.push(format!("member {name} is registered, and no map has it")),
            State::Joining | State::Settled | State::Draining => {}
        }
    }
    let moves = map.moves().iter().map(|moving| {
        let to = map.members()[usize::from(moving.to)].member.advert.name();
        format!(
            "shard {} moves to {to} since epoch {}, and does not arrive",
            moving.shard, moving.tenure
        )
    });
    problems.extend(moves);
    problems
}

/// A sentence, if shards have only one copy and members are there that could keep another.
fn without_copies(map: &Map) -> Option<String> {
    let takes = map
        .members()
        .iter()
        .filter(|it| it.standing != Standing::Draining);
    (members::singles(map) > 0).then(|| match takes.count() {
        0 | 1 => "shards have only one copy: fewer than two members take shards".to_owned(),
        _ => "shards have only one copy, and no other that is filled".to_owned(),
    })
}

/// A sentence, if this machine does not reach the links of the member.
pub fn unreachable(advert: &Advert) -> Option<String> {
    let name = advert.name();
    let Some(place) = host_port(advert, MEMBER) else {
        return Some(format!("member {name} advertises no address for other members"));
    };
    let found = place.to_socket_addrs().ok().and_then(|mut found| found.next());
    let Some(addr) = found else {
        return Some(format!(
            "member {name} advertises {place}, which is no host that this one knows"
        ));
    };
    let connected = TcpStream::connect_timeout(&addr, PATIENCE);
    connected
        .err()
        .map(|error| format!("member {name} cannot be reached at {place}: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_cluster::{Draft, Member, ShardId};
    use std::sync::Arc;

    #[test]
    fn holes_and_members_that_only_one_side_knows_are_problems() {
        let member = |name: &str| {
            let advert = Advert::new(name, 1, vec!["unix:/x".to_owned()]).expect("a sound advert");
            Member {
                advert,
                incarnation: 7,
            }
        };
        let mut draft = Draft::after(&Map::none(2));
        draft.add(member("a"), Standing::Settled);
        draft.add(member("b"), Standing::Settled);
        draft.assign(ShardId(0), 0);
        draft.assign(ShardId(1), 1);
        let map = draft.finish().expect("a change");
        let mut view = View {
            revision: 1,
            members: Arc::new(vec![member("a"), member("b")]),
            map: None,
        };
        assert_eq!(of_map(&view, &map), [""; 0]);
        let why = without_copies(&map).expect("there is no copy");
        assert_eq!(why, "shards have only one copy, and no other that is filled");
        let mut draft = Draft::after(&map);
        draft.begin_move(ShardId(1), 0);
        assert_eq!(
            of_map(&view, &draft.finish().expect("a change")),
            ["shard 1 moves to a since epoch 2, and does not arrive"]
        );
        view.members = Arc::new(vec![member("a"), member("c")]);
        let mut draft = Draft::after(&map);
        draft.remove(|member| &**member.advert.name() == "b");
        let holes = of_map(&view, &draft.finish().expect("a change"));
        assert!(
            holes[0].contains("without an owner") && holes[1].contains("member c"),
            "{holes:?}"
        );
        let gone = of_map(&view, &map);
        assert!(
            gone.iter().any(|problem| problem.starts_with("member b is gone")),
            "{gone:?}"
        );
        let why = unreachable(&member("a").advert).expect("no address for members");
        assert_eq!(why, "member a advertises no address for other members");
    }
}
