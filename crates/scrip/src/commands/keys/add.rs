//! `scrip keys add`: another unlock method for the vault of a running server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand};
use scrip_operator::output::CommandOutput;
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ControlRequest, RequestRefusal, send_request},
    unlock::{
        methods::{MethodList, MethodStatus},
        shares::{IssuedShares, ShareCount},
    },
};
use serde_json::{Map, Value, json};

use crate::commands::{
    approval::send_change,
    arguments::ApprovedArguments,
    keys::{adopt::prepare_key_file, share_output::ShareOutput, shares::read_shares},
};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys add file /etc/scrip/unlock.key
  scrip keys add env SCRIP_UNLOCK_KEY
  scrip keys add shamir --shares 5 --threshold 3
  scrip keys add aws-kms --set key=KEY_ID --set region=eu-central-1

The server wraps the vault key with the new method and stays in service. Existing methods keep working.";

/// Arguments of all kinds of methods.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Name of the method in lists and messages [default: its kind].
    #[arg(long)]
    label: Option<String>,
    #[command(flatten)]
    common: ApprovedArguments,
}

impl AddArguments {
    /// The label, or the kind of the method without `--label`.
    fn label_or(&self, kind: &str) -> String {
        self.label.clone().unwrap_or_else(|| kind.to_owned())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum AddCommand {
    /// Add a wrapping key in a file; the file is created if it is missing.
    File {
        file: PathBuf,
        #[command(flatten)]
        arguments: AddArguments,
    },
    /// Add a wrapping key in a variable of the server's environment.
    Env {
        /// Name of the variable; it starts with `SCRIP_UNLOCK_`.
        variable: String,
        #[command(flatten)]
        arguments: AddArguments,
    },
    /// Add shares of people. The command shows each share once, and asks for them before they count.
    Shamir {
        /// Number of shares.
        #[arg(long, default_value_t = 5)]
        shares: u8,
        /// Number of shares that unseal the vault.
        #[arg(long, default_value_t = 3)]
        threshold: u8,
        /// Public age key of a holder; one for each share. Without it, shares are shown in clear,
        /// one at a time.
        #[arg(long = "to", value_name = "AGE")]
        recipients: Vec<String>,
        /// New file for a share in clear; one for each share.
        #[arg(long = "share-file", value_name = "FILE", conflicts_with = "recipients")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        arguments: AddArguments,
    },
    /// Add a key in a hardware security module.
    Pkcs11(ServiceArguments),
    /// Add a key of AWS KMS.
    AwsKms(ServiceArguments),
    /// Add a key of the Transit engine of Vault or OpenBao.
    Transit(ServiceArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    /// A parameter of the method, such as `key=KEY_ID` of `aws-kms`, or `key_label=vault` of
    /// `pkcs11`; docs/operate/keys.md lists all. Never a secret.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    #[command(flatten)]
    arguments: AddArguments,
}

pub(super) fn run(command: &AddCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        AddCommand::File { file, arguments } => {
            let settings = arguments.common.socket_settings(environment)?;
            add_file(file, arguments, &settings)
        }
        AddCommand::Env { variable, arguments } => {
            let settings = arguments.common.socket_settings(environment)?;
            let parameters = json!({ "variable": variable });
            add_method(arguments, "env", parameters, &settings)
        }
        AddCommand::Shamir { shares, threshold, recipients, files, arguments } => {
            let (shares, threshold) = (*shares, *threshold);
            let count = ShareCount { shares, threshold, recipients: recipients.clone() };
            let output = ShareOutput::select(recipients, files);
            add_shares(arguments, count, &output, environment)
        }
        AddCommand::Pkcs11(it) => add_service("pkcs11", it, environment),
        AddCommand::AwsKms(it) => add_service("aws-kms", it, environment),
        AddCommand::Transit(it) => add_service("transit", it, environment),
    }
}

/// Creates the key file if it is missing. A new file does not stay if the server refuses the method.
fn add_file(file: &Path, arguments: &AddArguments, settings: &Settings) -> anyhow::Result<()> {
    // Without a server there is no use for the file.
    list_methods(settings)?;
    let is_new = !file.exists();
    let path = prepare_key_file(file)?;
    let added = add_method(arguments, "file", json!({ "path": path }), settings);
    // Without an answer, the server may still add the method.
    let is_refused = added.as_ref().is_err_and(|it| it.is::<RequestRefusal>());
    let is_unused = |it: MethodList| {
        it.methods.iter().all(|it| it.parameters.get("path") != Some(&json!(path)))
    };
    if is_new && is_refused && list_methods(settings).is_ok_and(is_unused) {
        drop(fs::remove_file(&path));
    }
    added
}

fn list_methods(settings: &Settings) -> anyhow::Result<MethodList> {
    send_request(&settings.control_address(), &ControlRequest::ListMethods {})
}

fn add_service(
    kind: &str,
    service: &ServiceArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = service.arguments.common.socket_settings(environment)?;
    let mut parameters = Map::new();
    for text in &service.parameters {
        let (name, value) = text.split_once('=').context("--set needs NAME=VALUE")?;
        parameters.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    add_method(&service.arguments, kind, Value::Object(parameters), &settings)
}

fn add_method(
    arguments: &AddArguments,
    kind: &str,
    parameters: Value,
    settings: &Settings,
) -> anyhow::Result<()> {
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    let label = arguments.label_or(kind);
    let request = ControlRequest::AddMethod { kind: kind.to_owned(), label, parameters };
    let method: MethodStatus = send_change(settings, arguments.common.wait, &request)?;
    arguments.common.print_output(&report(&method))
}

fn report(method: &MethodStatus) -> CommandOutput {
    let text = format!(
        "added unlock method {} ({} {}); it opens the vault from now on\n",
        method.id, method.kind, method.label
    );
    CommandOutput::new(text, json!({ "method": method }))
}

/// The ceremony: hands the shares over, then asks for enough of them.
fn add_shares(
    arguments: &AddArguments,
    count: ShareCount,
    output: &ShareOutput,
    environment: &Environment,
) -> anyhow::Result<()> {
    output.check(count.shares.into())?;
    let settings = arguments.common.socket_settings(environment)?;
    let label = arguments.label_or("shamir");
    let request = ControlRequest::AddShares { label, count };
    let issued: IssuedShares = send_change(&settings, arguments.common.wait, &request)?;
    let handed_over = output.hand_over(&issued);
    let shares = handed_over.and_then(|()| read_shares(&issued)).with_context(|| {
        format!(
            "the shares do not count yet. Remove the pending method and repeat the ceremony: scrip \
             keys remove {}",
            issued.method
        )
    })?;
    let request = ControlRequest::ConfirmShares { method: issued.method, shares };
    let method: MethodStatus = send_request(&settings.control_address(), &request)?;
    arguments.common.print_output(&report(&method))
}
