//! Signature version 4 of AWS, for requests with the path `/` and without a query string.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use scrip_seal::{RequestSigningKey, Secret, sha256_hex};
use zeroize::Zeroizing;

use crate::source::UnlockError;

/// The current time in seconds since 1970. Signatures and credentials depend on it.
pub type WallClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// An access key, permanent or temporary.
pub(crate) struct AwsCredentials {
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: Secret,
    pub(crate) session_token: Option<Secret>,
    /// In seconds since 1970.
    pub(crate) expires_at: Option<i64>,
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsCredentials")
    }
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What the signature covers.
#[derive(Debug)]
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    /// Names in lower case, values without white space around them. The date and the session token
    /// are added.
    pub(super) headers: &'a [(&'a str, &'a [u8])],
    pub(super) body: &'a [u8],
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The values of two headers.
#[derive(Debug)]
pub(super) struct RequestSignature {
    pub(super) date: String,
    pub(super) authorization: String,
}

impl SignedRequest<'_> {
    pub(super) fn sign(
        &self,
        credentials: &AwsCredentials,
        unix_seconds: i64,
    ) -> Result<RequestSignature, UnlockError> {
        let date = format_date(unix_seconds)?;
        let (day, _) = date.split_once('T').unwrap_or_default();
        let Self { region, service, .. } = self;
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let (canonical_request, signed_headers) = self.canonical_request(credentials, &date);
        let request_digest = sha256_hex(&canonical_request);
        let text = format!("{ALGORITHM}\n{date}\n{scope}\n{request_digest}");
        let mut secret = Zeroizing::new(Vec::with_capacity(128));
        secret.extend_from_slice(b"AWS4");
        secret.extend_from_slice(credentials.secret_access_key.expose());
        let key = RequestSigningKey::derive(&secret, &[day, region, service, "aws4_request"]);
        let (id, signature) = (&credentials.access_key_id, key.sign(&text));
        let authorization = format!(
            "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed_headers}, \
             Signature={signature}"
        );
        Ok(RequestSignature { date, authorization })
    }

    /// The text that is digested and signed, and the names of its headers. It contains the session
    /// token.
    fn canonical_request(
        &self,
        credentials: &AwsCredentials,
        date: &str,
    ) -> (Zeroizing<Vec<u8>>, String) {
        let mut headers = self.headers.to_vec();
        headers.push(("x-amz-date", date.as_bytes()));
        if let Some(token) = &credentials.session_token {
            headers.push(("x-amz-security-token", token.expose()));
        }
        headers.sort_unstable();
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let header_bytes: usize =
            headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let mut text = Zeroizing::new(Vec::with_capacity(2 * header_bytes + 1024));
        text.extend_from_slice(self.method.as_bytes());
        text.extend_from_slice(b"\n/\n\n");
        for (name, value) in headers {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        text.push(b'\n');
        text.extend_from_slice(names.as_bytes());
        text.push(b'\n');
        text.extend_from_slice(sha256_hex(self.body).as_bytes());
        (text, names)
    }
}

/// Such as `20150830T123600Z`.
fn format_date(unix_seconds: i64) -> Result<String, UnlockError> {
    let time = Timestamp::from_second(unix_seconds).map_err(|_| {
        UnlockError::Settings("the clock of this machine is wrong: correct it".to_owned())
    })?;
    Ok(time.strftime("%Y%m%dT%H%M%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-08-30T12:36:00Z.
    const TIME: i64 = 1_440_938_160;
    const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWH\
        GBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZ\
        ampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0i\
        PPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

    fn credentials(session_token: Option<&str>) -> AwsCredentials {
        AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new(b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec()),
            session_token: session_token.map(|it| Secret::new(it.as_bytes().to_vec())),
            expires_at: None,
        }
    }

    fn sign(
        method: &str,
        headers: &[(&str, &[u8])],
        body: &[u8],
        session_token: Option<&str>,
    ) -> String {
        let request =
            SignedRequest { method, headers, body, region: "us-east-1", service: "service" };
        request.sign(&credentials(session_token), TIME).unwrap().authorization
    }

    /// Requests and signatures of the test suite that AWS publishes, by the name of the test.
    #[test]
    fn signatures_match_the_published_test_suite() {
        let host: (&str, &[u8]) = ("host", b"example.amazonaws.com");
        let form: (&str, &[u8]) = ("content-type", b"application/x-www-form-urlencoded");
        let digest: (&str, &[u8]) = (
            "x-amz-content-sha256",
            b"9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
        );
        let form_headers = [form, ("content-length", b"13"), digest, host];
        let form_body = b"Param1=value1";
        for (name, authorization, signed_headers, signature) in [
            (
                "get-vanilla",
                sign("GET", &[host], b"", None),
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                sign("POST", &[host], b"", None),
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-sts-header-before",
                sign("POST", &[host], b"", Some(TOKEN)),
                "host;x-amz-date;x-amz-security-token",
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
            (
                "post-x-www-form-urlencoded",
                sign("POST", &form_headers, form_body, None),
                "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
                "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
            ),
            (
                "post-x-www-form-urlencoded of the first edition",
                sign("POST", &[form, host], form_body, None),
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={signed_headers}, Signature={signature}"
            );
            assert_eq!(authorization, expected, "{name}");
        }
    }

    #[test]
    fn time_outside_of_the_calendar_is_an_error() {
        assert_eq!(format_date(TIME).unwrap(), "20150830T123600Z");
        assert!(format_date(i64::MAX).is_err());
    }
}
