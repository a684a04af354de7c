//! The client against a fake server on the loopback fabric, in virtual time: every fault on purpose.

mod bed;
mod behind;
mod bulk;
mod fake;
mod hostile;
mod loss;
mod plain;
mod session;
