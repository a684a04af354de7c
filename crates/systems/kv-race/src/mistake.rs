//! [`Mistake`]: what a client can be made to do wrong, so that simulations prove that they would notice.

use drover_kv::Planted;

/// A deliberate mistake of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Takes buckets for the key's, whatever their headers say.
    TrustsDirectory,
    /// Takes a bucket that is still empty, because its entries are being moved, for the key's.
    IgnoresPending,
    /// Uses the memory of a replaced item at once, while others may read it.
    FreesAtOnce,
    /// Confirms an insert without looking for another entry of the key.
    ConfirmsUnseen,
    /// Takes an entry with the key's fingerprint for the key's.
    TrustsFingerprints,
    /// Reads items that have expired.
    KeepsExpired,
    /// Takes the lock of a subtable when its owner has held it for a while.
    StealsLocks,
    /// Repeats an update whose effect is unknown.
    RepeatsBlindly,
    /// Updates a key that has an item, whatever the condition says of that.
    IgnoresConditions,
    /// Releases the lock of a dead client's split without finishing the split.
    LeavesSplits,
}

const fn planted(
    name: &'static str,
    scenario: &'static str,
    mistake: Mistake,
    about: &'static str,
) -> Planted<Mistake> {
    Planted {
        name,
        about,
        scenario,
        mistake,
    }
}

/// The mistakes that campaigns must find.
pub(crate) const PLANTED: &[Planted<Mistake>] = &[
    planted(
        "stale-directory",
        "table",
        Mistake::TrustsDirectory,
        "a client takes buckets for the key's, though their headers say that it belongs elsewhere",
    ),
    planted(
        "pending",
        // Connections that break in the middle of a split leave buckets pending for long.
        "break",
        Mistake::IgnoresPending,
        "a client takes a new bucket for the key's before its entries are there",
    ),
    planted(
        "no-epochs",
        "conflict",
        Mistake::FreesAtOnce,
        "the memory of a replaced item is used again at once, while others may read it",
    ),
    planted(
        "no-confirmation",
        "conflict",
        Mistake::ConfirmsUnseen,
        "an announced entry is confirmed without looking whether the key has another one",
    ),
    planted(
        "fingerprint",
        "default",
        Mistake::TrustsFingerprints,
        "an entry with the key's fingerprint is taken for the key's",
    ),
    planted(
        "no-expiry",
        "skew",
        Mistake::KeepsExpired,
        "a client reads items that have expired",
    ),
    planted(
        "stolen-lock",
        "table",
        Mistake::StealsLocks,
        "the lock of a subtable is taken from a client that holds it for long, and may be alive",
    ),
    planted(
        "blind-cas",
        "break",
        Mistake::RepeatsBlindly,
        "an update whose effect is unknown is executed again",
    ),
    planted(
        "ignored-condition",
        "conflict",
        Mistake::IgnoresConditions,
        "an update takes effect though its condition says that the key's item is another one, or none",
    ),
    planted(
        "left-split",
        "break",
        Mistake::LeavesSplits,
        "the lock of a dead client's split is released, and nobody finishes the split",
    ),
];
