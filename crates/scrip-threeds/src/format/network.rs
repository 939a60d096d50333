//! Addresses: of pages, of people, of machines.

use std::net::IpAddr;

use crate::{
    fault::ErrorCode,
    format::{Checked, Rule, holds},
};

/// A fully qualified address of the web. Nothing else is let through, because a browser is sent
/// there.
pub type Url<const MAX: usize> = Checked<UrlRule<MAX>>;
/// An address of a mailbox.
pub type Email = Checked<EmailRule>;
/// IPv4 or IPv6.
pub type Ip = Checked<IpRule>;

#[derive(Debug)]
pub struct UrlRule<const MAX: usize>;

impl<const MAX: usize> Rule for UrlRule<MAX> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
        let scheme = ["https://", "http://"].into_iter().find(|it| lower.starts_with(it));
        let rest = scheme.and_then(|it| text.get(it.len()..)).unwrap_or_default();
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let known = |it: u8| it.is_ascii_graphic() && !matches!(it, b'"' | b'<' | b'>' | b'\\');
        // A name before the host would only deceive whoever reads the address.
        let plain = !host.is_empty() && !host.starts_with(':') && !host.contains('@');
        holds(text.len() <= MAX && plain && text.bytes().all(known))
    }
}

#[derive(Debug)]
pub struct EmailRule;

impl Rule for EmailRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        let parts = text.rsplit_once('@');
        let plain = |it: char| !it.is_control() && !it.is_whitespace();
        let whole = parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
        holds(text.chars().count() <= 254 && whole && text.chars().all(plain))
    }
}

#[derive(Debug)]
pub struct IpRule;

impl Rule for IpRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        holds(text.len() <= 45 && text.parse::<IpAddr>().is_ok())
    }
}
