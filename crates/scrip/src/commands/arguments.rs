//! Arguments of all commands.

use std::{ops::Deref, path::PathBuf, time::Duration};

use clap::Args;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
};
use serde_json::Value;

use crate::commands::{
    approval::{self, Approved, NeededAccess, parse_wait},
    operator::Operator,
    output::{CommandOutput, warn},
    progress::{Progress, ProgressUnit, WithoutTerminal},
    runtime,
};

/// Arguments of all commands: location of the vault, and output format.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// Settings file [default: `SCRIP_CONFIG`, else scrip.toml if it exists].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the vault; overrides the settings.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of commands that may wait for a second operator.
#[derive(Debug, Args)]
pub(crate) struct ApprovedArguments {
    #[command(flatten)]
    common: CommonArguments,
    /// How long to wait for the approval of a second operator, such as 30s, 10m or 1h.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_wait)]
    pub(crate) wait: Duration,
}

impl Deref for ApprovedArguments {
    type Target = CommonArguments;

    fn deref(&self) -> &CommonArguments {
        &self.common
    }
}

impl ApprovedArguments {
    /// As [`CommonArguments::with_vault`], for an action that needs a second operator under dual
    /// control. The parameters are shown to that operator.
    pub(crate) fn with_approved_vault(
        &self,
        environment: &Environment,
        command: &str,
        parameters: &Value,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<()> {
        let settings = self.confined_settings(environment)?;
        let approved =
            approval::require(&settings, self.wait, command, parameters, NeededAccess::VaultKey)?;
        self.run_with_vault(&settings, command, action, Some(approved))
    }
}

impl CommonArguments {
    pub(crate) fn settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let flags = self.data_dir.clone().map(|it| ("storage.data_dir", it));
        let flags: Vec<_> = flags.into_iter().collect();
        Settings::load_with(self.config.as_deref(), &flags, environment)
    }

    /// Loads the settings, and switches to the user of the server.
    pub(crate) fn confined_settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let settings = self.settings(environment)?;
        process::confine_command(&settings.server)?;
        Ok(settings)
    }

    /// Loads the settings for a command that only uses a socket of the server.
    pub(crate) fn socket_settings(&self, environment: &Environment) -> anyhow::Result<Settings> {
        let settings = self.settings(environment)?;
        process::confine_socket_command(&settings.server)?;
        Ok(settings)
    }

    /// Opens the vault, runs one action with audit records, and prints its output.
    pub(crate) fn with_vault(
        &self,
        environment: &Environment,
        command: &str,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<()> {
        let settings = self.confined_settings(environment)?;
        self.run_with_vault(&settings, command, action, None)
    }

    fn run_with_vault(
        &self,
        settings: &Settings,
        command: &str,
        action: impl AsyncFnOnce(&Operator) -> anyhow::Result<CommandOutput>,
        approved: Option<Approved>,
    ) -> anyhow::Result<()> {
        let output = runtime()?.block_on(async {
            let operator = Operator::open(settings).await?;
            if let Some(approved) = approved {
                approved.check_state(&operator).await?;
            }
            let output = operator.run_recorded(command, action(&operator)).await;
            // A server saves the heads too, but may not be running.
            if let Err(error) = head_file::update(&settings.head_file(), &operator.vault).await {
                warn(&error);
            }
            output
        })?;
        self.print_output(&output)
    }

    /// Progress of a step in bytes, of a command that writes a file or a vault.
    pub(crate) fn progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Bytes, self.without_terminal())
    }

    /// Progress of a step in records, of a command that writes a file or a vault.
    pub(crate) fn record_progress(&self, step: &'static str) -> Progress {
        Progress::new(step, ProgressUnit::Records, self.without_terminal())
    }

    fn without_terminal(&self) -> WithoutTerminal {
        match self.json {
            true => WithoutTerminal::Hidden,
            false => WithoutTerminal::Lines,
        }
    }

    pub(crate) fn print_output(&self, output: &CommandOutput) -> anyhow::Result<()> {
        output.print(self.json)
    }
}
