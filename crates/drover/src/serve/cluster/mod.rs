//! A server that is a member of a service of several: what it needs before it starts, and what runs beside its cores.
//!
//! ```text
//! prepare   listen        the port of the links, as the user who starts the process
//!           etcd_options  user, password and certificates for etcd, as that one, too
//! wait      Joining       etcd answers: hash seed, secret, lease and replicas of the service; nobody else has the name
//! start     CoreParts     what each core needs: shards that it may serve, links to other members
//!           Membership    control thread, acceptor of links; its end is the member's
//! ```

mod advert;
mod agreed;
mod joining;
mod listen;
mod membership;
mod peers;

pub use joining::{Joining, etcd_options, join};
pub use listen::{MemberPort, listen};
pub use membership::{Membership, Starting};
