//! Sizes of memory as text: `16m,64m,1g`, `16m..1g`; a bare number is MiB, as it is for `drover serve -m`.

use std::ops::RangeInclusive;

/// Accepted sizes of a cache, bytes. The minimum is what a partition of `drover serve` has at least; the maximum is a
/// limit against slips of the pen.
pub const CACHE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 50;
/// Most sizes in one list.
pub const SIZES_MAX: usize = 64;

/// Why a size or a list of sizes is refused. The text does not name the option.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The text is no size.
    #[error("{text}: expected a number of MiB, or a number with k, m, g or t, such as 64m")]
    Malformed {
        /// What was given.
        text: String,
    },
    /// The size is outside [`CACHE_BYTES`].
    #[error("{text}: a cache has from 64k to 1024t")]
    Outside {
        /// What was given.
        text: String,
    },
    /// The end of a range is below its start.
    #[error("{text}: the range ends below its start")]
    Descending {
        /// What was given.
        text: String,
    },
    /// There are more than [`SIZES_MAX`] sizes.
    #[error("more than {SIZES_MAX} sizes")]
    TooMany,
}

/// Bytes of a size: a number of MiB, or a number of bytes with `k`, `m`, `g` or `t` (powers of 1024; `kb`, `KiB` and the
/// like mean the same).
///
/// # Errors
/// [`SizeError::Malformed`], also if the number of bytes exceeds [`u64::MAX`].
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let lower = text.trim().to_ascii_lowercase();
    let digits_end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(digits_end);
    let unit = match unit {
        "k" | "kb" | "kib" => Some(1 << 10),
        "" | "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        "t" | "tb" | "tib" => Some(1 << 40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| SizeError::Malformed {
        text: text.to_string(),
    })
}

/// Sizes of caches in bytes, ascending and distinct, from a list such as `16m,64m..1g`: a range doubles from its start,
/// and ends with its end.
///
/// # Errors
/// [`SizeError`] if a size is malformed or outside [`CACHE_BYTES`], a range descends, or there are too many.
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, SizeError> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => sizes.push(cache_size(part)?),
            Some((first, last)) => {
                let (first, last) = (cache_size(first)?, cache_size(last)?);
                if last < first {
                    return Err(SizeError::Descending {
                        text: part.to_string(),
                    });
                }
                let doubling = std::iter::successors(Some(first), |size| size.checked_mul(2));
                sizes.extend(doubling.take_while(|size| *size < last).chain([last]));
            }
        }
        if sizes.len() > SIZES_MAX {
            return Err(SizeError::TooMany);
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn cache_size(text: &str) -> Result<u64, SizeError> {
    let bytes = parse_size(text)?;
    match CACHE_BYTES.contains(&bytes) {
        true => Ok(bytes),
        false => Err(SizeError::Outside {
            text: text.to_string(),
        }),
    }
}

/// A size for people, exact: `64 MiB`, `1536 KiB`, `100 B`.
pub fn show(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    match whole {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_bare_number_is_mib_and_letters_are_powers_of_1024() {
        assert_eq!(parse_size("64"), Ok(64 * MIB));
        assert_eq!(parse_size("64m"), Ok(64 * MIB));
        assert_eq!(parse_size(" 64MiB "), Ok(64 * MIB));
        assert_eq!(parse_size("100k"), Ok(100 << 10));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("3tb"), Ok(3 << 40));
        for bad in [
            "",
            "m",
            "1.5g",
            "-1",
            "64x",
            "64 m",
            "99999999999999999999",
            "18446744073709551615t",
        ] {
            let refused = Err(SizeError::Malformed {
                text: bad.to_string(),
            });
            assert_eq!(parse_size(bad), refused, "{bad}");
        }
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse_sizes("64m,16,64"), Ok(vec![16 * MIB, 64 * MIB]));
        let doubled = [16, 32, 64, 128, 256, 512, 1024].map(|mib| mib * MIB);
        assert_eq!(parse_sizes("16m..1g"), Ok(doubled.to_vec()));
        assert_eq!(
            parse_sizes("10..30,5"),
            Ok([5, 10, 20, 30].map(|mib| mib * MIB).to_vec())
        );
        assert_eq!(parse_sizes("8..8"), Ok(vec![8 * MIB]));
    }

    #[test]
    fn refusals_say_what_is_accepted() {
        let text = |list: &str| parse_sizes(list).unwrap_err().to_string();
        assert_eq!(text("0"), "0: a cache has from 64k to 1024t");
        assert_eq!(text("16m,9999t"), "9999t: a cache has from 64k to 1024t");
        assert_eq!(text("1g..16m"), "1g..16m: the range ends below its start");
        assert_eq!(
            text("16m,"),
            ": expected a number of MiB, or a number with k, m, g or t, such as 64m"
        );
        let many: Vec<String> = (1..=65).map(|mib: u32| mib.to_string()).collect();
        assert_eq!(text(&many.join(",")), "more than 64 sizes");
    }

    #[test]
    fn sizes_are_shown_exactly() {
        let shown = [64 * MIB, 1536 << 10, 1 << 30, 100, 0, MIB + 1].map(show);
        assert_eq!(
            shown,
            ["64 MiB", "1536 KiB", "1 GiB", "100 B", "0 B", "1048577 B"]
        );
    }
}
