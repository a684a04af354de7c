//! Python's clients at a Unix socket, and as users over TLS.

use super::{Args, limited, python, start};
use crate::command;
use crate::counts::Counts;
use crate::memcached::folder;
use crate::steps::StepResult;
use std::process::{Command, Stdio};

/// Runs Python's clients on what they use besides TCP. memcached has one kind of listener at a time, so this is for
/// drover only.
pub(super) fn by_other_doors(args: &Args) -> StepResult {
    if args.server == "memcached" {
        return Ok(Counts::default());
    }
    let place = |name: &str| folder().join(name).display().to_string();
    let (socket, users, key, certificate) = (
        place("clients.sock"),
        place("users"),
        place("key.pem"),
        place("certificate.pem"),
    );
    let _ = std::fs::remove_file(&socket);
    let open = start(args, &["-t", "2", "-s", &socket])?;
    command::run(limited(&python("round.py")).args([&open.address().to_string(), &socket]))?;
    drop(open);
    std::fs::write(&users, "drover:secret\n").map_err(|e| format!("{users}: {e}"))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&users, private).map_err(|e| format!("{users}: {e}"))?;
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    openssl.args([
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command::run(
        openssl
            .args(["-keyout", &key, "-out", &certificate])
            .stderr(Stdio::null()),
    )?;
    let files = format!("ssl_chain_cert={certificate},ssl_key={key}");
    let closed = start(args, &["-t", "2", "-Y", &users, "-Z", "-o", &files])?;
    let words = [&closed.address().to_string(), "drover:secret", &certificate];
    command::run(limited(&python("round.py")).args(words))?;
    let mut two = Counts::ONE;
    two.add(Counts::ONE);
    Ok(two)
}
