//! The states of a session.

use serde::{Deserialize, Serialize};

use crate::{
    authentication::{Asked, Authentication},
    code::{DeviceChannel, MethodCompletion, SessionType},
    format::TransId,
    message::Scene,
};

/// A time, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(pub i64);

impl Moment {
    #[must_use]
    pub fn after_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}

/// A session: what does not change, and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Also the id of the transaction in every message.
    pub id: TransId,
    pub kind: SessionType,
    pub channel: DeviceChannel,
    pub expires_at: Moment,
    /// Whether the method page could run at all: a browser's session with a page's address.
    pub has_method: bool,
    /// Whether the device has told what a message needs of it. Apps do so later than others.
    pub has_device: bool,
    pub phase: Phase,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Phase {
    Created,
    MethodPending,
    MethodCompleted,
    /// The window is over. A notification that comes after all still counts until the `AReq`.
    MethodTimedOut,
    /// An `AReq` is out, or about to be: until its answer its fate is unknown.
    Authenticating {
        asked: Asked,
        since: Moment,
        before: Method,
    },
    /// The cardholder is challenged.
    Challenged {
        waiting: Box<Waiting>,
    },
    /// The issuer asks the cardholder by itself, until a time.
    Decoupled {
        waiting: Box<Waiting>,
        until: Moment,
    },
    /// It is over. The challenge's end may still be told by the browser, once.
    Authenticated {
        authentication: Box<Authentication>,
        was_challenged: bool,
        was_told: bool,
    },
    /// It is over, and there is no result.
    Failed {
        failure: Failure,
        authentication: Option<Box<Authentication>>,
    },
    /// Nobody asked in time.
    Expired,
}

/// A challenge that is going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    pub authentication: Authentication,
}

/// What the method was like when the `AReq` went out: the way back, if it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Created,
    Pending,
    Completed,
    TimedOut,
}

impl Method {
    pub(super) fn phase(self) -> Phase {
        match self {
            Self::Created => Phase::Created,
            Self::Pending => Phase::MethodPending,
            Self::Completed => Phase::MethodCompleted,
            Self::TimedOut => Phase::MethodTimedOut,
        }
    }

    /// What the `AReq` says of it.
    pub(super) fn completion(self) -> MethodCompletion {
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
pub enum Failure {
    /// The `AReq` may have arrived; nobody knows.
    FateUnknown,
    /// The other side answered with an error, or with something that cannot be believed.
    Refused,
    /// The issuer's own challenge did not end in time.
    ResultNotReceived,
}

impl Session {
    /// A new session.
    #[must_use]
    pub fn created(
        id: TransId,
        kind: SessionType,
        channel: DeviceChannel,
        expires_at: Moment,
    ) -> Self {
        let has_device = channel != DeviceChannel::App;
        let phase = Phase::Created;
        Self { id, kind, channel, expires_at, has_method: false, has_device, phase }
    }

    /// A new session of a browser, whose cards have a method page.
    #[must_use]
    pub fn with_method(mut self) -> Self {
        if self.channel == DeviceChannel::Browser {
            self.has_method = true;
            self.phase = Phase::MethodPending;
        }
        self
    }

    /// Nothing leads out of it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.phase, Phase::Authenticated { .. } | Phase::Failed { .. } | Phase::Expired)
    }

    /// The state of the method, while the session can still be authenticated.
    #[must_use]
    pub fn method(&self) -> Option<Method> {
        match &self.phase {
            Phase::Created => Some(Method::Created),
            Phase::MethodPending => Some(Method::Pending),
            Phase::MethodCompleted => Some(Method::Completed),
            Phase::MethodTimedOut => Some(Method::TimedOut),
            Phase::Authenticating { .. }
            | Phase::Challenged { .. }
            | Phase::Decoupled { .. }
            | Phase::Authenticated { .. }
            | Phase::Failed { .. }
            | Phase::Expired => None,
        }
    }

    /// Once it was asked for, a session does not expire: its result is kept.
    #[must_use]
    pub fn has_expired(&self, now: Moment) -> bool {
        let open = self.method().is_some() && now >= self.expires_at;
        open || matches!(self.phase, Phase::Expired)
    }

    /// In which light the next answer or result is to be read.
    #[must_use]
    pub fn scene(&self) -> Option<Scene> {
        let asked = if let Phase::Authenticating { asked, .. } = &self.phase {
            Some(*asked)
        } else {
            self.authentication().map(|it| it.asked)
        };
        asked.map(|it| Scene::of(it.version).within(self.channel, it.category))
    }

    /// The challenge that is going on, and until when, if it has an end.
    #[must_use]
    pub fn waiting(&self) -> Option<(&Waiting, Option<Moment>)> {
        match &self.phase {
            Phase::Challenged { waiting } => Some((waiting, None)),
            Phase::Decoupled { waiting, until } => Some((waiting, Some(*until))),
            Phase::Created
            | Phase::MethodPending
            | Phase::MethodCompleted
            | Phase::MethodTimedOut
            | Phase::Authenticating { .. }
            | Phase::Authenticated { .. }
            | Phase::Failed { .. }
            | Phase::Expired => None,
        }
    }

    /// What is known of the outcome, final or not.
    #[must_use]
    pub fn authentication(&self) -> Option<&Authentication> {
        match &self.phase {
            Phase::Challenged { waiting } | Phase::Decoupled { waiting, .. } => {
                Some(&waiting.authentication)
            }
            Phase::Authenticated { authentication, .. } => Some(authentication),
            Phase::Failed { authentication, .. } => authentication.as_deref(),
            Phase::Created
            | Phase::MethodPending
            | Phase::MethodCompleted
            | Phase::MethodTimedOut
            | Phase::Authenticating { .. }
            | Phase::Expired => None,
        }
    }
}
