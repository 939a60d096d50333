//! URLs, email addresses and IP addresses.

use std::net::IpAddr;

use crate::{
    fault::ErrorCode,
    format::{CheckedText, FormatRule, ensure_format},
};

/// A fully qualified `http` or `https` URL. Other URLs are rejected, because browsers are sent to
/// it.
pub type Url<const MAX: usize> = CheckedText<UrlRule<MAX>>;
/// An email address.
pub type Email = CheckedText<EmailRule>;
/// IPv4 or IPv6.
pub type Ip = CheckedText<IpRule>;

#[derive(Debug)]
pub struct UrlRule<const MAX: usize>;

impl<const MAX: usize> FormatRule for UrlRule<MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let lower_case_start = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let scheme =
            ["https://", "http://"].into_iter().find(|it| lower_case_start.starts_with(it));
        let after_scheme = scheme.and_then(|it| text.get(it.len()..)).unwrap_or_default();
        let host = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
        let is_allowed =
            |it: u8| it.is_ascii_graphic() && !matches!(it, b'"' | b'<' | b'>' | b'\\');
        // User information in front of the host would mislead readers of the URL.
        let is_plain_host = !host.is_empty() && !host.starts_with(':') && !host.contains('@');
        ensure_format(text.len() <= MAX && is_plain_host && text.bytes().all(is_allowed))
    }
}

#[derive(Debug)]
pub struct EmailRule;

impl FormatRule for EmailRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let parts = text.rsplit_once('@');
        let is_allowed = |it: char| !it.is_control() && !it.is_whitespace();
        let has_both_parts =
            parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
        ensure_format(text.chars().count() <= 254 && has_both_parts && text.chars().all(is_allowed))
    }
}

#[derive(Debug)]
pub struct IpRule;

impl FormatRule for IpRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        ensure_format(text.len() <= 45 && text.parse::<IpAddr>().is_ok())
    }
}
