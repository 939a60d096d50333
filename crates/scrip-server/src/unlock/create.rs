//! Creates the vault key of a new vault, and the first unlock method of an existing one.

use anyhow::{Context, bail};
use scrip_core::{
    Timestamp, Vault,
    change::ChangeOutcome,
    operations::tenants::create_tenant::initialize_vault,
    policy::DirectoryRecords,
    types::id::{UnlockId, VaultId, random_uuid},
    unlock::{UnlockRecord, UnlockState, VaultIdentity},
};
use scrip_seal::{AuditKey, Mac, VaultKey, WrappingKey};
use thiserror::Error;

use crate::{
    config::Settings,
    unlock::{
        inputs::UnlockInputs,
        open::{source_text, unlock_context},
        unlock_settings::{FileParameters, UnlockSettings},
    },
};

/// An unlock method before it wraps a key.
#[derive(Debug, Clone)]
pub struct NewMethod {
    pub settings: UnlockSettings,
    pub label: String,
}

impl NewMethod {
    /// The method of a new vault: the root key of the settings.
    pub fn root_key() -> Self {
        let settings = UnlockSettings::File(FileParameters::default());
        Self { settings, label: "root key".to_owned() }
    }
}

/// A row without a wrapped key and without a MAC.
pub(crate) fn blank_record(
    vault: &Vault,
    method: &NewMethod,
    key_version: u32,
    now: Timestamp,
) -> UnlockRecord {
    UnlockRecord {
        id: UnlockId(random_uuid(vault.fill_random)),
        kind: method.settings.kind(),
        label: method.label.clone(),
        parameters: method.settings.parameters(),
        wrapped: Vec::new(),
        key_version,
        created_at: now,
        checked_at: None,
        state: UnlockState::Active,
        mac: Mac([0; 32]),
    }
}

/// What a source answered to a new method.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct SourceProblem(String);

impl UnlockInputs {
    /// Wraps the vault key with the source of the row, and unwraps it again: a source that cannot
    /// return the key must not become an unlock method.
    ///
    /// Errors: the source is unavailable, or returns another key.
    pub(crate) async fn wrap_key(
        &self,
        identity: VaultIdentity,
        mut record: UnlockRecord,
        key: &VaultKey,
    ) -> anyhow::Result<UnlockRecord> {
        let explain = |it| anyhow::Error::new(SourceProblem(source_text(record.kind, &it)));
        let settings = UnlockSettings::from_record(&record).map_err(explain)?;
        let source = self.source(&settings).map_err(explain)?;
        let context = unlock_context(identity, &record);
        let wrapped = source.wrap(&context, key.secret()).await.map_err(explain)?;
        let unwrapped = source.unwrap(&context, &wrapped).await.map_err(explain)?;
        if !unwrapped.constant_time_eq(key.secret().expose()) {
            bail!("the source returned another key than the one that it wrapped; it is not used");
        }
        record.wrapped = wrapped;
        Ok(record)
    }
}

impl Settings {
    /// Creates the root key file if there is no root key. Returns whether it was created.
    /// Errors: the file cannot be written.
    pub fn create_root_key(&self) -> anyhow::Result<bool> {
        let file = self.root_key_file();
        if self.root_key.is_some() || file.exists() {
            return Ok(false);
        }
        let result = WrappingKey::create_file(&file);
        result.with_context(|| format!("the root key {} cannot be created", file.display()))?;
        Ok(true)
    }

    /// Creates the keys of an empty vault: a new vault key, which the root key wraps.
    /// Errors: the root key cannot be used, the vault has keys, or the store is unavailable.
    pub async fn create_vault_keys(&self, vault: &Vault) -> anyhow::Result<()> {
        let key = VaultKey::generate(VaultKey::FIRST_VERSION);
        let identity = new_identity(vault);
        let now = vault.clock.now();
        let record = blank_record(vault, &NewMethod::root_key(), key.version(), now);
        let record = self.unlock_inputs().wrap_key(identity, record, &key).await?;
        let created = initialize_vault(vault, &key, identity, record).await;
        created.map_err(|it| anyhow::Error::msg(it.cause_text()))
    }

    /// Gives a vault without unlock methods its first one. The vault key stays the same.
    /// Errors: the vault has unlock methods, the root key does not open it, or the method cannot be
    /// used.
    pub async fn adopt_vault(
        &self,
        vault: &Vault,
        records: &DirectoryRecords,
        method: &NewMethod,
    ) -> anyhow::Result<UnlockRecord> {
        if !records.unlocks.is_legacy() {
            bail!("this vault has unlock methods already; run: scrip keys list");
        }
        let inputs = self.unlock_inputs();
        let key = inputs.legacy_key()?;
        let system_keys = records.system_keys.as_ref().context("the vault is empty")?;
        let audit_key = AuditKey::unwrap(&key, &system_keys.audit_key)?;
        let identity = new_identity(vault);
        let record = blank_record(vault, method, key.version(), vault.clock.now());
        let record = inputs.wrap_key(identity, record, &key).await?;
        let record = record.signed(&audit_key, identity.id);
        match vault.store.adopt_vault(identity, record.clone()).await? {
            ChangeOutcome::Done => Ok(record),
            ChangeOutcome::Stale => bail!("another command adopted this vault at the same time"),
        }
    }
}

fn new_identity(vault: &Vault) -> VaultIdentity {
    let id = VaultId(random_uuid(vault.fill_random));
    VaultIdentity { id, key_version: VaultKey::FIRST_VERSION }
}
