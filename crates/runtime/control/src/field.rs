//! [`Field`]: a value in a message; and the macros that implement the codec of a message from the list of its fields.
//!
//! A field whose type does not determine its encoding names a codec, as in `text as Text<1000>`: a type with functions
//! `encode` and `decode` like those of [`Field`].

use super::{DecodeError, Reader, Writer};
use drover_base::{HashKind, HashSeed};
use drover_verbs::Export;

/// A value that is encoded as part of a message.
pub trait Field: Sized {
    /// Appends the value to `to`.
    fn encode(&self, to: &mut Writer);

    /// Reads a value. `name` is the name of the field in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are malformed or there are too few.
    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError>;
}

/// Implements [`Field`] for a type that [`Writer`] and [`Reader`] have methods for.
macro_rules! primitive {
    ($($Type:ident)+) => {
        $(impl Field for $Type {
            fn encode(&self, to: &mut Writer) {
                to.$Type(*self);
            }

            fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<$Type, DecodeError> {
                from.$Type()
            }
        })+
    };
}

primitive!(u8 u16 u32 u64);

impl Field for bool {
    fn encode(&self, to: &mut Writer) {
        to.bool(*self);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<bool, DecodeError> {
        from.bool(name)
    }
}

impl Field for Export {
    fn encode(&self, to: &mut Writer) {
        to.export(self);
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<Export, DecodeError> {
        from.export()
    }
}

/// Encoded as the [number](HashKind::number) of the hash, a `u8`, and the two halves of the seed, one `u64` each. A client
/// that does not know the hash refuses the message.
impl Field for HashSeed {
    fn encode(&self, to: &mut Writer) {
        let (k0, k1) = self.halves();
        to.u8(self.kind().number()).u64(k0).u64(k1);
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<HashSeed, DecodeError> {
        let (field, value) = ("kind of the key hash", from.u8()?.into());
        let kind = HashKind::from_number(value).ok_or(DecodeError::Value { field, value })?;
        Ok(HashSeed::of(kind, from.u64()?, from.u64()?))
    }
}

/// Encoded as no bytes at all.
impl Field for () {
    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>, _: &'static str) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl<T: Field> Field for Box<T> {
    fn encode(&self, to: &mut Writer) {
        T::encode(self, to);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Box<T>, DecodeError> {
        T::decode(from, name).map(Box::new)
    }
}

/// Encoded as whether there is a value, and the value if there is.
impl<T: Field> Field for Option<T> {
    fn encode(&self, to: &mut Writer) {
        to.bool(self.is_some());
        if let Some(value) = self {
            value.encode(to);
        }
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Option<T>, DecodeError> {
        from.bool(name)?.then(|| T::decode(from, name)).transpose()
    }
}

/// Encodes one field, with the codec that is named or else with that of its type.
#[doc(hidden)]
#[macro_export]
macro_rules! encode_field {
    ($value:expr, $to:expr) => {
        $crate::Field::encode($value, $to)
    };
    ($value:expr, $to:expr, $codec:ty) => {
        <$codec>::encode($value, $to)
    };
}

/// Decodes one field, as [`encode_field!`] encodes it.
#[doc(hidden)]
#[macro_export]
macro_rules! decode_field {
    ($from:expr, $name:ident) => {
        $crate::Field::decode($from, stringify!($name))?
    };
    ($from:expr, $name:ident, $codec:ty) => {
        <$codec>::decode($from, concat!("length of ", stringify!($name)))?
    };
}

/// Implements [`Field`] for a struct, encoded as the listed fields one after the other. The list names all fields of
/// the struct.
#[macro_export]
macro_rules! fields {
    ($Struct:ident { $($field:ident $(as $codec:ty)?),* $(,)? }) => {
        impl $crate::Field for $Struct {
            fn encode(&self, to: &mut $crate::Writer) {
                $($crate::encode_field!(&self.$field, to $(, $codec)?);)*
            }

            fn decode(from: &mut $crate::Reader<'_>, _: &'static str) -> Result<$Struct, $crate::DecodeError> {
                Ok($Struct { $($field: $crate::decode_field!(from, $field $(, $codec)?),)* })
            }
        }
    };
}

/// Implements [`Message`](crate::Message) for a struct, with the kind before `=>`, encoded as the listed fields one
/// after the other. The list names all fields of the struct.
#[macro_export]
macro_rules! message {
    ($kind:expr => $Struct:ident { $($field:ident $(as $codec:ty)?),* $(,)? }) => {
        impl $crate::Message for $Struct {
            const KIND: u16 = $kind;

            fn encode(&self, _to: &mut $crate::Writer) {
                $($crate::encode_field!(&self.$field, _to $(, $codec)?);)*
            }

            fn decode(_from: &mut $crate::Reader<'_>) -> Result<$Struct, $crate::DecodeError> {
                Ok($Struct { $($field: $crate::decode_field!(_from, $field $(, $codec)?),)* })
            }
        }
    };
}

/// Implements, for an enum of all messages of a protocol, the methods `kind`, `encode`, `send` and `decode`. Each line
/// is a number and a variant with its fields; the kind of the variant's frames is that number plus the base, the
/// expression after `from`.
#[macro_export]
macro_rules! messages {
    ($Enum:ident from $base:expr; $($number:literal = $Variant:ident
        $(($inner:ident))? $({ $($field:ident $(as $codec:ty)?),* })?,)+) => {
        impl $Enum {
            /// Kind of the frame that carries this message.
            pub fn kind(&self) -> u16 {
                $base + match self {
                    $($Enum::$Variant { .. } => $number,)+
                }
            }

            /// Encodes the message as a frame, whose size is not checked.
            pub fn encode(&self) -> $crate::Frame {
                let mut to = $crate::Writer::new();
                match self {
                    $($Enum::$Variant $(($inner))? $({ $($field),* })? => {
                        $($crate::encode_field!($inner, &mut to);)?
                        $($($crate::encode_field!($field, &mut to $(, $codec)?);)*)?
                    })+
                }
                let (body, fds) = to.into_parts();
                let kind = self.kind();
                $crate::Frame { kind, body, fds }
            }

            /// Encodes the message and sends it.
            ///
            /// # Errors
            /// As [`ControlStream::send`](drover_control::ControlStream::send).
            pub fn send(&self, to: &mut $crate::ControlStream) -> Result<(), $crate::ControlError> {
                let frame = self.encode();
                to.send(frame.kind, &frame.body, &frame.fds)
            }

            /// Decodes a message from the kind, body and descriptors of a frame.
            ///
            /// # Errors
            /// [`DecodeError`](drover_control::DecodeError) if they are not exactly a message of this protocol.
            pub fn decode(
                kind: u16,
                body: &[u8],
                fds: Vec<::std::sync::Arc<::std::os::fd::OwnedFd>>,
            ) -> Result<$Enum, $crate::DecodeError> {
                let mut from = $crate::Reader::new(body, &fds);
                let message = match kind.wrapping_sub($base) {
                    $($number => $Enum::$Variant
                        $(({ let $inner = $crate::decode_field!(&mut from, $inner); $inner }))?
                        $({ $($field: $crate::decode_field!(&mut from, $field $(, $codec)?),)* })?,)+
                    _ => return Err($crate::DecodeError::UnknownKind { kind }),
                };
                from.finish()?;
                Ok(message)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(body: &[u8]) -> Result<HashSeed, DecodeError> {
        HashSeed::decode(&mut Reader::new(body, &[]), "seed")
    }

    #[test]
    fn a_seed_arrives_with_its_kind_and_an_unknown_kind_is_refused() {
        for kind in HashKind::ALL {
            let seed = HashSeed::of(kind, 5, u64::MAX);
            let mut to = Writer::new();
            seed.encode(&mut to);
            let (body, _) = to.into_parts();
            assert_eq!((body.len(), decode(&body)), (17, Ok(seed)));
        }
        let unknown = decode(&[2; 17]).expect_err("there is no such hash").to_string();
        assert_eq!(unknown, "kind of the key hash cannot be 2");
    }
}
