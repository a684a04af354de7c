//! What memcached clients may ask for.

use super::offered::Feature::{Cas, Memcached};
use super::{flags, value};

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

    /// Refuse to list keys (lru_crawler metadump, mgdump)
    #[switch(long = "disable-dumping", short = 'X')]
    disable_dumping: bool = value(false).needs(Memcached);

    /// Refuse `watch`
    #[switch(long = "disable-watch", short = 'W')]
    disable_watch: bool = value(false).needs(Memcached);

    /// Allow the command `shutdown`
    #[switch(long = "enable-shutdown", short = 'A')]
    enable_shutdown: bool = value(false).needs(Memcached);
}
