//! The settings of the Transit engine.

use std::{fmt, path::PathBuf, time::Duration};

use scrip_seal::Secret;

use crate::source::UnlockError;

/// Which key of which server to use.
#[derive(Debug)]
pub struct TransitSettings {
    /// Such as `https://bao.example:8200`.
    pub address: String,
    /// Usually `transit`.
    pub mount: String,
    pub key: String,
    pub namespace: Option<String>,
    pub auth: TransitAuth,
    /// Certificate authorities in PEM, instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// For one wrap or unwrap, with a login.
    pub deadline: Duration,
}

/// How the vault proves its identity to the server.
pub enum TransitAuth {
    Token(Secret),
    /// A file with a token. It is read for each operation, so that an agent can renew it.
    TokenFile(PathBuf),
    AppRole {
        /// Usually `approle`.
        mount: String,
        role_id: String,
        secret_id_file: PathBuf,
    },
    Kubernetes {
        /// Usually `kubernetes`.
        mount: String,
        role: String,
        /// The token of the service account.
        jwt_file: PathBuf,
    },
}

impl fmt::Debug for TransitAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token",
            Self::TokenFile(_) => "TokenFile",
            Self::AppRole { .. } => "AppRole",
            Self::Kubernetes { .. } => "Kubernetes",
        })
    }
}

/// A part of a path on the server, without characters that a path gives a meaning to.
pub(super) fn check_path(setting: &str, path: &str) -> Result<(), UnlockError> {
    let is_valid = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    let is_segment = |segment: &str| {
        !segment.is_empty() && ![".", ".."].contains(&segment) && segment.bytes().all(is_valid)
    };
    if path.split('/').all(is_segment) {
        return Ok(());
    }
    Err(UnlockError::Settings(format!(
        "{setting} may have letters, digits, -, _ and ., and / between parts"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_other_characters_are_rejected() {
        for path in ["transit", "team-a/transit_1", "v1.2"] {
            assert!(check_path("the mount", path).is_ok(), "{path}");
        }
        for path in ["", "/", "a/", "/a", "..", "a/../b", "a?b", "a%2fb", "a b", "ä"] {
            assert!(check_path("the mount", path).is_err(), "{path}");
        }
    }
}
