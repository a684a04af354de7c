//! Parsers for option values: sizes, file modes, lists of cores.

use super::or_none;
use crate::exit::{self, Failure};
use drover_base::HashKind;
use drover_cluster::OnRegistryLoss;
use drover_kv::ResultTransfer;
use drover_store::Eviction;

/// Parses an octal file mode.
pub(super) fn mask_of(text: String) -> Result<u32, Failure> {
    let mask = u32::from_str_radix(&text, 8).ok();
    mask.filter(|mask| *mask <= 0o777).ok_or_else(|| {
        let text = format!("-a {text}: expected octal rights, such as 700");
        Failure::new(exit::USAGE, text)
    })
}

/// From memcached's minimum to the maximum that the store's length field allows.
const ITEM_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=8 << 20;

/// Parses the size of an item: `10`, `10k`, `1m`.
pub(crate) fn bytes_of(text: String) -> Result<usize, Failure> {
    let (digits, unit) = match text.to_ascii_lowercase() {
        lower if lower.ends_with('k') => (lower[..lower.len() - 1].to_string(), 1 << 10),
        lower if lower.ends_with('m') => (lower[..lower.len() - 1].to_string(), 1 << 20),
        lower => (lower, 1),
    };
    let bytes = digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if ITEM_BYTES.contains(&bytes) => Ok(bytes),
        _ => Err(Failure::new(
            exit::USAGE,
            format!(
                "--max-item-size {text}: expected bytes, or a number with k or m, from 1k to 8m: the length of a value has \
                 23 bits"
            ),
        )),
    }
}

/// Policies of eviction, by name.
const EVICTIONS: [(&str, Eviction); 2] = [("s3fifo", Eviction::S3Fifo), ("fifo", Eviction::Fifo)];

/// Parses the name of a policy of eviction.
pub(super) fn eviction_of(text: String) -> Result<Eviction, Failure> {
    let found = EVICTIONS.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, eviction)| eviction).ok_or_else(|| {
        let text = format!("--eviction {text}: expected s3fifo or fifo");
        Failure::new(exit::USAGE, text)
    })
}

/// Name of a policy of eviction.
pub(super) fn name_of(eviction: Eviction) -> &'static str {
    let found = EVICTIONS.into_iter().find(|(_, other)| *other == eviction);
    found.map_or("", |(name, _)| name)
}

/// Parses a way by which results come to clients.
pub(super) fn transfer_of(text: String) -> Result<ResultTransfer, Failure> {
    text.parse()
        .map_err(|why| Failure::new(exit::USAGE, format!("--transfer {why}")))
}

/// What an outage of the registry means, by name.
const ON_LOSS: [(&str, OnRegistryLoss); 2] =
    [("serve", OnRegistryLoss::Serve), ("stop", OnRegistryLoss::Stop)];

/// Parses what an outage of the registry means.
pub(super) fn on_loss_of(text: String) -> Result<OnRegistryLoss, Failure> {
    let found = ON_LOSS.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, on_loss)| on_loss).ok_or_else(|| {
        let text = format!("--on-registry-loss {text}: expected serve or stop");
        Failure::new(exit::USAGE, text)
    })
}

/// Name of what an outage of the registry means.
pub(super) fn on_loss_shown(on_loss: OnRegistryLoss) -> &'static str {
    let found = ON_LOSS.into_iter().find(|(_, other)| *other == on_loss);
    found.map_or("", |(name, _)| name)
}

/// Parses the name of a hash of keys.
pub(super) fn hash_of(text: String) -> Result<HashKind, Failure> {
    text.parse()
        .map_err(|why| Failure::new(exit::USAGE, format!("--hash {why}")))
}

/// Parses a core list: empty (choose), `none`, or a list like `0-2,5`. The result is the core of each of `count`
/// workers, by worker index, and perhaps further cores, which are unused; `None`: workers are not pinned.
pub(super) fn choose_cores(
    text: &str,
    count: usize,
    allowed: &[usize],
) -> Result<Option<Vec<usize>>, Failure> {
    let refuse = |why: String| Err(Failure::new(exit::USAGE, format!("--cores {text}: {why}")));
    match text {
        "none" => return Ok(None),
        // Without a core for clients beside the workers', some worker shares its own: the system moves those that are
        // not pinned to a core that is free. Clients tend to start on the first cores, so workers take the last.
        "" if allowed.len() <= count => return Ok(None),
        "" => return Ok(Some(allowed[allowed.len() - count..].to_vec())),
        _ => {}
    }
    let Some(cores) = parse_cores(text) else {
        return refuse("expected numbers and ranges, such as 0-2,5".to_string());
    };
    if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
        return refuse(format!(
            "core {core} is not one of those this process may use ({allowed:?})"
        ));
    }
    if cores.len() < count {
        return refuse(format!("{} cores for {count} workers", cores.len()));
    }
    Ok(Some(cores))
}

/// Formats the result of [`choose_cores`].
pub(super) fn cores_shown(cores: &Option<Vec<usize>>) -> String {
    let join = |cores: &Vec<usize>| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    or_none(cores.as_ref().map(join))
}

fn parse_cores(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<usize>().ok()?);
        cores.extend((first..=last).take(4096));
    }
    Some(cores)
}

/// Usable cores: physical cores first, then their hyper-thread siblings.
pub(super) fn allowed_cores() -> Vec<usize> {
    let cores = drover_rt::cores::cores().unwrap_or_default();
    if cores.is_empty() {
        return (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
    }
    cores.iter().map(|core| core.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_pinned_only_if_a_core_is_left_for_clients() {
        let chosen = |count| choose_cores("", count, &[0, 1, 5]).ok().flatten();
        assert_eq!(chosen(2), Some(vec![1, 5]));
        assert_eq!(chosen(3), None);
        assert_eq!(
            choose_cores("0-1,5", 3, &[0, 1, 5]).ok().flatten(),
            Some(vec![0, 1, 5])
        );
    }
}
