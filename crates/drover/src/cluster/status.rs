//! `drover cluster status`: the members, how many shards each one owns, and their load.

use super::load::{self, Load};
use super::members::{self, MemberView, State};
use super::{Service, ViewArgs, columns};
use crate::exit::Failure;
use drover_cluster::Advert;
use drover_control::Credentials;
use serde::Serialize;

/// A service, as it is shown.
#[derive(Serialize)]
struct ServiceStatus<'a> {
    service: &'a str,
    epoch: u64,
    shards: usize,
    /// Shards that nobody owns.
    holes: usize,
    /// Shards that are being handed over.
    moving: usize,
    /// Members that are to have each item.
    replicas: u8,
    /// Shards that only one member has, or is sure to have all of.
    single: usize,
    members: Vec<MemberStatus<'a>>,
}

/// A member, as it is shown.
#[derive(Serialize)]
struct MemberStatus<'a> {
    name: &'a str,
    incarnation: u64,
    state: State,
    weight: u32,
    shards: usize,
    moving_in: usize,
    moving_out: usize,
    /// Shards of its own that another member has all of, too.
    copied: usize,
    /// Shards of others that it keeps a copy of.
    kept: usize,
    /// Maps that it is behind.
    lag: Option<u64>,
    addresses: &'a [String],
    load: Option<Load>,
}

pub(super) fn run(args: &ViewArgs) -> Result<(), Failure> {
    let credentials = args.credentials()?;
    show(&mut args.open()?, credentials.as_deref(), |status| {
        match args.json {
            true => format!("{}\n", serde_json::json!(status)),
            false => text(status),
        }
    })
    .map(|text| print!("{text}"))
}

/// The table of all members.
///
/// # Errors
/// etcd does not answer, or knows no such service.
pub fn table(service: &mut Service, credentials: Option<&Credentials>) -> Result<String, Failure> {
    show(service, credentials, text)
}

fn show(
    service: &mut Service,
    credentials: Option<&Credentials>,
    show: impl FnOnce(&ServiceStatus<'_>) -> String,
) -> Result<String, Failure> {
    let (view, map) = service.look()?;
    let replicas = service.replicas()?;
    let views = members::of(&view, &map);
    let adverts: Vec<&Advert> = views.iter().map(|it| &it.member.advert).collect();
    let loads = load::of_all(&adverts, credentials);
    // Members go on while they are asked, so they are compared with a map from after that.
    let (_, newest) = service.look()?;
    let pairs = views.iter().zip(loads);
    Ok(show(&ServiceStatus {
        service: service.url().service(),
        epoch: map.epoch().0,
        shards: map.shard_count(),
        holes: members::holes(&map),
        moving: map.moves().len(),
        replicas,
        single: members::singles(&map),
        members: pairs
            .map(|(view, load)| member(view, load, newest.epoch().0))
            .collect(),
    }))
}

fn member(view: &MemberView, load: Option<Load>, newest: u64) -> MemberStatus<'_> {
    let advert = &view.member.advert;
    MemberStatus {
        name: advert.name(),
        incarnation: view.member.incarnation,
        state: view.state,
        weight: advert.weight(),
        shards: view.shards,
        moving_in: view.moving_in,
        moving_out: view.moving_out,
        copied: view.copied,
        kept: view.kept,
        lag: load
            .and_then(|load| load.epoch)
            .map(|epoch| newest.saturating_sub(epoch)),
        addresses: advert.addresses(),
        load,
    }
}

const HEAD: [&str; 14] = [
    "MEMBER", "STATE", "SHARDS", "SHARE", "IN", "OUT", "COPIED", "KEEPS", "WEIGHT", "ITEMS", "HITS", "OPS/S",
    "LAG", "CHANGED",
];

fn text(status: &ServiceStatus<'_>) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(status.members.iter().map(|member| row(member, status)));
    let address = |member: &MemberStatus<'_>| format!("{}: {}\n", member.name, member.addresses.join(" "));
    let addresses = status.members.iter().map(address);
    format!(
        "service {}: epoch {}, {} shards, {} without an owner, {} moving{}\n{}{}",
        status.service,
        status.epoch,
        status.shards,
        status.holes,
        status.moving,
        match status.replicas {
            1 => String::new(),
            _ => format!(", {} with one copy", status.single),
        },
        columns::text(&rows),
        addresses.collect::<String>()
    )
}

fn row(member: &MemberStatus<'_>, status: &ServiceStatus<'_>) -> [String; 14] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (load, with_copies) = (member.load.as_ref(), status.replicas > 1);
    [
        member.name.to_owned(),
        member.state.name().to_owned(),
        member.shards.to_string(),
        format!("{:.1}%", 100.0 * member.shards as f64 / status.shards as f64),
        member.moving_in.to_string(),
        member.moving_out.to_string(),
        or_dash(with_copies.then(|| member.copied.to_string())),
        or_dash(with_copies.then(|| member.kept.to_string())),
        member.weight.to_string(),
        or_dash(load.map(|load| load.items.to_string())),
        or_dash(
            load.and_then(|load| load.hit_rate)
                .map(|rate| format!("{:.1}%", 100.0 * rate)),
        ),
        or_dash(load.map(|load| format!("{:.0}", load.operations_per_s))),
        or_dash(member.lag.map(|lag| lag.to_string())),
        or_dash(
            load.and_then(|load| load.last_change_s)
                .map(|seconds| format!("{seconds:.0} s ago")),
        ),
    ]
}
