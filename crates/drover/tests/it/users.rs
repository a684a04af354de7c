//! Servers and clients of different users.

use crate::common::{Answer, Serving};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Numbers that no user of this machine has, let us hope.
const SERVER: u32 = 47_110;
const GROUP: u32 = 47_120;
const MEMBER: u32 = 47_130;
const OUTSIDER: u32 = 47_140;

/// A folder with the binary, which every user may run, and one for sockets, which is the server's.
struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// `None`: only root can be other users.
    fn new(name: &str) -> Option<Installed> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can start programs as other users");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("drover-users-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("run")).expect("a new folder");
        for open in [&folder, &folder.join("run")] {
            std::fs::set_permissions(open, PermissionsExt::from_mode(0o755)).expect("our folder");
        }
        std::fs::copy(env!("CARGO_BIN_EXE_drover"), folder.join("drover")).expect("space for a copy");
        let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/drover.conf");
        std::fs::copy(conf, folder.join("drover.conf")).expect("the packaged settings");
        chown(folder.join("run"), Some(SERVER), Some(GROUP)).expect("we are root");
        Some(Installed { folder })
    }

    fn addr(&self) -> String {
        format!("shm:{}", self.folder.join("run/drover.sock").display())
    }

    fn command(&self, user: u32, group: u32) -> Command {
        let mut command = Command::new(self.folder.join("drover"));
        command
            .uid(user)
            .gid(group)
            .current_dir("/")
            .env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// The server with the packaged settings, but for ports, which other tests may have.
    fn serve(&self, more: &[&str]) -> Serving {
        let mut command = self.command(SERVER, GROUP);
        let conf = self.folder.join("drover.conf");
        command.arg("serve").arg("--config").arg(conf);
        command.args(["--fabric", &self.addr(), "-p", "0", "-t", "1"]);
        command.args(["--metrics-listen", "127.0.0.1:0"]).args(more);
        Serving::spawn(&mut command, &self.addr())
    }

    fn ask(&self, (user, group): (u32, u32), args: &[&str]) -> Answer {
        let mut command = self.command(user, group);
        let output = command.args(args).args(["--server", &self.addr()]).output();
        let output = output.expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn the_packaged_settings_let_in_the_group_and_root_and_nobody_else() {
    let Some(installed) = Installed::new("group") else {
        return;
    };
    let server = installed.serve(&[]);
    let done = (0, String::new(), String::new());
    for user in [(MEMBER, GROUP), (0, 0), (SERVER, GROUP)] {
        assert_eq!(installed.ask(user, &["set", "key", "value"]), done, "{user:?}");
        let got = installed.ask(user, &["get", "key"]);
        assert_eq!(got, (0, "value".into(), String::new()), "{user:?}");
    }
    let (status, _, error) = installed.ask((OUTSIDER, OUTSIDER), &["get", "key"]);
    assert_ne!(status, 0);
    let advice = format!("it lets in user {SERVER} and group {GROUP}: become a member");
    assert!(error.contains(&advice), "{error}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn without_a_mode_only_the_owner_and_root_get_in() {
    let Some(installed) = Installed::new("owner") else {
        return;
    };
    let server = installed.serve(&["-a", "700"]);
    let done = (0, String::new(), String::new());
    assert_eq!(installed.ask((0, 0), &["set", "key", "value"]), done);
    let (status, _, error) = installed.ask((MEMBER, GROUP), &["get", "key"]);
    assert_ne!(status, 0);
    let advice = format!("it lets in user {SERVER} alone: start the server with -a 770");
    assert!(error.contains(&advice), "{error}");
    assert_eq!(server.stop(), 0);
}
