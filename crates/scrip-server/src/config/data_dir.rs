//! The data directory, and the default paths of the files in it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::config::table::Settings;

impl Settings {
    pub fn database_file(&self) -> PathBuf {
        self.storage.data_dir.join("scrip.db")
    }

    /// Returns whether this directory contains the database. Always false with PostgreSQL.
    pub fn has_data_in(&self, folder: Option<&Path>) -> bool {
        self.storage.url.is_none() && folder == Some(&self.storage.data_dir)
    }

    /// Path of the file with the chain heads.
    pub fn head_file(&self) -> PathBuf {
        let default = || self.storage.data_dir.join("audit.head");
        self.audit.head_file.clone().unwrap_or_else(default)
    }

    /// Path of the file in which `scrip dev` keeps its API keys.
    pub fn dev_keys_file(&self) -> PathBuf {
        self.storage.data_dir.join("dev-keys.json")
    }

    pub fn bin_file(&self) -> PathBuf {
        self.storage.data_dir.join("bin-data")
    }

    pub fn root_key_file(&self) -> PathBuf {
        let default = || self.storage.data_dir.join("root.key");
        self.keys.root_key_file.clone().unwrap_or_else(default)
    }

    /// Returns the data directory, which must exist; with the embedded engine it must contain a
    /// database.
    ///
    /// Errors: the directory or the database is missing, or this user may not use the directory.
    pub fn existing_data_dir(&self) -> anyhow::Result<&Path> {
        self.check_data_dir()?;
        let folder = &self.storage.data_dir;
        if self.storage.url.is_none() && !self.database_file().is_file() {
            anyhow::bail!(
                "{} contains no vault. {}",
                folder.display(),
                self.missing_vault_advice()
            );
        }
        Ok(folder)
    }

    /// A disk that is not mounted looks like a vault that was never created. An operator with a
    /// control socket only has no data directory.
    fn missing_vault_advice(&self) -> String {
        let check =
            "If this vault existed before, check storage.data_dir and that its disk is mounted";
        match &self.server.control_socket {
            None => format!("{check}; for a new vault run: scrip init"),
            Some(socket) => format!(
                "A user who has only the control socket {} cannot run this command without the \
                 server: run it as the user of the server, with its settings. {check}; for a new \
                 vault, the user of the server runs: scrip init",
                socket.display()
            ),
        }
    }

    /// Checks that the data directory exists and that this user may use it.
    /// Errors: the directory is missing, or this user may not use it.
    pub fn check_data_dir(&self) -> anyhow::Result<()> {
        let folder = &self.storage.data_dir;
        // The dot requires the right to search the directory. Without this right, its files would
        // look like missing files.
        match fs::metadata(folder.join(".")) {
            Ok(it) if it.is_dir() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => anyhow::bail!(
                "data directory {} cannot be used: {error}. Run scrip as the user of the server, \
                 or give the directory to this user with chown",
                folder.display()
            ),
            Ok(_) | Err(_) => anyhow::bail!(
                "data directory {} does not exist. {}",
                folder.display(),
                self.missing_vault_advice()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load::tests::load;

    #[test]
    fn operator_with_a_control_socket_is_not_told_to_create_a_vault() {
        let error = |text: &str| {
            let settings = load(text, &[("SCRIP_STORAGE_DATA_DIR", "/nonexistent/scrip")]).unwrap();
            settings.existing_data_dir().unwrap_err().to_string()
        };
        let text = error("");
        assert!(text.ends_with("for a new vault run: scrip init"), "{text}");
        let text = error("[server]\ncontrol_socket = \"/run/scrip/control.sock\"");
        assert!(text.contains("only the control socket /run/scrip/control.sock"), "{text}");
        assert!(text.contains("run it as the user of the server"), "{text}");
    }
}
