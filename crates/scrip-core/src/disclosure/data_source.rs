//! The data of a token that is created from an intent, encrypted data or collected data: what the
//! caller may know about it.

use crate::{
    Timestamp,
    card::TokenType,
    disclosure::{ReadLimits, hides_marked, may_read_clear},
    policy::Caller,
    token::{CountedPart, DataOrigin, DataPlace},
    types::{Containers, Plaintext},
};

/// The source of a pending token's data.
pub(crate) struct TokenDataSource {
    pub(crate) token_type: TokenType,
    pub(crate) data: Plaintext,
    pub(crate) origin: DataOrigin,
    /// As in [`TokenBody`](crate::token::TokenBody).
    pub(crate) is_marked: bool,
    /// When a payer typed the data into a hosted field. Encrypted and collected data counts as typed
    /// now.
    pub(crate) typed_at: Option<Timestamp>,
    /// Where data comes from that the caller did not send in clear. The sender of a collected call
    /// must not have more rights on the new token.
    pub(crate) places: Vec<DataPlace>,
}

impl TokenDataSource {
    /// Whether the caller sent the data in clear and knows it. A page does not know the text of a
    /// hosted field that it sends.
    pub(crate) fn is_known_to(&self, caller: &Caller) -> bool {
        self.origin.is_request() && !hides_marked(caller, self.is_marked)
    }

    /// Whether the caller knows the data, or may read it in these containers.
    pub(crate) fn is_readable_by(&self, caller: &Caller, containers: &Containers) -> bool {
        self.is_known_to(caller) || may_read_clear(caller, containers, self.read_limits())
    }

    /// What the guessing budget counts of the data. A proxy that collects it counts for its sender, and
    /// the sender may choose text next to data that only the owner of the proxy may read.
    pub(crate) fn counted_part(&self, caller: &Caller, containers: &Containers) -> CountedPart {
        let reads = |it: &Caller| may_read_clear(it, containers, self.read_limits());
        let sender_reads =
            || !caller.is_collecting() || caller.collection_sender().is_some_and(reads);
        if self.is_known_to(caller) || reads(caller) && sender_reads() {
            return CountedPart::Everything;
        }
        let is_counted_intent =
            matches!(&self.origin, DataOrigin::Intent(intent) if intent.is_counted);
        match self.token_type != TokenType::Token || is_counted_intent {
            true => CountedPart::OwnNumber,
            false => CountedPart::Nothing,
        }
    }

    pub(crate) fn read_limits(&self) -> ReadLimits {
        let (is_marked, typed_at) = (self.is_marked, self.typed_at);
        ReadLimits { is_marked, typed_at, is_hidden: self.origin.is_hidden() }
    }
}
