//! Runs an action in the process of its command: without a server, or because the action works with files
//! of this machine or needs a stopped server.

use std::{fs::File, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use nix::unistd::Uid;
use scrip_api::app::App;
use scrip_core::{
    approval::{ActionText, StoredDualControl},
    policy::Directory,
};
use scrip_operator::{
    action::{ActionAnswer, ActionSpec, approval_text},
    error::explain,
    operator::{OpenedVault, Operator},
    output::CommandOutput,
    record_failure::is_storage_full,
};
use scrip_server::{
    clock::ticks,
    config::Settings,
    control::protocol::{ControlRequest, send_request},
    dual_control::{
        DualControl,
        requests::{ApprovalTicket, ApprovalUse},
    },
    files::head_file,
};
use scrip_store::sqlite::backup::read_dual_control;
use serde_json::Value;

use crate::commands::approval::{ServerAnswer, try_change, wait_for_approval};

/// Whether an action needs the vault key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    Required,
    /// The action is recorded if there is a key.
    Optional,
    /// The operator does without a record.
    Unused,
}

/// The approval of a second operator that an action needs.
#[derive(Debug)]
pub(crate) enum ApprovalNeed {
    None,
    /// Only a server gives the approval, because it executes the action.
    OnServer,
    /// It is requested from a server, and waited for. A command can use it without a server, too.
    Requested(ActionText, Duration),
}

/// An approval that is not used yet.
enum FoundApproval {
    NotNeeded,
    /// An interrupted run, which was approved, continues.
    Continued,
    /// The request that uses the approval.
    OnServer(ControlRequest),
    InVault(Box<DualControl>, ActionText),
}

/// An action that this process runs.
#[derive(Debug)]
pub(crate) struct LocalAction<'a> {
    pub(crate) spec: ActionSpec,
    pub(crate) settings: &'a Settings,
    pub(crate) key: KeyUse,
    /// Otherwise the action works with files, and the vault is opened for its records only.
    pub(crate) keeps_vault_open: bool,
    pub(crate) approval: ApprovalNeed,
    pub(crate) needs_stopped_server: bool,
    /// Whether an interrupted run continues without another approval.
    pub(crate) is_continued: fn(&Operator) -> bool,
}

/// An action that has begun: its start is recorded, and its approval used.
#[derive(Debug)]
pub(crate) struct LocalRun {
    operator: Option<Operator>,
    /// Prevents the start of a server.
    _lock: Option<File>,
    pub(crate) is_continued: bool,
}

impl LocalRun {
    /// The open vault.
    /// Errors: the action has no vault key.
    pub(crate) fn operator(&self) -> anyhow::Result<&Operator> {
        self.operator.as_ref().context("this command needs the vault key")
    }
}

const OPENS_VAULT: &str = "this command opens the vault itself, which this process cannot do. Run it as \
    the user of the server, with its settings";
const NEEDS_KEY: &str = "this command is recorded in the audit log, which requires the root key; provide \
    the root key, or use --without-root-key to run without a record";
const WITHOUT_RECORD: &str = "; or use --without-root-key to run without a record";
const NOT_APPROVED: &str = "dual control is on, and this command is not approved: a second operator must \
    approve it, which needs a running server on this machine";

impl<'a> LocalAction<'a> {
    /// An action on the open vault.
    pub(crate) fn on_vault(spec: ActionSpec, settings: &'a Settings) -> Self {
        Self {
            spec,
            settings,
            key: KeyUse::Required,
            keeps_vault_open: true,
            approval: ApprovalNeed::None,
            needs_stopped_server: false,
            is_continued: |_| false,
        }
    }

    /// An action that works with files.
    pub(crate) fn on_files(spec: ActionSpec, settings: &'a Settings, key: KeyUse) -> Self {
        Self { key, keeps_vault_open: false, ..Self::on_vault(spec, settings) }
    }

    /// The same action, which a second operator must approve. The parameters are shown to that operator.
    /// Errors: the parameters are too long.
    pub(crate) fn approved(self, parameters: &Value, wait: Duration) -> anyhow::Result<Self> {
        let text = approval_text(self.spec.name, parameters)?;
        Ok(Self { approval: ApprovalNeed::Requested(text, wait), ..self })
    }

    /// Runs the action between its records.
    /// Errors: the action has not begun. An approval was not used then.
    pub(crate) async fn run(
        &self,
        function: impl AsyncFnOnce(&LocalRun) -> anyhow::Result<CommandOutput>,
    ) -> anyhow::Result<ActionAnswer> {
        let (mut run, approval) = self.open().await?;
        let mut warnings = Vec::new();
        if let Some(operator) = &run.operator {
            self.record_start(operator, &mut warnings).await?;
        }
        let result = match self.use_approval(approval).await {
            Err(error) => Err(error),
            Ok(()) => {
                run.operator = run.operator.filter(|_| self.keeps_vault_open);
                function(&run).await
            }
        };
        self.record_outcome(run.operator, result.is_ok(), &mut warnings).await;
        Ok(ActionAnswer::new(result, warnings))
    }

    /// Opens the vault, and then requests the approval: a process that cannot run the action requests none.
    async fn open(&self) -> anyhow::Result<(LocalRun, FoundApproval)> {
        let mut operator = self.open_at_start().await?;
        let mut ticket = None;
        if let ApprovalNeed::Requested(action, wait) = &self.approval {
            let address = self.settings.control_address();
            let action = action.text().to_owned();
            let request = ControlRequest::RequestApproval { action };
            ticket = match try_change::<Option<ApprovalTicket>>(&address, *wait, &request)? {
                ServerAnswer::Done(ticket) => ticket,
                ServerAnswer::NoServer(None) => None,
                ServerAnswer::NoServer(Some(reason)) => bail!(reason),
            };
            if let Some(ticket) = ticket.as_ref().filter(|it| it.approved_by.is_none()) {
                // The vault may change until then.
                drop(operator.take());
                wait_for_approval(&address, *wait, ticket)?;
                operator = self.open_at_start().await?;
            }
        }
        let mut lock = None;
        if self.needs_stopped_server {
            if let Some(ApprovalTicket { id, .. }) = &ticket {
                bail!(
                    "request {id} is approved. Stop every server, and run the same command again"
                );
            }
            self.settings.check_no_server()?;
            if self.keeps_vault_open {
                drop(operator.take());
                lock = self.settings.lock_data_dir()?;
                operator = self.open_vault(true).await?;
            }
        }
        let approval = self.find_approval(ticket.is_some(), operator.as_ref()).await?;
        let is_continued = matches!(approval, FoundApproval::Continued);
        Ok((LocalRun { operator, _lock: lock, is_continued }, approval))
    }

    /// Errors: the approval is missing, or cannot be verified without the vault key.
    async fn find_approval(
        &self,
        is_on_server: bool,
        operator: Option<&Operator>,
    ) -> anyhow::Result<FoundApproval> {
        let action = match &self.approval {
            ApprovalNeed::None => return Ok(FoundApproval::NotNeeded),
            ApprovalNeed::OnServer => None,
            ApprovalNeed::Requested(action, _) => Some(action),
        };
        if let Some(action) = action.filter(|_| is_on_server) {
            let action = action.text().to_owned();
            return Ok(FoundApproval::OnServer(ControlRequest::UseApproval { action }));
        }
        let Some(operator) = operator else {
            return match is_on_without_key(self.settings).await? {
                false => Ok(FoundApproval::NotNeeded),
                true => bail!(
                    "dual control is on: without a running server, this command needs the vault key \
                     to verify its approval"
                ),
            };
        };
        // As on a server, with the vault that this process has opened.
        let app = App::new_sealed(operator.vault.clone(), ticks);
        app.directory.store(Some(Arc::clone(&operator.directory)));
        let dual_control = DualControl::new(Arc::new(app), self.settings.keys.dual_control);
        let report = dual_control.report().await?;
        if !report.is_on {
            return Ok(FoundApproval::NotNeeded);
        }
        let (uid, tickets) = (Uid::effective().as_raw(), dual_control.list().await?);
        let is_approved = |action: &&ActionText| {
            tickets.iter().any(|it| {
                it.requested_by == uid && it.action == action.text() && it.approved_by.is_some()
            })
        };
        if let Some(action) = action.filter(is_approved) {
            return Ok(FoundApproval::InVault(Box::new(dual_control), action.clone()));
        }
        if (self.is_continued)(operator) {
            return Ok(FoundApproval::Continued);
        }
        let cause = match report.is_altered {
            true => "a row of dual control was altered outside the vault. ",
            false => "",
        };
        let advice = match self.needs_stopped_server {
            true => {
                ". Start the server, run the same command to request the approval, and stop the server \
                 after the approval"
            }
            false => "",
        };
        bail!("{cause}{NOT_APPROVED}{advice}")
    }

    /// Uses the approval of an action that has begun.
    /// Errors: another command has used it.
    async fn use_approval(&self, approval: FoundApproval) -> anyhow::Result<()> {
        match approval {
            FoundApproval::NotNeeded | FoundApproval::Continued => Ok(()),
            FoundApproval::OnServer(request) => {
                send_request::<bool>(&self.settings.control_address(), &request).map(drop)
            }
            FoundApproval::InVault(dual_control, action) => {
                match dual_control.use_approval(Uid::effective().as_raw(), &action).await? {
                    ApprovalUse::NotNeeded | ApprovalUse::Used => Ok(()),
                    ApprovalUse::Missing => bail!(NOT_APPROVED),
                }
            }
        }
    }

    /// Opens the vault if the action needs it before its end.
    async fn open_at_start(&self) -> anyhow::Result<Option<Operator>> {
        let is_approved = matches!(self.approval, ApprovalNeed::Requested(..));
        match (self.key, self.keeps_vault_open) {
            // A process that cannot read the database would lose an approval.
            (KeyUse::Unused, _) if is_approved => {
                is_on_without_key(self.settings).await.map(|_| None)
            }
            (KeyUse::Required, true) if !is_approved => self.open_vault(false).await,
            (KeyUse::Required, true) => self.open_vault(false).await.context(OPENS_VAULT),
            (KeyUse::Required, false) if is_approved => {
                self.open_vault(false).await.context(NEEDS_KEY)
            }
            // The end reports why there is no record.
            (KeyUse::Optional, true) => Ok(self.open_vault(false).await.unwrap_or_default()),
            _ => Ok(None),
        }
    }

    /// Opens the vault. `None` without a key, if the action needs none.
    async fn open_vault(&self, is_exclusive: bool) -> anyhow::Result<Option<Operator>> {
        let settings = self.settings;
        let vault = match (self.key, is_exclusive) {
            (KeyUse::Unused, _) => return Ok(None),
            (_, true) => settings.open_vault_exclusively().await?,
            (_, false) => settings.open_vault_for_command().await?,
        };
        let records = vault.store.load_directory().await.map_err(explain)?;
        let key_source = match settings.unlock(&records).await {
            Ok(ring) => ring,
            Err(it) if self.key == KeyUse::Optional && !it.is_wrong_key => return Ok(None),
            Err(problem) => return Err(problem.into()),
        };
        let directory = Directory::open(records, &*key_source, None).map_err(explain)?;
        vault.audit_trail.set_key(directory.audit_key());
        if let Some(os_user) = &settings.os_user {
            vault.audit_trail.set_os_user(os_user);
        }
        let (directory, head_file) = (Arc::new(directory), settings.head_file());
        let opened = OpenedVault { vault, key_source, directory, head_file };
        Operator::new(opened, settings.os_user.clone()).await.map(Some)
    }

    async fn record_start(
        &self,
        operator: &Operator,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let alternative = if self.keeps_vault_open { "" } else { WITHOUT_RECORD };
        warnings.extend(self.spec.record_start(operator, alternative).await?);
        if self.keeps_vault_open || !self.spec.has_start() {
            return Ok(());
        }
        // The action may last long, so its start is secured first.
        let saved = head_file::update_by_command(&operator.head_file, &operator.vault).await;
        warnings.extend(saved.map_err(|error| {
            let (cause, advice) = match is_storage_full(&error) {
                true => ("the disk of the head file is full, so ", "Free some space"),
                false => ("", "Correct the cause"),
            };
            error.context(format!(
                "{cause}the record cannot be secured, and the command was not run. \
                 {advice}{WITHOUT_RECORD}"
            ))
        })?);
        Ok(())
    }

    /// Records the outcome, and saves the chain heads: no server may be running that saves them.
    async fn record_outcome(
        &self,
        operator: Option<Operator>,
        is_success: bool,
        warnings: &mut Vec<String>,
    ) {
        let Some((_, message)) = self.spec.outcome(is_success) else { return };
        // A closed vault may have another audit key by now.
        let opened = match operator {
            None => self.open_vault(false).await,
            operator => Ok(operator),
        };
        match opened {
            Ok(None) => (),
            Err(error) => warnings.push(format!("{:#}", error.context(message))),
            Ok(Some(operator)) => {
                warnings.extend(self.spec.record_outcome(&operator, is_success).await);
                match head_file::update_by_command(&operator.head_file, &operator.vault).await {
                    // The start has saved the file, or the action has created the vault of this node.
                    Ok(_) if !self.keeps_vault_open && self.key == KeyUse::Required => (),
                    Ok(missing_file) => warnings.extend(missing_file),
                    Err(error) => warnings.push(format!("{error:#}")),
                }
            }
        }
    }
}

/// Whether dual control must be assumed without the vault key. A row that cannot be read counts as on.
/// Never migrates a database: a backup copies it as it is.
/// Errors: this process cannot read the database.
pub(crate) async fn is_on_without_key(settings: &Settings) -> anyhow::Result<bool> {
    let stored = match settings.storage.url {
        Some(_) => {
            let vault = settings.open_vault_for_command().await?;
            vault.store.load_approvals().await.map_err(explain)?.dual_control
        }
        None => {
            let folder = settings.existing_data_dir()?;
            let state = read_dual_control(&settings.database_file()).map_err(explain);
            state.with_context(|| format!("{} cannot be opened", folder.display()))?
        }
    };
    Ok(settings.keys.dual_control
        || match stored {
            StoredDualControl::Missing => false,
            StoredDualControl::Unreadable => true,
            StoredDualControl::Present(it) => it.is_on,
        })
}
