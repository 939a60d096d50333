//! Executes the requests of the control socket.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::{Context, bail};
use scrip_core::{approval::ActionText, unlock::UnlockKind};
use scrip_operator::action::Right;
use serde_json::{Value, json};

use crate::{
    clock::ticks,
    control::{
        action_runner::{ActionRunner, Beginning, Person},
        protocol::{ActionRequest, ControlRequest, ControlResponse},
        request_rate::RequestRates,
    },
    dual_control::{
        DualControl,
        requests::{ApprovalTicket, ApprovalUse, Authorization},
    },
    unlock::{
        create::{NewMethod, SourceProblem},
        entered_shares::ShareHolder,
        manager::KeyManager,
        methods::MethodStatus,
        open::source_text,
        rotation::RotationReason,
        unlock_settings::UnlockSettings,
    },
};

/// What the requests change.
#[derive(Debug, Clone)]
pub(super) struct ControlHandler {
    pub(super) actions: ActionRunner,
    pub(super) manager: Option<Arc<KeyManager>>,
    pub(super) dual_control: Option<Arc<DualControl>>,
    /// The user of this server.
    pub(super) server_uid: u32,
    pub(super) rates: Arc<RequestRates>,
}

/// What a request needs.
enum RequestRight {
    /// Every user who can connect.
    Operator,
    /// The server's user or root; other operators only under dual control.
    Change,
    /// As [`RequestRight::Change`], and under dual control an approval of this action.
    ApprovedChange(ActionText),
}

/// The result of a request.
pub(super) enum Handled {
    Done(Value),
    Waiting(ApprovalTicket),
    Unable(String),
}

impl ControlHandler {
    /// Executes a request of a user of this machine.
    pub(super) async fn handle(&self, request: ControlRequest, uid: u32) -> ControlResponse {
        if !self.is_server_user(uid) && !self.rates.try_count(uid, ticks()) {
            let text = "too many requests of this user; try again in a second";
            return ControlResponse::Error(text.to_owned());
        }
        match self.try_handle(request, uid).await {
            Ok(Handled::Done(value)) => ControlResponse::Result(value),
            Ok(Handled::Waiting(ticket)) => ControlResponse::Waiting(ticket),
            Ok(Handled::Unable(reason)) => ControlResponse::Unable(reason),
            Err(error) => ControlResponse::Error(format!("{error:#}")),
        }
    }

    async fn try_handle(&self, request: ControlRequest, uid: u32) -> anyhow::Result<Handled> {
        if let ControlRequest::RunAction(request) = request {
            return self.run_action(request, uid).await;
        }
        self.check_request(&request)?;
        match required_right(&request)? {
            RequestRight::Operator => (),
            RequestRight::Change => self.check_change(uid, "control request").await?,
            RequestRight::ApprovedChange(action) => {
                let change = action.to_string();
                self.check_change(uid, &change).await?;
                self.check_local_key(&request, &change, uid).await?;
                if let Some(dual_control) = &self.dual_control {
                    match dual_control.authorize(uid, &action).await? {
                        Authorization::NotNeeded | Authorization::Granted => (),
                        Authorization::Waiting(ticket) => return Ok(Handled::Waiting(ticket)),
                    }
                }
            }
        }
        self.execute(request, uid).await
    }

    /// Runs an action of an operator: checks the right, waits for a second operator, and records it.
    async fn run_action(&self, request: ActionRequest, uid: u32) -> anyhow::Result<Handled> {
        let person = Person { uid, is_trusted: self.is_server_user(uid) };
        let begun = match self.actions.begin(request, person).await? {
            Beginning::Begun(begun) => begun,
            Beginning::Unable(reason) => return Ok(Handled::Unable(reason)),
        };
        if begun.spec().right == Right::Change {
            self.check_change(uid, begun.spec().name).await?;
        }
        let dual_control = self.dual_control.as_ref().filter(|_| begun.needs_second_person());
        let Some(dual_control) = dual_control else {
            return Ok(Handled::Done(json!(self.actions.run(begun, async { Ok(()) }).await)));
        };
        let action = begun.approval_text()?;
        let ticket = dual_control.request(uid, &action).await?;
        if let Some(ticket) = ticket.filter(|it| it.approved_by.is_none()) {
            return Ok(Handled::Waiting(ticket));
        }
        let use_approval = async {
            match dual_control.use_approval(uid, &action).await? {
                ApprovalUse::NotNeeded | ApprovalUse::Used => Ok(()),
                ApprovalUse::Missing => {
                    bail!("another command of this user has used the approval; nothing was changed")
                }
            }
        };
        Ok(Handled::Done(json!(self.actions.run(begun, use_approval).await)))
    }

    fn is_server_user(&self, uid: u32) -> bool {
        uid == 0 || uid == self.server_uid
    }

    /// Rejects what cannot succeed, before an approval is used for it.
    fn check_request(&self, request: &ControlRequest) -> anyhow::Result<()> {
        if let ControlRequest::AddMethod { kind, parameters, .. } = request {
            parse_method(kind, parameters)?;
        }
        if let ControlRequest::AddShares { count, .. }
        | ControlRequest::RotateVault { count: Some(count), .. } = request
        {
            count.parse_recipients()?;
        }
        if let (ControlRequest::SwitchOff {}, Some(it)) = (request, &self.dual_control) {
            it.check_can_switch_off()?;
        }
        Ok(())
    }

    /// Rejects a key on this machine that this server cannot use, such as a new file of another
    /// user, before an approval is requested for it. Other users get the cause for their own files only:
    /// it tells which files exist.
    async fn check_local_key(
        &self,
        request: &ControlRequest,
        change: &str,
        uid: u32,
    ) -> anyhow::Result<()> {
        let (ControlRequest::AddMethod { kind, parameters, .. }, Some(manager)) =
            (request, &self.manager)
        else {
            return Ok(());
        };
        let settings = parse_method(kind, parameters)?;
        let Err(problem) = manager.check_local_key(&settings).await else { return Ok(()) };
        if !self.is_server_user(uid) {
            self.actions.record_refusal(uid, change).await;
        }
        let cause = source_text(settings.kind(), &problem.error);
        if self.is_server_user(uid) || problem.owner == Some(uid) {
            bail!("nothing was changed: the server cannot use this key: {cause}");
        }
        Err(hide_key_cause(uid, &cause))
    }

    async fn add_method(&self, method: NewMethod, uid: u32) -> anyhow::Result<MethodStatus> {
        let manager = self.manager.as_ref().context(NO_METHODS)?;
        let added = manager.add_method(&method, uid).await;
        let is_hidden =
            matches!(method.settings, UnlockSettings::File(_)) && !self.is_server_user(uid);
        added.map_err(|error| match error.downcast_ref::<SourceProblem>() {
            Some(problem) if is_hidden => hide_key_cause(uid, &problem.to_string()),
            Some(_) | None => error,
        })
    }

    async fn check_change(&self, uid: u32, change: &str) -> anyhow::Result<()> {
        if self.is_server_user(uid) {
            return Ok(());
        }
        let is_in_force = match &self.dual_control {
            Some(it) => it.is_in_force().await?,
            None => false,
        };
        if !is_in_force {
            self.actions.record_refusal(uid, change).await;
            bail!("only the user of the server may change something while dual control is off");
        }
        Ok(())
    }

    async fn execute(&self, request: ControlRequest, uid: u32) -> anyhow::Result<Handled> {
        let manager = self.manager.as_ref().context(NO_METHODS)?;
        let dual_control = self.dual_control.as_ref().context("this server has no dual control");
        Ok(Handled::Done(match request {
            // Handled before.
            ControlRequest::Status {} | ControlRequest::RunAction(_) => Value::Null,
            ControlRequest::ListMethods {} => json!(manager.list_methods().await?),
            ControlRequest::AddMethod { kind, label, parameters } => {
                let settings = parse_method(&kind, &parameters)?;
                json!(self.add_method(NewMethod { settings, label }, uid).await?)
            }
            ControlRequest::AddShares { label, count } => {
                json!(manager.add_shares(&label, &count, uid).await?)
            }
            ControlRequest::ConfirmShares { method, shares } => {
                json!(manager.confirm_shares(&method, &shares, uid).await?)
            }
            ControlRequest::RemoveMethod { id } => json!(manager.remove_method(&id, uid).await?),
            ControlRequest::RotateVault { count, compromised } => {
                let reason = match compromised {
                    true => RotationReason::Compromise,
                    false => RotationReason::Routine,
                };
                json!(manager.rotate_vault(reason, count.as_ref(), uid).await?)
            }
            ControlRequest::ConfirmRotation { rotation, shares } => {
                json!(manager.confirm_rotation(&rotation, &shares, uid).await?)
            }
            ControlRequest::EnterShare { share } => {
                let holder = ShareHolder { uid, is_trusted: self.is_server_user(uid) };
                json!(manager.enter_share(&share, holder).await?)
            }
            ControlRequest::DualControl {} => json!(dual_control?.report().await?),
            ControlRequest::SwitchOn {} => {
                dual_control?.switch_on(&format!("by uid {uid}")).await?;
                Value::Null
            }
            ControlRequest::SwitchOff {} => json!(dual_control?.switch_off(uid).await?),
            ControlRequest::RequestApproval { action } => {
                json!(dual_control?.request(uid, &parse_action(&action)?).await?)
            }
            ControlRequest::UseApproval { action } => {
                match dual_control?.authorize(uid, &parse_action(&action)?).await? {
                    Authorization::NotNeeded => json!(false),
                    Authorization::Granted => json!(true),
                    Authorization::Waiting(ticket) => return Ok(Handled::Waiting(ticket)),
                }
            }
            ControlRequest::ListApprovals {} => json!(dual_control?.list().await?),
            ControlRequest::Approve { id, action } => {
                json!(dual_control?.approve(&id, &action, uid).await?)
            }
            ControlRequest::Reject { id, action } => {
                json!(dual_control?.reject(&id, &action, uid).await?)
            }
        }))
    }
}

/// A new kind of request must be added to one of the three groups.
fn required_right(request: &ControlRequest) -> anyhow::Result<RequestRight> {
    let command = match request {
        ControlRequest::Status {}
        | ControlRequest::RunAction(_)
        | ControlRequest::ListMethods {}
        | ControlRequest::EnterShare { .. }
        | ControlRequest::DualControl {}
        | ControlRequest::ListApprovals {}
        | ControlRequest::Approve { .. }
        | ControlRequest::Reject { .. } => return Ok(RequestRight::Operator),
        // The second half of a ceremony, and requests that themselves lead to an approval.
        ControlRequest::ConfirmShares { .. }
        | ControlRequest::ConfirmRotation { .. }
        | ControlRequest::SwitchOn {}
        | ControlRequest::RequestApproval { .. }
        | ControlRequest::UseApproval { .. } => return Ok(RequestRight::Change),
        ControlRequest::AddMethod { .. } => "keys add",
        ControlRequest::AddShares { .. } => "keys add shamir",
        ControlRequest::RemoveMethod { .. } => "keys remove",
        ControlRequest::RotateVault { .. } => "keys rotate vault",
        ControlRequest::SwitchOff {} => "keys dual-control off",
    };
    // All fields, so that a new parameter is part of the action.
    let mut parameters = serde_json::to_value(request)?;
    if let Some(fields) = parameters.as_object_mut() {
        fields.remove("command");
        if has_clear_shares(request) {
            fields.insert("clear_shares".to_owned(), "all to the requester".into());
        }
        if let ControlRequest::RotateVault { compromised: true, .. } = request {
            fields.insert("new_api_keys".to_owned(), "to the requester".into());
        }
    }
    let action = ActionText::new(command, &parameters).context(LONG_ACTION)?;
    Ok(RequestRight::ApprovedChange(action))
}

/// The cause is only in the log of the server.
fn hide_key_cause(uid: u32, cause: &str) -> anyhow::Error {
    tracing::warn!(uid, cause, "the key of a new unlock method cannot be used");
    anyhow::anyhow!("nothing was changed: the server cannot use this key; its log has the cause")
}

/// Whether the requester gets shares that are not encrypted for their custodians.
fn has_clear_shares(request: &ControlRequest) -> bool {
    matches!(
        request,
        ControlRequest::AddShares { count, .. }
        | ControlRequest::RotateVault { count: Some(count), .. } if count.recipients.is_empty()
    )
}

const NO_METHODS: &str = "this server has no unlock methods";
const LONG_ACTION: &str = "the parameters are too long for a request";

fn parse_action(text: &str) -> anyhow::Result<ActionText> {
    ActionText::parse(text).context("the action is too long, or not printable")
}

fn parse_method(
    kind: &str,
    parameters: &serde_json::Map<String, Value>,
) -> anyhow::Result<UnlockSettings> {
    let kind = UnlockKind::parse(kind).context("this kind of method is unknown")?;
    if kind.needs_people() {
        bail!("a method of shares needs a ceremony");
    }
    Ok(UnlockSettings::parse(kind, &json!(parameters).to_string())?)
}
