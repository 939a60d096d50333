//! The metadata service of an instance, version 2: a session token first, then the credentials of
//! the role.

use std::borrow::Cow;

use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
};
use jiff::Timestamp;
use scrip_egress::configured::ServerResponse;
use scrip_seal::Secret;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{
    aws_kms::signature::AwsCredentials,
    http_client::{Endpoint, SourceRequest, TlsTrust, secret_header, send_request},
    source::UnlockError,
};

const TOKEN_LIFETIME: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const TOKEN_PATH: &str = "/latest/api/token";
const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";

#[derive(Debug)]
pub(super) struct InstanceMetadata {
    pub(super) endpoint: Endpoint,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RoleCredentials<'a> {
    access_key_id: String,
    #[serde(borrow)]
    secret_access_key: Cow<'a, str>,
    #[serde(borrow)]
    token: Cow<'a, str>,
    expiration: String,
}

impl InstanceMetadata {
    pub(super) async fn request(&self, trust: &TlsTrust) -> Result<AwsCredentials, UnlockError> {
        let lifetime = HeaderValue::from_static("60");
        let response = self.send(trust, Method::PUT, TOKEN_PATH, TOKEN_LIFETIME, lifetime).await?;
        let token = Secret::new(response.body.trim_ascii().to_vec());
        let token = secret_header(&token)?;

        let response = self.send(trust, Method::GET, ROLE_PATH, TOKEN, token.clone()).await?;
        let role = str::from_utf8(response.body.trim_ascii()).unwrap_or_default();
        let role = role.lines().next().unwrap_or_default();
        let is_role_name = |it: u8| it.is_ascii_alphanumeric() || b"+=,.@_-".contains(&it);
        if role.is_empty() || !role.bytes().all(is_role_name) {
            return Err(UnlockError::Settings(
                "the instance has no role: attach an IAM role that may use the key".to_owned(),
            ));
        }
        let path = format!("{ROLE_PATH}{role}");
        let response = self.send(trust, Method::GET, &path, TOKEN, token).await?;
        parse_credentials(&response.body)
    }

    async fn send(
        &self,
        trust: &TlsTrust,
        method: Method,
        path: &str,
        header_name: HeaderName,
        header_value: HeaderValue,
    ) -> Result<ServerResponse, UnlockError> {
        let request = SourceRequest {
            method,
            path: path.to_owned(),
            headers: vec![(header_name, header_value)],
            body: Zeroizing::default(),
        };
        let response = send_request(&self.endpoint, trust, request).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        let status = response.status.as_u16();
        Err(match status {
            404 if path == ROLE_PATH => UnlockError::Settings(
                "the instance has no role: attach an IAM role that may use the key".to_owned(),
            ),
            401 | 403 => UnlockError::Denied(format!(
                "the metadata service answered {status}: enable it for this instance, and set its \
                 hop limit to 2 if this is a container"
            )),
            _ => UnlockError::Unavailable(format!("the metadata service answered {status}")),
        })
    }
}

fn parse_credentials(body: &[u8]) -> Result<AwsCredentials, UnlockError> {
    let malformed =
        || UnlockError::Unavailable("the metadata service returned no credentials".to_owned());
    let parsed: RoleCredentials<'_> = serde_json::from_slice(body).map_err(|_| malformed())?;
    let expiration: Timestamp = parsed.expiration.parse().map_err(|_| malformed())?;
    let secret = |text: Cow<'_, str>| Secret::new(text.into_owned().into_bytes());
    Ok(AwsCredentials {
        access_key_id: parsed.access_key_id,
        secret_access_key: secret(parsed.secret_access_key),
        session_token: Some(secret(parsed.token)),
        expires_at: Some(expiration.as_second()),
    })
}
