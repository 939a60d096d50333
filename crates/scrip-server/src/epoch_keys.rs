//! Where the keys of card verification codes are: in memory, in a file that is in memory too, or with
//! other nodes in Redis.

pub mod persistence;
pub mod redis_exchange;

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use anyhow::{Context, bail};
use nix::unistd::Uid;
use redis::Client;
use scrip_seal::EpochKeys;

use crate::{
    config::{CvcSettings, EpochKeyLocation, Settings},
    epoch_keys::redis_exchange::{DiskPolicy, RedisKeyExchange},
    storage::create_folder,
};

/// How long after the end of its retention a code's key is destroyed, at the latest.
pub(crate) const EPOCH_LENGTH: Duration = Duration::from_secs(15 * 60);

/// # Errors
/// They are where a key that was destroyed could be found again, or where others could read it; or
/// where other nodes could not find them.
pub(crate) async fn open_epoch_keys(settings: &Settings) -> anyhow::Result<EpochKeys> {
    match &settings.cvc.epoch_keys {
        EpochKeyLocation::Memory => Ok(EpochKeys::in_memory(EPOCH_LENGTH)),
        EpochKeyLocation::File(path) => open_file(settings, path),
        EpochKeyLocation::Redis(_) => {
            let shared =
                RedisKeyExchange::start(settings.cvc.client()?, settings.cvc.disk_policy()).await;
            let shared = shared.map_err(|it| anyhow::anyhow!("cvc.epoch_keys: {it}"))?;
            Ok(EpochKeys::shared(EPOCH_LENGTH, shared))
        }
    }
}

/// On PostgreSQL there may be other nodes, which could not show the codes that this one seals.
///
/// # Errors
/// Nothing says that they can, or that there are none.
pub fn check_sharing(settings: &Settings) -> anyhow::Result<()> {
    let shared = matches!(settings.cvc.epoch_keys, EpochKeyLocation::Redis(_));
    if settings.storage.url.is_none() || settings.storage.only_node || shared {
        return Ok(());
    }
    bail!(
        "cvc.epoch_keys: other nodes on this PostgreSQL could not show the card verification codes \
         that are sealed here; set cvc.epoch_keys = \"redis://…\", by which nodes share their keys, \
         or say storage.only_node = true if there is no other node"
    )
}

impl CvcSettings {
    /// For the Redis that it names.
    ///
    /// # Errors
    /// It names none, or its password cannot be read.
    pub fn client(&self) -> anyhow::Result<Client> {
        let EpochKeyLocation::Redis(url) = &self.epoch_keys else {
            bail!("cvc.epoch_keys: is no address of Redis");
        };
        url.client(self.epoch_keys_password_file.as_deref()).context("cvc.epoch_keys")
    }

    fn disk_policy(&self) -> DiskPolicy {
        if self.epoch_keys_on_disk { DiskPolicy::Allowed } else { DiskPolicy::Forbidden }
    }
}

fn open_file(settings: &Settings, path: &Path) -> anyhow::Result<EpochKeys> {
    let folder = path.parent().context("cvc.epoch_keys: the file has no folder")?;
    create_folder(folder).context("cvc.epoch_keys")?;
    check_folder(folder, settings)?;
    if !is_in_memory(folder)? {
        if !settings.cvc.epoch_keys_on_disk {
            bail!(
                "cvc.epoch_keys: {} is neither on tmpfs nor on ramfs, so a key that was destroyed \
                 could be found on the disk; choose another place such as \
                 file:/dev/shm/scrip/epochs, or say cvc.epoch_keys_on_disk = true if that is meant",
                folder.display()
            );
        }
        tracing::warn!("epoch keys are on a disk, where destroyed ones may be found again");
    }
    let keys = EpochKeys::in_file(EPOCH_LENGTH, path);
    keys.with_context(|| format!("cvc.epoch_keys: {}", path.display()))
}

/// Ours alone, and not what a backup of the data would take along.
fn check_folder(folder: &Path, settings: &Settings) -> anyhow::Result<()> {
    let real = folder.canonicalize()?;
    let data = settings.storage.data_dir.canonicalize()?;
    if real.starts_with(&data) {
        bail!("cvc.epoch_keys: must not be in the data directory, nor in any backup of it");
    }
    let found = fs::metadata(&real)?;
    if found.mode() & 0o022 != 0 || found.uid() != Uid::effective().as_raw() {
        bail!(
            "cvc.epoch_keys: {} must belong to the user that serves, and nobody else may write \
             there; give the file a folder of its own",
            folder.display()
        );
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_in_memory(folder: &Path) -> anyhow::Result<bool> {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    let found = statfs(folder).context("cvc.epoch_keys: the file system cannot be told")?;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> anyhow::Result<bool> {
    Ok(false)
}
