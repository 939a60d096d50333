//! Routes, the OpenAPI document, and pages for browsers.

pub(crate) mod contract;
mod deprecations;
mod document;
mod elements;
mod get_card_details;
mod list_connection_formulas;
mod pages;
mod pipeline;
