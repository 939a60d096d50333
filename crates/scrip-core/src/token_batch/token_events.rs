//! The events of a token write.

use crate::events::NewDelivery;

/// The events of a token write. Some depend on the outcome and are built inside the transaction.
#[derive(Debug)]
pub struct TokenEvents {
    /// The deliveries of `token.created` or `token.updated`: written unless an existing token is the
    /// outcome.
    pub written: Vec<NewDelivery>,
    pub fill_random: fn(&mut [u8]),
}
