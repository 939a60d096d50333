//! The error of a listener whose port another program uses, with what to do.

use std::{io, net::SocketAddr};

use crate::serve::server_mode::ServerMode;

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
