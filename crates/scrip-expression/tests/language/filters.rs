//! Filters, with one table per kind.

mod alias;
mod cards;
mod date;
mod standard;
