//! Tokens of Vault and OpenBao: given, read from a file, or obtained by a login.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use scrip_seal::Secret;
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex, time::Instant};
use zeroize::Zeroizing;

use super::{
    server::Server,
    settings::{TransitAuth, check_path},
};
use crate::{http_client::secret_json, secret_file::read_secret_file, source::UnlockError};

/// A token is not used in the last part of its lifetime.
const RENEW_BEFORE: Duration = Duration::from_secs(30);

/// Provides a current token.
pub(super) struct TokenProvider {
    auth: Auth,
    server: Arc<Server>,
    /// The token of the last login.
    cache: Mutex<Option<LoginToken>>,
}

enum Auth {
    Token(Arc<Secret>),
    TokenFile(PathBuf),
    Login(LoginMethod),
}

/// A login with a secret in a file.
struct LoginMethod {
    mount: String,
    identity: String,
    secret_file: PathBuf,
    kind: LoginKind,
}

#[derive(Clone, Copy)]
enum LoginKind {
    AppRole,
    Kubernetes,
}

struct LoginToken {
    token: Arc<Secret>,
    /// None if the token does not expire.
    usable_until: Option<Instant>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum LoginData<'a> {
    AppRole { role_id: &'a str, secret_id: &'a str },
    Kubernetes { role: &'a str, jwt: &'a str },
}

#[derive(Deserialize)]
struct LoginAnswer {
    auth: LoginAuth,
}

#[derive(Deserialize)]
struct LoginAuth {
    client_token: String,
    #[serde(default)]
    lease_duration: u64,
}

impl TokenProvider {
    pub(super) fn new(auth: TransitAuth, server: Arc<Server>) -> Result<Self, UnlockError> {
        let auth = match auth {
            TransitAuth::Token(token) => Auth::Token(Arc::new(token)),
            TransitAuth::TokenFile(path) => Auth::TokenFile(path),
            TransitAuth::AppRole { mount, role_id, secret_id_file } => Auth::Login(LoginMethod {
                mount,
                identity: role_id,
                secret_file: secret_id_file,
                kind: LoginKind::AppRole,
            }),
            TransitAuth::Kubernetes { mount, role, jwt_file } => Auth::Login(LoginMethod {
                mount,
                identity: role,
                secret_file: jwt_file,
                kind: LoginKind::Kubernetes,
            }),
        };
        if let Auth::Login(method) = &auth {
            check_path("the mount of the login", &method.mount)?;
        }
        Ok(Self { auth, server, cache: Mutex::new(None) })
    }

    pub(super) async fn current(&self) -> Result<Arc<Secret>, UnlockError> {
        let method = match &self.auth {
            Auth::Token(token) => return Ok(Arc::clone(token)),
            Auth::TokenFile(path) => return read_secret_file(path).await.map(Arc::new),
            Auth::Login(method) => method,
        };
        let mut cache = self.cache.lock().await;
        let is_usable = |it: &&LoginToken| it.usable_until.is_none_or(|it| Instant::now() < it);
        if let Some(cached) = cache.as_ref().filter(is_usable) {
            return Ok(Arc::clone(&cached.token));
        }
        let login = method.login(&self.server).await?;
        Ok(Arc::clone(&cache.insert(login).token))
    }

    /// Removes a token from the cache that the server rejected. Returns whether a login can provide
    /// a new one.
    pub(super) async fn forget(&self, rejected: &Arc<Secret>) -> bool {
        match &self.auth {
            Auth::Token(_) | Auth::TokenFile(_) => false,
            Auth::Login(_) => {
                let mut cache = self.cache.lock().await;
                if cache.as_ref().is_some_and(|it| Arc::ptr_eq(&it.token, rejected)) {
                    *cache = None;
                }
                true
            }
        }
    }
}

impl LoginMethod {
    async fn login(&self, server: &Server) -> Result<LoginToken, UnlockError> {
        let secret = read_secret_file(&self.secret_file).await?;
        let text = str::from_utf8(secret.expose()).map_err(|_| {
            UnlockError::Settings(format!("{} is not UTF-8", self.secret_file.display()))
        })?;
        let data = match self.kind {
            LoginKind::AppRole => LoginData::AppRole { role_id: &self.identity, secret_id: text },
            LoginKind::Kubernetes => LoginData::Kubernetes { role: &self.identity, jwt: text },
        };
        let path = format!("auth/{}/login", self.mount);
        let asked_at = Instant::now();
        let body = server.post(&path, None, secret_json(&data)?).await?;
        let body = body.map_err(|failure| failure.explain_login(&path, &self.secret_file))?;
        let answer: LoginAnswer = serde_json::from_slice(&body).map_err(|_| {
            UnlockError::Unavailable(format!("the answer to the login at {path} has no token"))
        })?;
        let LoginAuth { client_token, lease_duration } = answer.auth;
        let lifetime = Duration::from_secs(lease_duration).saturating_sub(RENEW_BEFORE);
        Ok(LoginToken {
            token: Arc::new(Secret::new(Zeroizing::new(client_token).as_bytes().to_vec())),
            usable_until: (lease_duration > 0).then(|| asked_at.checked_add(lifetime)).flatten(),
        })
    }
}

impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenProvider")
    }
}
