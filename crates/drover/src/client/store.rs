//! `drover set`, `add`, `replace`, `cas`, `append` and `prepend`.

use super::keys::{KeysArgs, Reply};
use super::value::{ItemArgs, ValueArgs};
use super::{Answer, ClientCommand, STATUSES, report_missing};
use clap::Args;
use drover_client::{Condition, Op};
use drover_kv::SystemTable;

/// Arguments of `add` and `replace`, and of `set` beside its condition.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Store {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    value: ValueArgs,
    #[command(flatten)]
    item: ItemArgs,
    #[command(flatten)]
    at: KeysArgs,
}

/// Arguments of `set`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Set {
    #[command(flatten)]
    store: Store,
    /// Store it only if the key is absent, is present, or has the version that `get --details` printed; else exit status 1
    #[arg(long = "if", value_name = "absent|present|VERSION", value_parser = condition, default_value = "always", hide_default_value = true)]
    condition: Condition,
}

/// Arguments of `cas`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Cas {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Version that the item must have, as `get --details` printed it
    version: u64,
    #[command(flatten)]
    value: ValueArgs,
    #[command(flatten)]
    item: ItemArgs,
    #[command(flatten)]
    at: KeysArgs,
}

/// Arguments of `append` and `prepend`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Join {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    value: ValueArgs,
    #[command(flatten)]
    at: KeysArgs,
}

fn condition(text: &str) -> Result<Condition, String> {
    match text {
        "always" => Ok(Condition::Always),
        "absent" => Ok(Condition::IfAbsent),
        "present" => Ok(Condition::IfPresent),
        version => match version.parse() {
            Ok(version) => Ok(Condition::IfVersion(version)),
            Err(_) => Err("absent, present, or a version".to_owned()),
        },
    }
}

/// Stores the value that `value` names under `key` if `condition` holds, and says so if it does not.
fn store<T: SystemTable>(
    (key, value): (&str, &ValueArgs),
    item: &ItemArgs,
    condition: Condition,
    at: &KeysArgs,
) -> Answer {
    let value = value.read()?;
    let reply = at.open::<T>()?.one(&Op::Put {
        key: key.as_bytes(),
        value: &value,
        ttl_s: item.ttl,
        flags: item.flags,
        condition,
        keep: false,
    })?;
    match (&reply, condition) {
        (Reply::NotFound, _) => report_missing(key),
        (Reply::Exists, Condition::IfVersion(version)) => {
            eprintln!(
                "drover: key {} has another version than {version}",
                key.escape_debug()
            );
        }
        (Reply::Exists, _) => eprintln!("drover: key {} exists", key.escape_debug()),
        _ => {}
    }
    Ok(reply == Reply::Done)
}

impl Store {
    fn store_if<T: SystemTable>(&self, condition: Condition) -> Answer {
        store::<T>((&self.key, &self.value), &self.item, condition, &self.at)
    }
}

impl ClientCommand for Set {
    fn execute<T: SystemTable>(&self) -> Answer {
        self.store.store_if::<T>(self.condition)
    }
}

impl ClientCommand for (Condition, &Store) {
    fn execute<T: SystemTable>(&self) -> Answer {
        self.1.store_if::<T>(self.0)
    }
}

impl ClientCommand for Cas {
    fn execute<T: SystemTable>(&self) -> Answer {
        let condition = Condition::IfVersion(self.version);
        store::<T>((&self.key, &self.value), &self.item, condition, &self.at)
    }
}

/// The end of a value at which another one is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinAt {
    /// Before it.
    Start,
    /// Behind it.
    End,
}

impl ClientCommand for (JoinAt, &Join) {
    fn execute<T: SystemTable>(&self) -> Answer {
        let (place, args) = *self;
        let more = args.value.read()?;
        let joined = args.at.open::<T>()?.modify(&args.key, |old| {
            Ok(match place {
                JoinAt::Start => [&more, old].concat(),
                JoinAt::End => [old, &more].concat(),
            })
        })?;
        if joined.is_none() {
            report_missing(&args.key);
        }
        Ok(joined.is_some())
    }
}
