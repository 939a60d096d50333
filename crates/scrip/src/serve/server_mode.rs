//! The two commands that start the server, and what differs between them.

use std::sync::Arc;

use scrip_server::{config::Settings, node::SealedStart, request_log::RequestLog};

/// The command that starts the server.
#[derive(Debug, Clone)]
pub(crate) enum ServerMode {
    /// `scrip serve`: a vault without its root key responds with 503.
    Production,
    /// `scrip dev`: `prepare` unseals the vault, so requests wait for it. Starts a simulator of
    /// directory servers unless the settings have one, and a demo shop on a loopback address. The
    /// log gets every request.
    Development(Option<Arc<dyn RequestLog>>),
}

impl ServerMode {
    pub(super) fn is_development(&self) -> bool {
        matches!(self, Self::Development(_))
    }

    pub(super) fn sealed_start(&self) -> SealedStart {
        if self.is_development() { SealedStart::Wait } else { SealedStart::Reject }
    }

    pub(super) fn request_log(&self) -> Option<Arc<dyn RequestLog>> {
        match self {
            Self::Production => None,
            Self::Development(log) => log.clone(),
        }
    }

    /// Whether there is a demo shop. Its backend requires no key, so the shop is served on a
    /// loopback address only.
    pub(super) fn has_demo(&self, settings: &Settings) -> bool {
        self.is_development() && settings.server.listen.ip().is_loopback()
    }
}
