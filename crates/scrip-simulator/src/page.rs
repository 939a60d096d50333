//! Pages that browsers are shown. Whatever came from outside is escaped, and a page may run nothing
//! and send nothing anywhere but what it was made for.

mod purchase;
mod write;

pub(crate) use purchase::Purchase;
pub(crate) use write::{Complaint, Prompt, challenge, error, go_back, method};

use std::fmt::Write as _;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

const STYLE: &str = include_str!("page/style.css");
/// Sends the one form there is.
const SUBMIT: &str = "document.forms[0].submit()";

/// What a page does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acting {
    Waits,
    SubmitsItself,
}

struct Page<'a> {
    status: StatusCode,
    title: &'a str,
    body: String,
    acting: Acting,
    /// Where its form may go, besides here.
    origin: Option<String>,
}

impl Page<'_> {
    fn render(self) -> Response {
        // Random, and new for each page: nobody can have written it into a value beforehand.
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let origin = self.origin.unwrap_or_default();
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; \
             form-action 'self' {origin}; base-uri 'none'"
        );
        let script = match self.acting {
            Acting::Waits => String::new(),
            Acting::SubmitsItself => format!("<script nonce=\"{nonce}\">{SUBMIT}</script>"),
        };
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{}</title><style nonce=\"{nonce}\">{STYLE}</style></head>\
             <body><main>{}</main>{script}</body></html>",
            escape(self.title),
            self.body,
        );
        let Ok(policy) = HeaderValue::try_from(policy) else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let fixed = HeaderValue::from_static;
        let headers = [
            (header::CONTENT_TYPE, fixed("text/html; charset=utf-8")),
            (header::CACHE_CONTROL, fixed("no-store")),
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::REFERRER_POLICY, fixed("no-referrer")),
            (header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff")),
        ];
        (self.status, headers, html).into_response()
    }
}

/// For text and for values in double quotes.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Would turn the text around it the other way.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            _ => safe.push(it),
        }
    }
    safe
}

fn hidden(fields: &[(&str, &str)]) -> String {
    let mut html = String::new();
    for (name, value) in fields {
        let written = write!(
            html,
            "<input type=\"hidden\" name=\"{}\" value=\"{}\">",
            escape(name),
            escape(value)
        );
        debug_assert!(written.is_ok(), "memory can be written to");
    }
    html
}

/// What a page's policy calls the place of an address. None if its host has signs that would mean
/// something else in a policy.
pub(crate) fn origin(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let host = rest.split(['/', '?', '#']).next().filter(|it| !it.is_empty())?;
    if scheme != "http" && scheme != "https" {
        return None;
    }
    if host.starts_with('[') {
        // Policies have no word for such a host: the scheme has to do.
        let known = |it: u8| it.is_ascii_hexdigit() || matches!(it, b'[' | b']' | b':' | b'.');
        return host.bytes().all(known).then(|| format!("{scheme}:"));
    }
    let known = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b':' | b'_');
    host.bytes().all(known).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_means_something() {
        assert_eq!(escape("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
        assert_eq!(escape("x\u{202e}y"), "x\u{fffd}y");
    }

    #[test]
    fn places_of_addresses() {
        for (address, expected) in [
            ("https://shop.example/a?b", Some("https://shop.example")),
            ("HTTP://127.0.0.1:4001", Some("http://127.0.0.1:4001")),
            ("http://[::1]:4001/x", Some("http:")),
            ("https://a;script-src/x", None),
            ("https://a,b/x", None),
            ("https://*/x", None),
            ("https://'self'/x", None),
            ("https://", None),
            ("ftp://a.example", None),
            ("a.example", None),
        ] {
            assert_eq!(origin(address).as_deref(), expected, "{address}");
        }
    }
}
