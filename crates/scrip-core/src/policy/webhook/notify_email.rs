//! The address of the person who looks after a webhook.

use serde::Serialize;

use crate::{FieldError, policy::destination::HostName};

/// An e-mail address. It is stored and returned; Scrip sends no mail.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct NotifyEmail(String);

pub const EMAIL_CHARS_MAX: usize = 320;
const LOCAL_PART_CHARS_MAX: usize = 64;

impl NotifyEmail {
    /// Errors: the text is not an e-mail address.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        if text.chars().count() > EMAIL_CHARS_MAX {
            return Err(FieldError::new("notify_email", "must have at most 320 characters"));
        }
        let parts = text.rsplit_once('@');
        let is_address = parts.is_some_and(|(local_part, domain)| {
            is_local_part(local_part) && HostName::parse(domain).is_ok()
        });
        let rule = "must be an e-mail address, such as ops@shop.example";
        is_address
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| FieldError::new("notify_email", rule))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Without quotes and comments, which nearly no mail server accepts.
fn is_local_part(text: &str) -> bool {
    let is_valid =
        |it: char| it.is_alphanumeric() || it == '.' || "!#$%&'*+/=?^_`{|}~-".contains(it);
    !text.is_empty()
        && text.chars().count() <= LOCAL_PART_CHARS_MAX
        && text.chars().all(is_valid)
        && !text.starts_with('.')
        && !text.ends_with('.')
        && !text.contains("..")
}

// An address is personal data.
hide_in_debug! { NotifyEmail }

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_valid: bool) {
        assert_eq!(NotifyEmail::parse(text).is_ok(), is_valid, "{text}");
    }

    #[test]
    fn notify_email_is_an_address_without_quotes_and_comments() {
        check("ops@shop.example", true);
        check("first.last+webhooks@mail.shop.example", true);
        check("jürgen@shop.example", true);
        check("", false);
        check("ops", false);
        check("ops@", false);
        check("@shop.example", false);
        check("ops@localhost", false);
        check("ops@127.0.0.1", false);
        check("a b@shop.example", false);
        check("a@b@shop.example", false);
        check("ops@shop.example\r\nBcc: x@y.example", false);
        check("<ops@shop.example>", false);
        check(".ops@shop.example", false);
        check("o..ps@shop.example", false);
        check(&format!("{}@shop.example", "x".repeat(64)), true);
        check(&format!("{}@shop.example", "x".repeat(65)), false);
        check(&format!("x@{}example", "abcdefghi.".repeat(40)), false);
    }
}
