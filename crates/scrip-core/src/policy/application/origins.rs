//! The origins of the pages that may use the keys of a public application.

use crate::{FieldError, policy::application::web_origin::WebOrigin};

/// Allowed origins of pages, in the order of the request. An empty list allows every page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplicationOrigins(Vec<WebOrigin>);

/// Every origin is part of a response header of the hosted fields.
pub const ORIGINS_MAX: usize = 20;

impl ApplicationOrigins {
    /// Parses a list. A repeated origin counts once.
    /// Errors: a text is not an origin, or there are too many.
    pub fn parse(texts: &[String]) -> Result<Self, FieldError> {
        let mut origins = Vec::new();
        for text in texts {
            let origin = WebOrigin::parse(text).map_err(|rule| FieldError::new("origins", rule))?;
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        if origins.len() > ORIGINS_MAX {
            return Err(FieldError::new("origins", "must have at most 20 origins"));
        }
        Ok(Self(origins))
    }

    /// Parses the stored text. `None` if [`ApplicationOrigins::to_text`] would not return it.
    pub fn from_stored(text: &str) -> Option<Self> {
        let origins = text.split(' ').map(WebOrigin::from_stored).collect::<Option<Vec<_>>>()?;
        Some(Self(origins))
    }

    /// The stored text: origins, separated by spaces. `None` if there are none.
    pub fn to_text(&self) -> Option<String> {
        let texts: Vec<_> = self.iter().map(WebOrigin::text).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    pub fn iter(&self) -> impl Iterator<Item = &WebOrigin> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a page of this origin may use the keys of the application.
    pub fn allow(&self, origin: &WebOrigin) -> bool {
        self.is_empty() || self.0.contains(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<ApplicationOrigins, FieldError> {
        let texts: Vec<_> = texts.iter().map(|it| (*it).to_owned()).collect();
        ApplicationOrigins::parse(&texts)
    }

    #[test]
    fn stored_origins_parse_back() {
        let origins = parse(&["https://b.example", "HTTPS://A.example:443", "https://a.example"]);
        let origins = origins.unwrap();
        let text = origins.to_text().unwrap();
        assert_eq!(text, "https://b.example https://a.example");
        assert_eq!(ApplicationOrigins::from_stored(&text), Some(origins));
        assert_eq!(parse(&[]).unwrap().to_text(), None);
        for text in ["", " ", "https://a.example ", "https://a.example  https://b.example", "*"] {
            assert_eq!(ApplicationOrigins::from_stored(text), None, "{text:?}");
        }
    }

    #[test]
    fn origins_are_at_most_twenty() {
        let texts: Vec<_> = (0..21).map(|it| format!("https://shop{it}.example")).collect();
        assert!(ApplicationOrigins::parse(&texts[..ORIGINS_MAX]).is_ok());
        assert!(ApplicationOrigins::parse(&texts).is_err());
    }

    #[test]
    fn empty_list_allows_every_origin() {
        let origin = |text| WebOrigin::parse(text).unwrap();
        assert!(ApplicationOrigins::default().allow(&origin("https://a.example")));
        let origins = parse(&["https://a.example"]).unwrap();
        assert!(origins.allow(&origin("https://a.example")));
        for other in ["https://b.example", "https://a.example:8443", "https://x.a.example"] {
            assert!(!origins.allow(&origin(other)), "{other}");
        }
    }
}
