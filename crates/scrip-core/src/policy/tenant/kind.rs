//! The kinds of tenants: test and production.

words! {
    /// Test tenants hold no real cards; production tenants never reach the simulator.
    pub enum TenantKind {
        Test = "test",
        Production = "production",
    }
}

impl TenantKind {
    /// What a key's text tells of it.
    #[must_use]
    pub fn key_segment(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "prod",
        }
    }
}
