//! [`Writer`] and [`Reader`]: fixed-width little-endian fields, checked, so that messages are plain structs.
//!
//! | field | bytes |
//! |---|---|
//! | `u8`, `u16`, `u32`, `u64` | 1, 2, 4, 8, little-endian |
//! | byte string | length `u32`, then the bytes |
//! | [`Export`] | byte string, count `u8`, then per descriptor its index in the frame `u8` |

use super::frame::{BODY_BYTES_MAX, FDS_MAX, Frame};
use drover_verbs::Export;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A struct that is sent as one frame.
pub trait Message: Sized {
    /// Kind of the frame: at least [`kind::APPLICATION`](super::kind::APPLICATION), unique in its protocol.
    const KIND: u16;

    /// Writes all fields.
    fn encode(&self, to: &mut Writer);

    /// Reads all fields, checking every value. The caller checks for surplus bytes.
    ///
    /// # Errors
    /// [`DecodeError`] for the first bad field.
    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Errors of encoding a message that does not fit a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The body is too long.
    #[error("a message of {bytes} bytes, at most {BODY_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the body.
        bytes: usize,
    },
    /// There are too many descriptors.
    #[error("a message with {count} descriptors, at most {FDS_MAX} are allowed")]
    TooManyFds {
        /// Number of distinct descriptors.
        count: usize,
    },
}

/// Errors of decoding a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body ends inside a field.
    #[error("the message ends after {at} bytes, inside a field")]
    Truncated {
        /// Offset of the field.
        at: usize,
    },
    /// There are bytes after the last field.
    #[error("{bytes} bytes after the end of the message")]
    Surplus {
        /// Number of surplus bytes.
        bytes: usize,
    },
    /// There are descriptors without a field that refers to them.
    #[error("{count} surplus descriptors in the message")]
    SurplusFds {
        /// Number of surplus descriptors.
        count: usize,
    },
    /// A field has an invalid value.
    #[error("{field} cannot be {value}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Received value.
        value: u64,
    },
    /// The message is of another kind.
    #[error("a message of kind {found} where {expected} was expected")]
    Kind {
        /// Expected kind.
        expected: u16,
        /// Received kind.
        found: u16,
    },
}

/// Builds the body of a message and collects its descriptors.
#[derive(Debug, Default)]
pub struct Writer {
    body: Vec<u8>,
    fds: Vec<Arc<OwnedFd>>,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Appends a byte.
    pub fn u8(&mut self, value: u8) -> &mut Writer {
        self.raw(&[value])
    }

    /// Appends a boolean as 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Writer {
        self.u8(u8::from(value))
    }

    /// Appends 2 bytes.
    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends 4 bytes.
    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends 8 bytes.
    pub fn u64(&mut self, value: u64) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends bytes of a length that both sides know.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Appends a byte string with its length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Writer {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX))
            .raw(bytes)
    }

    /// Appends an export. A descriptor shared by several exports of one message is sent once.
    pub fn export(&mut self, export: &Export) -> &mut Writer {
        self.bytes(&export.bytes);
        self.u8(u8::try_from(export.fds.len()).unwrap_or(u8::MAX));
        for fd in &export.fds {
            let index = self.fd_index(fd);
            self.u8(u8::try_from(index).unwrap_or(u8::MAX));
        }
        self
    }

    fn fd_index(&mut self, fd: &Arc<OwnedFd>) -> usize {
        if let Some(index) = self.fds.iter().position(|have| Arc::ptr_eq(have, fd)) {
            return index;
        }
        self.fds.push(fd.clone());
        self.fds.len() - 1
    }

    /// Returns body and descriptors.
    ///
    /// # Errors
    /// [`EncodeError`] if they do not fit a frame.
    pub fn finish(self) -> Result<(Vec<u8>, Vec<Arc<OwnedFd>>), EncodeError> {
        if self.body.len() > BODY_BYTES_MAX {
            return Err(EncodeError::TooLong {
                bytes: self.body.len(),
            });
        }
        if self.fds.len() > FDS_MAX {
            return Err(EncodeError::TooManyFds {
                count: self.fds.len(),
            });
        }
        Ok(self.into_parts())
    }

    /// Returns body and descriptors for [`ControlStream::send`](super::ControlStream::send), which checks their size.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Arc<OwnedFd>>) {
        (self.body, self.fds)
    }
}

/// Decodes a body, checking every length.
#[derive(Debug)]
pub struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    fds: &'a [Arc<OwnedFd>],
    /// Descriptors up to the last one that an export referred to.
    fds_used: usize,
}

impl<'a> Reader<'a> {
    /// Reads `body`, whose exports refer to `fds`.
    pub fn new(body: &'a [u8], fds: &'a [Arc<OwnedFd>]) -> Reader<'a> {
        Reader {
            body,
            at: 0,
            fds,
            fds_used: 0,
        }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.body[self.at..];
        let out = rest.get(..len).ok_or(DecodeError::Truncated { at: self.at })?;
        self.at += len;
        Ok(out)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.raw(N)?;
        Ok(bytes.try_into().expect("raw returned N bytes"))
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if none is left.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next byte, which must be 0 or 1.
    ///
    /// # Errors
    /// [`DecodeError`] if the field is truncated or its value is out of range.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Value {
                field,
                value: u64::from(value),
            }),
        }
    }

    /// The next 2 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next 4 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A byte string of at most `max` bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the field is truncated or its value is out of range.
    pub fn bytes(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        if len > max {
            return Err(DecodeError::Value {
                field,
                value: len as u64,
            });
        }
        self.raw(len)
    }

    /// An export. The provider checks its contents.
    ///
    /// # Errors
    /// [`DecodeError`] if the field is truncated or its value is out of range.
    pub fn export(&mut self) -> Result<Export, DecodeError> {
        let bytes = self.bytes("export length", Export::BYTES_MAX)?.to_vec();
        let count = self.u8()?;
        if usize::from(count) > Export::FDS_MAX {
            return Err(DecodeError::Value {
                field: "export descriptors",
                value: u64::from(count),
            });
        }
        let mut fds = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let index = self.u8()?;
            let fd = self.fds.get(usize::from(index)).ok_or(DecodeError::Value {
                field: "descriptor index",
                value: u64::from(index),
            })?;
            fds.push(fd.clone());
            self.fds_used = self.fds_used.max(usize::from(index) + 1);
        }
        Ok(Export { bytes, fds })
    }

    /// Number of bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.body.len() - self.at
    }

    /// Checks that all bytes and descriptors were used.
    ///
    /// # Errors
    /// [`DecodeError`] for surplus bytes or descriptors.
    pub fn finish(self) -> Result<(), DecodeError> {
        match (self.remaining(), self.fds.len() - self.fds_used) {
            (0, 0) => Ok(()),
            (0, count) => Err(DecodeError::SurplusFds { count }),
            (bytes, _) => Err(DecodeError::Surplus { bytes }),
        }
    }
}

impl Frame {
    /// Decodes the whole frame as message `M`.
    ///
    /// # Errors
    /// [`DecodeError`] if the kind or the body does not match.
    pub fn decode<M: Message>(&self) -> Result<M, DecodeError> {
        if self.kind != M::KIND {
            return Err(DecodeError::Kind {
                expected: M::KIND,
                found: self.kind,
            });
        }
        let mut reader = Reader::new(&self.body, &self.fds);
        let message = M::decode(&mut reader)?;
        reader.finish()?;
        Ok(message)
    }
}
