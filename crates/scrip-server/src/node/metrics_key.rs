//! The metrics key of the operator.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, bail};
use hyper::{HeaderMap, header::AUTHORIZATION};
use scrip_api::{problem::Problem, route::single_header};
use scrip_seal::Secret;

/// Minimum length of the key. Shorter keys can be guessed.
const KEY_BYTES_MIN: usize = 16;

/// The bearer token of requests for metrics.
#[derive(Debug)]
pub struct MetricsKey(Secret);

impl MetricsKey {
    /// Errors: the key is too short or cannot be sent in a header.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        if text.len() < KEY_BYTES_MIN || !text.bytes().all(|it| it.is_ascii_graphic()) {
            bail!("must have at least {KEY_BYTES_MIN} printable ASCII characters, without spaces");
        }
        Ok(Self(Secret::new(text.as_bytes().to_vec())))
    }

    /// Errors: the file cannot be read, is readable by other users, or contains no key.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let error_context = || format!("metrics.key_file: {}", path.display());
        let metadata = fs::metadata(path).with_context(error_context)?;
        if metadata.permissions().mode() & 0o077 != 0 {
            bail!("{}: is readable by other users; run: chmod 600", error_context());
        }
        let text = Secret::new(fs::read(path).with_context(error_context)?);
        Self::parse(str::from_utf8(text.expose()).unwrap_or_default()).with_context(error_context)
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let bearer = single_header(headers, AUTHORIZATION.as_str(), "Authorization")?;
        let bearer = bearer.and_then(|it| it.as_bytes().split_first_chunk::<7>());
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
        match bearer {
            Some((_, key)) if self.0.constant_time_eq(key) => Ok(()),
            Some(_) | None => Err(Problem::MissingMetricsKey),
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const KEY: &str = "a-key-of-the-operator";

    #[test]
    fn only_the_configured_bearer_key_is_accepted() {
        let key = MetricsKey::parse(&format!(" {KEY}\n")).unwrap();
        let check = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            key.check(&headers)
        };
        assert!(check(&["Bearer a-key-of-the-operator"]).is_ok());
        assert!(check(&["bearer a-key-of-the-operator"]).is_ok());
        let invalid_values = ["", "Bearer", "Bearer ", "Bearer a-key-of-the-operato", KEY];
        for values in invalid_values {
            assert!(matches!(check(&[values]), Err(Problem::MissingMetricsKey)), "{values}");
        }
        assert!(check(&["Bearer  a-key-of-the-operator"]).is_err());
        assert!(check(&["Basic a-key-of-the-operator"]).is_err());
        assert!(check(&[]).is_err());
        let repeated_header = ["Bearer a-key-of-the-operator", "Bearer a-key-of-the-operator"];
        assert!(matches!(check(&repeated_header), Err(Problem::BadHeader(_))));
    }

    #[test]
    fn short_or_unprintable_key_is_rejected() {
        for text in ["", "short", "fifteen-letters", "sixteen letters.", "sixteen-letters\u{e9}"] {
            assert!(MetricsKey::parse(text).is_err(), "{text}");
        }
    }
}
