//! [`Limbo`]: things that may be used again only after everybody has passed an epoch.

use std::collections::VecDeque;

/// Things that others may still look at, each with the epoch in which it was given up. A thing of epoch e comes out when
/// [`LAG`](Limbo::LAG) further epochs were reached. It knows neither who looks nor how epochs advance.
///
/// ```
/// use drover_mem::Limbo;
/// let mut limbo = Limbo::default();
/// limbo.push(5, "block");
/// assert_eq!(limbo.pop(7), None);
/// assert_eq!(limbo.pop(8), Some("block"));
/// ```
#[derive(Debug)]
pub struct Limbo<T> {
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for Limbo<T> {
    fn default() -> Limbo<T> {
        Limbo::with_capacity(0)
    }
}

impl<T> Limbo<T> {
    /// Epochs that must follow the one in which a thing was given up. The common epoch advances from r only when everybody
    /// has published r or more, so a client that published e + 2 can have no pointer from before the end of e + 1, which is the
    /// last epoch in which somebody could have found a thing of e; and that all have published e + 2 is known at e + 3.
    pub const LAG: u64 = 3;

    /// Creates an empty limbo that holds `count` things without allocating.
    pub fn with_capacity(count: usize) -> Limbo<T> {
        Limbo {
            waiting: VecDeque::with_capacity(count),
        }
    }

    /// Adds a thing that was given up in `epoch`.
    pub fn push(&mut self, epoch: u64, thing: T) {
        self.waiting.push_back((epoch, thing));
    }

    /// Takes out the thing that was added first, if it may be used again now that `reached` is the common epoch.
    pub fn pop(&mut self, reached: u64) -> Option<T> {
        let (epoch, _) = self.waiting.front()?;
        match epoch.saturating_add(Limbo::<T>::LAG) <= reached {
            true => self.waiting.pop_front().map(|(_, thing)| thing),
            false => None,
        }
    }

    /// Drops all things for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(_, thing)| keep(thing));
    }

    /// All things, the first ones first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, thing)| thing)
    }

    /// Number of things.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_out_early_or_out_of_order() {
        let mut limbo = Limbo::with_capacity(3);
        limbo.push(1, 'a');
        limbo.push(3, 'b');
        // Waits for the one before it, too.
        limbo.push(2, 'c');
        assert_eq!(
            (limbo.pop(3), limbo.pop(4), limbo.pop(5)),
            (None, Some('a'), None)
        );
        assert_eq!(
            (limbo.pop(6), limbo.pop(6), limbo.pop(6)),
            (Some('b'), Some('c'), None)
        );
        assert!(limbo.is_empty());
        limbo.push(u64::MAX, 'd');
        limbo.push(0, 'e');
        limbo.retain(|&thing| thing == 'd');
        assert_eq!((limbo.len(), limbo.pop(u64::MAX - 1)), (1, None));
    }
}
