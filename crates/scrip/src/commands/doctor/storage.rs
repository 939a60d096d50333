//! Checks the running server and the free space of its data directory.

use scrip_api::{app::readiness::NotReadyReason, metrics::label::Label};
use scrip_operator::output::format_bytes;
use scrip_server::{
    config::Settings,
    control::status::{ServerStatus, query_status},
    files::DiskSpace,
};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

/// A large disk with little free space in percent still has room, and a small disk with much free
/// space in percent may not.
const WARNING_PERCENT: u64 = 10;
const WARNING_BYTES: u64 = 1024 * 1024 * 1024;
const FAILURE_PERCENT: u64 = 2;

pub(super) fn check_disk(settings: &Settings) -> Finding {
    let folder = &settings.storage.data_dir;
    match DiskSpace::read(folder) {
        Ok(space) => assess_space(space, full_disk_effect(settings)),
        Err(error) => failed("disk", format!("{} cannot be inspected: {error}", folder.display())),
    }
}

fn full_disk_effect(settings: &Settings) -> &'static str {
    match &settings.storage.url {
        None => "writes and reads are refused when the disk is full",
        Some(_) => {
            "requests continue when this disk is full, because the vault is in PostgreSQL, but this \
             node cannot save the chain heads, and a rollback may stay undetected"
        }
    }
}

fn assess_space(space: DiskSpace, effect: &str) -> Finding {
    let DiskSpace { free_bytes, size_bytes } = space;
    let percent = u128::from(free_bytes) * 100 / u128::from(size_bytes.max(1));
    let message = format!("{} free ({percent} %)", format_bytes(free_bytes));
    if percent < u128::from(FAILURE_PERCENT) {
        failed("disk", format!("{message}; {effect}; free some space"))
    } else if percent < u128::from(WARNING_PERCENT) || free_bytes < WARNING_BYTES {
        warning("disk", message)
    } else {
        passed("disk", message)
    }
}

/// Reports the state of the server, as the server itself sees it.
pub(super) fn check_server(settings: &Settings) -> Finding {
    let folder = &settings.storage.data_dir;
    match (query_status(folder), settings.check_data_dir()) {
        (Some(status), _) => assess_server(&status),
        (None, Ok(())) => passed("server", "not running"),
        (None, Err(_)) => {
            let message = format!(
                "not checked: the server answers in the data directory {}, which cannot be used",
                folder.display()
            );
            warning("server", message)
        }
    }
}

fn assess_server(status: &ServerStatus) -> Finding {
    let ServerStatus { pid, url, not_ready, .. } = status;
    let Some(label) = not_ready else {
        return passed("server", format!("process {pid} listens at {url}"));
    };
    // A server of another version may have another reason.
    let reason = NotReadyReason::ALL.iter().find(|it| it.as_str() == label);
    let text = reason.map_or("is not ready; the cause is in its log", |it| describe_reason(*it));
    let cause = status.sealed_cause.as_deref().map(|it| format!(". {it}")).unwrap_or_default();
    failed("server", format!("process {pid} {text}{cause}"))
}

fn describe_reason(reason: NotReadyReason) -> &'static str {
    match reason {
        NotReadyReason::DiskFull => {
            "refuses writes and reads: the disk is full. Free some space; the server recovers \
             without a restart"
        }
        NotReadyReason::CommitFailed => {
            "refuses writes and reads: a commit failed. The cause is in its log; the server \
             recovers without a restart"
        }
        NotReadyReason::StoreUnreachable => {
            "refuses requests: PostgreSQL cannot be reached. The server recovers without a restart"
        }
        NotReadyReason::RootKey => "is sealed: its root key is missing or wrong",
        NotReadyReason::Shares => "is sealed: it waits for shares",
        NotReadyReason::UnlockKeyMissing => {
            "is sealed: the key of its unlock method is missing or unusable"
        }
        NotReadyReason::UnlockKeyWrong => "is sealed: its unlock method returned another key",
        NotReadyReason::UnlockUnavailable => {
            "is sealed: the source of its unlock method does not answer"
        }
        NotReadyReason::UnlockDenied => "is sealed: access to its key is denied",
        NotReadyReason::UnlockSettings => "is sealed: its settings do not allow the unlock method",
        NotReadyReason::VaultAltered => "is sealed: stored keys or policies were altered",
        NotReadyReason::RotationInterrupted => {
            "is sealed: a rotation of fingerprints was interrupted"
        }
        NotReadyReason::NoVault => {
            "is sealed: there is no vault; run: scrip init, or scrip import FILE for a moved vault"
        }
        NotReadyReason::Starting => "is starting",
    }
}

#[cfg(test)]
mod tests {
    use scrip_server::config::Environment;

    use super::*;
    use crate::commands::doctor::finding::CheckVerdict;

    #[test]
    fn server_is_not_called_stopped_if_its_directory_cannot_be_used() {
        let check = |folder: &str| {
            let flags = [("storage.data_dir", folder.to_owned())];
            check_server(&Settings::load_with(None, &flags, &Environment::default()).unwrap())
        };
        let finding = check("/nonexistent/scrip");
        assert_eq!(finding.verdict, CheckVerdict::Warning);
        assert!(finding.message.starts_with("not checked"), "{}", finding.message);
        let folder = tempfile::tempdir().unwrap();
        let finding = check(&folder.path().display().to_string());
        assert_eq!(finding.verdict, CheckVerdict::Passed);
        assert_eq!(finding.message, "not running");
    }

    #[test]
    fn little_free_space_is_a_warning_and_almost_none_an_error() {
        const GIB: u64 = 1024 * 1024 * 1024;
        let cases = [
            (50 * GIB, 100 * GIB, CheckVerdict::Passed),
            (9 * GIB, 100 * GIB, CheckVerdict::Warning),
            (GIB / 2, GIB, CheckVerdict::Warning),
            (GIB, 100 * GIB, CheckVerdict::Failed),
            (0, 0, CheckVerdict::Failed),
        ];
        for (free_bytes, size_bytes, expected) in cases {
            let finding = assess_space(DiskSpace { free_bytes, size_bytes }, "");
            assert_eq!(finding.verdict, expected, "{}", finding.message);
        }
    }

    #[test]
    fn full_disk_refuses_requests_only_with_the_embedded_engine() {
        let message_with = |flags: &[(&'static str, String)]| {
            let settings = Settings::load_with(None, flags, &Environment::default()).unwrap();
            let space = DiskSpace { free_bytes: 0, size_bytes: 1 };
            assess_space(space, full_disk_effect(&settings)).message
        };
        let refusal = "writes and reads are refused";
        assert!(message_with(&[]).contains(refusal));
        let url = "postgres://scrip@127.0.0.1/scrip".to_owned();
        let message = message_with(&[("storage.url", url)]);
        assert!(!message.contains(refusal) && message.contains("requests continue"), "{message}");
    }
}
