//! The tables with sealed rows, in the order in which a key rotation visits them.

words! {
    /// A table with sealed rows that a rotation seals again, in the order of a pass.
    pub enum RotatedTable {
        Tokens = "tokens",
        TokenIntents = "token_intents",
        ThreeDsSessions = "threeds_sessions",
        Deliveries = "deliveries",
    }
}

impl RotatedTable {
    /// The table after this one in a pass.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().skip_while(|it| *it != self).nth(1)
    }
}
