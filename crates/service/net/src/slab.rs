//! [`Slab`]: connections by token. Tokens carry a generation, so the token of a closed connection never names its
//! slot's next owner.

/// Tokens are below this number.
pub(crate) const BEYOND: u64 = 1 << 63;

/// Token of a connection on its core: the slot's index in the low 32 bits, how often the slot was used before in the
/// high ones. Never reused on this core; other cores have equal tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

impl Token {
    fn new(index: usize, generation: u32) -> Token {
        Token(u64::from(generation) << 32 | index as u64)
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Generation of the present owner, or of the next.
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Inserts the value that `make` makes from its token.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Token) -> T) -> Token {
        let index = self.free.pop().map_or(self.slots.len(), |index| index as usize);
        if index == self.slots.len() {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
        }
        let slot = &mut self.slots[index];
        let token = Token::new(index, slot.generation);
        slot.value = Some(make(token));
        token
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.slots.get_mut(token.index())?;
        if slot.generation != token.generation() {
            return None;
        }
        slot.value.as_mut()
    }

    /// Removes a value. A slot whose generation has reached its maximum stays empty for ever.
    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        self.get_mut(token)?;
        let slot = &mut self.slots[token.index()];
        let value = slot.value.take();
        slot.generation += 1;
        if slot.generation < (BEYOND >> 32) as u32 {
            self.free.push(token.index() as u32);
        }
        value
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.value.is_some()).count()
    }

    /// All values. Cost: visits every slot.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let token = Token::new(index, slot.generation);
            slot.value.as_mut().map(|value| (token, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_token_is_nobodys() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert(|_| 'a'), slab.insert(|_| 'b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        let c = slab.insert(|_| 'c');
        assert_eq!(c.index(), a.index(), "slots are used again");
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.get_mut(b), Some(&mut 'b'));
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.iter_mut().map(|(_, c)| *c).collect::<String>(), "cb");
    }
}
