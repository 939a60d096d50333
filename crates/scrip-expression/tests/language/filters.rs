//! Filters, one table for each kind.

mod alias;
mod cards;
mod date;
mod standard;
