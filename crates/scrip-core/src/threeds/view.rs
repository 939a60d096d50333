//! The view of a 3DS session for a client.

use scrip_threeds::{authentication::Authentication, code::MethodCompletion, session::MethodState};

use crate::{
    Error, Timestamp, Vault,
    id::{ApplicationId, TenantId, ThreeDsSessionId},
    threeds::{CardReference, LoadedSession, ThreeDsSessionBody},
};

/// A whole session. The API crate decides which attributes a response contains.
#[derive(Debug, Clone)]
pub struct ThreeDsSessionView {
    pub id: ThreeDsSessionId,
    pub tenant_id: TenantId,
    pub card: CardReference,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// Without effect after authentication: the session then does not expire.
    pub expires_at: Timestamp,
    /// The URL to which the browser reports that the method page has run.
    pub method_notification_url: String,
    /// `None` while it is unknown.
    pub method_completion: Option<MethodCompletion>,
    pub body: ThreeDsSessionBody,
}

/// The outcome of one session.
#[derive(Debug, Clone)]
pub struct AuthenticationView {
    pub session_id: ThreeDsSessionId,
    pub card: CardReference,
    pub authentication: Authentication,
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

    #[must_use]
    pub fn authentication(&self) -> Option<AuthenticationView> {
        let authentication = self.body.state.authentication()?.clone();
        Some(AuthenticationView { session_id: self.id, card: self.card.clone(), authentication })
    }
}

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
