//! HTML pages for browsers. All external values are escaped. The policy of a page allows no script
//! and no form target except its own.

mod purchase;
mod templates;

pub(crate) use purchase::Purchase;
pub(crate) use templates::{
    ChallengePrompt, PromptNotice, challenge_page, error_page, method_page, return_page,
};

use std::fmt::Write as _;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

const STYLE: &str = include_str!("page/style.css");
/// Submits the only form of the page.
const SUBMIT_SCRIPT: &str = "document.forms[0].submit()";

/// The action of a page without user input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageAction {
    None,
    SubmitForm,
}

struct Page<'a> {
    status: StatusCode,
    title: &'a str,
    body: String,
    action: PageAction,
    /// The origin, other than the simulator, to which the form may be posted.
    form_origin: Option<String>,
}

impl Page<'_> {
    fn render(self) -> Response {
        // Random for each page: an attacker cannot put it into a value in advance.
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let origin = self.form_origin.unwrap_or_default();
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; \
             form-action 'self' {origin}; base-uri 'none'"
        );
        let script = match self.action {
            PageAction::None => String::new(),
            PageAction::SubmitForm => format!("<script nonce=\"{nonce}\">{SUBMIT_SCRIPT}</script>"),
        };
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{}</title><style nonce=\"{nonce}\">{STYLE}</style></head>\
             <body><main>{}</main>{script}</body></html>",
            escape_html(self.title),
            self.body,
        );
        let Ok(policy) = HeaderValue::try_from(policy) else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let header_value = HeaderValue::from_static;
        let headers = [
            (header::CONTENT_TYPE, header_value("text/html; charset=utf-8")),
            (header::CACHE_CONTROL, header_value("no-store")),
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::REFERRER_POLICY, header_value("no-referrer")),
            (header::X_CONTENT_TYPE_OPTIONS, header_value("nosniff")),
        ];
        (self.status, headers, html).into_response()
    }
}

/// Escapes text and values in double quotes.
fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Bidirectional controls would reorder the text around them.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            _ => escaped.push(it),
        }
    }
    escaped
}

fn hidden_inputs(fields: &[(&str, &str)]) -> String {
    let mut html = String::new();
    for (name, value) in fields {
        let result = write!(
            html,
            "<input type=\"hidden\" name=\"{}\" value=\"{}\">",
            escape_html(name),
            escape_html(value)
        );
        debug_assert!(result.is_ok(), "writing to memory cannot fail");
    }
    html
}

/// The origin of an address for a Content-Security-Policy. `None` if the host has characters with a
/// special meaning in a policy.
pub(crate) fn policy_origin(address: &str) -> Option<String> {
    let (scheme, after_scheme) = address.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let host = after_scheme.split(['/', '?', '#']).next().filter(|it| !it.is_empty())?;
    if scheme != "http" && scheme != "https" {
        return None;
    }
    if host.starts_with('[') {
        // A policy cannot name an IPv6 host, so it allows the scheme only.
        let is_allowed = |it: u8| it.is_ascii_hexdigit() || matches!(it, b'[' | b']' | b':' | b'.');
        return host.bytes().all(is_allowed).then(|| format!("{scheme}:"));
    }
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b':' | b'_');
    host.bytes().all(is_allowed).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_html_neutralizes_markup_and_bidi_characters() {
        assert_eq!(
            escape_html("<a b=\"c\" d='e'>&"),
            "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;"
        );
        assert_eq!(escape_html("x\u{202e}y"), "x\u{fffd}y");
    }

    #[test]
    fn policy_origin_is_derived_only_from_safe_http_urls() {
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
            assert_eq!(policy_origin(address).as_deref(), expected, "{address}");
        }
    }
}
