//! Types and forms of text that several crates share and that know nothing of tokens.

pub mod duration;
pub mod hex;
pub mod strict_json;
