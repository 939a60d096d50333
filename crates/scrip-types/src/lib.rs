//! Types that several crates share and that know nothing of tokens: strict JSON.

pub mod strict_json;
