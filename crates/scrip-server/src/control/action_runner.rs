//! Runs the actions of operators on the open vault of this server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::unistd::{Uid, User};
use scrip_api::app::App;
use scrip_core::{Vault, approval::ActionText};
use scrip_operator::{
    action::{ActionAnswer, ActionSpec, PreparedAction, Right, SecondPerson, run_action},
    actions::find_action,
    operator::{OpenedVault, Operator},
};

use crate::{clock::ticks, control::protocol::ActionRequest, files::head_file::ServerHeadFile};

/// One record of refusals for each user in this time, because a user can send any number of requests.
const RECORD_REFUSAL_EVERY: Duration = Duration::from_secs(60);

/// Builds the vault of an action from the state of the server.
#[derive(Debug, Clone)]
pub(super) struct ActionRunner {
    pub(super) app: Arc<App>,
    /// The database of this server; `None` for a vault in the data directory.
    pub(super) database: Option<String>,
    pub(super) head_file: Arc<ServerHeadFile>,
    /// The time of the last recorded refusal of each user.
    pub(super) refusals: Arc<Mutex<HashMap<u32, Duration>>>,
}

/// The user at the other end of the socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Person {
    pub(super) uid: u32,
    /// Root and the server's user, whose word about the name is trusted.
    pub(super) is_trusted: bool,
}

/// An action that this server can execute.
pub(super) struct BegunAction {
    action: Box<dyn PreparedAction>,
    operator: Operator,
}

/// Whether this server can execute an action.
pub(super) enum Beginning {
    Begun(Box<BegunAction>),
    /// Why the command must run the action itself.
    Unable(String),
}

impl BegunAction {
    pub(super) fn spec(&self) -> ActionSpec {
        self.action.spec()
    }

    pub(super) fn needs_second_person(&self) -> bool {
        self.action.second_person() == SecondPerson::UnderDualControl
    }

    /// Errors: the action cannot succeed, or the parameters are too long.
    pub(super) fn approval_text(&self) -> anyhow::Result<ActionText> {
        self.action.approval_text(&self.operator)
    }
}

impl ActionRunner {
    /// Reads the input and loads the directory, before an approval is requested or used.
    /// Errors: the deleted tenants cannot be read.
    pub(super) async fn begin(
        &self,
        request: ActionRequest,
        person: Person,
    ) -> anyhow::Result<Beginning> {
        let ActionRequest { action, input, database, os_user } = request;
        if database.is_some() && database != self.database {
            return Ok(Beginning::Unable("the server uses another database".to_owned()));
        }
        let parsed = find_action(&action).map(|it| it.parse(input.expose()));
        let Some(Ok(action)) = parsed else {
            return Ok(Beginning::Unable("the server runs another version of scrip".to_owned()));
        };
        // A change of another process must count, such as the deletion of an application.
        if let Err(error) = self.app.reload().await {
            let cause = error.cause_text();
            return Ok(Beginning::Unable(format!("the server cannot load the policy: {cause}")));
        }
        let (Some(directory), Some(key_source)) =
            (self.app.directory.load_full(), self.app.key_source.get())
        else {
            return Ok(Beginning::Unable("the vault of the server is sealed".to_owned()));
        };
        let os_user: Arc<str> = match os_user.filter(|_| person.is_trusted) {
            Some(name) => name.into(),
            None => user_name(person.uid).into(),
        };
        let vault = self.vault_for(&os_user);
        let key_source = Arc::clone(key_source);
        let head_file = self.head_file.path().to_owned();
        let opened = OpenedVault { vault, key_source, directory, head_file };
        let operator = Operator::new(opened, Some(os_user)).await?;
        Ok(Beginning::Begun(Box::new(BegunAction { action, operator })))
    }

    /// The vault whose records name this user.
    fn vault_for(&self, os_user: &Arc<str>) -> Vault {
        let audit_trail = Arc::new(self.app.vault.audit_trail.for_os_user(os_user));
        Vault { audit_trail, ..self.app.vault.clone() }
    }

    /// Records that a user without the right tried a change.
    pub(super) async fn record_refusal(&self, uid: u32, change: &str) {
        let now = ticks();
        {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.retain(|_, at| now.saturating_sub(*at) < RECORD_REFUSAL_EVERY);
            if refusals.contains_key(&uid) {
                return;
            }
            refusals.insert(uid, now);
        }
        let vault = self.vault_for(&user_name(uid).into());
        if let Err(error) = vault.record_command(change, "refused").await {
            tracing::warn!(uid, cause = error.cause_text(), "a refused change is not recorded");
        }
    }

    /// Runs the action. The server uses a changed policy when this function returns.
    pub(super) async fn run(
        &self,
        begun: Box<BegunAction>,
        use_approval: impl Future<Output = anyhow::Result<()>> + Send,
    ) -> ActionAnswer {
        let BegunAction { action, operator } = *begun;
        let mut answer = run_action(&operator, &*action, use_approval).await;
        if action.spec().right == Right::Change
            && let Err(error) = self.app.reload().await
        {
            let cause = error.cause_text();
            answer.warnings.push(format!("the server has not loaded the change yet: {cause}"));
        }
        match self.head_file.update(&operator.vault).await {
            Ok(missing_file) => answer.warnings.extend(missing_file),
            Err(error) => answer.warnings.push(format!("{error:#}")),
        }
        answer
    }
}

fn user_name(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |it| it.name)
}
