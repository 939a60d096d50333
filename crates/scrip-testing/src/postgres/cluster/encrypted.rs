//! A cluster that shows a certificate to whoever asks for TLS.

use crate::postgres::cluster::{Cluster, OWNER};

impl Cluster {
    /// Names the primary alone: of several that are asked, only the last one's refusal is told.
    #[must_use]
    pub fn primary_url(&self) -> String {
        format!("postgres://{OWNER}@127.0.0.1:{}/{OWNER}", self.port(self.primary))
    }

    /// From now on, with this certificate and its key, both PEM.
    pub fn encrypt(&mut self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let text = text.replace('\n', "\\n");
            let room = self.primary.name();
            self.tell(&format!(r#"printf '%b' '{text}' >"$folder/{room}/{name}""#));
        }
        self.query("ALTER SYSTEM SET ssl = on");
        self.query("SELECT pg_reload_conf()");
        self.await_answer("SELECT current_setting('ssl')", &["on"]);
    }
}
