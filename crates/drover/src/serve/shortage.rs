//! Memory that a service needs and the system does not give, in words that name the option.

use super::settings::Settings;
use crate::advice;
use crate::exit::{self, Failure};
use drover_kv::StartError;
use drover_mem::AllocError;

/// Why a service of these settings did not start.
pub fn start_failure(settings: &Settings, error: StartError) -> Failure {
    let text = match (allocation(&error), &settings.memory.memory_file.value) {
        (None, _) => return error.into(),
        (Some(AllocError::Reserve { source, .. }), Some(path)) => advice::of_file("-e", path, source),
        (Some(why), _) => {
            let mib = settings.capacity.memory_mib.value;
            format!(
                "-m {mib}: {why}: take less, or raise the limit of this process or container (`ulimit -v`)"
            )
        }
    };
    Failure::new(exit::OS_ERROR, text)
}

/// The allocation that failed, if one did.
fn allocation(error: &StartError) -> Option<&AllocError> {
    match error {
        StartError::Alloc(error) => Some(error),
        StartError::Shard { error, .. } => allocation(error),
        _ => None,
    }
}
