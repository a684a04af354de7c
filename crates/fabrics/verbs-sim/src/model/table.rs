//! [`Table`]: values by id. Ids are never reused, so a stale one is unknown.

/// Values are boxed, so that a table of removed values is small.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<Option<Box<T>>>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        // Id 0 is never assigned.
        Table(vec![None])
    }
}

impl<T> Table<T> {
    pub(crate) fn add(&mut self, thing: T) -> u32 {
        self.0.push(Some(Box::new(thing)));
        self.0.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.0.get(id as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.0.get_mut(id as usize)?.as_deref_mut()
    }

    /// The value of an id that a handle keeps alive.
    ///
    /// # Panics
    /// If there is no such value.
    #[inline]
    pub(crate) fn at(&mut self, id: u32) -> &mut T {
        self.get_mut(id).expect("its handle keeps it alive")
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        self.0.get_mut(id as usize)?.take().map(|thing| *thing)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(id, thing)| Some((id as u32, thing.as_deref()?)))
    }
}
