//! DNS names of destinations and of proxy hosts.

use crate::FieldError;

/// A DNS name in lower case, with at least one dot. Never an IP address in any notation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(String);

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

impl HostName {
    /// Errors: the text is not a DNS name with at least one dot, or it is an IP address.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let name = text.to_ascii_lowercase();
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        if !is_name || !name.contains('.') {
            let rule = "must be a DNS name with a dot, in ASCII (Punycode for other letters)";
            return Err(FieldError::new("host", rule));
        }
        if is_number(name.rsplit('.').next().unwrap_or_default()) {
            return Err(FieldError::new("host", "must be a DNS name, not an IP address"));
        }
        Ok(Self(name))
    }

    /// Parses a stored name. `None` if [`HostName::parse`] would change it.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text).ok().filter(|it| it.0 == text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_label(label: &str) -> bool {
    let is_valid =
        |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-' || it == b'_';
    !label.is_empty()
        && label.len() <= LABEL_BYTES_MAX
        && label.bytes().all(is_valid)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether the last label makes the host an IPv4 address. Some parsers accept octal, hexadecimal and
/// shortened addresses, such as `0x7f.1`.
fn is_number(label: &str) -> bool {
    let is_decimal = label.bytes().all(|it| it.is_ascii_digit());
    let is_hexadecimal =
        label.strip_prefix("0x").is_some_and(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
    is_decimal || is_hexadecimal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_rejects_addresses_and_malformed_names() {
        for name in
            ["api.example.com", "a.b", "x--y.example.co.uk", "_srv.example.com", "1.2.example"]
        {
            assert!(HostName::parse(name).is_ok(), "{name} is rejected");
        }
        let long_name = format!("{}.com", "a.".repeat(130));
        let long_label = format!("{}.com", "a".repeat(64));
        for name in [
            "",
            ".",
            "localhost",
            "example.com.",
            ".example.com",
            "a..b",
            "-a.com",
            "a-.com",
            "127.0.0.1",
            "0x7f.1",
            "127.1",
            "0177.0.0.0x1",
            "1.2.3",
            "[::1]",
            "exa mple.com",
            "user@example.com",
            "example.com:443",
            "exämple.com",
            "a/b.com",
            "a%2e.com",
            long_name.as_str(),
            long_label.as_str(),
        ] {
            assert!(HostName::parse(name).is_err(), "{name} is accepted");
        }
        assert_eq!(HostName::parse("API.Example.com").unwrap().as_str(), "api.example.com");
        assert_eq!(HostName::from_stored("API.Example.com"), None);
    }
}
