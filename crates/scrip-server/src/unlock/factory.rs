//! Creates the source of an unlock method.

use std::sync::Arc;

use scrip_unlock::{UnlockError, UnlockSource};

use crate::{
    config::UNLOCK_VARIABLE_PREFIX,
    unlock::{inputs::UnlockInputs, local_key::LocalKey, unlock_settings::UnlockSettings},
};

impl UnlockInputs {
    /// Returns the source that wraps and unwraps the vault key for a method.
    /// Errors: the settings are not valid, or people unlock this method.
    pub fn source(&self, settings: &UnlockSettings) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        match settings {
            UnlockSettings::File(it) => Ok(Arc::new(match &it.path {
                Some(path) => LocalKey::File { name: "key file", path: path.clone() },
                None => self.root_key_source(),
            })),
            UnlockSettings::Env(it) if it.variable.starts_with(UNLOCK_VARIABLE_PREFIX) => {
                let key = self.unlock_keys.get(&it.variable).map(Arc::clone);
                Ok(Arc::new(LocalKey::Variable { name: it.variable.clone(), key }))
            }
            UnlockSettings::Env(_) => Err(UnlockError::Settings(format!(
                "the name of the variable does not start with {UNLOCK_VARIABLE_PREFIX}"
            ))),
            UnlockSettings::Shamir(_) => Err(UnlockError::Settings(
                "this method has no source: people enter its shares".to_owned(),
            )),
            UnlockSettings::Service(kind, parameters) => self.service_source(*kind, parameters),
        }
    }

    /// The root key of the settings, which wraps the vault key of a vault with a default method.
    fn root_key_source(&self) -> LocalKey {
        match &self.root_key {
            Some(key) => {
                LocalKey::Variable { name: "SCRIP_ROOT_KEY".to_owned(), key: Some(Arc::clone(key)) }
            }
            None => LocalKey::File { name: "root key", path: self.root_key_file.clone() },
        }
    }
}
