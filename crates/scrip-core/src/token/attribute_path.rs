//! Attribute paths into a body whose shape is the client's own: `customer.cards[2].data`.

use scrip_expression::PathStep;

/// A path under construction. An error tells it, so it holds no name that could be a value.
#[derive(Debug, Default)]
pub struct AttributePath(String);

/// Where a path was before it went deeper.
#[derive(Debug, Clone, Copy)]
pub struct PathMark(usize);

const NAME_BYTES_MAX: usize = 64;
/// More of them could be a number that somebody keeps apart.
const NAME_DIGITS_MAX: usize = 3;

impl AttributePath {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that does not look like one of an attribute is told as `*`.
    pub fn enter(&mut self, name: &str) -> PathMark {
        let mark = PathMark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(if is_attribute_name(name) { name } else { "*" });
        mark
    }

    pub fn enter_index(&mut self, at: usize) -> PathMark {
        let mark = PathMark(self.0.len());
        self.0.push_str(&format!("[{at}]"));
        mark
    }

    /// Back to where it was.
    pub fn leave(&mut self, mark: PathMark) {
        self.0.truncate(mark.0);
    }

    #[must_use]
    pub fn from_steps(steps: &[PathStep]) -> Self {
        let mut path = Self::default();
        for step in steps {
            match step {
                PathStep::Name(name) => path.enter(name),
                PathStep::Index(at) => path.enter_index(*at),
            };
        }
        path
    }
}

fn is_attribute_name(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let part = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && digits <= NAME_DIGITS_MAX
        && name.bytes().all(part)
        && !name.starts_with(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_path_enters_and_leaves_names_and_indexes() {
        let mut path = AttributePath::default();
        let whole = path.enter("customer");
        path.enter("cards");
        let cards = path.enter_index(12);
        path.enter("data-2");
        assert_eq!(path.as_str(), "customer.cards[12].data-2");
        path.leave(cards);
        assert_eq!(path.as_str(), "customer.cards");
        path.leave(whole);
        assert_eq!(path.as_str(), "");
        path.enter_index(0);
        path.enter("a");
        assert_eq!(path.as_str(), "[0].a");
    }

    #[test]
    fn attribute_path_replaces_names_that_may_be_values() {
        for name in ["", "4242", "card4242", "7", "a b", "john@x.org", "a.b", "é", "[0]"] {
            let mut path = AttributePath::default();
            path.enter(name);
            path.enter("data");
            assert_eq!(path.as_str(), "*.data", "{name}");
        }
        assert!(!is_attribute_name(&"x".repeat(65)));
    }
}
