//! Update Session: an app adds its device information, which it knows only after the session was
//! created.

use scrip_threeds::{code::Device, request::DeviceInfo, session::StateMachineEvent};

use crate::{
    Error, FieldError, Vault,
    change::ChangeOutcome,
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::Caller,
    threeds::ThreeDsSessionView,
    threeds_session::{
        OpenedSession, SESSION_ATTEMPTS_MAX, SessionChange, load_session, rejection_error,
        session_conflict_error,
    },
    types::{Operation, Permission, error::Denial, id::ThreeDsSessionId},
};

const REQUIRED_PERMISSION: Permission = Permission::ThreeDsSessionCreate;

/// Errors: there is no such session, it belongs to another application or to a browser, or it was
/// authenticated.
pub async fn update_threeds_session(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
    device_info: DeviceInfo,
    recorder: Option<ResponseRecorder<ThreeDsSessionView>>,
) -> Result<ThreeDsSessionView, Error> {
    for _ in 0..SESSION_ATTEMPTS_MAX {
        let OpenedSession { session, permit, .. } =
            load_session(vault, caller, REQUIRED_PERMISSION, id).await?;
        if session.record.created_by != caller.application() {
            return Err(Error::Forbidden(Denial::NotCreator));
        }
        if session.body.device != Device::Mobile {
            let rule = "can be changed only for a session of an app";
            return Err(FieldError::new("device_info", rule).into());
        }
        let now = vault.clock.now();
        let (mut next, effects) = session
            .apply_event(&StateMachineEvent::DeviceInfo, now)
            .map_err(|it| rejection_error(&it))?;
        next.body.device_info = device_info.clone();
        next.body.set_modified(caller.application(), now);
        let view = ThreeDsSessionView::new(vault, &next)?;
        let idempotency = recorder.as_ref().map(|it| {
            seal_permitted_response(&permit, it.claim.digests, (it.render)(&view), None, now)
        });
        let change = SessionChange::new(caller, Operation::UpdateThreeDsSession, "updated", now);
        let change = SessionChange { idempotency: idempotency.transpose()?, ..change };
        if next.write(vault, &effects, change).await? == ChangeOutcome::Done {
            return Ok(view);
        }
    }
    Err(session_conflict_error())
}
