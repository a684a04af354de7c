//! What memcached clients may ask for.

use super::offered::Feature::{Cas, Memcached, Prefixes};
use super::{flags, optional, value};

flags! {
    /// Arguments that allow or refuse commands.
    #[command(next_help_heading = "Commands of memcached clients")]
    struct CommandArgs;
    /// Commands that are allowed or refused.
    struct CommandSettings();

    /// Disable CAS: every CAS number is 0, and `cas` always matches
    #[switch(long = "disable-cas", short = 'C')]
    disable_cas: bool = value(false).needs(Cas);

    /// Refuse flush_all
    #[switch(long = "disable-flush-all", short = 'F')]
    disable_flush_all: bool = value(false).needs(Memcached);

    /// Refuse to list keys (lru_crawler metadump and mgdump, stats cachedump)
    #[switch(long = "disable-dumping", short = 'X')]
    disable_dumping: bool = value(false).needs(Memcached);

    /// Refuse `watch`
    #[switch(long = "disable-watch", short = 'W')]
    disable_watch: bool = value(false).needs(Memcached);

    /// Count gets, sets and deletes by the prefix of keys before this character from the start, for `stats detail`
    #[arg(long = "prefix-delimiter", short = 'D', value_name = "CHAR")]
    prefix_delimiter: char as Option<char> = optional().needs(Prefixes).check(
        |delimiter| delimiter.is_none_or(|delimiter: char| delimiter.is_ascii_graphic()),
        |_| "--prefix-delimiter (-D): one character of ASCII that can stand in a key".to_string(),
    );

    /// Allow the command `shutdown`
    #[switch(long = "enable-shutdown", short = 'A')]
    enable_shutdown: bool = value(false).needs(Memcached);
}
