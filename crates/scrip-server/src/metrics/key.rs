//! The key of the operator, which opens the page of metrics.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Context, bail};
use hyper::{HeaderMap, header::AUTHORIZATION};
use scrip_api::{middleware::authenticate::single_header, problem::Problem};
use scrip_seal::Secret;

/// A key that is shorter can be guessed.
const KEY_BYTES_MIN: usize = 16;

/// What stands behind `Bearer` in a request for metrics.
#[derive(Debug)]
pub struct MetricsKey(Secret);

impl MetricsKey {
    /// # Errors
    /// It is too short, or cannot be sent in a header.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        if text.len() < KEY_BYTES_MIN || !text.bytes().all(|it| it.is_ascii_graphic()) {
            bail!("must have at least {KEY_BYTES_MIN} characters, plain and without spaces");
        }
        Ok(Self(Secret::new(text.as_bytes().to_vec())))
    }

    /// # Errors
    /// The file cannot be read, can be read by others, or has no key in it.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let name = || format!("metrics.key_file: {}", path.display());
        let found = fs::metadata(path).with_context(name)?;
        if found.permissions().mode() & 0o077 != 0 {
            bail!("{}: can be read by others; run: chmod 600", name());
        }
        let text = Secret::new(fs::read(path).with_context(name)?);
        Self::parse(str::from_utf8(text.expose()).unwrap_or_default()).with_context(name)
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let given = single_header(headers, AUTHORIZATION.as_str(), "Authorization")?;
        let given = given.and_then(|it| it.as_bytes().split_first_chunk::<7>());
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
        match given {
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
        let ask = |sent: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            key.check(&headers)
        };
        assert!(ask(&["Bearer a-key-of-the-operator"]).is_ok());
        assert!(ask(&["bearer a-key-of-the-operator"]).is_ok());
        let rejected = ["", "Bearer", "Bearer ", "Bearer a-key-of-the-operato", KEY];
        for sent in rejected {
            assert!(matches!(ask(&[sent]), Err(Problem::MissingMetricsKey)), "{sent}");
        }
        assert!(ask(&["Bearer  a-key-of-the-operator"]).is_err());
        assert!(ask(&["Basic a-key-of-the-operator"]).is_err());
        assert!(ask(&[]).is_err());
        let twice = ["Bearer a-key-of-the-operator", "Bearer a-key-of-the-operator"];
        assert!(matches!(ask(&twice), Err(Problem::BadHeader(_))));
    }

    #[test]
    fn short_or_unprintable_key_is_rejected() {
        for text in ["", "short", "fifteen-letters", "sixteen letters.", "sixteen-letters\u{e9}"] {
            assert!(MetricsKey::parse(text).is_err(), "{text}");
        }
    }
}
