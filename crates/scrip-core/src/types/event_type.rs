//! The types of events.

use scrip_threeds::session::WebhookEventType;

words! {
    /// All types of events of the interface. A webhook can name each of them, also those that this
    /// build does not raise: a client that migrates keeps its list.
    pub enum EventType {
        TokenCreated = "token.created",
        TokenUpdated = "token.updated",
        TokenDeleted = "token.deleted",
        TokenExpired = "token.expired",
        TokenPropertyExpired = "token.property.expired",
        TokenRead = "token.read",
        TokenIntentCreated = "token-intent.created",
        TokenIntentDeleted = "token-intent.deleted",
        TokenIntentConverted = "token-intent.converted",
        ApplicationCreated = "application.created",
        ApplicationUpdated = "application.updated",
        ApplicationDeleted = "application.deleted",
        ApplicationKeyCreated = "application.key.created",
        ApplicationKeyDeleted = "application.key.deleted",
        SessionCreated = "session.created",
        SessionAuthorized = "session.authorized",
        TenantCreated = "tenant.created",
        TenantUpdated = "tenant.updated",
        TenantDeleted = "tenant.deleted",
        TenantInvitationCreated = "tenant.invitation.created",
        TenantInvitationAccepted = "tenant.invitation.accepted",
        TenantInvitationDeleted = "tenant.invitation.deleted",
        TenantInvitationResent = "tenant.invitation.resent",
        TenantMemberCreated = "tenant.member.created",
        TenantMemberDeleted = "tenant.member.deleted",
        ProxyCreated = "proxy.created",
        ProxyUpdated = "proxy.updated",
        ProxyDeleted = "proxy.deleted",
        ProxyInvoked = "proxy.invoked",
        ReactorCreated = "reactor.created",
        ReactorUpdated = "reactor.updated",
        ReactorDeleted = "reactor.deleted",
        ReactorInvoked = "reactor.invoked",
        ReactorCompleted = "reactor.completed",
        ReactorFailed = "reactor.failed",
        HttpRequest = "http.request",
        ThreeDsSessionCreated = "3ds.session.created",
        ThreeDsMethodCompleted = "3ds.session.method-completed",
        ThreeDsAuthenticated = "3ds.session.authenticated",
        ThreeDsChallengeCompleted = "3ds.session.challenge-completed",
        ThreeDsDecoupledChallengeNotification = "3ds.session.decoupled-challenge-notification",
        ThreeDsChallengeResultRetrieved = "3ds.session.challenge-result-retrieved",
        AccountUpdaterJobCreated = "account-updater.job.created",
        AccountUpdaterJobCompleted = "account-updater.job.completed",
        AccountUpdaterJobFailed = "account-updater.job.failed",
        GooglePayCreated = "google-pay.created",
        GooglePayDeleted = "google-pay.deleted",
        GooglePayRetrieved = "google-pay.retrieved",
    }
}

impl EventType {
    /// The types of events of features that this build has. A tenant is created by a command, before
    /// it can have a webhook, and events of all requests would be a second read log.
    pub const RAISED: &[Self] = &[
        Self::TokenCreated,
        Self::TokenUpdated,
        Self::TokenDeleted,
        Self::TokenExpired,
        Self::TokenPropertyExpired,
        Self::TokenRead,
        Self::TokenIntentCreated,
        Self::TokenIntentDeleted,
        Self::TokenIntentConverted,
        Self::ApplicationCreated,
        Self::ApplicationUpdated,
        Self::ApplicationDeleted,
        Self::ApplicationKeyCreated,
        Self::ApplicationKeyDeleted,
        Self::SessionCreated,
        Self::SessionAuthorized,
        Self::TenantUpdated,
        Self::TenantDeleted,
        Self::ProxyCreated,
        Self::ProxyUpdated,
        Self::ProxyDeleted,
        Self::ProxyInvoked,
        Self::ThreeDsSessionCreated,
        Self::ThreeDsMethodCompleted,
        Self::ThreeDsAuthenticated,
        Self::ThreeDsChallengeCompleted,
        Self::ThreeDsDecoupledChallengeNotification,
        Self::ThreeDsChallengeResultRetrieved,
    ];
}

impl From<WebhookEventType> for EventType {
    fn from(event: WebhookEventType) -> Self {
        match event {
            WebhookEventType::Created => Self::ThreeDsSessionCreated,
            WebhookEventType::MethodCompleted => Self::ThreeDsMethodCompleted,
            WebhookEventType::Authenticated => Self::ThreeDsAuthenticated,
            WebhookEventType::ChallengeCompleted => Self::ThreeDsChallengeCompleted,
            WebhookEventType::DecoupledChallengeNotification => {
                Self::ThreeDsDecoupledChallengeNotification
            }
            WebhookEventType::ChallengeResultRetrieved => Self::ThreeDsChallengeResultRetrieved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_has_forty_eight_event_types_with_unique_names() {
        assert_eq!(EventType::ALL.len(), 48);
        for event in EventType::ALL {
            assert_eq!(EventType::parse(event.as_str()), Some(event));
        }
    }

    #[test]
    fn events_of_missing_features_are_not_raised() {
        let raised = EventType::ALL.iter().filter(|it| EventType::RAISED.contains(it)).count();
        assert_eq!(raised, EventType::RAISED.len());
        let prefixes = ["reactor.", "http.", "account-updater.", "google-pay.", "tenant.member."];
        for event in EventType::ALL {
            let is_missing = prefixes.iter().any(|it| event.as_str().starts_with(it))
                || event.as_str().starts_with("tenant.invitation.")
                || event == EventType::TenantCreated;
            assert_eq!(EventType::RAISED.contains(&event), !is_missing, "{}", event.as_str());
        }
    }

    #[test]
    fn threeds_event_types_keep_their_names() {
        for event in WebhookEventType::ALL {
            assert_eq!(EventType::from(*event).as_str(), event.name());
        }
    }
}
