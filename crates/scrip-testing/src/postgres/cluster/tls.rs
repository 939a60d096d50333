//! TLS for a cluster.

use crate::postgres::cluster::{Cluster, OWNER_ROLE};

impl Cluster {
    /// The address of the primary alone. With several addresses, only the error of the last one is
    /// reported.
    pub fn primary_url(&self) -> String {
        format!("postgres://{OWNER_ROLE}@127.0.0.1:{}/{OWNER_ROLE}", self.port(self.primary))
    }

    /// Enables TLS with this certificate and key, both PEM.
    pub fn enable_tls(&mut self, certificate: &str, key: &str) {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let text = text.replace('\n', "\\n");
            let server = self.primary.name();
            self.run_shell_line(&format!(r#"printf '%b' '{text}' >"$folder/{server}/{name}""#));
        }
        self.query_primary("ALTER SYSTEM SET ssl = on");
        self.query_primary("SELECT pg_reload_conf()");
        self.wait_for_result("SELECT current_setting('ssl')", &["on"]);
    }
}
