//! `scrip keys rotate vault`: replace the vault key.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use scrip_operator::output::CommandOutput;
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlRequest, send_request},
    files::atomic_file::{folder_of, sync_folder},
    unlock::{
        methods::MethodList,
        rotation::{NewKey, RotationStatus},
    },
};
use serde_json::{Value, json};

use crate::commands::{
    approval::send_change,
    arguments::ApprovedArguments,
    keys::{
        new_shares::{NewShareArguments, NewShares},
        share_output::ShareOutput,
        shares::read_shares,
    },
};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys rotate vault
  scrip keys rotate vault --shares 5 --threshold 3
  scrip keys rotate vault --to AGE_KEY_1 --to AGE_KEY_2 --to AGE_KEY_3
  scrip keys rotate vault --compromised --new-keys /run/scrip/new-keys.txt --yes

All stored keys and unlock methods change in one transaction, while the server serves. A vault with
shares gets new shares, which are shown once and must be entered before anything changes. Old shares
and removed methods open backups from before, and nothing that was stored since. Other methods stay valid.

With --compromised, all keys below the vault key are replaced too, except those of fingerprints and
search indexes: every API key, proxy key and access session stops working at once. The new keys are in
the file before that.";

#[derive(Debug, Args)]
pub(crate) struct RotateVaultArguments {
    #[command(flatten)]
    new_shares: NewShareArguments,
    /// Others may know the vault key: replace all keys below it too. Ends all API keys.
    #[arg(long, requires = "new_keys")]
    compromised: bool,
    /// New file for the new API keys and proxy keys.
    #[arg(long, value_name = "FILE", requires = "compromised")]
    new_keys: Option<PathBuf>,
    /// Confirm that all API keys end.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: ApprovedArguments,
}

pub(super) fn run(
    arguments: &RotateVaultArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    if arguments.compromised && !arguments.yes {
        bail!(
            "all API keys, proxy keys and access sessions of all tenants would end, and every tenant \
             would get new keys; nothing was changed. Use --yes to confirm"
        );
    }
    let settings = arguments.common.socket_settings(environment)?;
    let new_shares = arguments.new_shares.check(&settings, None)?;
    let plan = RotationPlan { new_shares, new_keys: arguments.new_keys.as_deref() };
    let output = rotate(&settings, &arguments.common, plan)?;
    arguments.common.print_output(&output)
}

/// What a rotation of the vault key creates.
#[derive(Debug)]
pub(super) struct RotationPlan<'a> {
    pub(super) new_shares: NewShares,
    /// The file for new API keys, after a compromise.
    pub(super) new_keys: Option<&'a Path>,
}

/// Rotates the vault key of the running server.
pub(super) fn rotate(
    settings: &Settings,
    common: &ApprovedArguments,
    plan: RotationPlan<'_>,
) -> anyhow::Result<CommandOutput> {
    let RotationPlan { new_shares: NewShares { count, output }, new_keys } = plan;
    let mut file = new_keys.map(NewKeysFile::create).transpose()?;
    let compromised = file.is_some();
    let address = settings.control_address();
    let request = ControlRequest::RotateVault { count, compromised };
    let status: RotationStatus = send_change(settings, common.wait, &request)?;
    let (from, to) = (status.from, status.to);
    if let Some((file, keys)) = file.as_mut().zip(status.new_keys.as_ref()) {
        file.write(keys, to)?;
    }
    let shares = match &status.shares {
        Some(issued) => {
            let entered = output.hand_over(issued).and_then(|()| read_shares(issued));
            entered.context(ShareOutput::ABANDONED)?
        }
        None => Vec::new(),
    };
    if status.shares.is_some() || status.new_keys.is_some() {
        if let Some(file) = &file {
            file.check_present()?;
        }
        let request = ControlRequest::ConfirmRotation { rotation: status.id.clone(), shares };
        if let Err(error) = send_request::<RotationStatus>(&address, &request) {
            // The answer may be lost after the rotation.
            let list: anyhow::Result<MethodList> =
                send_request(&address, &ControlRequest::ListMethods {});
            match (list, &mut file) {
                (Ok(list), _) if list.last_rotation.as_ref() == Some(&status.id) => (),
                // The version would be higher.
                (Ok(list), _) if list.key_version < to && status.shares.is_some() => {
                    return Err(error.context(ShareOutput::ABANDONED));
                }
                (Ok(list), _) if list.key_version < to => return Err(error),
                (_, Some(file)) => {
                    file.keep();
                    return Err(error.context(format!(
                        "the rotation may have happened. Try a key of {}: if it works, the vault \
                         key has version {to} and all keys of the file are valid; otherwise delete \
                         the file and run the command again",
                        file.path().display()
                    )));
                }
                (_, None) => return Err(error),
            }
        }
    }
    let rotated = format!("rotated the vault key from version {from} to version {to}\n");
    let Some(file) = &mut file else {
        let text = "Earlier backups still open with the earlier unlock methods: delete them when \
                    you do not need them\n";
        return Ok(CommandOutput::new(rotated + text, json!({ "from": from, "to": to })));
    };
    file.keep();
    Ok(describe_compromise(&rotated, file, json!({ "from": from, "to": to })))
}

fn describe_compromise(rotated: &str, file: &NewKeysFile, mut json: Value) -> CommandOutput {
    let path = file.path().display();
    let text = format!(
        "{rotated}\
         New: pepper, audit key, keys of webhooks and epochs; policy, idempotency and data keys of \
         every tenant.\n\
         Ended: all API keys, proxy keys and access sessions. New keys in {path}: {count}\n\
         What remains:\n\
         - give the new keys to their owners, then delete {path}\n\
         - a running server encrypts all rows again and destroys the old keys: scrip keys rotation \
         status\n\
         - destroy backups, replicas and snapshots from before now: they are exposed\n\
         - rotate secrets that clients share with others: secrets of webhooks (over HTTP, by \
         their tenants), \
         configurations and certificates of proxies, client encryption keys\n\
         - receivers of webhooks get the new public key from /.well-known/webhooks.v1.key\n\
         - fingerprints and search indexes keep their keys; to replace them, stop the server and run: \
         scrip keys rotate fingerprints\n",
        count = file.count(),
    );
    if let Some(object) = json.as_object_mut() {
        object.insert("new_keys".to_owned(), json!(file.count()));
        object.insert("new_keys_file".to_owned(), json!(path.to_string()));
    }
    CommandOutput::new(text, json)
}

/// A new file that only its owner can read. It is removed unless the rotation may have happened.
#[derive(Debug)]
pub(super) struct NewKeysFile {
    path: PathBuf,
    file: File,
    count: usize,
    is_kept: bool,
}

impl NewKeysFile {
    /// Errors: the file exists or cannot be created.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| {
            format!("{} cannot be created; nothing was rotated", path.display())
        })?;
        Ok(Self { path: path.to_owned(), file, count: 0, is_kept: false })
    }

    /// Writes one line for each key. The lines are on disk when the function returns.
    /// Errors: the file cannot be written.
    pub(super) fn write(&mut self, keys: &[NewKey], key_version: u32) -> anyhow::Result<()> {
        let error_context =
            || format!("{} cannot be written; nothing was rotated", self.path.display());
        let header = format!(
            "# Keys that are valid with version {key_version} of the vault key.\n\
             # kind\ttenant\tapplication\tid\tkey\n"
        );
        let written = self.file.write_all(header.as_bytes()).and_then(|()| {
            keys.iter().try_for_each(|it| self.file.write_all(it.line().as_bytes()))
        });
        let synced = written.and_then(|()| self.file.sync_all());
        synced.and_then(|()| sync_folder(folder_of(&self.path))).with_context(error_context)?;
        self.count = keys.len();
        Ok(())
    }

    /// Checks that the path still leads to the written file. The old keys end with the rotation.
    /// Errors: the file was moved, removed or replaced.
    pub(super) fn check_present(&self) -> anyhow::Result<()> {
        let identity = |it: fs::Metadata| (it.dev(), it.ino(), it.len());
        let written = self.file.metadata().map(identity)?;
        match fs::symlink_metadata(&self.path).map(identity) {
            Ok(present) if present == written => Ok(()),
            Ok(_) | Err(_) => {
                bail!("{} was moved, removed or replaced; nothing was rotated", self.path.display())
            }
        }
    }

    /// Leaves the file in place: its keys may be valid.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for NewKeysFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The keys in it are not valid.
            drop(fs::remove_file(&self.path));
        }
    }
}
