//! The one place that reads the environment.

use std::path::Path;

use anyhow::Context;
use scrip_seal::{KeySource, RootKey};

/// What the environment says. Absent is as good as empty.
#[derive(Default)]
pub(crate) struct Environment {
    root_key: Option<String>,
    pub(crate) log: Option<String>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "settings are read once, here")]
    pub(crate) fn read() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
        Self { root_key: variable("SCRIP_ROOT_KEY"), log: variable("SCRIP_LOG") }
    }

    /// The root key from `SCRIP_ROOT_KEY`, else from a file that is made when it is missing.
    pub(crate) fn key_source(&self, file: &Path) -> anyhow::Result<Box<dyn KeySource>> {
        if let Some(text) = &self.root_key {
            let key = RootKey::from_text(text).context("SCRIP_ROOT_KEY cannot be used")?;
            return Ok(Box::new(key));
        }
        if !file.exists() {
            RootKey::create_file(file).context("the root key file cannot be made")?;
        }
        let key = RootKey::from_file(file);
        Ok(Box::new(key.with_context(|| format!("{} cannot be used", file.display()))?))
    }
}
