//! `drover touch`.

use super::keys::{KeysArgs, Reply};
use super::{Answer, ClientCommand, STATUSES, report_missing};
use clap::Args;
use drover_client::Op;
use drover_kv::SystemTable;

/// Arguments of `touch`.
#[derive(Args)]
#[command(after_help = STATUSES)]
pub struct Touch {
    /// Key, 1 to 250 bytes
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Seconds from now until it expires; 0: never
    #[arg(value_name = "SECONDS")]
    ttl: u32,
    #[command(flatten)]
    at: KeysArgs,
}

impl ClientCommand for Touch {
    fn execute<T: SystemTable>(&self) -> Answer {
        let op = Op::Touch {
            key: self.key.as_bytes(),
            ttl_s: self.ttl,
        };
        let is_touched = self.at.open::<T>()?.one(&op)? == Reply::Done;
        if !is_touched {
            report_missing(&self.key);
        }
        Ok(is_touched)
    }
}
