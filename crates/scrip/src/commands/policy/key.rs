//! `scrip key`: create, list, find, delete, import.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::policy::ApiKeyText;
use scrip_operator::{
    actions::{
        key::{CreateKey, DeleteKey, ImportKey, ListKeys},
        key_find::FindKey,
    },
    error::explain,
    secret_text::SecretText,
};
use scrip_server::config::Environment;
use zeroize::Zeroizing;

use crate::commands::arguments::{
    ActionCommand, ApprovedActionCommand, ApprovedArguments, CommonArguments,
};

const IMPORT_EXAMPLES: &str = "\
Examples:
  scrip key import 5f0c… --file old-key.txt
  pass show vault/key | scrip key import 5f0c…

The key is read from a file or from standard input, never from the command line, which other users
can see. A key that contains neither _test_ nor _prod_ is a legacy key: it works, with the rate limit
of legacy keys.";

const FIND_EXAMPLES: &str = "\
Examples:
  scrip key find --file leaked.txt
  scrip key find                     Paste the key, then press Enter and Ctrl-D

The key is read from a file or from standard input, never from the command line, which other users
can see. The command prints the id of the key, never the key.";

/// Longer than any key, also with white space around it.
const KEY_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create another key for an application; existing keys keep working.
    Create(ApprovedActionCommand<CreateKey>),
    /// List keys: ids, applications and times, never the keys.
    List(ActionCommand<ListKeys>),
    /// Find the application, the id and the last use of a key, for example of a leaked key.
    #[command(after_help = FIND_EXAMPLES)]
    Find {
        /// File with the key [default: standard input].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a key: it stops working within a second.
    Delete(ActionCommand<DeleteKey>),
    /// Import a key that was created elsewhere.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// Id of the application.
        application: String,
        /// File with the key [default: standard input].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: ApprovedArguments,
    },
}

pub(crate) fn run(command: &KeyCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        KeyCommand::Create(command) => command.run(environment),
        KeyCommand::List(command) => command.run(environment),
        // Both read the key before switching to the server's user, who may not be able to read the
        // file.
        KeyCommand::Find { file, common } => {
            let key = SecretText::new(read_key_text(file.as_ref())?.trim().to_owned());
            common.run_action(environment, &FindKey { key })
        }
        KeyCommand::Delete(command) => command.run(environment),
        KeyCommand::Import { application, file, common } => {
            let text = read_key_text(file.as_ref())?;
            let key = ApiKeyText::parse(&text).map_err(explain)?;
            let key = SecretText::new(key.expose().to_owned());
            let (application, file) = (application.clone(), file.clone());
            common.run_action(environment, &ImportKey { application, file, key })
        }
    }
}

fn read_key_text(file: Option<&PathBuf>) -> anyhow::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let name = file.map_or("standard input".to_owned(), |it| it.display().to_string());
    let error_context = || format!("{name} cannot be read");
    let input: Box<dyn Read> = match file {
        Some(file) => Box::new(File::open(file).with_context(error_context)?),
        None => Box::new(io::stdin().lock()),
    };
    // One more byte shows that the input is too long.
    let mut input = input.take(KEY_BYTES_MAX.saturating_add(1));
    input.read_to_string(&mut text).with_context(error_context)?;
    if u64::try_from(text.len())? > KEY_BYTES_MAX {
        bail!("{name} is longer than 1 MiB; give only the key");
    }
    Ok(text)
}
