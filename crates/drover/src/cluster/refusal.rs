//! What is said when etcd cannot be used, however long one waits.

use super::ServiceUrl;
use crate::exit::{self, Failure};
use drover_cluster_etcd::{NoAnswer, NoAnswerKind, OpenError};

/// The failure of a command or member that etcd refuses, or with which it has no TLS.
pub fn refused(service: &ServiceUrl, refusal: &NoAnswer) -> Failure {
    if refusal.kind != NoAnswerKind::User {
        // It says what to do.
        return Failure::new(exit::UNAVAILABLE, format!("{service}: {refusal}"));
    }
    let text = format!(
        "{service}: {refusal}: --cluster-auth-file names a file with the user:password, and that user must have the rights to \
         read and write the keys below drover/{}/",
        service.service()
    );
    Failure::new(exit::NO_PERMISSION, text)
}

/// The failure of a command or member whose way to etcd cannot be set up.
pub fn not_opened(service: &ServiceUrl, error: &OpenError) -> Failure {
    let code = match error {
        OpenError::Tls { .. } => exit::NO_INPUT,
        _ => exit::OS_ERROR,
    };
    Failure::new(code, format!("--cluster {service}: {error}"))
}
