//! [`LoopbackDeviceMemory`]: memory "on the card", of which there is as much as the capabilities say.

use super::Flaw;
use super::device::Shared;
use super::fabric::Fabric;
use super::memory::Mr;
use drover_mem::{AllocError, PageWish, Region};
use drover_verbs::provide::{check_device_copy, check_device_memory};
use drover_verbs::{Access, DeviceMemory, Export, RegisterError};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Memory on the card; freed on drop.
#[derive(Debug)]
pub struct LoopbackDeviceMemory {
    shared: Shared,
    key: u32,
    region: Region,
    bytes: usize,
    /// What its owner copied in, for a flaw.
    copied: Option<RefCell<Vec<u8>>>,
    _one_thread: std::marker::PhantomData<Rc<()>>,
}

impl LoopbackDeviceMemory {
    pub(super) fn new(
        shared: &Shared,
        domain: u32,
        bytes: usize,
        access: Access,
    ) -> Result<LoopbackDeviceMemory, RegisterError> {
        let mut fabric = shared.lock();
        let all = fabric.caps.supports.device_memory_bytes;
        let free = match fabric.has(Flaw::EndlessDeviceMemory) {
            true => usize::MAX,
            false => all - fabric.device_memory_taken(),
        };
        let bytes = check_device_memory(("loopback", all), bytes, free, access)?;
        let region = Region::private(bytes, PageWish::Small).map_err(|error| RegisterError::System {
            bytes,
            source: io::Error::other(error),
        })?;
        let key = fabric.fresh_id();
        let mr = Mr {
            domain,
            region: region.clone(),
            bytes,
            on_card: true,
            access,
        };
        fabric.mrs.insert(key, mr);
        let is_copy = fabric.has(Flaw::DeviceMemoryIsACopy);
        Ok(LoopbackDeviceMemory {
            shared: shared.clone(),
            key,
            region,
            bytes,
            copied: is_copy.then(|| RefCell::new(vec![0; bytes])),
            _one_thread: std::marker::PhantomData,
        })
    }
}

impl DeviceMemory for LoopbackDeviceMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn export(&self) -> Result<Export, AllocError> {
        Ok(self.shared.lock().names.region(self.key, &[]))
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        check_device_copy(self, offset, bytes.len());
        let _locked = self.shared.lock();
        self.region.copy_in(offset, bytes);
        if let Some(copied) = &self.copied {
            copied.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        check_device_copy(self, offset, out.len());
        let _locked = self.shared.lock();
        match &self.copied {
            Some(copied) => out.copy_from_slice(&copied.borrow()[offset..offset + out.len()]),
            None => self.region.copy_out(offset, out),
        }
        Ok(())
    }
}

impl Fabric {
    fn device_memory_taken(&self) -> usize {
        let on_card = self.mrs.values().filter(|mr| mr.on_card);
        on_card.map(|mr| mr.bytes).sum()
    }
}

impl Drop for LoopbackDeviceMemory {
    fn drop(&mut self) {
        self.shared.lock().mrs.remove(&self.key);
    }
}
