//! [`ClientIds`]: small numbers for clients, reused with another generation.

/// The client ids that are free, each with its generation. The smallest id is taken first.
#[derive(Clone, Debug)]
pub struct ClientIds {
    /// Ids that were in use, with the generation of their next use.
    free: Vec<(u32, u32)>,
    next: u32,
    max: usize,
}

impl ClientIds {
    /// Ids for at most `max` clients at a time: 0 to `max - 1`, all free.
    pub fn new(max: usize) -> ClientIds {
        ClientIds {
            free: Vec::new(),
            next: 0,
            max,
        }
    }

    /// Takes the smallest free id. Returns it with its generation, the number of times it was freed. `None` if all are
    /// in use.
    pub fn take(&mut self) -> Option<(u32, u32)> {
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

    /// Frees an id: the pair that [`take`](ClientIds::take) returned, once. The caller is sure that nothing of its
    /// client is left anywhere.
    pub fn give_back(&mut self, (id, generation): (u32, u32)) {
        self.free.push((id, generation.wrapping_add(1)));
    }
}
