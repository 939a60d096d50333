//! What the vault does, without saying how it is reached or where it keeps things.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.

pub mod audit;
pub mod card;
pub mod error;
pub mod id;
pub mod idempotency;
pub mod listing;
pub mod measure;
pub mod operations;
pub mod policy;
pub mod store;
pub mod threeds;
pub mod time;
pub mod token;
pub mod vault;

// ALIASES
pub use audit::vault_rows;
pub use card::bank;
pub use card::bin_data;
pub use card::connection_formula;
pub use idempotency::answer;
pub use idempotency::request_digest;
pub use listing::cursor_page;
pub use listing::numbered_page;
pub use listing::page;
pub use policy::access;
pub use policy::access_session;
pub use policy::application;
pub use policy::caller;
pub use policy::directory;
pub use policy::guessing_budget;
pub use policy::permission;
pub use policy::principal;
pub use policy::rate_limit;
pub use policy::tenant;
pub use policy::tenant::quota;
pub use token::attribute_path as path;
pub use token::body;
pub use token::container;
pub use token::cvc;
pub use token::disclosure;
pub use token::expression::compiled;
pub use token::expression::enrichment;
pub use token::expression::work;
pub use token::intent as token_intent;
pub use token::plain;
pub use token::reveal;
pub use token::token_type;
pub use token::usage;
// END

pub use vault::Vault;
