//! [`Routes`]: the partition that a reply comes from, by its sender.

/// Maps the queue pair number of a sender to its partition: a hash table with open addressing.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Number and partition; `u32::MAX` in place of a partition marks an empty entry.
    table: Box<[(u32, u32)]>,
}

impl Routes {
    /// Routes for replies from `senders`: `senders[i]` is the queue pair number from which partition `i` replies.
    /// `None` if two partitions have the same sender.
    pub fn new(senders: &[u32]) -> Option<Routes> {
        let size = (senders.len() * 4).next_power_of_two();
        let mut table = vec![(0, u32::MAX); size].into_boxed_slice();
        for (partition, &sender) in senders.iter().enumerate() {
            let mut index = sender as usize & (size - 1);
            while table[index].1 != u32::MAX {
                if table[index].0 == sender {
                    return None;
                }
                index = (index + 1) & (size - 1);
            }
            table[index] = (sender, partition as u32);
        }
        Some(Routes { table })
    }

    /// Index of the partition of `sender`; `None` if it is not the sender of any.
    #[inline(always)]
    pub fn partition_of(&self, sender: u32) -> Option<usize> {
        let mask = self.table.len().wrapping_sub(1);
        let mut index = sender as usize & mask;
        loop {
            let &(known, partition) = self.table.get(index)?;
            if known == sender && partition != u32::MAX {
                return Some(partition as usize);
            }
            if partition == u32::MAX {
                return None;
            }
            index = (index + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_leads_to_its_partition_and_others_nowhere() {
        let senders = [7, 7 + 32, 7 + 64, 0, u32::MAX];
        let routes = Routes::new(&senders).expect("distinct senders");
        for (partition, sender) in senders.into_iter().enumerate() {
            assert_eq!(routes.partition_of(sender), Some(partition));
        }
        assert_eq!(routes.partition_of(8), None);
        assert!(Routes::new(&[3, 4, 3]).is_none());
    }
}
