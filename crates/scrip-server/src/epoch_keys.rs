//! CVC epoch keys: in memory, in a file on a memory file system, or shared with other nodes in
//! Redis.

pub mod redis_exchange;

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use anyhow::{Context, bail};
use nix::unistd::Uid;
use redis::Client;
use scrip_seal::EpochKeys;

use crate::{
    config::{CvcSettings, EpochKeyLocation, Settings},
    epoch_keys::redis_exchange::{DiskPolicy, RedisKeyExchange},
    files::create_folder,
};

/// A CVC key is destroyed at most this long after the end of the retention of its CVCs.
pub(crate) const EPOCH_LENGTH: Duration = Duration::from_secs(15 * 60);

/// Opens the epoch keys at the configured location.
/// Errors: destroyed keys could be recovered from the location, other users could read it, or other
/// nodes cannot use it.
pub(crate) async fn open_epoch_keys(settings: &Settings) -> anyhow::Result<EpochKeys> {
    match &settings.cvc.epoch_keys {
        EpochKeyLocation::Memory => Ok(EpochKeys::in_memory(EPOCH_LENGTH)),
        EpochKeyLocation::File(path) => open_file(settings, path),
        EpochKeyLocation::Redis(_) => {
            let exchange =
                RedisKeyExchange::start(settings.cvc.client()?, settings.cvc.disk_policy()).await;
            let exchange = exchange.map_err(|it| anyhow::anyhow!("cvc.epoch_keys: {it}"))?;
            Ok(EpochKeys::shared(EPOCH_LENGTH, exchange))
        }
    }
}

/// Checks that all nodes of a PostgreSQL share the epoch keys. Otherwise other nodes could not
/// decrypt CVCs that this node encrypted.
///
/// Errors: the keys are not shared, and `storage.single_node` is not set.
pub fn check_sharing(settings: &Settings) -> anyhow::Result<()> {
    let is_shared = matches!(settings.cvc.epoch_keys, EpochKeyLocation::Redis(_));
    if settings.storage.url.is_none() || settings.storage.single_node || is_shared {
        return Ok(());
    }
    bail!(
        "cvc.epoch_keys: other nodes on this PostgreSQL cannot decrypt CVCs that this node \
         encrypts; set cvc.epoch_keys = \"redis://…\" to share the keys, or set \
         storage.single_node = true if there is no other node"
    )
}

impl CvcSettings {
    /// Client for the configured Redis.
    /// Errors: the setting is not a Redis address, or the password file cannot be read.
    pub fn client(&self) -> anyhow::Result<Client> {
        let EpochKeyLocation::Redis(url) = &self.epoch_keys else {
            bail!("cvc.epoch_keys: is not the address of a Redis");
        };
        url.client(self.epoch_keys_password_file.as_deref()).context("cvc.epoch_keys")
    }

    fn disk_policy(&self) -> DiskPolicy {
        if self.allow_epoch_keys_on_disk { DiskPolicy::Allowed } else { DiskPolicy::Forbidden }
    }
}

fn open_file(settings: &Settings, path: &Path) -> anyhow::Result<EpochKeys> {
    let folder = path.parent().context("cvc.epoch_keys: the file has no parent directory")?;
    create_folder(folder).context("cvc.epoch_keys")?;
    check_folder(folder, settings)?;
    if !is_in_memory(folder)? {
        if !settings.cvc.allow_epoch_keys_on_disk {
            bail!(
                "cvc.epoch_keys: {} is neither on tmpfs nor on ramfs, so destroyed keys could be \
                 recovered from the disk; use another path such as file:/dev/shm/scrip/epochs, or \
                 set cvc.allow_epoch_keys_on_disk = true to accept this",
                folder.display()
            );
        }
        tracing::warn!("epoch keys are stored on a disk; destroyed keys may be recoverable");
    }
    let keys = EpochKeys::in_file(EPOCH_LENGTH, path);
    keys.with_context(|| format!("cvc.epoch_keys: {}", path.display()))
}

/// Requires a directory that only this user can write and that is not part of a backup of the data.
fn check_folder(folder: &Path, settings: &Settings) -> anyhow::Result<()> {
    let real_folder = folder.canonicalize()?;
    let data_dir = settings.storage.data_dir.canonicalize()?;
    if real_folder.starts_with(&data_dir) {
        bail!("cvc.epoch_keys: must not be in the data directory or in a backup of it");
    }
    let metadata = fs::metadata(&real_folder)?;
    if metadata.mode() & 0o022 != 0 || metadata.uid() != Uid::effective().as_raw() {
        bail!(
            "cvc.epoch_keys: {} must belong to the user that runs the server and must not be \
             writable by other users; use a separate directory for the file",
            folder.display()
        );
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_in_memory(folder: &Path) -> anyhow::Result<bool> {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    let file_system =
        statfs(folder).context("cvc.epoch_keys: the type of the file system is unknown")?;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&file_system.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> anyhow::Result<bool> {
    Ok(false)
}
