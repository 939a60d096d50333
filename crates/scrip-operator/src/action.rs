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

/// What is known of an action without its input.
#[derive(Debug, Clone, Copy)]
pub struct ActionSpec {
    /// The words of the command, as in `tenant quota set`.
    pub name: &'static str,
    pub right: Right,
    pub second_person: SecondPerson,
}

impl ActionSpec {
    /// An action that changes nothing.
    pub const fn view(name: &'static str) -> Self {
        Self { name, right: Right::View, second_person: SecondPerson::Never }
    }

    /// A change that one operator makes.
    pub const fn change(name: &'static str) -> Self {
        Self { name, right: Right::Change, second_person: SecondPerson::Never }
    }

    /// A change that a second operator approves under dual control.
    pub const fn approved_change(name: &'static str) -> Self {
        Self { name, right: Right::Change, second_person: SecondPerson::UnderDualControl }
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
    let mut warnings = Vec::new();
    let approved_action = async {
        use_approval.await?;
        action.run(operator).await
    };
    let result = run_recorded(operator, action.spec().name, approved_action, &mut warnings).await;
    ActionAnswer { result: result.map_err(|it| format!("{it:#}")), warnings }
}

/// As [`run_action`], for a command that is not an action yet.
/// Errors: the start cannot be recorded, or the command fails.
pub async fn run_recorded<T>(
    operator: &Operator,
    name: &str,
    command: impl Future<Output = anyhow::Result<T>>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<T> {
    let started = operator.vault.record_command(name, "started").await;
    started.map_err(|error| explain_unrecorded(&operator.vault, error, ""))?;
    let result = command.await;
    let outcome = if result.is_ok() { "completed" } else { "aborted" };
    if let Err(error) = operator.vault.record_command(name, outcome).await {
        let cause = explain_record_failure(&operator.vault, error);
        let message = match &result {
            Ok(_) => UNRECORDED_OUTCOME,
            Err(_) => "the failure of this command is not recorded in the audit log",
        };
        warnings.push(format!("{:#}", cause.context(message)));
    }
    result
}

/// The warning about a command whose outcome has no record.
pub const UNRECORDED_OUTCOME: &str =
    "the command was run, but its outcome is not recorded in the audit log";
