//! Builds the view of a 3DS session for a client.

use scrip_threeds::{code::MethodCompletion, session::MethodState};

use crate::{
    Error, Vault,
    threeds::{ThreeDsSessionBody, ThreeDsSessionView},
    threeds_session::LoadedSession,
};

/// The method completion indicator; `None` while the method page may still run.
fn method_completion(body: &ThreeDsSessionBody) -> Option<MethodCompletion> {
    match body.state.method_state() {
        Some(MethodState::Pending) => None,
        Some(MethodState::Created) => Some(MethodCompletion::Unavailable),
        Some(MethodState::Completed) => Some(MethodCompletion::Completed),
        Some(MethodState::TimedOut) => Some(MethodCompletion::NotCompleted),
        None => body.sent_method_completion,
    }
}

impl ThreeDsSessionView {
    pub(crate) fn new(vault: &Vault, session: &LoadedSession) -> Result<Self, Error> {
        let LoadedSession { record, body } = session;
        let public_url = &vault.directory_servers.settings().public_url;
        Ok(Self {
            id: record.id,
            tenant_id: record.tenant,
            card: body.card()?,
            created_by: record.created_by,
            created_at: record.created_at,
            expires_at: body.expires_at(),
            method_notification_url: format!(
                "{public_url}/3ds/sessions/{}/method-notification",
                record.id
            ),
            method_completion: method_completion(body),
            body: body.clone(),
        })
    }
}
