//! [`ClientIds`]: numbers of clients, each used again and again.

/// Numbers that are given out and come back.
pub(super) struct ClientIds {
    /// Not in use, with the generation of their next use. The smallest is given out first.
    free: Vec<(u32, u32)>,
    next: u32,
    max: usize,
}

impl ClientIds {
    /// At most `max` at a time.
    pub(super) fn new(max: usize) -> ClientIds {
        ClientIds {
            free: Vec::new(),
            next: 0,
            max,
        }
    }

    /// A number that is not in use, and how often it has been; `None`: all are in use.
    pub(super) fn take(&mut self) -> Option<(u32, u32)> {
        let smallest = (0..self.free.len()).min_by_key(|&i| self.free[i].0);
        if let Some(i) = smallest {
            return Some(self.free.swap_remove(i));
        }
        if self.next as usize >= self.max {
            return None;
        }
        self.next += 1;
        Some((self.next - 1, 0))
    }

    /// A number is no longer in use: nothing of its client is left anywhere.
    pub(super) fn give_back(&mut self, (id, generation): (u32, u32)) {
        self.free.push((id, generation.wrapping_add(1)));
    }
}
