//! A fake of the server: its paths, headers, checks, answers and errors are those of the
//! documentation of OpenBao. A ciphertext is the number of an entry in a table instead of bytes of a
//! cipher.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::process::unlock_sources::fake_peer::{FakePeer, PeerRequest, Reply};

pub const ROOT_TOKEN: &str = "hvs.root-token";
pub const SECRET_ID: &str = "84896a0c-1347-aa90-a4f6-aca8b7558780";
pub const ROLE_ID: &str = "59d6d1ca-47bb-4e7e-a40b-8be3bc5a0ba8";
pub const JWT: &str = "header.payload.signature";

/// What a test can change.
#[derive(Debug)]
pub struct TransitState {
    pub namespace: String,
    pub mount: String,
    /// Tokens with a policy for the keys.
    pub tokens: Vec<String>,
    pub keys: Vec<&'static str>,
    pub key_type: &'static str,
    pub latest_version: u32,
    pub min_decryption_version: u32,
    /// As servers before Vault 1.9.
    pub ignores_associated_data: bool,
    /// How long every answer takes.
    pub delay: Duration,
    /// Plaintext in place of the one that was encrypted.
    pub other_plaintext: Option<Vec<u8>>,
    /// The answer to every request.
    pub fixed_reply: Option<Reply>,
    pub login_count: usize,
    pub lease_duration: u64,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    plaintext: String,
    associated_data: Vec<u8>,
}

/// A Transit server on this machine.
#[derive(Debug)]
pub struct FakeServer {
    peer: FakePeer,
    state: Arc<Mutex<TransitState>>,
}

impl FakeServer {
    /// Needs a runtime, which serves until it ends.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(TransitState {
            namespace: String::new(),
            mount: "transit".to_owned(),
            tokens: vec![ROOT_TOKEN.to_owned()],
            keys: vec!["vault-key", "other-key"],
            key_type: "aes256-gcm96",
            latest_version: 1,
            min_decryption_version: 1,
            ignores_associated_data: false,
            delay: Duration::ZERO,
            other_plaintext: None,
            fixed_reply: None,
            login_count: 0,
            lease_duration: 1200,
            entries: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        let peer = FakePeer::start_delayed(move |request| {
            let mut state = shared.lock().unwrap();
            (state.delay, state.answer(request))
        });
        let peer = peer.await;
        Self { peer, state }
    }

    pub fn url(&self) -> String {
        self.peer.url()
    }

    /// The number of requests.
    pub fn request_count(&self) -> usize {
        self.peer.requests().len()
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut TransitState) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }
}

fn error(status: u16, text: &str) -> Reply {
    (status, json!({"errors": [text]}).to_string())
}

fn data(data: Value) -> Reply {
    let body = json!({
        "request_id": "10a9e1b5-2a2c-6d1c-3a4f-6f0d1e2c3b4a", "lease_id": "", "renewable": false,
        "lease_duration": 0, "data": data, "wrap_info": null, "warnings": null, "auth": null,
    });
    (200, body.to_string())
}

impl TransitState {
    fn answer(&mut self, request: &PeerRequest) -> Reply {
        if let Some(reply) = &self.fixed_reply {
            return reply.clone();
        }
        let Some(path) = request.path.strip_prefix("/v1/") else {
            return (404, "404 page not found".to_owned());
        };
        if request.method != "POST" && request.method != "PUT" {
            return error(405, "1 error occurred:\n\t* unsupported operation\n\n");
        }
        if request.header("x-vault-namespace") != self.namespace {
            return error(404, "no handler for route");
        }
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return error(400, "error parsing JSON");
        };
        let field =
            |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        match path {
            "auth/approle/login" => {
                if field("role_id") != ROLE_ID {
                    return error(400, "invalid role or secret ID");
                }
                if field("secret_id") != SECRET_ID {
                    return error(400, &format!("invalid secret_id {:?}", field("secret_id")));
                }
                self.log_in()
            }
            "auth/kubernetes/login" => {
                if field("role") != "vault-role" || field("jwt") != JWT {
                    return error(403, "permission denied");
                }
                self.log_in()
            }
            _ => self.answer_engine(path, request, &field),
        }
    }

    fn log_in(&mut self) -> Reply {
        self.login_count += 1;
        let token = format!("hvs.login-token-{}", self.login_count);
        self.tokens.push(token.clone());
        let body = json!({
            "auth": {
                "renewable": true, "lease_duration": self.lease_duration, "metadata": null,
                "token_policies": ["default"], "accessor": "fd6c9a00-d2dc-3b11-0be5-af7ae0e1d374",
                "client_token": token,
            },
            "warnings": null, "wrap_info": null, "data": null, "lease_duration": 0,
            "renewable": false, "lease_id": "",
        });
        (200, body.to_string())
    }

    fn answer_engine(
        &mut self,
        path: &str,
        request: &PeerRequest,
        field: &dyn Fn(&str) -> String,
    ) -> Reply {
        if !self.tokens.iter().any(|it| it == request.header("x-vault-token")) {
            return error(403, "permission denied");
        }
        let Some((action, key)) =
            path.strip_prefix(&format!("{}/", self.mount)).and_then(|it| it.split_once('/'))
        else {
            return error(404, "no handler for route");
        };
        if !self.keys.contains(&key) {
            return error(400, "encryption key not found");
        }
        let Ok(associated_data) = STANDARD.decode(field("associated_data")) else {
            return error(400, "illegal base64 data at input byte 0");
        };
        if self.key_type.starts_with("rsa") && !associated_data.is_empty() {
            let text = "'[0].associated_data' provided for non-AEAD cipher suite";
            return error(400, &format!("{text} {}", self.key_type));
        }
        let associated_data =
            if self.ignores_associated_data { Vec::new() } else { associated_data };
        match action {
            "encrypt" => self.encrypt(key, field("plaintext"), associated_data),
            "decrypt" => self.decrypt(key, &field("ciphertext"), &associated_data),
            _ => error(404, "unsupported path"),
        }
    }

    fn encrypt(&mut self, key: &str, plaintext: String, associated_data: Vec<u8>) -> Reply {
        if STANDARD.decode(&plaintext).is_err() {
            return error(400, "illegal base64 data at input byte 0");
        }
        let number = self.entries.len().to_string();
        let version = self.latest_version;
        let ciphertext = format!("vault:v{version}:{}", STANDARD.encode(format!("#{number:0>8}")));
        self.entries.push(Entry { key: key.to_owned(), plaintext, associated_data });
        data(json!({"ciphertext": ciphertext, "key_version": version}))
    }

    fn decrypt(&self, key: &str, ciphertext: &str, associated_data: &[u8]) -> Reply {
        let Some(rest) = ciphertext.strip_prefix("vault:v") else {
            return error(400, "invalid ciphertext: no prefix");
        };
        let Some((version, base64)) = rest.split_once(':') else {
            return error(400, "invalid ciphertext: wrong number of fields");
        };
        let Ok(version) = version.parse::<u32>() else {
            return error(400, "invalid ciphertext: version number could not be decoded");
        };
        if version > self.latest_version {
            return error(400, "invalid ciphertext: version is too new");
        }
        if version < self.min_decryption_version {
            let text = "ciphertext or signature version is disallowed by policy (too old)";
            return error(400, text);
        }
        let Ok(bytes) = STANDARD.decode(base64) else {
            return error(400, "invalid ciphertext: could not decode base64");
        };
        let number = str::from_utf8(&bytes).ok().and_then(|it| it.strip_prefix('#')?.parse().ok());
        let entry = number.and_then(|it: usize| self.entries.get(it));
        match entry.filter(|it| it.key == key && it.associated_data == associated_data) {
            Some(entry) => {
                let other = self.other_plaintext.as_ref().map(|it| STANDARD.encode(it));
                data(json!({"plaintext": other.unwrap_or_else(|| entry.plaintext.clone())}))
            }
            None => error(400, "cipher: message authentication failed"),
        }
    }
}
