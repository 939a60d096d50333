//! Arguments of all commands, and the commands that are actions.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use scrip_operator::{
    action::{Action, ActionAnswer, PreparedAction, SecondPerson},
    output::CommandOutput,
    secret_text::SecretText,
};
use scrip_server::{
    config::{Environment, Settings},
    control::protocol::{ActionRequest, ControlRequest},
    process,
};

use crate::commands::{
    approval::{ServerAnswer, parse_wait, try_change},
    local_action::{ApprovalNeed, LocalAction, LocalRun},
    output::{print_command_output, print_warnings},
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

/// A command that is an action.
#[derive(Debug, Args)]
pub(crate) struct ActionCommand<A: Action + Args> {
    #[command(flatten)]
    pub(crate) action: A,
    #[command(flatten)]
    common: CommonArguments,
}

/// A command that is an action, and may wait for a second operator.
#[derive(Debug, Args)]
pub(crate) struct ApprovedActionCommand<A: Action + Args> {
    #[command(flatten)]
    action: A,
    #[command(flatten)]
    common: ApprovedArguments,
}

impl<A: Action + Args> ActionCommand<A> {
    pub(crate) fn run(&self, environment: &Environment) -> anyhow::Result<()> {
        self.common.run_action(environment, &self.action)
    }
}

impl<A: Action + Args> ApprovedActionCommand<A> {
    pub(crate) fn run(&self, environment: &Environment) -> anyhow::Result<()> {
        self.common.run_action(environment, &self.action)
    }
}

impl std::ops::Deref for ApprovedArguments {
    type Target = CommonArguments;

    fn deref(&self) -> &CommonArguments {
        &self.common
    }
}

impl ApprovedArguments {
    /// As [`CommonArguments::run_action`]; the running server may answer that a second operator must
    /// approve the action.
    pub(crate) fn run_action<A: Action>(
        &self,
        environment: &Environment,
        action: &A,
    ) -> anyhow::Result<()> {
        self.common.run_prepared(environment, action, &serde_json::to_string(action)?, self.wait)
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

    /// Runs an action, and prints its output. A running server executes it; without one, this process
    /// opens the vault.
    pub(crate) fn run_action<A: Action>(
        &self,
        environment: &Environment,
        action: &A,
    ) -> anyhow::Result<()> {
        self.run_prepared(environment, action, &serde_json::to_string(action)?, Duration::ZERO)
    }

    fn run_prepared(
        &self,
        environment: &Environment,
        action: &dyn PreparedAction,
        input: &str,
        wait: Duration,
    ) -> anyhow::Result<()> {
        let settings = self.socket_settings(environment)?;
        let answer = match run_on_server(&settings, wait, action, input)? {
            ServerAnswer::Done(answer) => answer,
            ServerAnswer::NoServer(reason) => {
                let answer = run_here(&settings, action);
                answer.map_err(|error| match reason {
                    Some(reason) => error.context(reason),
                    None => error,
                })?
            }
        };
        self.print_answer(answer)
    }

    /// Runs an action in this process, and prints its output.
    pub(crate) fn run_local(
        &self,
        action: &LocalAction<'_>,
        function: impl AsyncFnOnce(&LocalRun) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<()> {
        self.print_answer(runtime()?.block_on(action.run(function))?)
    }

    fn print_answer(&self, answer: ActionAnswer) -> anyhow::Result<()> {
        print_warnings(&answer.warnings);
        self.print_output(&answer.result.map_err(anyhow::Error::msg)?)
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
        print_command_output(output, self.json)
    }
}

/// Sends an action to the running server, and waits for a second operator if it must.
/// Errors: the server rejects the action, or it was not approved in time.
fn run_on_server(
    settings: &Settings,
    wait: Duration,
    action: &dyn PreparedAction,
    input: &str,
) -> anyhow::Result<ServerAnswer<ActionAnswer>> {
    let request = ControlRequest::RunAction(ActionRequest {
        action: action.spec().name.to_owned(),
        input: SecretText::new(input.to_owned()),
        database: settings.storage.database(),
        os_user: settings.os_user.as_deref().map(str::to_owned),
    });
    try_change(&settings.control_address(), wait, &request)
}

/// Runs an action of the server in this process, on the vault that it opens.
/// Errors: this process cannot open the vault, or dual control needs a server.
fn run_here(settings: &Settings, action: &dyn PreparedAction) -> anyhow::Result<ActionAnswer> {
    process::confine_command(&settings.server)?;
    let approval = match action.second_person() {
        SecondPerson::UnderDualControl => ApprovalNeed::OnServer,
        SecondPerson::Never => ApprovalNeed::None,
    };
    let local = LocalAction { approval, ..LocalAction::on_vault(action.spec(), settings) };
    runtime()?.block_on(local.run(async |it| action.run(it.operator()?).await))
}
