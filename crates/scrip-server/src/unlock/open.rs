//! Opens the vault key: tries the unlock methods, and checks each returned key with the canary.

use std::{fmt::Display, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use scrip_api::app::readiness::NotReadyReason;
use scrip_core::{
    policy::{DirectoryRecords, SystemKeys},
    unlock::{UnlockKind, UnlockRecord, VaultIdentity, VaultUnlocks},
};
use scrip_seal::{AuditKey, Pepper, VaultKey};
use scrip_unlock::{UnlockContext, UnlockError};
use tokio::time::timeout;

use crate::{
    config::Settings,
    unlock::{
        inputs::{UnlockInputs, UnlockProblem},
        unlock_settings::UnlockSettings,
    },
};

/// How long one method may take.
const METHOD_TIMEOUT: Duration = Duration::from_secs(20);

/// The vault key, and the method that returned it.
#[derive(Debug)]
pub struct OpenedKey {
    pub key: VaultKey,
    /// `None` for the root key of a vault without unlock methods.
    pub method: Option<MethodName>,
}

/// Names a method in messages and in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName {
    pub kind: UnlockKind,
    pub id: String,
    pub label: String,
    /// Whether its wrapping key is the root key of the settings.
    pub is_root_key: bool,
}

impl MethodName {
    pub fn new(record: &UnlockRecord) -> Self {
        let settings = UnlockSettings::from_record(record);
        Self {
            kind: record.kind,
            id: record.id.to_string(),
            label: record.label.clone(),
            is_root_key: settings.is_ok_and(|it| it.is_root_key()),
        }
    }
}

impl Display for MethodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A writer of the database may have put line breaks or terminal escapes into the label.
        let is_printable = |it: &char| !it.is_control() && !is_text_direction(*it);
        let label: String = self.label.chars().filter(is_printable).take(64).collect();
        write!(f, "{} {label} ({})", self.kind.as_str(), self.id)
    }
}

/// Whether a character changes the order in which a terminal shows the text after it.
fn is_text_direction(it: char) -> bool {
    matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The problem of a vault without system keys.
fn missing_keys(records: &DirectoryRecords) -> UnlockProblem {
    let reason = match records.has_lost_keys() {
        true => NotReadyReason::VaultAltered,
        false => NotReadyReason::NoVault,
    };
    UnlockProblem::new(reason, records.missing_keys_text())
}

/// Returns the first key that passes the canary. Methods are tried in the configured order; adjacent
/// methods on a network are asked at the same time.
///
/// Errors: no method returns the key of this vault.
pub async fn open_vault_key(
    inputs: &UnlockInputs,
    records: &DirectoryRecords,
) -> Result<OpenedKey, UnlockProblem> {
    let Some(system_keys) = &records.system_keys else { return Err(missing_keys(records)) };
    if records.unlocks.is_legacy() {
        let key = inputs.legacy_key()?;
        // The text of the error is the one for a wrong root key.
        let canary = Pepper::unwrap(&key, &system_keys.pepper);
        let wrong_key =
            |it: &dyn Display| UnlockProblem::wrong_key(NotReadyReason::RootKey, it.to_string());
        canary.map_err(|it| wrong_key(&it))?;
        return Ok(OpenedKey { key, method: None });
    }
    let Some(identity) = records.unlocks.identity else {
        return Err(UnlockProblem::wrong_key(
            NotReadyReason::VaultAltered,
            "the row of vault_state is missing or altered, so no unlock method can be used; \
             restore a backup",
        ));
    };
    try_methods(inputs, identity, &records.unlocks, system_keys).await
}

/// Asks one method for the vault key.
/// Errors: the method does not return the key of this vault.
pub async fn try_single_method(
    settings: &Settings,
    records: &DirectoryRecords,
    method: &UnlockRecord,
) -> Result<(), UnlockProblem> {
    let (Some(identity), Some(system_keys)) = (records.unlocks.identity, &records.system_keys)
    else {
        return Err(missing_keys(records));
    };
    try_method(&settings.unlock_inputs(), identity, method, system_keys).await.map(drop)
}

/// The active methods that were altered outside the vault. Only an open vault can find them.
pub fn altered_methods(unlocks: &VaultUnlocks, key: &AuditKey) -> Vec<MethodName> {
    let Some(identity) = unlocks.identity else { return Vec::new() };
    let altered = unlocks.active_methods().filter(|it| !it.is_authentic(key, identity.id));
    altered.map(MethodName::new).collect()
}

async fn try_methods(
    inputs: &UnlockInputs,
    identity: VaultIdentity,
    unlocks: &VaultUnlocks,
    system_keys: &SystemKeys,
) -> Result<OpenedKey, UnlockProblem> {
    let mut methods: Vec<_> = unlocks.active_methods().collect();
    methods.sort_by_key(|it| inputs.order.position(it.kind));
    let mut failures = Vec::new();
    for group in methods.chunk_by(|a, b| a.kind.is_remote() && b.kind.is_remote()) {
        let attempts = group.iter().map(|method| async {
            (MethodName::new(method), try_method(inputs, identity, method, system_keys).await)
        });
        let mut attempts: FuturesUnordered<_> = attempts.collect();
        while let Some((method, result)) = attempts.next().await {
            match result {
                Ok(key) => return Ok(OpenedKey { key, method: Some(method) }),
                Err(problem) => failures.push((method, problem)),
            }
        }
    }
    Err(describe_failures(failures, identity.key_version))
}

/// One method is the common case, which needs no name.
fn describe_failures(
    mut failures: Vec<(MethodName, UnlockProblem)>,
    key_version: u32,
) -> UnlockProblem {
    if failures.len() <= 1 {
        return failures.pop().map_or_else(
            || {
                let text = format!(
                    "the vault has no active unlock method for version {key_version} of its key: \
                     rows of unlocks or of vault_state are missing or altered; restore a backup"
                );
                UnlockProblem::new(NotReadyReason::VaultAltered, text)
            },
            |(_, problem)| problem,
        );
    }
    let is_wrong_key = failures.iter().any(|(_, it)| it.is_wrong_key);
    // People can always unseal the vault. Otherwise the first method in the configured order counts.
    let mut reasons = failures.iter().map(|(_, it)| it.reason);
    let first = reasons.clone().next().unwrap_or(NotReadyReason::VaultAltered);
    let reason = reasons.find(|it| *it == NotReadyReason::Shares).unwrap_or(first);
    let lines = failures.iter().map(|(method, problem)| format!("{method}: {problem}"));
    let text = lines.collect::<Vec<_>>().join("; ");
    UnlockProblem { reason, is_wrong_key, text }
}

async fn try_method(
    inputs: &UnlockInputs,
    identity: VaultIdentity,
    method: &UnlockRecord,
    system_keys: &SystemKeys,
) -> Result<VaultKey, UnlockProblem> {
    let secret = unwrap_method(inputs, identity, method).await;
    let secret = secret.map_err(|it| explain_source(method, &it))?;
    check_key(VaultKey::from_secret(method.key_version, secret), system_keys)
}

/// Checks that a returned key is the key of this vault: it must unwrap the pepper.
/// Errors: the source returned another key, for example the one of another vault.
pub(crate) fn check_key(
    key: Result<VaultKey, scrip_seal::KeySourceError>,
    system_keys: &SystemKeys,
) -> Result<VaultKey, UnlockProblem> {
    let wrong_key = |_| {
        UnlockProblem::wrong_key(
            NotReadyReason::UnlockKeyWrong,
            "the unlock method returned a key that does not open this vault: it is the key of \
             another vault, or the stored keys of this vault were altered",
        )
    };
    let key = key.map_err(wrong_key)?;
    Pepper::unwrap(&key, &system_keys.pepper).map_err(wrong_key)?;
    Ok(key)
}

/// Asks the source of a method for the vault key. The key is not checked yet.
pub(crate) async fn unwrap_method(
    inputs: &UnlockInputs,
    identity: VaultIdentity,
    method: &UnlockRecord,
) -> Result<scrip_seal::Secret, UnlockError> {
    let settings = UnlockSettings::from_record(method)?;
    if let UnlockSettings::Shamir(it) = &settings {
        return Err(UnlockError::Unavailable(format!(
            "{} of {} people must each enter a share: scrip unseal",
            it.threshold, it.shares
        )));
    }
    let source = inputs.source(&settings)?;
    let context = unlock_context(identity, method);
    match timeout(METHOD_TIMEOUT, source.unwrap(&context, &method.wrapped)).await {
        Ok(result) => result,
        Err(_) => Err(UnlockError::Unavailable(format!(
            "no answer in {} seconds",
            METHOD_TIMEOUT.as_secs()
        ))),
    }
}

/// What the wrapped key of a method is bound to.
pub(crate) fn unlock_context(identity: VaultIdentity, method: &UnlockRecord) -> UnlockContext {
    UnlockContext {
        vault: identity.id.to_string(),
        method: method.id.to_string(),
        kind: method.kind.as_str(),
        key_version: method.key_version,
    }
}

/// The message of a source. A key on this machine needs no text about services.
pub(crate) fn source_text(kind: UnlockKind, error: &UnlockError) -> String {
    let (UnlockError::Unavailable(text)
    | UnlockError::Denied(text)
    | UnlockError::KeyMissing(text)
    | UnlockError::Rejected(text)
    | UnlockError::Settings(text)) = error;
    match kind {
        UnlockKind::File | UnlockKind::Env | UnlockKind::Shamir => text.clone(),
        UnlockKind::Pkcs11 | UnlockKind::AwsKms | UnlockKind::Transit => error.to_string(),
    }
}

fn explain_source(method: &UnlockRecord, error: &UnlockError) -> UnlockProblem {
    let is_root_key = UnlockSettings::from_record(method).is_ok_and(|it| it.is_root_key());
    let reason = match error {
        UnlockError::Rejected(_) | UnlockError::KeyMissing(_) if is_root_key => {
            NotReadyReason::RootKey
        }
        UnlockError::Unavailable(_) if method.kind.needs_people() => NotReadyReason::Shares,
        UnlockError::Rejected(_) => NotReadyReason::UnlockKeyWrong,
        UnlockError::KeyMissing(_) => NotReadyReason::UnlockKeyMissing,
        UnlockError::Unavailable(_) => NotReadyReason::UnlockUnavailable,
        UnlockError::Denied(_) => NotReadyReason::UnlockDenied,
        UnlockError::Settings(_) => NotReadyReason::UnlockSettings,
    };
    let is_wrong_key = matches!(error, UnlockError::Rejected(_));
    UnlockProblem { reason, is_wrong_key, text: source_text(method.kind, error) }
}
