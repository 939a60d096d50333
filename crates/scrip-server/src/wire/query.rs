//! The part of an address behind the question mark.

pub(crate) mod described;

use std::borrow::Cow;

use scrip_core::{
    error::{Error, FieldError},
    page::{PAGE_SIZE, PAGE_SIZE_MAX, Page, PageAsked},
};
use serde::Serialize;

use crate::http::problem::Problem;

/// Names and values in the order they came, decoded.
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(crate) fn parse(text: Option<&'a str>) -> Self {
        let text = text.unwrap_or_default();
        Self(form_urlencoded::parse(text.as_bytes()).collect())
    }

    /// All values of a name. Clients write some lists as `id=a&id=b`.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(it, _)| it == name).map(|(_, value)| &**value)
    }

    /// The value of a name that decides something, and so must not be two.
    pub(crate) fn one(&self, name: &'static str) -> Result<Option<&str>, Problem> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (first, None) => Ok(first),
            (_, Some(_)) => Err(invalid(name, "must be given once")),
        }
    }

    pub(crate) fn page(&self) -> Result<PageAsked, Problem> {
        let number = self.number("page", usize::MAX)?.unwrap_or(1);
        let size = self.number("size", PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE);
        Ok(PageAsked { number, size })
    }

    fn number(&self, name: &'static str, most: usize) -> Result<Option<usize>, Problem> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let digits = text.bytes().all(|it| it.is_ascii_digit());
        let number = text.parse().ok().filter(|it| digits && (1..=most).contains(it));
        let rule = if name == "size" { "must be from 1 to 100" } else { "must be 1 or more" };
        number.map(Some).ok_or_else(|| invalid(name, rule))
    }
}

pub(crate) fn invalid(name: &'static str, rule: &'static str) -> Problem {
    Problem::Failed(Error::from(FieldError::new(name, rule)))
}

#[derive(Serialize)]
pub(crate) struct Paged<T> {
    pagination: Pagination,
    data: Vec<T>,
}

#[derive(Serialize)]
struct Pagination {
    total_items: usize,
    page_number: usize,
    page_size: usize,
    total_pages: usize,
}

/// A page on the wire.
pub(crate) fn paged<'a, T, U>(page: &'a Page<T>, show: impl Fn(&'a T) -> U) -> Paged<U> {
    let pagination = Pagination {
        total_items: page.total,
        page_number: page.asked.number,
        page_size: page.asked.size,
        total_pages: page.total_pages(),
    };
    Paged { pagination, data: page.items.iter().map(show).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(usize, usize)>) {
        let asked = Query::parse(Some(text)).page().ok();
        assert_eq!(asked.map(|it| (it.number, it.size)), expected, "{text}");
    }

    #[test]
    fn pages() {
        check("", Some((1, 20)));
        check("page=3&size=100", Some((3, 100)));
        check("size=0", None);
        check("size=101", None);
        check("page=0", None);
        check("page=-1", None);
        check("page=%2B1", None);
        check("page=", None);
        check("page=1&page=2", None);
        check("page=99999999999999999999999", None);
    }

    #[test]
    fn lists_are_decoded() {
        let query = Query::parse(Some("id=a%20b&x=1&id=c"));
        assert_eq!(query.all("id").collect::<Vec<_>>(), ["a b", "c"]);
        assert_eq!(query.one("x").unwrap(), Some("1"));
        assert!(query.one("id").is_err());
    }
}
