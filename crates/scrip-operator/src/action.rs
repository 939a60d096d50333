//! The form of an action, and the runner that records it.

use std::pin::Pin;

use anyhow::Context;
use scrip_core::approval::ActionText;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    operator::Operator,
    output::CommandOutput,
    record_failure::{explain_record_failure, explain_unrecorded},
};

/// Who may run an action on a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Every operator who can connect to the control socket.
    View,
    /// The user of the server and root; other operators only while dual control is on.
    Change,
}

/// Whether an action waits for a second operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondPerson {
    Never,
    /// While dual control is on.
    UnderDualControl,
}

/// The records of an action in the chain of the vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Its start, without which it does not run, and its success or failure.
    StartAndOutcome,
    /// As [`Recording::StartAndOutcome`], without the failure: the next run continues a failed one, and
    /// must find the vault unchanged.
    StartAndSuccess,
    /// Its success. A missing record is a warning.
    Success,
    /// Its start. A missing record is a warning: a log that cannot be written can still be examined.
    Attempt,
}

/// What is known of an action without its input.
#[derive(Debug, Clone, Copy)]
pub struct ActionSpec {
    /// The words of the command, as in `tenant quota set`.
    pub name: &'static str,
    pub right: Right,
    pub second_person: SecondPerson,
    pub recording: Recording,
}

impl ActionSpec {
    /// An action that changes nothing.
    pub const fn view(name: &'static str) -> Self {
        let (right, second_person) = (Right::View, SecondPerson::Never);
        Self { name, right, second_person, recording: Recording::StartAndOutcome }
    }

    /// A change that one operator makes.
    pub const fn change(name: &'static str) -> Self {
        Self { right: Right::Change, ..Self::view(name) }
    }

    /// A change that a second operator approves under dual control.
    pub const fn approved_change(name: &'static str) -> Self {
        Self { second_person: SecondPerson::UnderDualControl, ..Self::change(name) }
    }

    /// The same action with other records.
    #[must_use]
    pub const fn with_recording(self, recording: Recording) -> Self {
        Self { recording, ..self }
    }

    /// Records the start of the action, if it has such a record. The alternative is what the operator
    /// can do without a record. Returns a warning.
    /// Errors: the start cannot be recorded, so the action must not run.
    pub async fn record_start(
        &self,
        operator: &Operator,
        alternative: &str,
    ) -> anyhow::Result<Option<String>> {
        if !self.has_start() {
            return Ok(None);
        }
        match operator.vault.record_command(self.name, "started").await {
            Ok(()) => Ok(None),
            Err(error) if self.recording == Recording::Attempt => {
                let cause = explain_record_failure(&operator.vault, error);
                let warning = cause.context("the command is not recorded in the audit log");
                Ok(Some(format!("{warning:#}")))
            }
            Err(error) => Err(explain_unrecorded(&operator.vault, error, alternative)),
        }
    }

    /// Records the outcome of the action, if it has such a record. The change was made, so a missing
    /// record is a warning.
    pub async fn record_outcome(&self, operator: &Operator, is_success: bool) -> Option<String> {
        let (outcome, message) = self.outcome(is_success)?;
        let error = operator.vault.record_command(self.name, outcome).await.err()?;
        let cause = explain_record_failure(&operator.vault, error);
        Some(format!("{:#}", cause.context(message)))
    }

    /// The record of an outcome, and the warning if it cannot be written.
    pub fn outcome(&self, is_success: bool) -> Option<(&'static str, &'static str)> {
        match (self.recording, is_success) {
            (Recording::Attempt, _) | (Recording::StartAndSuccess | Recording::Success, false) => {
                None
            }
            (Recording::StartAndOutcome, false) => {
                Some(("aborted", "the failure of this command is not recorded in the audit log"))
            }
            (_, true) => Some(("completed", UNRECORDED_OUTCOME)),
        }
    }

    /// Whether the start of the action is recorded.
    pub fn has_start(&self) -> bool {
        self.recording != Recording::Success
    }
}

/// An action is its input: the arguments of a command, or the body of a request.
pub trait Action: Serialize + DeserializeOwned + Send + Sync + 'static {
    const SPEC: ActionSpec;

    /// Whether this input waits for a second operator under dual control.
    fn second_person(&self) -> SecondPerson {
        Self::SPEC.second_person
    }

    /// What the second operator sees and approves: the input, and the entities that it names. An input
    /// with a secret replaces it.
    /// Errors: the action cannot succeed, for example because an entity does not exist.
    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        operator.name_entities(serde_json::to_value(self)?)
    }

    /// Runs the action. Errors: the action is not possible; nothing was changed then.
    fn run(
        &self,
        operator: &Operator,
    ) -> impl Future<Output = anyhow::Result<CommandOutput>> + Send;
}

/// An action with its input, whatever its type.
pub trait PreparedAction: Send + Sync {
    fn spec(&self) -> ActionSpec;

    fn second_person(&self) -> SecondPerson;

    /// The text that the second operator sees.
    /// Errors: the action cannot succeed, or the parameters are too long.
    fn approval_text(&self, operator: &Operator) -> anyhow::Result<ActionText>;

    fn run<'a>(&'a self, operator: &'a Operator) -> ActionFuture<'a>;
}

pub type ActionFuture<'a> =
    Pin<Box<dyn Future<Output = anyhow::Result<CommandOutput>> + Send + 'a>>;

impl<A: Action> PreparedAction for A {
    fn spec(&self) -> ActionSpec {
        A::SPEC
    }

    fn second_person(&self) -> SecondPerson {
        Action::second_person(self)
    }

    fn approval_text(&self, operator: &Operator) -> anyhow::Result<ActionText> {
        approval_text(A::SPEC.name, &self.parameters(operator)?)
    }

    fn run<'a>(&'a self, operator: &'a Operator) -> ActionFuture<'a> {
        Box::pin(Action::run(self, operator))
    }
}

/// The text of an action for the second operator.
/// Errors: the parameters are too long.
pub fn approval_text(name: &str, parameters: &Value) -> anyhow::Result<ActionText> {
    let action = ActionText::new(name, parameters);
    action.context("the parameters of this command are too long for a request")
}

/// The answer to an action. A warning does not change the result.
#[derive(Debug, Serialize, Deserialize)]
pub struct ActionAnswer {
    pub result: Result<CommandOutput, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ActionAnswer {
    pub fn new(result: anyhow::Result<CommandOutput>, warnings: Vec<String>) -> Self {
        Self { result: result.map_err(|it| format!("{it:#}")), warnings }
    }
}

/// Runs an action between two records in the chain of the vault: its start and its outcome.
///
/// An action without the first record does not run. A missing second record is a warning, because the
/// change was made, and its result must not be lost. The approval of a second operator is used after
/// the first record, so that no approval is lost to an action that has not begun.
pub async fn run_action(
    operator: &Operator,
    action: &dyn PreparedAction,
    use_approval: impl Future<Output = anyhow::Result<()>> + Send,
) -> ActionAnswer {
    let spec = action.spec();
    let mut warnings = match spec.record_start(operator, "").await {
        Ok(warning) => Vec::from_iter(warning),
        Err(error) => return ActionAnswer::new(Err(error), Vec::new()),
    };
    let approved_action = async {
        use_approval.await?;
        action.run(operator).await
    };
    let result = approved_action.await;
    warnings.extend(spec.record_outcome(operator, result.is_ok()).await);
    ActionAnswer::new(result, warnings)
}

/// The warning about a command whose outcome has no record.
pub const UNRECORDED_OUTCOME: &str =
    "the command was run, but its outcome is not recorded in the audit log";
