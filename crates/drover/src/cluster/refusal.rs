//! What is said when etcd answers, and refuses.

use super::ServiceUrl;
use crate::exit::{self, Failure};
use drover_cluster_etcd::NoAnswer;

/// The failure of a command or member that etcd refuses.
pub fn refused(service: &ServiceUrl, refusal: &NoAnswer) -> Failure {
    let text = format!(
        "{service}: {refusal}: --cluster-auth-file names a file with the user:password, and that user must have the rights to \
         read and write the keys below drover/{}/",
        service.service()
    );
    Failure::new(exit::NO_PERMISSION, text)
}
