//! The view of a 3DS session for a client.

use scrip_threeds::{authentication::Authentication, code::MethodCompletion};

use crate::{
    Timestamp,
    threeds::{CardReference, ThreeDsSessionBody},
    types::id::{ApplicationId, TenantId, ThreeDsSessionId},
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
    pub fn authentication(&self) -> Option<AuthenticationView> {
        let authentication = self.body.state.authentication()?.clone();
        Some(AuthenticationView { session_id: self.id, card: self.card.clone(), authentication })
    }
}
