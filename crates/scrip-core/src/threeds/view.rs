//! What a client sees of a session.

use scrip_threeds::{authentication::Authentication, code::MethodCompletion, session::Method};

use crate::{
    Error, Timestamp, Vault,
    id::{ApplicationId, SessionId, TenantId},
    threeds::{CardReference, Held, SessionBody},
};

/// A session, whole. Which of it an answer has is up to whoever knows the wire.
#[derive(Debug, Clone)]
pub struct SessionView {
    pub id: SessionId,
    pub tenant_id: TenantId,
    pub card: CardReference,
    pub created_by: ApplicationId,
    pub created_at: Timestamp,
    /// Nothing once it was authenticated: then it does not expire any more.
    pub expires_at: Option<Timestamp>,
    /// Where the browser tells that the method page has run.
    pub method_notification_url: String,
    /// Nothing before it is known.
    pub method_completion: Option<MethodCompletion>,
    pub body: SessionBody,
}

/// The outcome of one session.
#[derive(Debug, Clone)]
pub struct AuthenticationView {
    pub session_id: SessionId,
    pub card: CardReference,
    pub authentication: Authentication,
}

impl SessionView {
    pub(crate) fn of(vault: &Vault, held: &Held) -> Result<Self, Error> {
        let Held { record, body } = held;
        let base = &vault.directory_servers.terms().public_url;
        Ok(Self {
            id: record.id,
            tenant_id: record.tenant,
            card: body.card()?,
            created_by: record.created_by,
            created_at: record.created_at,
            expires_at: body.ends_at().map(|_| body.expires_at()),
            method_notification_url: format!(
                "{base}/3ds/sessions/{}/method-notification",
                record.id
            ),
            method_completion: completion(body),
            body: body.clone(),
        })
    }

    #[must_use]
    pub fn authentication(&self) -> Option<AuthenticationView> {
        let authentication = self.body.state.authentication()?.clone();
        Some(AuthenticationView { session_id: self.id, card: self.card.clone(), authentication })
    }
}

/// While the page may still run, nobody can say that it did not.
fn completion(body: &SessionBody) -> Option<MethodCompletion> {
    match body.state.method() {
        Some(Method::Pending) => None,
        Some(Method::Created) => Some(MethodCompletion::Unavailable),
        Some(Method::Completed) => Some(MethodCompletion::Completed),
        Some(Method::TimedOut) => Some(MethodCompletion::NotCompleted),
        None => body.method_sent,
    }
}
