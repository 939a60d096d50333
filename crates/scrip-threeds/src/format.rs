//! The formats of EMV's data elements. A value that has a format's type has passed its check.

mod amount;
mod checked_text;
mod date;
mod element;
mod list;
mod network;
mod object;
mod text;
pub(crate) mod transaction_context;
mod version;

pub use amount::*;
pub use checked_text::*;
pub use date::*;
pub use element::*;
pub use list::*;
pub use network::*;
pub use object::*;
pub use text::*;
pub use version::*;

#[cfg(test)]
pub(crate) mod tests;
