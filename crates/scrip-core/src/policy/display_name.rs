//! The name that people see of an application, proxy, webhook or tenant.

use crate::FieldError;

/// The display name of a tenant or an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayName(String);

const NAME_CHARS_MAX: usize = 200;

impl DisplayName {
    /// Errors: the name is empty, too long, or contains invisible characters.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > NAME_CHARS_MAX {
            return Err(FieldError::new("name", "must have 1 to 200 characters"));
        }
        if text.chars().any(|it| it.is_control() || is_invisible(it)) {
            let rule = "must not contain invisible characters";
            return Err(FieldError::new("name", rule));
        }
        Ok(Self(text.to_owned()))
    }

    /// Parses a stored name. `None` if [`DisplayName::parse`] would change it.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text).ok().filter(|it| it.0 == text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that change the text direction or have no width: with them, two names could look
/// alike.
fn is_invisible(it: char) -> bool {
    matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}')
}
