//! Fields of a control message, little-endian, read with checks: the bytes come from a peer.

use super::MessageError;
use drover_verbs::Export;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Appends fields.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    pub(super) fds: Vec<Arc<OwnedFd>>,
}

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Length u16, then the bytes; what does not fit 16 bits is cut off.
    pub(super) fn blob(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(usize::from(u16::MAX));
        self.u16(len as u16);
        self.bytes.extend_from_slice(&bytes[..len]);
    }

    /// Bytes as a blob, then how many of the frame's descriptors belong to it, u8.
    pub(super) fn export(&mut self, export: &Export) {
        self.blob(&export.bytes);
        self.u8(export.fds.len() as u8);
        self.fds.extend(export.fds.iter().cloned());
    }
}

/// Takes fields off the front.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    fds: std::vec::IntoIter<Arc<OwnedFd>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], fds: Vec<Arc<OwnedFd>>) -> Reader<'a> {
        Reader {
            bytes,
            fds: fds.into_iter(),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or(MessageError::Truncated)?;
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, MessageError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, MessageError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, MessageError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn blob(&mut self, limit: usize) -> Result<Vec<u8>, MessageError> {
        let len = usize::from(self.u16()?);
        if len > limit {
            return Err(MessageError::BadField { what: "length" });
        }
        Ok(self.take(len)?.to_vec())
    }

    pub(super) fn text(&mut self, limit: usize) -> Result<String, MessageError> {
        Ok(String::from_utf8_lossy(&self.blob(limit)?).into_owned())
    }

    pub(super) fn export(&mut self) -> Result<Export, MessageError> {
        let bytes = self.blob(Export::BYTES_MAX)?;
        let count = usize::from(self.u8()?);
        if count > Export::FDS_MAX {
            return Err(MessageError::BadField { what: "descriptors" });
        }
        let fds: Vec<_> = self.fds.by_ref().take(count).collect();
        if fds.len() < count {
            return Err(MessageError::Truncated);
        }
        Ok(Export { bytes, fds })
    }

    /// Everything must have been read: left-overs mean that the peer speaks something else.
    pub(super) fn finish(mut self) -> Result<(), MessageError> {
        if !self.bytes.is_empty() || self.fds.next().is_some() {
            return Err(MessageError::TrailingBytes);
        }
        Ok(())
    }
}
