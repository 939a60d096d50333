//! Update Session: an app tells of its device, which it knows only once the session is there.

use scrip_threeds::{code::Device, request::DeviceInfo, session::Event};

use crate::{
    audit::Operation,
    error::{Error, FieldError, Refusal},
    id::SessionId,
    idempotency::{Remember, answer::seal_permitted_answer},
    policy::{Caller, Permission},
    store::Changed,
    threeds::{OpenedSession, SessionView, TRIES_MAX, Writing, find_held, not_possible, overtaken},
    vault::Vault,
};

const NEEDED: Permission = Permission::SessionCreate;

/// # Errors
/// There is no such session, it is another application's or a browser's, or it was authenticated.
pub async fn update_session(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
    device_info: DeviceInfo,
    remember: Option<Remember<SessionView>>,
) -> Result<SessionView, Error> {
    for _ in 0..TRIES_MAX {
        let OpenedSession { held, permit, .. } = find_held(vault, caller, NEEDED, id).await?;
        if held.record.created_by != caller.application() {
            return Err(Error::Forbidden(Refusal::NotCreator));
        }
        if held.body.device != Device::Mobile {
            let rule = "can only be changed for a session of an app";
            return Err(FieldError::new("device_info", rule).into());
        }
        let now = vault.clock.now();
        let (mut next, effects) =
            held.after(&Event::DeviceInfo, now).map_err(|it| not_possible(&it))?;
        next.body.device_info = device_info.clone();
        next.body.modify(caller.application(), now);
        let view = SessionView::of(vault, &next)?;
        let answer = remember.as_ref().map(|it| {
            seal_permitted_answer(&permit, it.claim.digest, (it.render)(&view), None, now)
        });
        let writing = Writing::new(caller, Operation::UpdateSession, "updated", now);
        let writing = Writing { answer: answer.transpose()?, ..writing };
        if next.write(vault, &effects, writing).await? == Changed::Done {
            return Ok(view);
        }
    }
    Err(overtaken())
}
