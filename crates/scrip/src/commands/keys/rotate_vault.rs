//! `scrip keys rotate vault`: replace the vault key.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlRequest, send_request},
    unlock::{methods::MethodList, rotation::RotationStatus},
};
use serde_json::{Value, json};

use crate::commands::{
    approval::send_change,
    arguments::ApprovedArguments,
    keys::{
        new_keys_file::NewKeysFile,
        new_shares::{NewShareArguments, NewShares},
        share_output::ShareOutput,
        shares::read_shares,
    },
    output::CommandOutput,
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
