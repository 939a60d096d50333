//! Variables of the environment.

use std::{collections::BTreeMap, sync::Arc};

use nix::unistd::{Uid, User};
use scrip_seal::Secret;

use crate::config::{setting::Setting, table::SETTINGS};

/// Variables of API clients, as in the guides. A client may run in the shell of the server, and the
/// server reads none of them.
const CLIENT_VARIABLES: &[&str] =
    &["SCRIP_URL", "SCRIP_KEY", "SCRIP_PUBLIC_KEY", "SCRIP_MANAGEMENT_KEY"];
/// Variables that are not settings. Variables of tests cause no warning.
const OTHER_VARIABLES: &[&str] = &["SCRIP_ROOT_KEY", "SCRIP_LOG", "SCRIP_CONFIG"];
/// Variables that count as absent if they are empty.
const ABSENT_IF_EMPTY: &[&str] = &["SCRIP_ROOT_KEY", "SCRIP_CONFIG"];
/// Variables with keys of unlock methods. Their names are free after this prefix.
pub const UNLOCK_VARIABLE_PREFIX: &str = "SCRIP_UNLOCK_";
/// Variables with credentials for AWS KMS.
const AWS_VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_PROFILE",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
];
const TEST_VARIABLE_PREFIX: &str = "SCRIP_TEST_";

/// Variables of the environment.
///
/// An empty variable unsets a setting that can be empty. For any other setting, and for
/// `SCRIP_ROOT_KEY` and `SCRIP_CONFIG`, it counts as absent.
#[derive(Debug, Default)]
pub struct Environment {
    pub(super) variables: BTreeMap<String, String>,
    /// Names of variables with a value that is not UTF-8.
    pub(super) unreadable: Vec<String>,
    pub(super) root_key: Option<Arc<Secret>>,
    /// Variables with keys and credentials of unlock methods.
    pub(super) unlock_keys: BTreeMap<String, Arc<Secret>>,
    /// The operating-system user who runs this process, for the audit log.
    pub(super) os_user: Option<Arc<str>>,
}

impl Environment {
    pub fn read() -> Self {
        let (mut environment, mut sudo_user) = (Self::default(), None);
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            if name == "SUDO_USER" {
                sudo_user = value.into_string().ok();
                continue;
            }
            let is_aws = AWS_VARIABLES.contains(&name.as_str());
            let is_absent =
                value.is_empty() && (is_aws || ABSENT_IF_EMPTY.contains(&name.as_str()));
            let is_client = CLIENT_VARIABLES.contains(&name.as_str());
            if !(name.starts_with("SCRIP_") || is_aws) || is_absent || is_client {
                continue;
            }
            match value.into_string() {
                Ok(text) if name == "SCRIP_ROOT_KEY" => {
                    environment.root_key = Some(Arc::new(Secret::new(text.into_bytes())));
                }
                Ok(text) if is_aws || name.starts_with(UNLOCK_VARIABLE_PREFIX) => {
                    let key = Arc::new(Secret::new(text.into_bytes()));
                    environment.unlock_keys.insert(name, key);
                }
                Ok(text) => drop(environment.variables.insert(name, text)),
                Err(_) => environment.unreadable.push(name),
            }
        }
        environment.os_user = Some(os_user(Uid::current(), sudo_user.as_deref()).into());
        environment
    }

    pub(super) fn get(&self, name: &str) -> Option<(&str, &str)> {
        self.variables.get_key_value(name).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the name and the value of the variable of a setting. `SCRIP_LOG` is an alias for
    /// `SCRIP_LOG_FILTER`.
    pub(super) fn value_of(&self, setting: &Setting) -> Option<(&str, &str)> {
        let alias = || self.get("SCRIP_LOG").filter(|_| setting.path() == "log.filter");
        let can_be_empty = setting.default.is_empty();
        let is_value = |(_, text): &(&str, &str)| can_be_empty || !text.is_empty();
        let variable = self.get(&setting.variable()).filter(is_value);
        variable.or_else(|| alias().filter(is_value))
    }

    /// Returns whether the environment sets the setting with this path.
    pub fn sets(&self, path: &str) -> bool {
        SETTINGS.iter().any(|it| it.path() == path && self.value_of(it).is_some())
    }

    /// Returns one line for each variable that looks like a setting and is none.
    pub fn warnings(&self) -> Vec<String> {
        let warn = |name| format!("{name} is not a setting and has no effect");
        self.unknown_variables().map(warn).collect()
    }

    pub(super) fn unknown_variables(&self) -> impl Iterator<Item = &str> {
        let is_known = |name: &str| {
            OTHER_VARIABLES.contains(&name)
                || name.starts_with(TEST_VARIABLE_PREFIX)
                || SETTINGS.iter().any(|it| it.variable() == name)
        };
        self.variables.keys().map(String::as_str).filter(move |it| !is_known(it))
    }
}

/// Longer names are truncated.
const SUDO_USER_CHARS_MAX: usize = 64;

/// Returns the user that the system reports, and the user who ran `sudo`. A caller can forge
/// `SUDO_USER`, so the text says where this name is from.
fn os_user(uid: Uid, sudo_user: Option<&str>) -> String {
    let user_name = User::from_uid(uid).ok().flatten().map(|it| it.name);
    let user = user_name.unwrap_or_else(|| format!("uid {uid}"));
    let Some(sudo_user) = sudo_user.filter(|it| !it.is_empty()) else { return user };
    let printable = sudo_user.chars().filter(char::is_ascii_graphic);
    let sudo_user: String = printable.take(SUDO_USER_CHARS_MAX).collect();
    format!("{user} (SUDO_USER {sudo_user})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_user_is_the_system_user_with_sudo_user_marked() {
        let root = Uid::from_raw(0);
        assert_eq!(os_user(root, None), "root");
        assert_eq!(os_user(root, Some("")), "root");
        assert_eq!(os_user(root, Some("alice")), "root (SUDO_USER alice)");
        assert_eq!(os_user(root, Some("al\nice\u{7}")), "root (SUDO_USER alice)");
        let truncated = os_user(root, Some(&"a".repeat(1000)));
        assert_eq!(truncated.len(), "root (SUDO_USER )".len() + SUDO_USER_CHARS_MAX);
        assert_eq!(os_user(Uid::from_raw(3_999_999_999), None), "uid 3999999999");
    }
}
