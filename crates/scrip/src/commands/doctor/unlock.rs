//! Checks of the unlock methods.

use scrip_api::app::readiness::NotReadyReason;
use scrip_core::{
    policy::DirectoryRecords,
    unlock::{UnlockRecord, VaultUnlocks},
};
use scrip_seal::AuditKey;
use scrip_server::{
    config::Settings,
    unlock::{
        inputs::UnlockProblem,
        open::{MethodName, altered_methods, try_single_method},
        unlock_settings::UnlockSettings,
    },
};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

/// Asks every method that needs no people. A failing method is an error only if no other one works.
pub(super) async fn check_methods(settings: &Settings, records: &DirectoryRecords) -> Vec<Finding> {
    let unlocks = &records.unlocks;
    if unlocks.is_legacy() {
        let advice =
            "the root key is the vault key itself and cannot be rotated; run: scrip keys adopt";
        return vec![check_root_key(settings), warning("unlock", advice)];
    }
    let (mut results, mut people) = (Vec::new(), Vec::new());
    for method in unlocks.active_methods() {
        let name = MethodName::new(method);
        match method.kind.needs_people() {
            true => people.push(passed("unlock", format!("{name} needs people with shares"))),
            // The cause is in the check of the root key.
            false if is_root_key(method) && settings.check_root_key().is_err() => {
                results.push((name, Some("the root key cannot be used".to_owned())));
            }
            false => {
                let problem = try_single_method(settings, records, method).await.err();
                results.push((name, problem.map(|it| it.to_string())));
            }
        }
    }
    let has_working = results.iter().any(|(_, problem)| problem.is_none()) || !people.is_empty();
    let mut findings = Vec::new();
    if unlocks.methods.iter().any(is_root_key) {
        findings.push(match settings.check_root_key() {
            Err(error) if has_working && !is_denied(&error) => {
                warning("root key", format!("{error:#}"))
            }
            Ok(()) | Err(_) => check_root_key(settings),
        });
    }
    findings.extend(results.into_iter().map(|(name, problem)| match problem {
        None => passed("unlock", format!("{name} returns the vault key")),
        Some(problem) if has_working => warning("unlock", format!("{name}: {problem}")),
        Some(problem) => failed("unlock", format!("{name}: {problem}")),
    }));
    findings.extend(people);
    if unlocks.unreadable > 0 {
        findings.push(failed("unlock", "a row of unlocks was altered outside the vault"));
    }
    findings
}

/// Checks the root key: the vault key of a vault without unlock methods, or the wrapping key of the
/// default method.
pub(super) fn check_root_key(settings: &Settings) -> Finding {
    let key = settings.root_key_file();
    match settings.check_root_key() {
        Err(error) => failed("root key", format!("{error:#}")),
        Ok(()) if settings.root_key.is_some() => warning(
            "root key",
            "the root key comes from SCRIP_ROOT_KEY, which stays in the environment of the process \
             and its children; put the key into a file and set keys.root_key_file",
        ),
        Ok(()) if settings.has_data_in(key.parent()) => warning(
            "root key",
            format!(
                "{} is stored with the data: a copy of the data directory contains both. Set \
                 keys.root_key_file to another location",
                key.display()
            ),
        ),
        Ok(()) => passed("root key", format!("{} is readable", key.display())),
    }
}

/// The checks that need the vault key, for a vault that only the holders of its shares can open.
pub(super) fn list_unchecked(unlocks: &VaultUnlocks) -> Vec<Finding> {
    if !unlocks.needs_people() {
        return Vec::new();
    }
    let names = ["canary", "policy", "audit", "vault key", "tenant keys"];
    names.map(|it| warning(it, "not checked: the vault opens only with shares")).into()
}

/// Rows with a wrong MAC. A rotation of the vault key gives them no new key.
pub(super) fn check_alterations(unlocks: &VaultUnlocks, key: &AuditKey) -> Vec<Finding> {
    let altered = altered_methods(unlocks, key).into_iter();
    let finding = |it: MethodName| {
        let text = format!(
            "{it} was altered outside the vault; add a new method and remove this one: scrip keys \
             remove {}",
            it.id
        );
        failed("unlock", text)
    };
    altered.map(finding).collect()
}

/// Whether other users can read or replace a key. That is an error, although another method works.
fn is_denied(error: &anyhow::Error) -> bool {
    let problem = error.downcast_ref::<UnlockProblem>();
    problem.is_some_and(|it| it.reason == NotReadyReason::UnlockDenied)
}

fn is_root_key(method: &UnlockRecord) -> bool {
    UnlockSettings::from_record(method).is_ok_and(|it| it.is_root_key())
}
