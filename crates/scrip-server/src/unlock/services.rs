//! The sources of unlock methods that are services or devices: AWS KMS, Transit and PKCS#11.
//!
//! A row has the parameters, which are no secrets. Secrets are in files and in variables of the
//! environment, which the parameters name.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use scrip_core::{types::time::Clock, unlock::UnlockKind};
use scrip_seal::Secret;
use scrip_unlock::{
    AwsKms, AwsKmsSettings, AwsVariables, DEFAULT_DEADLINE, Pkcs11, Pkcs11Settings, TokenSelector,
    Transit, TransitAuth, TransitSettings, UnlockError, UnlockSource,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    clock::SystemClock,
    config::UNLOCK_VARIABLE_PREFIX,
    files::secret_file::{AllowedReaders, SecretFile},
    unlock::inputs::{KnownDevice, UnlockInputs},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AwsKmsParameters {
    /// Id or ARN.
    key: String,
    region: String,
    endpoint: Option<String>,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransitParameters {
    address: String,
    key: String,
    #[serde(default = "default_mount")]
    mount: String,
    namespace: Option<String>,
    ca_file: Option<PathBuf>,
    /// Variable with a token.
    token_variable: Option<String>,
    token_file: Option<PathBuf>,
    /// The id of an `AppRole`, with the file of its secret.
    role_id: Option<String>,
    secret_id_file: Option<PathBuf>,
    /// The role of a Kubernetes login, with the token of the service account.
    role: Option<String>,
    jwt_file: Option<PathBuf>,
    /// Where the login is mounted.
    auth_mount: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pkcs11Parameters {
    library: PathBuf,
    token_label: Option<String>,
    slot: Option<String>,
    key_label: String,
    /// Variable with the PIN.
    pin_variable: Option<String>,
    pin_file: Option<PathBuf>,
}

fn default_mount() -> String {
    "transit".to_owned()
}

impl UnlockInputs {
    /// Returns the source of a service or device.
    /// Errors: a parameter is unknown, missing or not valid, or a secret that it names is missing.
    pub(super) fn service_source(
        &self,
        kind: UnlockKind,
        parameters: &Map<String, Value>,
    ) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        match kind {
            UnlockKind::AwsKms => self.aws_kms(parse(parameters)?),
            UnlockKind::Transit => self.transit(parse(parameters)?),
            UnlockKind::Pkcs11 => self.pkcs11(parameters),
            UnlockKind::File | UnlockKind::Env | UnlockKind::Shamir => {
                Err(invalid(&format!("a method of kind {} is no service", kind.as_str())))
            }
        }
    }

    fn aws_kms(&self, parameters: AwsKmsParameters) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        let AwsKmsParameters { key, region, endpoint, ca_file } = parameters;
        // A key or an endpoint of an attacker would open a vault of the attacker.
        self.check_allowed(&key)?;
        endpoint.as_ref().map_or(Ok(()), |it| self.check_allowed(it))?;
        self.check_files(&[&ca_file])?;
        let settings = AwsKmsSettings {
            key_id: key,
            region,
            endpoint,
            ca_file,
            credentials: self.aws_variables().select_source()?,
            deadline: DEFAULT_DEADLINE,
        };
        let clock = Arc::new(|| SystemClock.now().unix_ms.div_euclid(1000));
        Ok(Arc::new(AwsKms::new(settings, clock)?))
    }

    fn aws_variables(&self) -> AwsVariables {
        let secret = |name: &str| self.unlock_keys.get(name).map(|it| copy(it));
        let text = |name: &str| {
            let value = self.unlock_keys.get(name)?;
            str::from_utf8(value.expose()).ok().map(str::to_owned)
        };
        AwsVariables {
            access_key_id: text("AWS_ACCESS_KEY_ID"),
            secret_access_key: secret("AWS_SECRET_ACCESS_KEY"),
            session_token: secret("AWS_SESSION_TOKEN"),
            web_identity_token_file: text("AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from),
            role_arn: text("AWS_ROLE_ARN"),
            role_session_name: text("AWS_ROLE_SESSION_NAME"),
            sts_endpoint: text("AWS_ENDPOINT_URL_STS"),
            shared_credentials_file: text("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from),
            profile: text("AWS_PROFILE"),
            metadata_endpoint: text("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        }
    }

    fn transit(&self, parameters: TransitParameters) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        self.check_allowed(&parameters.address)?;
        let TransitParameters { token_file, secret_id_file, jwt_file, ca_file, .. } = &parameters;
        self.check_files(&[token_file, secret_id_file, jwt_file, ca_file])?;
        // Kubernetes gives the token of a service account its own mode.
        for (name, path) in [("token_file", token_file), ("secret_id_file", secret_id_file)] {
            path.as_ref().map_or(Ok(()), |it| check_readers(name, it))?;
        }
        let auth_mount =
            |default: &str| parameters.auth_mount.clone().unwrap_or_else(|| default.to_owned());
        let auth = match &parameters {
            TransitParameters { token_variable: Some(name), .. } => {
                TransitAuth::Token(self.secret_variable("token_variable", name)?)
            }
            TransitParameters { token_file: Some(file), .. } => {
                TransitAuth::TokenFile(file.clone())
            }
            TransitParameters { role_id: Some(role_id), secret_id_file: Some(file), .. } => {
                TransitAuth::AppRole {
                    mount: auth_mount("approle"),
                    role_id: role_id.clone(),
                    secret_id_file: file.clone(),
                }
            }
            TransitParameters { role: Some(role), jwt_file: Some(file), .. } => {
                TransitAuth::Kubernetes {
                    mount: auth_mount("kubernetes"),
                    role: role.clone(),
                    jwt_file: file.clone(),
                }
            }
            _ => {
                return Err(invalid(
                    "give token_variable, token_file, role_id with secret_id_file, or role with \
                     jwt_file",
                ));
            }
        };
        let TransitParameters { address, key, mount, namespace, ca_file, .. } = parameters;
        let deadline = DEFAULT_DEADLINE;
        let settings = TransitSettings { address, mount, key, namespace, auth, ca_file, deadline };
        Ok(Arc::new(Transit::new(settings)?))
    }

    /// Returns the same source for the same parameters and PIN. A device counts wrong PINs and locks
    /// itself, and only the source remembers that its PIN was rejected.
    fn pkcs11(
        &self,
        parameters: &Map<String, Value>,
    ) -> Result<Arc<dyn UnlockSource>, UnlockError> {
        let Pkcs11Parameters { library, token_label, slot, key_label, pin_variable, pin_file } =
            parse(parameters)?;
        self.check_allowed(&library.to_string_lossy())?;
        self.check_files(&[&pin_file])?;
        let token = match (token_label, slot) {
            (Some(label), None) => TokenSelector::Label(label),
            (None, Some(slot)) => {
                let slot = slot.parse().map_err(|_| invalid("slot must be a number"))?;
                TokenSelector::Slot(slot)
            }
            _ => return Err(invalid("give token_label or slot")),
        };
        let pin = match (pin_variable, pin_file) {
            (Some(name), None) => self.secret_variable("pin_variable", &name)?,
            (None, Some(path)) => read_pin(&path)?,
            _ => return Err(invalid("give pin_variable or pin_file")),
        };
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |it: &&KnownDevice| {
            it.parameters == *parameters && it.pin.constant_time_eq(pin.expose())
        };
        if let Some(device) = devices.iter().find(is_same) {
            return Ok(Arc::<Pkcs11>::clone(&device.source));
        }
        let (known_pin, deadline) = (copy(&pin), DEFAULT_DEADLINE);
        let pin_attempts = self.pin_attempts;
        let settings = Pkcs11Settings { library, token, pin, pin_attempts, key_label, deadline };
        let source = Arc::new(Pkcs11::new(settings)?);
        devices.retain(|it| it.parameters != *parameters);
        devices.push(KnownDevice {
            parameters: parameters.clone(),
            pin: known_pin,
            source: Arc::clone(&source),
        });
        Ok(source)
    }

    /// The content of these files is sent to the source, so a row must not name any file.
    fn check_files(&self, paths: &[&Option<PathBuf>]) -> Result<(), UnlockError> {
        let mut present = paths.iter().copied().flatten();
        present.try_for_each(|it| self.check_allowed(&it.to_string_lossy()))
    }

    fn check_allowed(&self, source: &str) -> Result<(), UnlockError> {
        if self.allowed_sources.contains(source) {
            return Ok(());
        }
        Err(UnlockError::Settings(format!(
            "{source} is not in keys.unlock_sources: add it to the settings of the server if it is \
             yours, and restart the server"
        )))
    }

    /// Other variables of the server may contain other secrets, so the prefix is required.
    fn secret_variable(&self, parameter: &str, name: &str) -> Result<Secret, UnlockError> {
        if !name.starts_with(UNLOCK_VARIABLE_PREFIX) {
            let text = format!("{parameter} must start with {UNLOCK_VARIABLE_PREFIX}");
            return Err(invalid(&text));
        }
        let value = self.unlock_keys.get(name);
        let missing = || {
            UnlockError::Settings(format!(
                "{name} is not set: set it in the environment of the server, and restart it"
            ))
        };
        value.map(|it| copy(it)).ok_or_else(missing)
    }
}

fn copy(secret: &Secret) -> Secret {
    Secret::new(secret.expose().to_vec())
}

fn check_readers(parameter: &'static str, path: &Path) -> Result<(), UnlockError> {
    let file = SecretFile::new(parameter, path, AllowedReaders::OwnerAndGroup);
    file.check().map_err(|it| UnlockError::Denied(it.root_cause().to_string()))
}

fn read_pin(path: &Path) -> Result<Secret, UnlockError> {
    check_readers("pin_file", path)?;
    let unreadable = |it: std::io::Error| {
        UnlockError::Settings(format!("pin_file {} cannot be read: {it}", path.display()))
    };
    let text = Zeroizing::new(fs::read(path).map_err(unreadable)?);
    Ok(Secret::new(text.trim_ascii_end().to_vec()))
}

fn parse<T: DeserializeOwned>(parameters: &Map<String, Value>) -> Result<T, UnlockError> {
    let parsed = T::deserialize(Value::Object(parameters.clone()));
    // The message names a parameter. Values are no secrets, unless the operator made an error.
    parsed.map_err(|it| {
        let text = it.to_string();
        let is_name = text.starts_with("missing field") || text.starts_with("unknown field");
        invalid(if is_name { &text } else { "a parameter is not a text" })
    })
}

fn invalid(text: &str) -> UnlockError {
    UnlockError::Settings(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::config::load::tests::load;

    const SOURCES: &str = "[keys]\nunlock_sources = \"/lib/a.so, https://bao.example, arn:aws:a\"";

    fn error(kind: UnlockKind, parameters: Value) -> String {
        let inputs = load(SOURCES, &[]).unwrap().unlock_inputs();
        let Value::Object(parameters) = parameters else { panic!("parameters are an object") };
        inputs.service_source(kind, &parameters).unwrap_err().to_string()
    }

    #[test]
    fn incomplete_and_unknown_parameters_are_rejected_with_their_names() {
        let device = json!({ "library": "/lib/a.so", "key_label": "a", "slot": "1" });
        let with = |parameters: &Value, name: &str, value: &str| {
            let mut changed = parameters.clone();
            changed[name] = json!(value);
            changed
        };
        let server = json!({ "address": "https://bao.example", "key": "scrip" });
        for (kind, parameters, expected) in [
            (UnlockKind::AwsKms, json!({ "key": "a" }), "missing field `region`"),
            (UnlockKind::AwsKms, json!({ "key": "a", "secret": "4242" }), "unknown field `secret`"),
            (UnlockKind::AwsKms, json!({ "key": 4242, "region": "a" }), "is not a text"),
            (UnlockKind::Pkcs11, device.clone(), "give pin_variable or pin_file"),
            (UnlockKind::Pkcs11, with(&device, "token_label", "a"), "give token_label or slot"),
            (UnlockKind::Pkcs11, with(&device, "slot", "x"), "slot must be a number"),
            (
                UnlockKind::Pkcs11,
                with(&device, "pin_variable", "SCRIP_ROOT_KEY"),
                "must start with SCRIP_UNLOCK_",
            ),
            (
                UnlockKind::Pkcs11,
                with(&device, "pin_variable", "SCRIP_UNLOCK_PIN"),
                "SCRIP_UNLOCK_PIN is not set",
            ),
            (
                UnlockKind::Pkcs11,
                with(&device, "library", "/lib/b.so"),
                "/lib/b.so is not in keys.unlock_sources",
            ),
            (
                UnlockKind::Transit,
                json!({ "address": "https://other.example", "key": "a", "token_file": "/a" }),
                "https://other.example is not in keys.unlock_sources",
            ),
            (UnlockKind::Transit, server.clone(), "give token_variable"),
            (
                UnlockKind::Transit,
                with(&server, "token_file", "/etc/root.key"),
                "/etc/root.key is not in keys.unlock_sources",
            ),
            (
                UnlockKind::Transit,
                with(&with(&server, "role", "a"), "jwt_file", "/etc/shadow"),
                "/etc/shadow is not in keys.unlock_sources",
            ),
            (
                UnlockKind::Pkcs11,
                with(&device, "pin_file", "/etc/shadow"),
                "/etc/shadow is not in keys.unlock_sources",
            ),
            (
                UnlockKind::AwsKms,
                json!({ "key": "arn:aws:b", "region": "a" }),
                "arn:aws:b is not in keys.unlock_sources",
            ),
            (
                UnlockKind::AwsKms,
                json!({ "key": "arn:aws:a", "region": "a", "endpoint": "https://kms.example" }),
                "https://kms.example is not in keys.unlock_sources",
            ),
            (UnlockKind::Transit, with(&server, "role_id", "a"), "give token_variable"),
        ] {
            let text = error(kind, parameters);
            assert!(text.contains(expected) && !text.contains("4242"), "{text}");
        }
    }

    #[test]
    fn device_keeps_its_source_until_the_pin_changes() {
        let folder = tempfile::tempdir().unwrap();
        let pin_file = folder.path().join("pin");
        let write_pin = |pin: &str| {
            fs::write(&pin_file, pin).unwrap();
            fs::set_permissions(&pin_file, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write_pin("1234\n");
        let sources = format!("[keys]\nunlock_sources = \"/lib/a.so, {}\"", pin_file.display());
        let inputs = load(&sources, &[]).unwrap().unlock_inputs();
        let parameters = json!({
            "library": "/lib/a.so", "token_label": "a", "key_label": "a", "pin_file": pin_file,
        });
        let Value::Object(parameters) = parameters else { panic!("parameters are an object") };
        let source = || inputs.clone().service_source(UnlockKind::Pkcs11, &parameters).unwrap();
        let first = source();
        assert!(Arc::ptr_eq(&first, &source()), "a rejected PIN must not be tried again");
        write_pin("5678");
        let second = source();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &source()));
    }
}
