//! Storage settings: connection to PostgreSQL, and the certificates that it may present.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    version::{TLS12, TLS13},
};
use scrip_store::postgres::{MakeRustlsConnect, PostgresSettings, PostgresTransport};

use crate::{
    config::{
        setting::{EffectiveSetting, SettingSource},
        table::{Settings, StorageSettings},
        value::StorageUrl,
    },
    tls::read_roots,
};

/// Returns the problems that depend on more than one storage setting.
pub(super) fn find_contradictions(settings: &Settings) -> Vec<String> {
    let StorageSettings { url, ca_file, .. } = &settings.storage;
    let mut problems = Vec::new();
    let transport = url.as_ref().map(|it| it.0.transport());
    if ca_file.is_some() && transport != Some(PostgresTransport::Tls) {
        problems.push("storage.ca_file: requires a storage.url with TLS".to_owned());
    }
    problems
}

impl Settings {
    /// The settings file, if it contains the PostgreSQL password.
    pub(crate) fn file_with_password(&self) -> Option<&Path> {
        let from_file = |it: &EffectiveSetting| {
            it.setting.path() == "storage.url" && it.source == SettingSource::File
        };
        let has_password = self.storage.has_password() && self.effective.iter().any(from_file);
        self.file.as_deref().filter(|_| has_password)
    }

    /// The settings file, if it contains a PostgreSQL password that another source overrides.
    pub(crate) fn path_of_unused_password(&self) -> Option<&Path> {
        let is_unused = self.has_password_in_file && self.file_with_password().is_none();
        self.file.as_deref().filter(|_| is_unused)
    }
}

impl StorageSettings {
    /// Connection settings for PostgreSQL; `None` for the embedded engine.
    /// Errors: there are no trusted root certificates.
    pub fn postgres(&self) -> anyhow::Result<Option<PostgresSettings>> {
        let Some(StorageUrl(settings)) = self.url.clone() else { return Ok(None) };
        let mut settings = settings.with_connections(self.connections.get());
        if let Some(role) = &self.serve_role {
            settings = settings.with_serve_role(role);
        }
        Ok(Some(match settings.transport() {
            PostgresTransport::Plain => settings,
            PostgresTransport::Tls => settings.with_tls(self.tls_connector()?),
        }))
    }

    /// Returns whether the URL contains the PostgreSQL password.
    pub fn has_password(&self) -> bool {
        self.url.as_ref().is_some_and(|it| it.0.has_password())
    }

    /// Location of the vault, for messages.
    pub fn location(&self) -> String {
        match &self.url {
            Some(StorageUrl(it)) => it.redacted().to_owned(),
            None => self.data_dir.display().to_string(),
        }
    }

    /// Host and name of the database, without the user; `None` for a vault in the data directory.
    pub fn database(&self) -> Option<String> {
        let StorageUrl(url) = self.url.as_ref()?;
        let redacted = url.redacted();
        Some(redacted.rsplit_once('@').map_or(redacted, |(_, it)| it).to_owned())
    }

    fn tls_connector(&self) -> anyhow::Result<MakeRustlsConnect> {
        let roots = match &self.ca_file {
            Some(file) => read_roots("storage.ca_file", file)?,
            None => load_system_roots()?,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }
}

/// Root certificates of the system, as for Redis. Unreadable certificates are skipped.
fn load_system_roots() -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        anyhow::bail!("the system has no trusted root certificates; set storage.ca_file");
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use crate::config::load::tests::load;

    #[test]
    fn password_is_never_printed() {
        let variables = [("SCRIP_STORAGE_URL", "postgres://u:unspoken@db/vault?password=unspoken")];
        let settings = load("", &variables).unwrap();
        assert!(settings.storage.postgres().is_ok());
        let printed = format!("{settings:?}");
        assert!(!printed.contains("unspoken"), "{printed}");
        assert!(printed.contains("postgres://u:***@db/vault"), "{printed}");
    }

    #[test]
    fn rejected_storage_url_is_not_repeated() {
        for url in ["postgres://u:4242@db/v?sslmode=require", "4242", "postgres://u:4242@4242@db/v"]
        {
            let text = format!("[storage]\nurl = \"{url}\"");
            let problems = load(&text, &[]).unwrap_err().to_string();
            assert!(problems.starts_with("scrip.toml:2:7: storage.url: "), "{problems}");
            assert!(!problems.contains("4242"), "{problems}");
        }
    }

    #[test]
    fn ca_file_is_rejected_without_tls() {
        let url_without_tls = "url = \"postgres://u@localhost/v\"\n";
        for url in ["", url_without_tls] {
            let text = format!("[storage]\n{url}ca_file = \"ca.pem\"");
            let problems = load(&text, &[]).unwrap_err().to_string();
            assert!(problems.contains("storage.ca_file: requires"), "{problems}");
        }
    }
}
