//! The Transit engine of Vault and OpenBao: a named key of the server encrypts the vault key.

mod failure;
mod login;
mod server;
mod settings;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::header::HeaderValue;
use scrip_seal::Secret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use self::settings::{TransitAuth, TransitSettings};
use self::{failure::TransitAction, login::TokenProvider, server::Server};
use crate::{
    http_client::{Endpoint, TlsTrust, secret_json},
    source::{UnlockContext, UnlockError, UnlockFuture, UnlockSource, with_deadline},
    wrapped_key::WrappedKey,
};

/// A key of the Transit engine.
pub struct Transit {
    server: Arc<Server>,
    mount: String,
    key: String,
    tokens: TokenProvider,
    deadline: Duration,
}

#[derive(Serialize)]
struct EncryptData<'a> {
    plaintext: &'a str,
    associated_data: &'a str,
}

#[derive(Serialize)]
struct DecryptData<'a> {
    ciphertext: &'a str,
    associated_data: &'a str,
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Ciphertext {
    ciphertext: String,
}

#[derive(Deserialize)]
struct Plaintext<'a> {
    #[serde(borrow)]
    plaintext: Cow<'a, str>,
}

impl Transit {
    /// The kind of the source in an [`UnlockContext`].
    pub const KIND: &'static str = "transit";

    /// Errors: a setting is not valid.
    pub fn new(settings: TransitSettings) -> Result<Self, UnlockError> {
        let TransitSettings { address, mount, key, namespace, auth, ca_file, deadline } = settings;
        settings::check_path("the mount of Transit", &mount)?;
        settings::check_path("the name of the key", &key)?;
        let namespace = namespace.map(HeaderValue::try_from).transpose();
        let server = Arc::new(Server {
            endpoint: Endpoint::parse("the address of Vault or OpenBao", &address)?,
            trust: TlsTrust::from_ca_file(ca_file.as_deref())?,
            namespace: namespace
                .map_err(|_| UnlockError::Settings("the namespace is not valid".to_owned()))?,
        });
        let tokens = TokenProvider::new(auth, Arc::clone(&server))?;
        Ok(Self { server, mount, key, tokens, deadline })
    }

    async fn encrypt(&self, context: &UnlockContext, key: &Secret) -> Result<Vec<u8>, UnlockError> {
        let associated_data = STANDARD.encode(context.associated_data());
        let plaintext = Zeroizing::new(STANDARD.encode(key.expose()));
        let data =
            secret_json(&EncryptData { plaintext: &plaintext, associated_data: &associated_data })?;
        let body = self.call(TransitAction::Encrypt, &data).await?;
        let answer: Answer<Ciphertext> = serde_json::from_slice(&body).map_err(|_| malformed())?;
        let ciphertext = answer.data.ciphertext;
        if !is_ciphertext(&ciphertext) {
            return Err(malformed());
        }
        self.check_associated_data(&ciphertext).await?;
        Ok(WrappedKey::encode(key, ciphertext.as_bytes()))
    }

    /// Servers before Vault 1.9 ignore the associated data. They would accept the wrapped key of
    /// another vault, so such a server is not used.
    async fn check_associated_data(&self, ciphertext: &str) -> Result<(), UnlockError> {
        let associated_data = STANDARD.encode("another context");
        let data = DecryptData { ciphertext, associated_data: &associated_data };
        match self.call(TransitAction::Decrypt, &secret_json(&data)?).await {
            Err(UnlockError::Rejected(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(UnlockError::Settings(
                "the server does not authenticate associated data: use OpenBao, or Vault 1.9 or \
                 later, with a key of the type aes256-gcm96"
                    .to_owned(),
            )),
        }
    }

    async fn decrypt(&self, context: &UnlockContext, bytes: &[u8]) -> Result<Secret, UnlockError> {
        let wrapped = WrappedKey::parse(bytes)?;
        let ciphertext = str::from_utf8(wrapped.source_bytes).ok().filter(|it| is_ciphertext(it));
        let ciphertext = ciphertext.ok_or_else(|| {
            UnlockError::Rejected("it is not a ciphertext of the Transit engine".to_owned())
        })?;
        let associated_data = STANDARD.encode(context.associated_data());
        let data = secret_json(&DecryptData { ciphertext, associated_data: &associated_data })?;
        let body = self.call(TransitAction::Decrypt, &data).await?;
        let answer: Answer<Plaintext<'_>> =
            serde_json::from_slice(&body).map_err(|_| malformed())?;
        let key = STANDARD.decode(answer.data.plaintext.as_bytes()).map(Secret::new);
        if let Cow::Owned(text) = answer.data.plaintext {
            drop(Zeroizing::new(text));
        }
        wrapped.verify(key.map_err(|_| malformed())?)
    }

    /// A token that the server rejects may have been revoked, so a new login is tried once.
    async fn call(
        &self,
        action: TransitAction,
        data: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, UnlockError> {
        let path = format!("{}/{}/{}", self.mount, action.path(), self.key);
        let token = self.tokens.current().await?;
        let body = Zeroizing::new(data.to_vec());
        let failure = match self.server.post(&path, Some(&token), body).await? {
            Ok(body) => return Ok(body),
            Err(failure) => failure,
        };
        if !failure.is_forbidden() || !self.tokens.forget(&token).await {
            return Err(failure.explain(action, &path));
        }
        let token = self.tokens.current().await?;
        let body = Zeroizing::new(data.to_vec());
        let result = self.server.post(&path, Some(&token), body).await?;
        result.map_err(|failure| failure.explain(action, &path))
    }
}

impl UnlockSource for Transit {
    fn wrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        key: &'a Secret,
    ) -> UnlockFuture<'a, Vec<u8>> {
        let name = &self.server.endpoint.address.authority;
        Box::pin(with_deadline(self.deadline, name, self.encrypt(context, key)))
    }

    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret> {
        let name = &self.server.endpoint.address.authority;
        Box::pin(with_deadline(self.deadline, name, self.decrypt(context, wrapped)))
    }
}

impl fmt::Debug for Transit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transit")
            .field("address", &self.server.endpoint.address.authority)
            .field("mount", &self.mount)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The form of every ciphertext: `vault:v1:` and base64.
fn is_ciphertext(text: &str) -> bool {
    let parts = text.strip_prefix("vault:v").and_then(|it| it.split_once(':'));
    parts.is_some_and(|(version, base64)| {
        let is_version = !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit());
        is_version && !base64.is_empty() && STANDARD.decode(base64).is_ok()
    })
}

fn malformed() -> UnlockError {
    UnlockError::Unavailable(
        "the answer is not one of the Transit engine: check the address and the mount".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphertext_has_prefix_version_and_base64() {
        assert!(is_ciphertext("vault:v1:AAAA"));
        assert!(is_ciphertext("vault:v12:AAA="));
        for text in ["", "vault:v1:", "vault:v:AAAA", "vault:1:AAAA", "vault:v1:A", "bao:v1:AAAA"] {
            assert!(!is_ciphertext(text), "{text}");
        }
    }
}
