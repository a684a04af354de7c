//! What memcached clients may ask for.

use super::{Origin, Row, Setting, pick, row};

/// Arguments that allow or refuse commands.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct CommandArgs {
    /// Disable CAS: every CAS number is 0, and `cas` always matches
    #[arg(short = 'C', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_cas: Option<bool>,
    /// Refuse flush_all
    #[arg(short = 'F', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_flush_all: Option<bool>,
    /// Refuse to list keys (lru_crawler metadump, mgdump)
    #[arg(short = 'X', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_dumping: Option<bool>,
    /// Refuse `watch`
    #[arg(short = 'W', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_watch: Option<bool>,
    /// Allow the command `shutdown`
    #[arg(short = 'A', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_shutdown: Option<bool>,
}

/// Commands that are allowed or refused.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// Whether items have no CAS numbers: all are 0, and `cas` always matches.
    pub disable_cas: Setting<bool>,
    /// Whether `flush_all` is refused.
    pub disable_flush_all: Setting<bool>,
    /// Whether the commands that list keys are refused.
    pub disable_dumping: Setting<bool>,
    /// Whether `watch` is refused.
    pub disable_watch: Setting<bool>,
    /// Whether the command `shutdown` is allowed.
    pub enable_shutdown: Setting<bool>,
}

impl CommandSettings {
    /// Merges command line, file and defaults, in this order.
    pub(super) fn fill(typed: &CommandArgs, file: &CommandArgs) -> CommandSettings {
        let flag = |of: fn(&CommandArgs) -> Option<bool>| pick(of(typed), of(file), false, Origin::Default);
        CommandSettings {
            disable_cas: flag(|args| args.disable_cas),
            disable_flush_all: flag(|args| args.disable_flush_all),
            disable_dumping: flag(|args| args.disable_dumping),
            disable_watch: flag(|args| args.disable_watch),
            enable_shutdown: flag(|args| args.enable_shutdown),
        }
    }

    /// Rows of `drover config`.
    pub(super) fn rows(&self) -> [Row; 5] {
        [
            row("disable-cas", &self.disable_cas, bool::to_string),
            row("disable-flush-all", &self.disable_flush_all, bool::to_string),
            row("disable-dumping", &self.disable_dumping, bool::to_string),
            row("disable-watch", &self.disable_watch, bool::to_string),
            row("enable-shutdown", &self.enable_shutdown, bool::to_string),
        ]
    }
}
