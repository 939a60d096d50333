//! Whether the audit sink works, for the metric, the control socket and `scrip doctor`.

use std::{
    fs::OpenOptions,
    os::unix::net::UnixDatagram,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::Context;
use nix::unistd::{AccessFlags, access};

use crate::{config::AuditSinkTarget, files::atomic_file::folder_of};

/// The result of the last attempt to write records.
#[derive(Debug, Default)]
pub struct SinkHealth {
    cause: Mutex<Option<String>>,
}

impl SinkHealth {
    /// Why records are not written; `None` if the last attempt succeeded, and before the first one.
    pub fn cause(&self) -> Option<String> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_cause(&self, cause: Option<String>) {
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }
}

/// Checks without a server that this user can write to the sink. Writes nothing.
/// Errors: the file, its directory or the socket cannot be used.
pub fn check_target(target: &AuditSinkTarget) -> anyhow::Result<()> {
    match target {
        AuditSinkTarget::File(path) => {
            check_file(path).with_context(|| format!("{} cannot be written", path.display()))
        }
        AuditSinkTarget::Syslog(path) => {
            let connected = UnixDatagram::unbound().and_then(|it| it.connect(path));
            connected.with_context(|| format!("no daemon receives at {}", path.display()))
        }
    }
}

fn check_file(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        OpenOptions::new().append(true).open(path)?;
        return Ok(());
    }
    let folder = folder_of(path);
    let flags = AccessFlags::W_OK | AccessFlags::X_OK;
    access(folder, flags).with_context(|| format!("the directory {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::net::UnixDatagram};

    use super::*;

    #[test]
    fn sink_needs_a_directory_or_a_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.jsonl");
        let check = || check_target(&AuditSinkTarget::File(path.clone()));
        assert!(format!("{:#}", check().unwrap_err()).contains("the directory"));
        fs::create_dir(folder.path().join("new")).unwrap();
        check().unwrap();
        assert!(!path.exists(), "the check creates no file");
        fs::create_dir(&path).unwrap();
        assert!(check().is_err(), "a directory is no file");
        let socket = folder.path().join("log");
        let check = || check_target(&AuditSinkTarget::Syslog(socket.clone()));
        assert!(check().is_err());
        let _daemon = UnixDatagram::bind(&socket).unwrap();
        check().unwrap();
    }
}
