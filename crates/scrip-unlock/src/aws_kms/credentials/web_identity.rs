//! Temporary credentials of AWS STS for a role, in exchange for a signed token in a file.

use std::path::PathBuf;

use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use jiff::Timestamp;
use scrip_egress::configured::ServerResponse;
use scrip_seal::Secret;
use zeroize::Zeroizing;

use crate::{
    aws_kms::signature::AwsCredentials,
    http_client::{Endpoint, SourceRequest, TlsTrust, send_request},
    secret_file::read_secret_file,
    source::UnlockError,
};

#[derive(Debug)]
pub(super) struct WebIdentity {
    pub(super) endpoint: Endpoint,
    pub(super) role_arn: String,
    pub(super) token_file: PathBuf,
    pub(super) session_name: String,
}

impl WebIdentity {
    /// The token file is read each time, because it is renewed.
    pub(super) async fn request(&self, trust: &TlsTrust) -> Result<AwsCredentials, UnlockError> {
        let token = read_secret_file(&self.token_file).await?;
        let mut body = Zeroizing::new(Vec::with_capacity(3 * token.expose().len() + 4096));
        body.extend_from_slice(b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
        for (name, value) in [
            ("RoleArn", self.role_arn.as_bytes()),
            ("RoleSessionName", self.session_name.as_bytes()),
            ("WebIdentityToken", token.expose()),
        ] {
            body.push(b'&');
            body.extend_from_slice(name.as_bytes());
            body.push(b'=');
            percent_encode(value, &mut body);
        }
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = SourceRequest {
            method: Method::POST,
            path: "/".to_owned(),
            headers: vec![(CONTENT_TYPE, form)],
            body,
        };
        let response = send_request(&self.endpoint, trust, request).await?;
        let text = str::from_utf8(&response.body).unwrap_or_default();
        if !response.status.is_success() {
            return Err(self.explain(&response, text));
        }
        parse_credentials(text)
            .ok_or_else(|| UnlockError::Unavailable("AWS STS returned no credentials".to_owned()))
    }

    fn explain(&self, response: &ServerResponse, text: &str) -> UnlockError {
        let mut name = find_element(text, "Code").unwrap_or_default().to_owned();
        name.retain(|it| it.is_ascii_alphanumeric());
        name.truncate(64);
        let (status, role) = (response.status.as_u16(), &self.role_arn);
        let is_temporary = response.status.is_server_error() || status == 429;
        if is_temporary || name == "IDPCommunicationError" || name.starts_with("Throttling") {
            return UnlockError::Unavailable(format!("AWS STS answered {status} {name}"));
        }
        let file = self.token_file.display();
        UnlockError::Denied(format!(
            "AWS STS answered {status} {name}: let the trust policy of {role} accept the token in \
             {file}, and check that the token has not expired"
        ))
    }
}

fn parse_credentials(text: &str) -> Option<AwsCredentials> {
    let element = find_element(text, "Credentials")?;
    let find_secret = |name| Some(Secret::new(find_element(element, name)?.as_bytes().to_vec()));
    let expiration: Timestamp = find_element(element, "Expiration")?.parse().ok()?;
    Some(AwsCredentials {
        access_key_id: find_element(element, "AccessKeyId")?.to_owned(),
        secret_access_key: find_secret("SecretAccessKey")?,
        session_token: Some(find_secret("SessionToken")?),
        expires_at: Some(expiration.as_second()),
    })
}

/// The text of the first XML element with this name. The values that STS returns contain no
/// characters that XML escapes.
fn find_element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (content, _) = rest.split_once(&format!("</{name}>"))?;
    Some(content.trim())
}

fn percent_encode(value: &[u8], output: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
            output.push(*byte);
        } else {
            let digit = |it: u8| DIGITS.get(usize::from(it)).copied().unwrap_or_default();
            output.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_the_answer_of_sts() {
        let text = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">
          <AssumeRoleWithWebIdentityResult>
            <Audience>sts.amazonaws.com</Audience>
            <Credentials>
              <SessionToken>to/ken+1==</SessionToken>
              <SecretAccessKey>sec/ret+1</SecretAccessKey>
              <Expiration>2026-11-17T15:00:00Z</Expiration>
              <AccessKeyId>ASIA1</AccessKeyId>
            </Credentials>
          </AssumeRoleWithWebIdentityResult>
        </AssumeRoleWithWebIdentityResponse>";
        let credentials = parse_credentials(text).unwrap();
        assert_eq!(credentials.access_key_id, "ASIA1");
        assert_eq!(credentials.secret_access_key.expose(), b"sec/ret+1");
        assert_eq!(credentials.session_token.unwrap().expose(), b"to/ken+1==");
        assert_eq!(credentials.expires_at, Some(1_794_927_600));
        for cut in ["AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration", "Credentials"] {
            assert!(parse_credentials(&text.replace(cut, "Other")).is_none(), "{cut}");
        }
    }

    #[test]
    fn form_values_are_percent_encoded() {
        let mut output = Vec::new();
        percent_encode("arn:aws:iam::1:role/a b=~ü".as_bytes(), &mut output);
        assert_eq!(output, b"arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b%3D~%C3%BC");
    }
}
