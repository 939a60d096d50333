//! Pages, described.

use scrip_core::page::{PAGE_SIZE, PAGE_SIZE_MAX};

use crate::wire::{
    described::{Parameter, parameter},
    schema::{Schema, always, answer, list, named, text, whole},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let pagination = answer([
        always("total_items", whole()),
        always("page_number", whole()),
        always("page_size", whole()),
        always("total_pages", whole()),
    ]);
    let next = text().or_null().about("The `start` of the next page; null on the last.");
    let by_cursor = answer([always("page_size", size()), always("next", next)]);
    vec![("Pagination", pagination), ("CursorPagination", by_cursor)]
}

/// A page of these, by number.
pub(crate) fn page_of(entry: Schema) -> Schema {
    answer([always("pagination", named("Pagination")), always("data", list(entry))])
}

/// By cursor.
pub(crate) fn cursor_page_of(entry: Schema) -> Schema {
    answer([always("pagination", named("CursorPagination")), always("data", list(entry))])
}

fn size() -> Schema {
    whole().between(1, u64::try_from(PAGE_SIZE_MAX).unwrap_or(u64::MAX))
}

/// How many entries, in a request.
pub(crate) fn size_asked() -> Schema {
    size().with("default", PAGE_SIZE)
}

/// Where pages by number end when there is an end.
pub(crate) fn number_asked(most: u64) -> Schema {
    whole().between(1, most).with("default", 1)
}

pub(crate) fn size_parameter() -> Parameter {
    parameter("size", size_asked(), "How many entries a page has.")
}

pub(crate) fn page_parameters(most: u64) -> [Parameter; 2] {
    [parameter("page", number_asked(most), "Which page; the first is 1."), size_parameter()]
}
