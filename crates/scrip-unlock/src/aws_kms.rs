//! AWS KMS: a key that never leaves the service encrypts the vault key.

mod credentials;
mod failure;
mod key_id;
mod settings;
mod signature;

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{
    Method,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
};
use scrip_seal::Secret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use self::{
    credentials::CredentialProvider,
    failure::{KmsAction, KmsFailure},
    key_id::AwsKeyId,
    signature::{AwsCredentials, SignedRequest},
};
pub use self::{
    settings::{AwsCredentialSource, AwsKmsSettings, AwsVariables},
    signature::WallClock,
};
use crate::{
    http_client::{Endpoint, SourceRequest, TlsTrust, secret_header, secret_json, send_request},
    source::{UnlockContext, UnlockError, UnlockFuture, UnlockSource, with_deadline},
    wrapped_key::WrappedKey,
};

const JSON: &str = "application/x-amz-json-1.1";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");

/// A symmetric key of AWS KMS.
pub struct AwsKms {
    key_id: AwsKeyId,
    region: String,
    endpoint: Endpoint,
    trust: Arc<TlsTrust>,
    credentials: CredentialProvider,
    clock: WallClock,
    deadline: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EncryptRequest<'a> {
    key_id: &'a str,
    plaintext: &'a str,
    encryption_context: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DecryptRequest<'a> {
    key_id: &'a str,
    ciphertext_blob: &'a str,
    encryption_context: BTreeMap<&'a str, &'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EncryptResponse<'a> {
    #[serde(borrow)]
    key_id: Cow<'a, str>,
    #[serde(borrow)]
    ciphertext_blob: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DecryptResponse<'a> {
    #[serde(borrow)]
    key_id: Cow<'a, str>,
    #[serde(borrow)]
    plaintext: Cow<'a, str>,
}

impl AwsKms {
    /// The kind of the source in an [`UnlockContext`].
    pub const KIND: &'static str = "aws-kms";

    /// Errors: a setting is not valid.
    pub fn new(settings: AwsKmsSettings, clock: WallClock) -> Result<Self, UnlockError> {
        let AwsKmsSettings { key_id, region, endpoint, ca_file, credentials, deadline } = settings;
        settings::check_region(&region)?;
        let key_id = AwsKeyId::parse(&key_id, &region)?;
        let endpoint = endpoint.unwrap_or_else(|| settings::service_url("kms", &region));
        let trust = Arc::new(TlsTrust::from_ca_file(ca_file.as_deref())?);
        Ok(Self {
            endpoint: Endpoint::parse("the endpoint of AWS KMS", &endpoint)?,
            credentials: CredentialProvider::new(
                credentials,
                &region,
                Arc::clone(&trust),
                Arc::clone(&clock),
            )?,
            key_id,
            region,
            trust,
            clock,
            deadline,
        })
    }

    async fn encrypt(&self, context: &UnlockContext, key: &Secret) -> Result<Vec<u8>, UnlockError> {
        let version = context.key_version.to_string();
        let plaintext = Zeroizing::new(STANDARD.encode(key.expose()));
        let request = secret_json(&EncryptRequest {
            key_id: self.key_id.text(),
            plaintext: &plaintext,
            encryption_context: encryption_context(context, &version),
        })?;
        let body = self.call(KmsAction::Encrypt, &request).await?;
        let response: EncryptResponse<'_> = parse_response(&body)?;
        self.check_key_id(&response.key_id)?;
        let blob = STANDARD.decode(&*response.ciphertext_blob).map_err(|_| malformed())?;
        Ok(WrappedKey::encode(key, &blob))
    }

    async fn decrypt(&self, context: &UnlockContext, bytes: &[u8]) -> Result<Secret, UnlockError> {
        let version = context.key_version.to_string();
        let wrapped = WrappedKey::parse(bytes)?;
        let request = secret_json(&DecryptRequest {
            key_id: self.key_id.text(),
            ciphertext_blob: &STANDARD.encode(wrapped.source_bytes),
            encryption_context: encryption_context(context, &version),
        })?;
        let body = self.call(KmsAction::Decrypt, &request).await?;
        let response: DecryptResponse<'_> = parse_response(&body)?;
        let key = STANDARD.decode(response.plaintext.as_bytes()).map(Secret::new);
        if let Cow::Owned(text) = response.plaintext {
            drop(Zeroizing::new(text));
        }
        self.check_key_id(&response.key_id)?;
        wrapped.verify(key.map_err(|_| malformed())?)
    }

    /// The service says which key it used. With another one, the request or the answer was altered.
    fn check_key_id(&self, answer: &str) -> Result<(), UnlockError> {
        if self.key_id.is_key_of(answer) {
            return Ok(());
        }
        let (key_id, endpoint) = (self.key_id.text(), &self.endpoint.address.authority);
        Err(UnlockError::Rejected(format!(
            "{endpoint} used another key than {key_id}: check that the endpoint is AWS KMS"
        )))
    }

    /// Credentials that the service rejects may have expired early, so new ones are tried once.
    async fn call(
        &self,
        action: KmsAction,
        body: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, UnlockError> {
        let credentials = self.credentials.current().await?;
        let failure = match self.call_with(action, body, &credentials).await? {
            Ok(body) => return Ok(body),
            Err(failure) => failure,
        };
        if !failure.is_about_credentials() || !self.credentials.forget(&credentials).await {
            return Err(failure.explain(action, self.key_id.text(), &self.credentials.describe()));
        }
        let credentials = self.credentials.current().await?;
        self.call_with(action, body, &credentials).await?.map_err(|failure| {
            failure.explain(action, self.key_id.text(), &self.credentials.describe())
        })
    }

    async fn call_with(
        &self,
        action: KmsAction,
        body: &[u8],
        credentials: &AwsCredentials,
    ) -> Result<Result<Zeroizing<Vec<u8>>, KmsFailure>, UnlockError> {
        let signed = SignedRequest {
            method: "POST",
            headers: &[
                ("content-type", JSON.as_bytes()),
                ("host", self.endpoint.address.authority.as_bytes()),
                ("x-amz-target", action.target().as_bytes()),
            ],
            body,
            region: &self.region,
            service: "kms",
        };
        let signature = signed.sign(credentials, (self.clock)())?;
        let not_header =
            |_| UnlockError::Settings("the access key id of AWS is not valid".to_owned());
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static(JSON)),
            (TARGET, HeaderValue::from_static(action.target())),
            (DATE, signature.date.try_into().map_err(not_header)?),
            (AUTHORIZATION, signature.authorization.try_into().map_err(not_header)?),
        ];
        if let Some(token) = &credentials.session_token {
            headers.push((SECURITY_TOKEN, secret_header(token)?));
        }
        let request = SourceRequest {
            method: Method::POST,
            path: "/".to_owned(),
            headers,
            body: Zeroizing::new(body.to_vec()),
        };
        let response = send_request(&self.endpoint, &self.trust, request).await?;
        if response.status.is_success() {
            return Ok(Ok(response.body));
        }
        Ok(Err(KmsFailure::parse(response.status, &response.body)))
    }
}

impl UnlockSource for AwsKms {
    fn wrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        key: &'a Secret,
    ) -> UnlockFuture<'a, Vec<u8>> {
        let name = &self.endpoint.address.authority;
        Box::pin(with_deadline(self.deadline, name, self.encrypt(context, key)))
    }

    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret> {
        let name = &self.endpoint.address.authority;
        Box::pin(with_deadline(self.deadline, name, self.decrypt(context, wrapped)))
    }
}

impl fmt::Debug for AwsKms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsKms")
            .field("key_id", &self.key_id.text())
            .field("endpoint", &self.endpoint.address.authority)
            .finish_non_exhaustive()
    }
}

/// KMS authenticates these pairs, and writes them into its audit trail.
fn encryption_context<'a>(
    context: &'a UnlockContext,
    version: &'a str,
) -> BTreeMap<&'a str, &'a str> {
    BTreeMap::from([
        ("scrip-vault", context.vault.as_str()),
        ("scrip-method", context.method.as_str()),
        ("scrip-kind", context.kind),
        ("scrip-key-version", version),
    ])
}

fn parse_response<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, UnlockError> {
    serde_json::from_slice(body).map_err(|_| malformed())
}

fn malformed() -> UnlockError {
    UnlockError::Unavailable(
        "the answer is not one of AWS KMS: check that the endpoint is AWS KMS".to_owned(),
    )
}
