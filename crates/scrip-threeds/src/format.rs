//! The formats of EMV's data elements. A value that has a format's type has passed its check.

mod amount;
mod checked_text;
mod date;
mod element;
mod object;
#[cfg(test)]
pub(crate) mod tests;
mod text;
mod version;

pub use amount::*;
pub use checked_text::*;
pub use date::*;
pub use element::*;
pub use object::*;
pub use text::*;
pub use version::*;
