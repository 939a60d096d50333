//! The states of a session.

use serde::{Deserialize, Serialize};

use crate::{
    authentication::{Authentication, AuthenticationParameters},
    code::{DeviceChannel, MethodCompletion, ThreeDsSessionType},
    format::TransId,
    message::TransactionContext,
};

/// A time, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

/// A session: its constant properties and its phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreeDsSession {
    /// Also the `threeDSServerTransID` in every message.
    pub id: TransId,
    pub kind: ThreeDsSessionType,
    pub channel: DeviceChannel,
    pub expires_at: UnixSeconds,
    /// Whether the page of the method URL can run: only for a browser session with a method URL.
    pub has_method_page: bool,
    /// Whether the device information for the `AReq` is available. Apps send it after the session
    /// is created.
    pub has_device_info: bool,
    pub phase: ThreeDsPhase,
}

/// The phase of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ThreeDsPhase {
    Created,
    MethodPending,
    MethodCompleted,
    /// The time is over. A late notification still counts until the `AReq` is sent.
    MethodTimedOut,
    /// The `AReq` is sent or about to be sent. Its outcome is unknown until the `ARes` arrives.
    Authenticating {
        parameters: AuthenticationParameters,
        started_at: UnixSeconds,
        method_state: MethodState,
    },
    /// The cardholder has an open challenge.
    Challenged {
        challenge: Box<PendingChallenge>,
    },
    /// The issuer authenticates the cardholder outside of the browser or app, until the deadline.
    Decoupled {
        challenge: Box<PendingChallenge>,
        deadline: UnixSeconds,
    },
    /// Final. The browser may still report the end of the challenge once.
    Authenticated {
        authentication: Box<Authentication>,
        was_challenged: bool,
        completion_reported: bool,
    },
    /// Final, without a result.
    Failed {
        failure: ThreeDsFailure,
        authentication: Option<Box<Authentication>>,
    },
    /// No client requested the authentication in time.
    Expired,
}

/// An open challenge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingChallenge {
    pub authentication: Authentication,
}

/// The state of the method when the `AReq` was started. Restored if the `AReq` was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodState {
    Created,
    Pending,
    Completed,
    TimedOut,
}

impl MethodState {
    pub(super) fn to_phase(self) -> ThreeDsPhase {
        match self {
            Self::Created => ThreeDsPhase::Created,
            Self::Pending => ThreeDsPhase::MethodPending,
            Self::Completed => ThreeDsPhase::MethodCompleted,
            Self::TimedOut => ThreeDsPhase::MethodTimedOut,
        }
    }

    /// The value of `threeDSCompInd` in the `AReq`.
    pub(super) fn to_completion(self) -> MethodCompletion {
        match self {
            Self::Created => MethodCompletion::Unavailable,
            Self::Completed => MethodCompletion::Completed,
            Self::Pending | Self::TimedOut => MethodCompletion::NotCompleted,
        }
    }
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreeDsFailure {
    /// The directory server may or may not have received the `AReq`.
    OutcomeUnknown,
    /// The directory server responded with an error or an invalid message.
    InvalidResponse,
    /// The decoupled challenge did not end in time.
    ResultNotReceived,
}

impl ThreeDsSession {
    /// A new session.
    pub fn new(
        id: TransId,
        kind: ThreeDsSessionType,
        channel: DeviceChannel,
        expires_at: UnixSeconds,
    ) -> Self {
        let has_device_info = channel != DeviceChannel::App;
        let phase = ThreeDsPhase::Created;
        Self { id, kind, channel, expires_at, has_method_page: false, has_device_info, phase }
    }

    /// Marks a new browser session as having a method URL.
    #[must_use]
    pub fn with_method(mut self) -> Self {
        if self.channel == DeviceChannel::Browser {
            self.has_method_page = true;
            self.phase = ThreeDsPhase::MethodPending;
        }
        self
    }

    /// Whether no event can change the phase.
    pub fn is_final(&self) -> bool {
        matches!(
            self.phase,
            ThreeDsPhase::Authenticated { .. }
                | ThreeDsPhase::Failed { .. }
                | ThreeDsPhase::Expired
        )
    }

    /// The state of the method, while the session can still be authenticated.
    pub fn method_state(&self) -> Option<MethodState> {
        match &self.phase {
            ThreeDsPhase::Created => Some(MethodState::Created),
            ThreeDsPhase::MethodPending => Some(MethodState::Pending),
            ThreeDsPhase::MethodCompleted => Some(MethodState::Completed),
            ThreeDsPhase::MethodTimedOut => Some(MethodState::TimedOut),
            ThreeDsPhase::Authenticating { .. }
            | ThreeDsPhase::Challenged { .. }
            | ThreeDsPhase::Decoupled { .. }
            | ThreeDsPhase::Authenticated { .. }
            | ThreeDsPhase::Failed { .. }
            | ThreeDsPhase::Expired => None,
        }
    }

    /// A session expires only before its authentication is requested; later its result stays
    /// available.
    pub fn has_expired(&self, now: UnixSeconds) -> bool {
        let is_past_expiry = self.method_state().is_some() && now >= self.expires_at;
        is_past_expiry || matches!(self.phase, ThreeDsPhase::Expired)
    }

    /// The context for reading the next response or result.
    pub fn transaction_context(&self) -> Option<TransactionContext> {
        let parameters = if let ThreeDsPhase::Authenticating { parameters, .. } = &self.phase {
            Some(*parameters)
        } else {
            self.authentication().map(|it| it.parameters)
        };
        parameters.map(|it| {
            TransactionContext::for_version(it.version).with_channel(self.channel, it.category)
        })
    }

    /// The open challenge, and its deadline if it has one.
    pub fn pending_challenge(&self) -> Option<(&PendingChallenge, Option<UnixSeconds>)> {
        match &self.phase {
            ThreeDsPhase::Challenged { challenge } => Some((challenge, None)),
            ThreeDsPhase::Decoupled { challenge, deadline } => Some((challenge, Some(*deadline))),
            ThreeDsPhase::Created
            | ThreeDsPhase::MethodPending
            | ThreeDsPhase::MethodCompleted
            | ThreeDsPhase::MethodTimedOut
            | ThreeDsPhase::Authenticating { .. }
            | ThreeDsPhase::Authenticated { .. }
            | ThreeDsPhase::Failed { .. }
            | ThreeDsPhase::Expired => None,
        }
    }

    /// The authentication so far, final or not.
    pub fn authentication(&self) -> Option<&Authentication> {
        match &self.phase {
            ThreeDsPhase::Challenged { challenge } | ThreeDsPhase::Decoupled { challenge, .. } => {
                Some(&challenge.authentication)
            }
            ThreeDsPhase::Authenticated { authentication, .. } => Some(authentication),
            ThreeDsPhase::Failed { authentication, .. } => authentication.as_deref(),
            ThreeDsPhase::Created
            | ThreeDsPhase::MethodPending
            | ThreeDsPhase::MethodCompleted
            | ThreeDsPhase::MethodTimedOut
            | ThreeDsPhase::Authenticating { .. }
            | ThreeDsPhase::Expired => None,
        }
    }
}
