//! The new shares of a rotation: how many, and where they go.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use scrip_server::{
    config::Settings,
    control::protocol::{ControlRequest, send_request},
    unlock::{
        methods::{MethodList, MethodStatus},
        shares::ShareCount,
    },
};

use crate::commands::keys::share_output::ShareOutput;

/// Arguments of commands that rotate the vault key.
#[derive(Debug, Args)]
pub(super) struct NewShareArguments {
    /// Number of new shares [default: as before].
    #[arg(long, requires = "threshold")]
    shares: Option<u8>,
    /// Number of new shares that unseal the vault [default: as before].
    #[arg(long, requires = "shares")]
    threshold: Option<u8>,
    /// Public age key of a holder; one for each share.
    #[arg(long = "to", value_name = "AGE")]
    recipients: Vec<String>,
    /// New file for a share in clear; one for each share.
    #[arg(long = "share-file", value_name = "FILE", conflicts_with = "recipients")]
    files: Vec<PathBuf>,
}

/// New shares whose number and places were checked.
#[derive(Debug)]
pub(super) struct NewShares {
    /// `None` for clear shares, as many as before.
    pub(super) count: Option<ShareCount>,
    pub(super) output: ShareOutput,
}

impl NewShareArguments {
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_none() && self.recipients.is_empty() && self.files.is_empty()
    }

    /// Checks the arguments before anything changes. Only a vault with shares gets new ones.
    /// Errors: the server does not answer, the vault will have no shares, or the new ones do not have
    /// one place each.
    pub(super) fn check(
        &self,
        settings: &Settings,
        removed_method: Option<&str>,
    ) -> anyhow::Result<NewShares> {
        let request = ControlRequest::ListMethods {};
        let list: MethodList = send_request(&settings.control_address(), &request)?;
        let is_kept = |it: &&MethodStatus| {
            it.kind == "shamir" && it.state == "active" && Some(it.id.as_str()) != removed_method
        };
        let Some(method) = list.methods.iter().find(is_kept) else {
            if !self.is_empty() {
                bail!(
                    "the vault has no shares that the rotation could replace; nothing was changed. \
                     Omit --shares, --threshold, --to and --share-file"
                );
            }
            return Ok(NewShares { count: None, output: ShareOutput::None });
        };
        let numbers = match self.shares.zip(self.threshold) {
            Some(numbers) => numbers,
            None => numbers_of(method)?,
        };
        let (shares, threshold) = numbers;
        let output = ShareOutput::select(&self.recipients, &self.files);
        output.check(shares.into())?;
        let recipients = self.recipients.clone();
        let count = ShareCount { shares, threshold, recipients };
        count.parse_recipients()?;
        let is_as_before = self.shares.is_none() && self.recipients.is_empty();
        Ok(NewShares { count: (!is_as_before).then_some(count), output })
    }
}

/// The number of shares of a method, and how many of them unseal the vault.
fn numbers_of(method: &MethodStatus) -> anyhow::Result<(u8, u8)> {
    let number = |name: &str| {
        let number = method.parameters.get(name).and_then(serde_json::Value::as_u64);
        let number = number.and_then(|it| u8::try_from(it).ok());
        number.with_context(|| {
            format!("the parameters of unlock method {} were altered; run: scrip doctor", method.id)
        })
    };
    Ok((number("shares")?, number("threshold")?))
}
