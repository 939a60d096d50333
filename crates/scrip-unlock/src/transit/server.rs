//! The server of a Transit engine, and the requests to it.

use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use scrip_seal::Secret;
use zeroize::Zeroizing;

use super::failure::TransitFailure;
use crate::{
    http_client::{Endpoint, SourceRequest, TlsTrust, secret_header, send_request},
    source::UnlockError,
};

const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");
const NAMESPACE: HeaderName = HeaderName::from_static("x-vault-namespace");
const REQUEST: HeaderName = HeaderName::from_static("x-vault-request");

/// How the server is reached, for keys and for logins.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    pub(super) trust: TlsTrust,
    pub(super) namespace: Option<HeaderValue>,
}

impl Server {
    pub(super) async fn post(
        &self,
        path: &str,
        token: Option<&Secret>,
        body: Zeroizing<Vec<u8>>,
    ) -> Result<Result<Zeroizing<Vec<u8>>, TransitFailure>, UnlockError> {
        let mut headers = vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            // Agents and proxies require this header, against requests that a browser can send.
            (REQUEST, HeaderValue::from_static("true")),
        ];
        if let Some(token) = token {
            headers.push((TOKEN, secret_header(token)?));
        }
        if let Some(namespace) = &self.namespace {
            headers.push((NAMESPACE, namespace.clone()));
        }
        let path = format!("/v1/{path}");
        let request = SourceRequest { method: Method::POST, path, headers, body };
        let response = send_request(&self.endpoint, &self.trust, request).await?;
        if response.status.is_success() {
            return Ok(Ok(response.body));
        }
        Ok(Err(TransitFailure::parse(response.status, &response.body)))
    }
}
