//! [`PathSearch`]: finds out how to make space for a key before any entry is changed.
//!
//! Breadth first: the candidates of the new key, then the other candidates of the keys in those entries, and so on,
//! until one is free. The shortest path moves the fewest entries, and the search visits a bounded number. *(The
//! released code of `[Pilaf]` walks at random, at most 32 steps: read in public code. Breadth-first search: our
//! choice.)*

use super::candidates::Candidates;
use drover_base::KeyHash;

/// Most entries that the search for a free one visits before the table counts as full. *(our choice; at a load of 0.9
/// nearly all paths are found within 50)*
pub const VISITED_MAX: usize = 2000;

const NO_PARENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    index: u64,
    parent: u32,
}

/// The search, with memory that is reused by the next search.
#[derive(Debug, Default)]
pub(super) struct PathSearch {
    nodes: Vec<Node>,
    path: Vec<u64>,
}

impl PathSearch {
    /// A path for a key whose `candidates` are all taken: its first entry is free, each of the others holds a key that
    /// may move to the entry before it, and the last is one of `candidates`. `None`: the table is full.
    pub(super) fn find(
        &mut self,
        keys: &[Option<KeyHash>],
        mask: u64,
        candidates: &Candidates,
    ) -> Option<&[u64]> {
        self.nodes.clear();
        let root = |index: &u64| Node {
            index: *index,
            parent: NO_PARENT,
        };
        self.nodes.extend(candidates.as_slice().iter().map(root));
        let mut at = 0;
        while at < self.nodes.len().min(VISITED_MAX) {
            let here = self.nodes[at].index;
            let hash = keys[here as usize].expect("only taken places are visited");
            for &index in Candidates::new(hash, mask).as_slice() {
                if keys[index as usize].is_none() {
                    return Some(self.trace(index, at as u32));
                }
                // A path that crosses itself would overwrite a key that is still needed.
                if !self.is_above(at as u32, index) {
                    self.nodes.push(Node {
                        index,
                        parent: at as u32,
                    });
                }
            }
            at += 1;
        }
        None
    }

    fn is_above(&self, from: u32, index: u64) -> bool {
        let mut at = from;
        while at != NO_PARENT {
            let node = self.nodes[at as usize];
            if node.index == index {
                return true;
            }
            at = node.parent;
        }
        false
    }

    fn trace(&mut self, free: u64, last: u32) -> &[u64] {
        self.path.clear();
        self.path.push(free);
        let mut at = last;
        while at != NO_PARENT {
            let node = self.nodes[at as usize];
            self.path.push(node.index);
            at = node.parent;
        }
        &self.path
    }
}
