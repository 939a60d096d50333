//! The two commands that start the server, and what differs between them.

use std::{io, net::SocketAddr, sync::Arc};

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

/// A listener of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListenerSetting {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
}

impl ListenerSetting {
    /// The setting of the listener for clients.
    pub(super) const CLIENTS: &str = "server.listen";

    /// Explains an error of the socket.
    pub(super) fn explain(self, error: io::Error, mode: &ServerMode) -> anyhow::Error {
        let Self { name, address } = self;
        let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
        let text = format!("cannot listen on {address}: {error}");
        let text = match (is_in_use, mode.is_development() && name == Self::CLIENTS) {
            (false, _) => text,
            (true, true) => format!(
                "{text}; end the other program, or use a free port: scrip dev --listen 127.0.0.1:0"
            ),
            (true, false) => format!(
                "{text}; end the other program, which `ss -ltnp` shows, or set {name} to a free port"
            ),
        };
        // Users of the main listener may not know its setting.
        if name == Self::CLIENTS {
            return anyhow::anyhow!(text);
        }
        anyhow::anyhow!("{name}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_in_use_is_explained_for_both_commands_and_each_listener() {
        let explain = |name, mode: &ServerMode, kind: io::ErrorKind| {
            let setting = ListenerSetting { name, address: ([127, 0, 0, 1], 8080).into() };
            setting.explain(kind.into(), mode).to_string()
        };
        let dev = ServerMode::Development(None);
        let (clients, metrics) = (ListenerSetting::CLIENTS, "metrics.listen");
        let text = explain(clients, &dev, io::ErrorKind::AddrInUse);
        assert!(text.starts_with("cannot listen on 127.0.0.1:8080: "), "{text}");
        assert!(text.ends_with("use a free port: scrip dev --listen 127.0.0.1:0"), "{text}");
        let text = explain(clients, &ServerMode::Production, io::ErrorKind::AddrInUse);
        assert!(text.ends_with("shows, or set server.listen to a free port"), "{text}");
        for mode in [dev, ServerMode::Production] {
            let text = explain(metrics, &mode, io::ErrorKind::AddrInUse);
            assert!(text.starts_with("metrics.listen: cannot listen on "), "{text}");
            assert!(text.ends_with("set metrics.listen to a free port"), "{text}");
            let text = explain(clients, &mode, io::ErrorKind::PermissionDenied);
            assert_eq!(text, "cannot listen on 127.0.0.1:8080: permission denied");
        }
    }
}
