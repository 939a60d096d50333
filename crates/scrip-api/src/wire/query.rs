//! Parses query strings and forms.

use std::borrow::Cow;

use scrip_core::{
    Error, FieldError,
    listing::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, Page, PageRequest},
};
use serde::Serialize;
use serde_json::Value;

use crate::wire::{ParseError, json};

/// Decoded names and values, in the order of the query string.
pub(crate) struct QueryParameters<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> QueryParameters<'a> {
    pub(crate) fn parse(text: Option<&'a str>) -> Self {
        let text = text.unwrap_or_default();
        Self(form_urlencoded::parse(text.as_bytes()).collect())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// All values of a name. Clients write some lists as `id=a&id=b`.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(it, _)| it == name).map(|(_, value)| &**value)
    }

    /// The value of a name that must not be repeated.
    pub(crate) fn one(&self, name: &'static str) -> Result<Option<&str>, ParseError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            (_, Some(_)) => Err(invalid_parameter(name, "must be given once")),
        }
    }

    /// Like [`QueryParameters::one`], for a value from a fixed list.
    pub(crate) fn parse_choice<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
        rule: &'static str,
    ) -> Result<Option<T>, ParseError> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| invalid_parameter(name, rule))
    }

    pub(crate) fn page(&self) -> Result<PageRequest, ParseError> {
        let number = self.page_number()?.unwrap_or(1);
        Ok(PageRequest { number, size: self.size()?.unwrap_or(PAGE_SIZE_DEFAULT) })
    }

    pub(crate) fn page_number(&self) -> Result<Option<usize>, ParseError> {
        self.parse_number("page", usize::MAX)
    }

    pub(crate) fn size(&self) -> Result<Option<usize>, ParseError> {
        self.parse_number("size", PAGE_SIZE_MAX)
    }

    /// Metadata filters. Clients write them as `metadata.k=v`, `metadata[k]=v` or
    /// `metadata={"k":"v"}`.
    pub(crate) fn metadata(&self) -> Result<Vec<(String, String)>, ParseError> {
        let mut entries = Vec::new();
        for (name, value) in &self.0 {
            if &**name == "metadata" {
                let rule = "must be a JSON object from text to text";
                let parsed = json::read(value.as_bytes())
                    .map_err(|_| invalid_parameter("metadata", rule))?;
                let Value::Object(object) = parsed.into_exposed() else {
                    return Err(invalid_parameter("metadata", rule));
                };
                for (name, value) in object {
                    let Value::String(value) = value else {
                        return Err(invalid_parameter("metadata", rule));
                    };
                    entries.push((name, value));
                }
                continue;
            }
            let strip_brackets = || name.strip_prefix("metadata[")?.strip_suffix(']');
            if let Some(key) = name.strip_prefix("metadata.").or_else(strip_brackets) {
                entries.push((key.to_owned(), value.clone().into_owned()));
            }
        }
        Ok(entries)
    }

    fn parse_number(
        &self,
        name: &'static str,
        maximum: usize,
    ) -> Result<Option<usize>, ParseError> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let is_number = text.bytes().all(|it| it.is_ascii_digit());
        let number = text.parse().ok().filter(|it| is_number && (1..=maximum).contains(it));
        let rule = if name == "size" { "must be from 1 to 100" } else { "must be 1 or more" };
        number.map(Some).ok_or_else(|| invalid_parameter(name, rule))
    }
}

pub(crate) fn invalid_parameter(name: &'static str, rule: &'static str) -> ParseError {
    ParseError::Failed(Error::from(FieldError::new(name, rule)))
}

#[derive(Serialize)]
pub(crate) struct PageBody<T, P = Pagination> {
    pub(crate) pagination: P,
    pub(crate) data: Vec<T>,
}

#[derive(Serialize)]
pub(crate) struct Pagination {
    total_items: usize,
    page_number: usize,
    page_size: usize,
    total_pages: usize,
}

/// Renders a page.
pub(crate) fn page_body<'a, T, U>(page: &'a Page<T>, render: impl Fn(&'a T) -> U) -> PageBody<U> {
    PageBody { pagination: pagination_of(page), data: page.items.iter().map(render).collect() }
}

pub(crate) fn pagination_of<T>(page: &Page<T>) -> Pagination {
    Pagination {
        total_items: page.total,
        page_number: page.request.number,
        page_size: page.request.size,
        total_pages: page.total_pages(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_page(text: &str, expected: Option<(usize, usize)>) {
        let request = QueryParameters::parse(Some(text)).page().ok();
        assert_eq!(request.map(|it| (it.number, it.size)), expected, "{text}");
    }

    #[test]
    fn page_number_and_size_are_parsed_and_bounded() {
        check_page("", Some((1, 20)));
        check_page("page=3&size=100", Some((3, 100)));
        check_page("size=0", None);
        check_page("size=101", None);
        check_page("page=0", None);
        check_page("page=-1", None);
        check_page("page=%2B1", None);
        check_page("page=", None);
        check_page("page=1&page=2", None);
        check_page("page=99999999999999999999999", None);
    }

    #[track_caller]
    fn check_metadata(text: &str, expected: Option<&[(&str, &str)]>) {
        let entries = QueryParameters::parse(Some(text)).metadata().ok();
        let entries: Option<Vec<_>> =
            entries.as_ref().map(|it| it.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect());
        assert_eq!(entries.as_deref(), expected, "{text}");
    }

    #[test]
    fn metadata_is_accepted_in_three_notations() {
        check_metadata("metadata.k=v", Some(&[("k", "v")]));
        check_metadata("metadata%5Bk%5D=v", Some(&[("k", "v")]));
        check_metadata("metadata=%7B%22k%22%3A%22v%22%7D", Some(&[("k", "v")]));
        check_metadata("metadata.a.b=v&x=1&metadata.c=", Some(&[("a.b", "v"), ("c", "")]));
        check_metadata("metadata=v", None);
        check_metadata("metadata=[]", None);
        check_metadata("metadata=%7B%22k%22%3A1%7D", None);
    }

    #[test]
    fn repeated_parameters_are_percent_decoded() {
        let query = QueryParameters::parse(Some("id=a%20b&x=1&id=c"));
        assert_eq!(query.all("id").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(query.one("x").unwrap(), Some("1"));
        assert!(query.one("id").is_err());
    }
}
