//! Creates the source of an unlock method.

use std::sync::Arc;

use scrip_unlock::{UnlockError, UnlockSource};

use crate::{
    config::UNLOCK_VARIABLE_PREFIX,
    unlock::{
        inputs::UnlockInputs,
        local_key::{LocalKey, LocalKeyProblem, ROOT_KEY, ROOT_KEY_VARIABLE},
        unlock_settings::{EnvParameters, FileParameters, UnlockSettings},
    },
};

impl UnlockInputs {
    /// Returns the source that wraps and unwraps the vault key for a method.
    /// Errors: the settings are not valid, or people unlock this method.
    pub fn source(&self, settings: &UnlockSettings) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        match settings {
            UnlockSettings::File(it) => Ok(Arc::new(self.file_source(it))),
            UnlockSettings::Env(it) => Ok(Arc::new(self.variable_source(it)?)),
            UnlockSettings::Shamir(_) => Err(UnlockError::Settings(
                "this method has no source: people enter its shares".to_owned(),
            )),
            UnlockSettings::Service(kind, parameters) => self.service_source(*kind, parameters),
        }
    }

    /// Checks a wrapping key in a file or in a variable; other methods pass. The check of a file
    /// drops the guard.
    /// Errors: the key cannot be used.
    pub(super) async fn check_local_key(
        &self,
        settings: &UnlockSettings,
        guard: impl Send + 'static,
    ) -> Result<(), LocalKeyProblem> {
        match settings {
            UnlockSettings::File(it) => self.file_source(it).load_with(guard).await.map(drop),
            UnlockSettings::Env(it) => self.variable_source(it)?.load().await.map(drop),
            UnlockSettings::Shamir(_) | UnlockSettings::Service(..) => Ok(()),
        }
    }

    fn file_source(&self, parameters: &FileParameters) -> LocalKey {
        match &parameters.path {
            Some(path) => LocalKey::File { name: "key file", path: path.clone() },
            None => self.root_key_source(),
        }
    }

    fn variable_source(&self, parameters: &EnvParameters) -> Result<LocalKey, UnlockError> {
        let name = &parameters.variable;
        if !name.starts_with(UNLOCK_VARIABLE_PREFIX) {
            return Err(UnlockError::Settings(format!(
                "the name of the variable does not start with {UNLOCK_VARIABLE_PREFIX}"
            )));
        }
        let key = self.unlock_keys.get(name).map(Arc::clone);
        Ok(LocalKey::Variable { name: name.clone(), key })
    }

    /// The root key of the settings, which wraps the vault key of a vault with a default method.
    fn root_key_source(&self) -> LocalKey {
        match &self.root_key {
            Some(key) => LocalKey::Variable {
                name: ROOT_KEY_VARIABLE.to_owned(),
                key: Some(Arc::clone(key)),
            },
            None => LocalKey::File { name: ROOT_KEY, path: self.root_key_file.clone() },
        }
    }
}
