//! The kinds of tenants: test and production.

words! {
    /// Test tenants have no real cards; production tenants never use the simulator.
    pub enum TenantKind {
        Test = "test",
        Production = "production",
    }
}

impl TenantKind {
    /// The segment of an API key that names the kind of the tenant.
    pub(crate) fn key_segment(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "prod",
        }
    }
}
