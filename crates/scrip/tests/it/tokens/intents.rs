//! Token intents.

pub(crate) mod conversion_rights;
mod token_intents;
