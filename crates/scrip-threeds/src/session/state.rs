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

/// A session: what does not change, and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreeDsSession {
    /// Also the id of the transaction in every message.
    pub id: TransId,
    pub kind: ThreeDsSessionType,
    pub channel: DeviceChannel,
    pub expires_at: UnixSeconds,
    /// Whether the method page could run at all: a browser's session with a page's address.
    pub has_method_page: bool,
    /// Whether the device has told what a message needs of it. Apps do so later than others.
    pub has_device_info: bool,
    pub phase: ThreeDsPhase,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ThreeDsPhase {
    Created,
    MethodPending,
    MethodCompleted,
    /// The window is over. A notification that comes after all still counts until the `AReq`.
    MethodTimedOut,
    /// An `AReq` is out, or about to be: until its answer its fate is unknown.
    Authenticating {
        parameters: AuthenticationParameters,
        started_at: UnixSeconds,
        method_state: MethodState,
    },
    /// The cardholder is challenged.
    Challenged {
        challenge: Box<PendingChallenge>,
    },
    /// The issuer asks the cardholder by itself, until a time.
    Decoupled {
        challenge: Box<PendingChallenge>,
        deadline: UnixSeconds,
    },
    /// It is over. The challenge's end may still be told by the browser, once.
    Authenticated {
        authentication: Box<Authentication>,
        was_challenged: bool,
        completion_reported: bool,
    },
    /// It is over, and there is no result.
    Failed {
        failure: ThreeDsFailure,
        authentication: Option<Box<Authentication>>,
    },
    /// Nobody asked in time.
    Expired,
}

/// A challenge that is going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingChallenge {
    pub authentication: Authentication,
}

/// What the method was like when the `AReq` went out: the way back, if it did not.
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

    /// What the `AReq` says of it.
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
    /// The `AReq` may have arrived; nobody knows.
    OutcomeUnknown,
    /// The other side answered with an error, or with something that cannot be believed.
    InvalidResponse,
    /// The issuer's own challenge did not end in time.
    ResultNotReceived,
}

impl ThreeDsSession {
    /// A new session.
    #[must_use]
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

    /// A new session of a browser, whose cards have a method page.
    #[must_use]
    pub fn with_method(mut self) -> Self {
        if self.channel == DeviceChannel::Browser {
            self.has_method_page = true;
            self.phase = ThreeDsPhase::MethodPending;
        }
        self
    }

    /// Nothing leads out of it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self.phase,
            ThreeDsPhase::Authenticated { .. }
                | ThreeDsPhase::Failed { .. }
                | ThreeDsPhase::Expired
        )
    }

    /// The state of the method, while the session can still be authenticated.
    #[must_use]
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

    /// Once it was asked for, a session does not expire: its result is kept.
    #[must_use]
    pub fn has_expired(&self, now: UnixSeconds) -> bool {
        let is_past_expiry = self.method_state().is_some() && now >= self.expires_at;
        is_past_expiry || matches!(self.phase, ThreeDsPhase::Expired)
    }

    /// In which light the next answer or result is to be read.
    #[must_use]
    pub fn transaction_context(&self) -> Option<TransactionContext> {
        let parameters = if let ThreeDsPhase::Authenticating { parameters: asked, .. } = &self.phase
        {
            Some(*asked)
        } else {
            self.authentication().map(|it| it.parameters)
        };
        parameters.map(|it| {
            TransactionContext::for_version(it.version).with_channel(self.channel, it.category)
        })
    }

    /// The challenge that is going on, and until when, if it has an end.
    #[must_use]
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

    /// What is known of the outcome, final or not.
    #[must_use]
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
