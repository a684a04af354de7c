//! Size classes: 64, 80, 96, 112, then four for each doubling. An item takes a chunk of the smallest class that it fits, so
//! that evicting one of a class makes space for any other of it.

/// Bytes of the smallest class.
const BYTES_MIN: usize = 64;

/// Bytes of the chunks of class `class`.
pub(super) const fn class_bytes(class: usize) -> usize {
    (4 + class % 4) << (class / 4 + 4)
}

/// The smallest class whose chunks have `bytes`.
#[inline]
pub(super) const fn class_for(bytes: usize) -> usize {
    let class = class_of(bytes);
    if class_bytes(class) < bytes {
        class + 1
    } else {
        class
    }
}

/// The class of a chunk of `bytes`: the largest one whose items fit. The shortest chunks are of the first one, whatever
/// fits.
#[inline]
pub(super) const fn class_of(bytes: usize) -> usize {
    if bytes < BYTES_MIN {
        return 0;
    }
    let doublings = (bytes / BYTES_MIN).ilog2() as usize;
    4 * doublings + (bytes >> (doublings + 4)) - 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_a_quarter_of_a_doubling_apart() {
        let sizes: Vec<usize> = (0..9).map(class_bytes).collect();
        assert_eq!(sizes, [64, 80, 96, 112, 128, 160, 192, 224, 256]);
        for class in 0..80 {
            let bytes = class_bytes(class);
            assert!(bytes.is_multiple_of(8) && class_bytes(class + 1) * 4 <= bytes * 5);
            assert_eq!((class_of(bytes), class_for(bytes)), (class, class));
            assert_eq!((class_of(bytes + 8), class_for(bytes + 8)), (class, class + 1));
        }
        assert_eq!((class_of(32), class_for(32)), (0, 0));
    }
}
