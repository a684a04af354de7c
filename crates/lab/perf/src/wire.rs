//! Messages between the two ends before, between and after measurements. Every received value is checked.
//!
//! ```text
//!   client                       server
//!     HELLO plan      --------->            or a refusal with a reason
//!                     <---------  TAKEN
//!     EXPORT, EXPORT  --------->
//!                     <---------  EXPORT, EXPORT
//!     READY           --------->
//!                     <---------  READY
//!     RUN bytes       --------->            once per size
//!                     <---------  READY
//!       ... measured ...
//!     DONE            --------->
//!                     <---------  COUNT received
//!     BYE             --------->
//! ```

use crate::{Atomic, Op, Plan};
use drover_base::Ns;
use drover_control::{DecodeError, Message, Reader, Writer};
use drover_verbs::QpKind;

/// Version of these messages.
const VERSION: u16 = 1;
/// Maximum number of rows.
const SIZES_MAX: u8 = 64;
/// First message kind, above those of key-value systems, so that a client of the wrong kind of server gets a clear
/// error.
const FIRST: u16 = 0x7100;

/// Request to measure a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello(pub(crate) Plan);

/// Acceptance of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken;

/// Request to prepare for messages of this many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run(pub(crate) u32);

/// The row is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done;

/// Number of messages received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count(pub(crate) u64);

/// End of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bye;

fn refused<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::Value { field, value })
}

impl Message for Hello {
    const KIND: u16 = FIRST;

    fn encode(&self, to: &mut Writer) {
        let plan = &self.0;
        let kind = match plan.kind {
            QpKind::Rc => 0,
            QpKind::Uc => 1,
            QpKind::Ud => 2,
        };
        to.u16(VERSION)
            .u8(plan.op.code())
            .u8(kind)
            .u8(plan.sizes.len() as u8);
        plan.sizes.iter().for_each(|size| {
            to.u32(*size);
        });
        to.u64(plan.iterations)
            .u64(plan.duration.unwrap_or(Ns::MAX).0)
            .u64(plan.warm_up);
        to.u32(plan.tx_depth).u32(plan.rx_depth).u32(plan.inline_bytes);
        to.u32(plan.cq_mod).u32(plan.post_list);
        to.bool(plan.atomic == Atomic::CompareSwap);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        let version = from.u16()?;
        if version != VERSION {
            return refused("the version of drover perf", version.into());
        }
        let code = from.u8()?;
        let Some(op) = Op::of_code(code) else {
            return refused("a test", code.into());
        };
        let kind = match from.u8()? {
            0 => QpKind::Rc,
            1 => QpKind::Uc,
            2 => QpKind::Ud,
            other => return refused("a kind of queue pair", other.into()),
        };
        let count = from.u8()?;
        if count == 0 || count > SIZES_MAX {
            return refused("the number of sizes", count.into());
        }
        let sizes = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
        let iterations = from.u64()?;
        let duration = Some(Ns(from.u64()?)).filter(|time| *time != Ns::MAX);
        Ok(Hello(Plan {
            op,
            kind,
            sizes,
            iterations,
            duration,
            warm_up: from.u64()?,
            tx_depth: from.u32()?,
            rx_depth: from.u32()?,
            inline_bytes: from.u32()?,
            cq_mod: from.u32()?,
            post_list: from.u32()?,
            atomic: match from.bool("the atomic")? {
                true => Atomic::CompareSwap,
                false => Atomic::FetchAdd,
            },
        }))
    }
}

/// Defines messages without fields.
macro_rules! bare {
    ($($name:ident $kind:expr;)*) => {
        $(impl Message for $name {
            const KIND: u16 = $kind;

            fn encode(&self, _: &mut Writer) {}

            fn decode(_: &mut Reader<'_>) -> Result<$name, DecodeError> {
                Ok($name)
            }
        })*
    };
}

bare! {
    Taken FIRST + 1;
    Done FIRST + 3;
    Bye FIRST + 5;
}

impl Message for Run {
    const KIND: u16 = FIRST + 2;

    fn encode(&self, to: &mut Writer) {
        to.u32(self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Run, DecodeError> {
        Ok(Run(from.u32()?))
    }
}

impl Message for Count {
    const KIND: u16 = FIRST + 4;

    fn encode(&self, to: &mut Writer) {
        to.u64(self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Count, DecodeError> {
        Ok(Count(from.u64()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_verbs::Caps;

    fn encoded(plan: &Plan) -> Vec<u8> {
        let mut writer = Writer::new();
        Hello(plan.clone()).encode(&mut writer);
        writer.into_parts().0
    }

    fn decoded(bytes: &[u8]) -> Result<Plan, DecodeError> {
        let mut reader = Reader::new(bytes, &[]);
        let hello = Hello::decode(&mut reader)?;
        reader.finish()?;
        Ok(hello.0)
    }

    #[test]
    fn plans_come_back() {
        for op in Op::all() {
            let mut plan = Plan::new(op, &Caps::none());
            assert_eq!(decoded(&encoded(&plan)), Ok(plan.clone()));
            (plan.duration, plan.kind) = (Some(Ns::from_s(2)), QpKind::Ud);
            (plan.sizes, plan.atomic) = (vec![2, 4, 8], Atomic::CompareSwap);
            assert_eq!(decoded(&encoded(&plan)), Ok(plan));
        }
    }

    #[test]
    fn bent_bytes_are_refused_or_another_plan_but_never_a_panic() {
        let plan = Plan::new(Op::all().next().expect("a test"), &Caps::none());
        let bytes = encoded(&plan);
        for at in 0..bytes.len() {
            assert!(decoded(&bytes[..at]).is_err(), "cut at {at}");
            for value in 0..=u8::MAX {
                let mut bent = bytes.clone();
                bent[at] = value;
                if let Ok(other) = decoded(&bent) {
                    assert_eq!(encoded(&other), bent, "what is taken is taken whole");
                    let _ = other.check(&Caps::none());
                }
            }
        }
    }
}
