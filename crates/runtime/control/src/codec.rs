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
    /// Kind of the frame, unique in its protocol. Applications use [`kind::APPLICATION`](super::kind::APPLICATION) and
    /// above.
    const KIND: u16;

    /// Appends all fields to `to`.
    fn encode(&self, to: &mut Writer);

    /// Reads all fields, checking every value. Bytes and descriptors may be left over: the caller checks that with
    /// [`Reader::finish`], as [`Frame::decode`] does.
    ///
    /// # Errors
    /// [`DecodeError`] for the first bad field.
    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Reasons why an encoded message does not fit a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The body is longer than [`BODY_BYTES_MAX`].
    #[error("a message of {bytes} bytes, at most {BODY_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the body in bytes.
        bytes: usize,
    },
    /// There are more than [`FDS_MAX`] descriptors.
    #[error("a message with {count} descriptors, at most {FDS_MAX} are allowed")]
    TooManyFds {
        /// Number of distinct descriptors.
        count: usize,
    },
}

/// Errors of decoding the body of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body ends inside a field.
    #[error("the message ends after {at} bytes, inside a field")]
    Truncated {
        /// Offset in the body, bytes, of the part that is incomplete: a number, or the bytes of a byte string, which
        /// follow its length.
        at: usize,
    },
    /// There are bytes after the last field.
    #[error("{bytes} bytes after the end of the message")]
    Surplus {
        /// Number of surplus bytes.
        bytes: usize,
    },
    /// There are descriptors that no [`Export`] in the message refers to.
    #[error("{count} surplus descriptors in the message")]
    SurplusFds {
        /// Number of surplus descriptors.
        count: usize,
    },
    /// A field has an invalid value, a byte string is too long, or an [`Export`] has too many descriptors or refers to
    /// one that was not received.
    #[error("{field} cannot be {value}")]
    Value {
        /// What is invalid, for people: the name of a field, or of a part, such as `length of system`.
        field: &'static str,
        /// What was received: a value, a length in bytes, or the number or index of descriptors.
        value: u64,
    },
    /// The protocol has no message of this kind.
    #[error("unknown control message kind {kind}")]
    UnknownKind {
        /// Kind of the frame.
        kind: u16,
    },
    /// The message is of another kind than the expected one.
    #[error("a message of kind {found} where {expected} was expected")]
    Kind {
        /// Expected kind of frame.
        expected: u16,
        /// Received kind of frame.
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
    /// Starts with an empty body.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Appends `value` as 1 byte.
    pub fn u8(&mut self, value: u8) -> &mut Writer {
        self.raw(&[value])
    }

    /// Appends `value` as a byte, 0 or 1.
    pub fn bool(&mut self, value: bool) -> &mut Writer {
        self.u8(u8::from(value))
    }

    /// Appends `value` as 2 bytes, little-endian.
    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends `value` as 4 bytes, little-endian.
    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends `value` as 8 bytes, little-endian.
    pub fn u64(&mut self, value: u64) -> &mut Writer {
        self.raw(&value.to_le_bytes())
    }

    /// Appends `bytes` without their length, which the reader must know.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.body.extend_from_slice(bytes);
        self
    }

    /// Appends the length of `bytes` as a `u32`, then `bytes`. The length is not limited here.
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

    /// Returns body and descriptors, after checking that they fit a frame.
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

    /// Returns body and descriptors, however many, for [`ControlStream::send`](super::ControlStream::send), which
    /// refuses too many.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Arc<OwnedFd>>) {
        (self.body, self.fds)
    }
}

/// Decodes the body of a message, field by field, checking every length.
#[derive(Debug)]
pub struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    fds: &'a [Arc<OwnedFd>],
    /// Descriptors that exports referred to so far, one bit per index.
    fds_used: [u64; 4],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `body`, whose exports refer to descriptors by their index in `fds`.
    pub fn new(body: &'a [u8], fds: &'a [Arc<OwnedFd>]) -> Reader<'a> {
        Reader {
            body,
            at: 0,
            fds,
            fds_used: [0; 4],
        }
    }

    /// Reads the next `len` bytes.
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

    /// Reads the next byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if none is left.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads the next byte, which must be 0 or 1. `field` names it in errors.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if no byte is left, [`DecodeError::Value`] if it is neither 0 nor 1.
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

    /// Reads the next 2 bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads the next 4 bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads the next 8 bytes, little-endian.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a byte string of at most `max` bytes, written by [`Writer::bytes`]. `field` names it in errors.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the body ends first, [`DecodeError::Value`] if the string is longer than `max`.
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

    /// Reads an export with its descriptors. The export's contents are not checked: the provider does that when it
    /// imports them.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the body ends first, [`DecodeError::Value`] if the export has too many bytes or
    /// descriptors, or refers to a descriptor that was not received.
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
            self.fds_used[usize::from(index / 64)] |= 1 << (index % 64);
        }
        Ok(Export { bytes, fds })
    }

    /// Number of bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.body.len() - self.at
    }

    /// Checks that no bytes are left in the body, and that each descriptor was referred to by an export.
    ///
    /// # Errors
    /// [`DecodeError::Surplus`] or [`DecodeError::SurplusFds`].
    pub fn finish(self) -> Result<(), DecodeError> {
        let used: u32 = self.fds_used.iter().map(|word| word.count_ones()).sum();
        match (self.remaining(), self.fds.len() - used as usize) {
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
    /// [`DecodeError`] if the frame is of another kind, or its body and descriptors are not exactly an `M`.
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
