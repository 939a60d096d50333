//! A cluster that shows a certificate to whoever asks for TLS.

use crate::postgres::cluster::{Cluster, OWNER_ROLE};

impl Cluster {
    /// Names the primary alone: of several that are asked, only the last one's refusal is told.
    #[must_use]
    pub fn primary_url(&self) -> String {
        format!("postgres://{OWNER_ROLE}@127.0.0.1:{}/{OWNER_ROLE}", self.port(self.primary))
    }

    /// From now on, with this certificate and its key, both PEM.
    pub fn enable_tls(&mut self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let text = text.replace('\n', "\\n");
            let room = self.primary.name();
            self.run_shell_line(&format!(r#"printf '%b' '{text}' >"$folder/{room}/{name}""#));
        }
        self.query_primary("ALTER SYSTEM SET ssl = on");
        self.query_primary("SELECT pg_reload_conf()");
        self.wait_for_result("SELECT current_setting('ssl')", &["on"]);
    }
}
