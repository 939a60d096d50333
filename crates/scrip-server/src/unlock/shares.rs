//! Methods of shares: the ceremony that creates them, and unsealing with them.

use std::sync::{Arc, PoisonError};

use anyhow::{Context, bail};
use scrip_core::{
    change::ChangeOutcome,
    types::id::UnlockId,
    unlock::{UnlockKind, UnlockRecord, UnlockState, VaultIdentity, VaultUnlocks},
};
use scrip_operator::secret_text::SecretText;
use scrip_seal::{
    AgeRecipient, Secret, Share, ShareCollection, ShareError, ShareLabel, VaultKey, WrappingKey,
    split_secret,
};
use serde::{Deserialize, Serialize};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    clock::ticks,
    unlock::{
        create::{NewMethod, blank_record},
        entered_shares::{EnteredShares, OpenedShares, SHARE_TIME, ShareEntry, ShareHolder},
        local_key::{unwrap_with, wrap_with},
        manager::{KeyManager, UnsealError},
        methods::{MethodStatus, check_label},
        open::{MethodName, OpenedKey, check_key, unlock_context},
        unlock_settings::{ShamirParameters, UnlockSettings},
    },
};

/// How many shares there are, and who gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareCount {
    pub shares: u8,
    pub threshold: u8,
    /// Public age keys of the holders; empty for shares in clear.
    #[serde(default)]
    pub recipients: Vec<String>,
}

impl ShareCount {
    /// The recipients, one for each share; none for shares in clear.
    /// Errors: a recipient is not valid, or their number is not the one of the shares, or two of them
    /// are the same.
    pub fn parse_recipients(&self) -> anyhow::Result<Vec<AgeRecipient>> {
        let (shares, texts) = (self.shares, &self.recipients);
        if !texts.is_empty() && texts.len() != usize::from(shares) {
            bail!("each of the {shares} shares needs one recipient, but there are {}", texts.len());
        }
        let mut recipients = Vec::with_capacity(texts.len());
        for text in texts {
            let recipient = AgeRecipient::parse(text)?;
            if recipients.contains(&recipient) {
                bail!(
                    "two shares for one recipient defeat the threshold; nothing was changed. Give \
                     each share another recipient than {}",
                    text.trim()
                );
            }
            recipients.push(recipient);
        }
        Ok(recipients)
    }
}

/// New shares, in clear or encrypted for their holders. They are shown once.
#[derive(Serialize, Deserialize)]
pub struct IssuedShares {
    pub method: String,
    pub threshold: u8,
    pub texts: Vec<SecretText>,
}

impl std::fmt::Debug for IssuedShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IssuedShares({} of {})", self.threshold, self.texts.len())
    }
}

/// The progress of unsealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsealProgress {
    pub entered: usize,
    pub threshold: u8,
    pub is_open: bool,
}

/// Splits a new wrapping key into shares and wraps the vault key with it.
pub(crate) fn issue_shares(
    identity: VaultIdentity,
    mut record: UnlockRecord,
    key: &VaultKey,
    count: &ShareCount,
) -> anyhow::Result<(UnlockRecord, IssuedShares)> {
    let ShareCount { shares, threshold, .. } = count;
    let recipients = count.parse_recipients()?;
    let label = ShareLabel::create(&identity.id.to_string());
    let wrapping_key = WrappingKey::generate();
    let split = split_secret(wrapping_key.secret(), label, *threshold, *shares)?;
    let clear_text = |it: &Share| {
        let text = it.to_text();
        SecretText::new(String::from_utf8_lossy(text.expose()).into_owned())
    };
    let texts = match recipients.is_empty() {
        true => split.iter().map(clear_text).collect(),
        false => {
            let pairs = split.iter().zip(&recipients);
            pairs.map(|(share, it)| SecretText::new(it.encrypt(&share.to_text()))).collect()
        }
    };
    let parameters =
        ShamirParameters { set: label.to_string(), shares: *shares, threshold: *threshold };
    record.parameters = UnlockSettings::Shamir(parameters).parameters();
    record.wrapped = wrap_with(&wrapping_key, &unlock_context(identity, &record), key.secret());
    let issued = IssuedShares { method: record.id.to_string(), threshold: *threshold, texts };
    Ok((record, issued))
}

/// Combines shares and opens the row with them. Returns the vault key, which is not checked yet.
/// Errors: a share is not valid, belongs to another set, or there are too few.
pub(crate) fn combine_shares(
    identity: VaultIdentity,
    record: &UnlockRecord,
    texts: &[SecretText],
) -> anyhow::Result<Secret> {
    let mut collection = start_collection(record)?;
    for text in texts {
        collection.add(Share::parse(text.expose())?)?;
    }
    open_with_shares(identity, record, &collection)
}

fn start_collection(record: &UnlockRecord) -> anyhow::Result<ShareCollection> {
    let UnlockSettings::Shamir(parameters) = UnlockSettings::from_record(record)? else {
        bail!("this unlock method has no shares");
    };
    let label = ShareLabel::parse(&parameters.set);
    let label = label.context("the parameters of the unlock method were altered")?;
    Ok(ShareCollection::new(label, parameters.threshold))
}

fn open_with_shares(
    identity: VaultIdentity,
    record: &UnlockRecord,
    collection: &ShareCollection,
) -> anyhow::Result<Secret> {
    let wrapping_key = WrappingKey::from_secret(collection.combine()?)?;
    let opened = unwrap_with(&wrapping_key, &unlock_context(identity, record), &record.wrapped);
    opened.map_err(|_| {
        anyhow::anyhow!("the shares do not open the vault: one of them is forged or of another set")
    })
}

impl KeyManager {
    /// Creates a method of shares. It does not count until [`KeyManager::confirm_shares`].
    /// Errors: the vault is sealed, or the numbers are not valid.
    pub async fn add_shares(
        &self,
        label: &str,
        count: &ShareCount,
        uid: u32,
    ) -> anyhow::Result<IssuedShares> {
        let _guard = self.changes.lock().await;
        let vault = self.open_vault().await?;
        check_label(&vault, label)?;
        let (shares, threshold) = (count.shares, count.threshold);
        let parameters = ShamirParameters { set: String::new(), shares, threshold };
        let settings = UnlockSettings::Shamir(parameters);
        let method = NewMethod { settings, label: label.to_owned() };
        let core_vault = &self.app.vault;
        let mut record =
            blank_record(core_vault, &method, vault.key.version(), core_vault.clock.now());
        record.state = UnlockState::Pending;
        let command = format!(
            "keys add shamir {} with {threshold} of {shares} shares by uid {uid}",
            record.id
        );
        self.record_start(&command).await?;
        let result = async {
            let (record, issued) = issue_shares(vault.identity, record, &vault.key, count)?;
            self.insert(&vault, record).await?;
            Ok(issued)
        };
        match result.await {
            // The end is recorded when the shares are confirmed.
            Ok(issued) => Ok(issued),
            Err(error) => self.record_end(&command, Err(error)).await,
        }
    }

    /// Makes a method of shares active, after enough holders have entered their shares.
    /// Errors: the shares do not return the vault key.
    pub async fn confirm_shares(
        &self,
        method: &str,
        shares: &[SecretText],
        uid: u32,
    ) -> anyhow::Result<MethodStatus> {
        let _guard = self.changes.lock().await;
        let vault = self.open_vault().await?;
        let id = UnlockId::parse(method).context("this is not the id of an unlock method")?;
        let record = vault.unlocks.find(id).filter(|it| it.state == UnlockState::Pending);
        let record = record.context("no unlock method with this id waits for its shares")?;
        let key = combine_shares(vault.identity, record, shares)?;
        if !key.constant_time_eq(vault.key.secret().expose()) {
            bail!("the shares return another key than the vault key; the method stays pending");
        }
        let active = UnlockRecord { state: UnlockState::Active, ..record.clone() };
        let active = active.signed(&vault.audit_key, vault.identity.id);
        let result = match self.app.vault.store.activate_unlock(active.clone()).await? {
            ChangeOutcome::Done => Ok(MethodStatus::new(&active)),
            ChangeOutcome::Stale => Err(anyhow::anyhow!("the unlock method was removed")),
        };
        self.record_end(&format!("keys add shamir {id} by uid {uid}"), result).await
    }

    /// Accepts one share of a sealed vault, or of the key to which another node has rotated. The last
    /// share that is needed unseals the vault.
    ///
    /// Errors: the vault is open, the share is not valid, or the shares do not open the vault.
    pub async fn enter_share(
        self: &Arc<Self>,
        text: &SecretText,
        holder: ShareHolder,
    ) -> anyhow::Result<UnsealProgress> {
        let records = self.app.vault.store.load_directory().await?;
        if self.app.directory.load().is_some() && !self.lacks_new_key(&records.unlocks) {
            bail!("the vault is open; no share is needed");
        }
        let share = Share::parse(text.expose())?;
        let method = find_share_method(&records.unlocks, &share)?.clone();
        let identity = records.unlocks.identity.context("the vault has no unlock methods")?;
        let threshold = check_share(&method, &share)?;
        let (manager, opened_method) = (Arc::clone(self), method.clone());
        // Many combinations take time.
        let collect = move || manager.collect_share(identity, &opened_method, &share, holder);
        let (entered, opened) = spawn_blocking(collect).await??;
        let Some(opened) = opened else {
            self.forget_shares_later();
            return Ok(UnsealProgress { entered, threshold, is_open: false });
        };
        let system_keys = records.system_keys.as_ref().context("the vault is empty")?;
        let key = VaultKey::from_secret(method.key_version, opened.key);
        let key = check_key(key, system_keys)?;
        if self.app.directory.load().is_some() {
            self.load_new_key(&records, key).await?;
            self.new_key_entered.notify_one();
        } else {
            let opened = OpenedKey { key, method: Some(MethodName::new(&method)) };
            let unsealed = self.unseal(records, opened).await;
            unsealed.map_err(UnsealError::explain)?;
        }
        self.record_shares(&opened.entries).await;
        tracing::info!("the vault is open");
        Ok(UnsealProgress { entered: threshold.into(), threshold, is_open: true })
    }

    /// Adds a share to the entered ones of its set, and tries the combinations if there are enough.
    /// Takes the shares of the set when they opened the vault.
    fn collect_share(
        &self,
        identity: VaultIdentity,
        method: &UnlockRecord,
        share: &Share,
        holder: ShareHolder,
    ) -> anyhow::Result<(usize, Option<OpenedShares>)> {
        let set = share.label();
        let mut collections = self.entered_shares.lock().unwrap_or_else(PoisonError::into_inner);
        collections.retain(|it| !it.is_expired(ticks()));
        let mut entered = match collections.iter().position(|it| it.set() == set) {
            Some(at) => collections.remove(at),
            None => EnteredShares::new(set, share.threshold()),
        };
        let added = entered.add(share, holder, ticks());
        let (count, is_complete) = (entered.count(), entered.is_complete());
        let opened = match added.is_ok() && is_complete {
            true => entered.open(|it| open_with_shares(identity, method, it).ok()),
            false => None,
        };
        if opened.is_none() {
            collections.push(entered);
        }
        added?;
        tracing::info!(
            share = share.index(),
            uid = holder.uid,
            "accepted a share to unseal the vault"
        );
        if is_complete && opened.is_none() {
            bail!(
                "the shares do not open the vault: one of them is forged or of another set. They \
                 still count: each further share is tried with them"
            );
        }
        Ok((count, opened))
    }

    async fn record_shares(&self, entries: &[ShareEntry]) {
        for ShareEntry { uid, index, times, has_opened } in entries {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            let outcome = if *has_opened { "completed" } else { "refused" };
            self.record(&format!("unseal share {index} by uid {uid}{times}"), outcome).await;
        }
    }

    /// Wipes the entered shares when their time is over.
    fn forget_shares_later(self: &Arc<Self>) {
        let manager = Arc::clone(self);
        tokio::spawn(async move {
            sleep(SHARE_TIME).await;
            let mut entered = manager.entered_shares.lock().unwrap_or_else(PoisonError::into_inner);
            entered.retain(|it| !it.is_expired(ticks()));
        });
    }
}

/// Rejects a share that the set cannot have. Returns the threshold of the set.
fn check_share(method: &UnlockRecord, share: &Share) -> anyhow::Result<u8> {
    let UnlockSettings::Shamir(parameters) = UnlockSettings::from_record(method)? else {
        bail!("this unlock method has no shares");
    };
    if share.index() == 0 || share.index() > parameters.shares {
        bail!("this share is forged: the set has only {} shares", parameters.shares);
    }
    if share.threshold() != parameters.threshold {
        return Err(ShareError::OtherForm.into());
    }
    Ok(parameters.threshold)
}

fn find_share_method<'a>(
    unlocks: &'a VaultUnlocks,
    share: &Share,
) -> anyhow::Result<&'a UnlockRecord> {
    let set = share.label().to_string();
    let is_set = |it: &&UnlockRecord| {
        it.kind == UnlockKind::Shamir
            && matches!(UnlockSettings::from_record(it), Ok(UnlockSettings::Shamir(it)) if it.set == set)
    };
    unlocks.active_methods().find(is_set).context(
        "this share belongs to another vault, or to a set that was replaced or never confirmed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_has_another_recipient() {
        const ANNA: &str = "age1hl629fjyxgp0mr78xrlx82dwej7fswctfd575qfh9hjgsvwslypsqlcvm0";
        const BEN: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
        let parse = |recipients: &[&str]| {
            let recipients = recipients.iter().map(|it| (*it).to_owned()).collect();
            ShareCount { shares: 2, threshold: 2, recipients }.parse_recipients()
        };
        assert_eq!(parse(&[]).unwrap(), []);
        assert_eq!(parse(&[ANNA, BEN]).unwrap().len(), 2);
        let same = format!(" {ANNA}");
        for (recipients, expected) in [
            (&[ANNA, &same][..], "two shares for one recipient defeat the threshold"),
            (&[ANNA], "each of the 2 shares needs one recipient"),
            (&[ANNA, "age1"], "must be age1"),
        ] {
            let error = parse(recipients).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
