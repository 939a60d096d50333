//! The kinds of tenants and of applications, with their segments in API keys.

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

words! {
    /// The kinds of application. Rate limits and permissions differ by kind.
    pub enum ApplicationKind {
        Public = "public",
        Private = "private",
        Management = "management",
    }
}

impl ApplicationKind {
    /// The segment of an API key that names the kind.
    pub(crate) fn key_segment(self) -> &'static str {
        match self {
            Self::Public => "pub",
            Self::Private => "pvt",
            Self::Management => "mgt",
        }
    }
}
