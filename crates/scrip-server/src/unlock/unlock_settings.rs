//! The stored parameters of an unlock method: where its wrapping key is.

use std::path::PathBuf;

use scrip_core::unlock::{UnlockKind, UnlockRecord};
use scrip_unlock::UnlockError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Where the wrapping key of an unlock method is. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnlockSettings {
    File(FileParameters),
    Env(EnvParameters),
    Shamir(ShamirParameters),
    /// A service or a device, with the parameters of its source.
    Service(UnlockKind, Map<String, Value>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileParameters {
    /// `None` for the root key of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvParameters {
    pub variable: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShamirParameters {
    /// The label of the shares, which names the vault and the set.
    pub set: String,
    pub shares: u8,
    pub threshold: u8,
}

impl UnlockSettings {
    /// Errors: the parameters are not those of this kind.
    pub fn parse(kind: UnlockKind, parameters: &str) -> Result<Self, UnlockError> {
        Ok(match kind {
            UnlockKind::File => Self::File(parse_json(kind, parameters)?),
            UnlockKind::Env => Self::Env(parse_json(kind, parameters)?),
            UnlockKind::Shamir => Self::Shamir(parse_json(kind, parameters)?),
            UnlockKind::Pkcs11 | UnlockKind::AwsKms | UnlockKind::Transit => {
                Self::Service(kind, parse_json(kind, parameters)?)
            }
        })
    }

    /// Errors: the parameters of the row are not those of its kind.
    pub fn from_record(record: &UnlockRecord) -> Result<Self, UnlockError> {
        Self::parse(record.kind, &record.parameters)
    }

    pub fn kind(&self) -> UnlockKind {
        match self {
            Self::File(_) => UnlockKind::File,
            Self::Env(_) => UnlockKind::Env,
            Self::Shamir(_) => UnlockKind::Shamir,
            Self::Service(kind, _) => *kind,
        }
    }

    /// Whether the wrapping key is the root key of the settings.
    pub fn is_root_key(&self) -> bool {
        matches!(self, Self::File(FileParameters { path: None }))
    }

    /// The text of the column.
    pub fn parameters(&self) -> String {
        let value = match self {
            Self::File(it) => serde_json::to_value(it),
            Self::Env(it) => serde_json::to_value(it),
            Self::Shamir(it) => serde_json::to_value(it),
            Self::Service(_, it) => Ok(Value::Object(it.clone())),
        };
        value.unwrap_or_default().to_string()
    }
}

fn parse_json<T: DeserializeOwned>(kind: UnlockKind, text: &str) -> Result<T, UnlockError> {
    // Without the message of the parser, which may quote a value.
    serde_json::from_str(text).map_err(|_| {
        let kind = kind.as_str();
        UnlockError::Settings(format!("the parameters are not those of a method of kind {kind}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_a_round_trip() {
        for (kind, text) in [
            (UnlockKind::File, "{}"),
            (UnlockKind::File, r#"{"path":"/etc/scrip/unlock.key"}"#),
            (UnlockKind::Env, r#"{"variable":"SCRIP_UNLOCK_KEY"}"#),
            (UnlockKind::Shamir, r#"{"set":"a234-b567","shares":5,"threshold":3}"#),
            (UnlockKind::AwsKms, r#"{"key":"alias/scrip","region":"eu-central-1"}"#),
        ] {
            let settings = UnlockSettings::parse(kind, text).unwrap();
            assert_eq!((settings.kind(), settings.parameters().as_str()), (kind, text));
        }
    }

    #[test]
    fn parameters_of_another_kind_are_rejected_without_their_values() {
        for (kind, text) in [
            (UnlockKind::File, r#"{"variable":"4242"}"#),
            (UnlockKind::Env, "{}"),
            (UnlockKind::Shamir, r#"{"shares":"4242"}"#),
            (UnlockKind::Transit, "[4242]"),
            (UnlockKind::Transit, ""),
        ] {
            let error = UnlockSettings::parse(kind, text).unwrap_err().to_string();
            assert!(error.contains("are not those of") && !error.contains("4242"), "{error}");
        }
    }
}
