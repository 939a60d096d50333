//! Pages, described.

use scrip_core::page::{PAGE_SIZE, PAGE_SIZE_MAX};

use crate::wire::{
    described::{Parameter, parameter},
    schema::{Schema, always, answer, list, named, whole},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let pagination = answer([
        always("total_items", whole()),
        always("page_number", whole()),
        always("page_size", whole()),
        always("total_pages", whole()),
    ]);
    vec![("Pagination", pagination)]
}

/// A page of these.
pub(crate) fn page_of(entry: Schema) -> Schema {
    answer([always("pagination", named("Pagination")), always("data", list(entry))])
}

pub(crate) fn page_parameters() -> [Parameter; 2] {
    let most = u64::try_from(PAGE_SIZE_MAX).unwrap_or(u64::MAX);
    let number = whole().between(1, u64::MAX).with("default", 1);
    let size = whole().between(1, most).with("default", PAGE_SIZE);
    [
        parameter("page", number, "Which page; the first is 1."),
        parameter("size", size, "How many entries a page has."),
    ]
}
