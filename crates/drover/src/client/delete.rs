//! `drover delete`.

use super::keys::{KeysArgs, Reply};
use super::{Answer, ClientCommand, STATUSES, report_missing};
use clap::Args;
use drover_client::Op;
use drover_kv::SystemTable;

/// Arguments of `delete`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Delete {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    #[command(flatten)]
    at: KeysArgs,
}

impl ClientCommand for Delete {
    fn execute<T: SystemTable>(&self) -> Answer {
        let is_deleted = self.at.open::<T>()?.one(&Op::delete(self.key.as_bytes()))? == Reply::Done;
        if !is_deleted {
            report_missing(&self.key);
        }
        Ok(is_deleted)
    }
}
