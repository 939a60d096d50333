//! Checks of files with keys and passwords, of the control sockets, and of swap.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use scrip_server::{
    config::{EpochKeyLocation, LockMemory, Settings},
    control::socket_check::{self, ServerAccount},
};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

/// Checks that only the owner can read or write the files, and that the root key can be used.
pub(super) fn check_files(settings: &Settings) -> Vec<Finding> {
    let folder = &settings.storage.data_dir;
    let mut paths = vec![folder.clone()];
    let names = ["scrip.db", "read_log.db"].into_iter();
    let names = names.flat_map(|it| ["", "-wal", "-shm"].map(|suffix| format!("{it}{suffix}")));
    paths.extend(names.map(|it| folder.join(it)));
    paths.push(settings.head_file());
    let mut findings = Vec::new();
    for path in paths {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let fix = if metadata.is_dir() { "700" } else { "600" };
            let path = path.display();
            findings.push(failed(
                "permissions",
                format!(
                    "{path} is accessible to other users (mode {mode:o}); run: chmod {fix} {path}"
                ),
            ));
        }
    }
    findings.extend(check_secret_files(settings));
    if findings.is_empty() {
        let message = "files other than unlock keys are accessible to their owner only";
        findings.push(passed("permissions", message));
    }
    findings
}

/// Checks the files with keys and passwords, except the root key: the settings file too, if it
/// contains a password. They may be outside of the data directory.
pub(super) fn check_secret_files(settings: &Settings) -> Vec<Finding> {
    let root_key = settings.root_key_file();
    let files = settings.secret_files().into_iter().filter(|it| it.path != root_key);
    let errors = files.filter_map(|it| it.check().err());
    errors.map(|it| failed("permissions", format!("{it:#}"))).collect()
}

/// Checks the settings file if it contains a password that is not in use, because a variable
/// overrides it. The password may still be valid.
pub(super) fn check_unused_password(settings: &Settings) -> Option<Finding> {
    let error = settings.file_with_unused_password()?.check().err()?;
    let message = format!("{error:#}; or remove the password, which SCRIP_STORAGE_URL overrides");
    Some(warning("permissions", message))
}

pub(super) fn check_swap(settings: &Settings) -> Finding {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).all(|it| it.trim().is_empty()) {
        return passed("swap", "swap is off or unknown");
    }
    if let EpochKeyLocation::File(path) = &settings.cvc.epoch_keys {
        let message = format!(
            "swap is on, and {} may be written to it; turn swap off or encrypt it",
            path.display()
        );
        return warning("swap", message);
    }
    match settings.server.lock_memory {
        LockMemory::On => passed("swap", "swap is on, but server.lock_memory is on"),
        LockMemory::Auto | LockMemory::Off => warning(
            "swap",
            "swap is on, and secrets in memory may be written to it; set server.lock_memory to on, \
             or turn swap off",
        ),
    }
}

const CONTROL_SOCKET: &str = "control socket";

pub(super) fn check_sockets(settings: &Settings) -> Vec<Finding> {
    let Some(server) = ServerAccount::find(settings) else {
        let message = format!(
            "not checked: {} belongs to another user; run this command as the user of the server",
            settings.storage.data_dir.display()
        );
        return vec![warning(CONTROL_SOCKET, message)];
    };
    let mut findings = Vec::new();
    // A missing data directory is a finding of its own.
    if settings.check_data_dir().is_ok()
        && let Err(error) = socket_check::check_private(settings)
    {
        let message = format!(
            "{error:#}. Without this socket, commands such as scrip status and scrip keys do not \
             find the server"
        );
        findings.push(warning(CONTROL_SOCKET, message));
    }
    match (&settings.server.control_socket, &settings.server.control_group) {
        (Some(path), Some(group)) => findings.extend(check_shared_socket(path, group, &server)),
        (Some(_), None) => {
            let message = "server.control_socket is not created: set server.control_group";
            findings.push(warning(CONTROL_SOCKET, message));
        }
        (None, _) => (),
    }
    if findings.is_empty() {
        findings.push(passed(CONTROL_SOCKET, "the server can create it"));
    }
    findings
}

/// Checks that the server can create the socket of the operators' group, and that its members can
/// reach it.
fn check_shared_socket(path: &Path, group: &str, server: &ServerAccount) -> Option<Finding> {
    let checked = socket_check::check_shared(path, group, server);
    match checked.and_then(|()| socket_check::find_closed_folder(path, group)) {
        Err(error) => Some(failed(CONTROL_SOCKET, format!("server.control_socket: {error:#}"))),
        Ok(None) => None,
        Ok(Some((folder, mode))) => {
            let folder = folder.display();
            let message = format!(
                "server.control_socket: the group {group} cannot enter {folder} (mode {mode:o}); \
                 run: chmod a+x {folder}"
            );
            Some(warning(CONTROL_SOCKET, message))
        }
    }
}
