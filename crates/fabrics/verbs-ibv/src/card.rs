//! [`IbvDeviceMemory`]: memory on the card.

use crate::core::Core;
use crate::mr::flags;
use crate::raw::CardMemory;
use crate::wire::{self, RegionName};
use drover_mem::AllocError;
use drover_verbs::provide::{check_device_copy, check_device_memory};
use drover_verbs::{Access, DeviceMemory, Export, RegisterError};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;

/// Memory on the card, for drivers that give programs some; freed on drop.
pub struct IbvDeviceMemory {
    raw: CardMemory,
    bytes: usize,
    access: Access,
    _one_thread: PhantomData<Rc<()>>,
}

impl IbvDeviceMemory {
    pub(crate) fn new(core: &Core, bytes: usize, access: Access) -> Result<IbvDeviceMemory, RegisterError> {
        // How much of it others have taken, the driver does not say.
        let all = core.caps.supports.device_memory_bytes;
        let bytes = check_device_memory(("ibv", all), bytes, all, access)?;
        let failed = |source: io::Error| {
            let advice = "others may have taken the memory on the card: ask for less";
            let source = core.explain(&source, advice);
            RegisterError::System { bytes, source }
        };
        let raw = CardMemory::new(core.tables.domain().base(), bytes, flags(access)).map_err(failed)?;
        raw.copy_in(0, &vec![0; bytes]).map_err(failed)?;
        Ok(IbvDeviceMemory {
            raw,
            bytes,
            access,
            _one_thread: PhantomData,
        })
    }
}

impl DeviceMemory for IbvDeviceMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Never fails.
    fn export(&self) -> Result<Export, AllocError> {
        Ok(wire::encode_region(&RegionName {
            rkey: self.raw.rkey(),
            len: self.bytes as u64,
            access: self.access,
        }))
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        check_device_copy(self, offset, bytes.len());
        self.raw.copy_in(offset, bytes)
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        check_device_copy(self, offset, out.len());
        self.raw.copy_out(offset, out)
    }
}

impl fmt::Debug for IbvDeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IbvDeviceMemory({} B, {:?})", self.bytes, self.access)
    }
}
