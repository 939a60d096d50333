//! Checks that files with keys and passwords are not accessible to other users. Runs when a server
//! starts and in `scrip doctor`.

use crate::{
    config::{EpochKeyLocation, Settings},
    files::secret_file::{AllowedReaders, SecretFile},
};

impl Settings {
    /// Returns all files with keys or passwords that the settings name.
    pub fn secret_files(&self) -> Vec<SecretFile> {
        let group = AllowedReaders::OwnerAndGroup;
        let mut files = vec![self.root_key_secret()];
        files.retain(|_| self.root_key.is_none());
        let epoch_keys = match &self.cvc.epoch_keys {
            EpochKeyLocation::File(path) => Some(path),
            EpochKeyLocation::Memory | EpochKeyLocation::Redis(_) => None,
        };
        files.extend(
            epoch_keys.map(|it| SecretFile::new("cvc.epoch_keys", it, AllowedReaders::Owner)),
        );
        let metrics_key = self.metrics.key_file.as_ref();
        files.extend(
            metrics_key.map(|it| SecretFile::new("metrics.key_file", it, AllowedReaders::Owner)),
        );
        let other_files = [
            ("tls.key", &self.tls.key),
            ("limits.redis_password_file", &self.limits.redis_password_file),
            ("cvc.epoch_keys_password_file", &self.cvc.epoch_keys_password_file),
            ("threeds.results_key", &self.threeds.results_key),
            ("proxy.forward_proxy_password_file", &self.proxy.forward_proxy_password_file),
        ];
        let other_files =
            other_files.into_iter().filter_map(|(setting, path)| Some((setting, path.as_ref()?)));
        files.extend(other_files.map(|(setting, path)| SecretFile::new(setting, path, group)));
        files.extend(self.schemes.iter().map(|it| {
            let setting = format!("{}.client_key", it.transport.section);
            SecretFile::new(&setting, &it.transport.client_key, group)
        }));
        let settings_file = self.file_with_password();
        files.extend(settings_file.map(|it| SecretFile::new("storage.url", it, group)));
        files
    }

    /// Returns the settings file if it contains a password that is not in use.
    pub fn file_with_unused_password(&self) -> Option<SecretFile> {
        let file = self.path_of_unused_password()?;
        Some(SecretFile::new("storage.url", file, AllowedReaders::OwnerAndGroup))
    }

    pub(crate) fn root_key_secret(&self) -> SecretFile {
        SecretFile::new("keys.root_key_file", &self.root_key_file(), AllowedReaders::Owner)
    }
}
