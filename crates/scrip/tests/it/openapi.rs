//! Routes, the OpenAPI document, and pages for browsers.

pub(crate) mod contract;
mod deprecations;
mod document;
mod list_connection_formulas;
mod pages;
mod pipeline;
