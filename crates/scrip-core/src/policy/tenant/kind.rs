//! The kinds of tenants: test and production.

/// Test tenants hold no real cards; production tenants never reach the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantKind {
    Test,
    Production,
}

impl TenantKind {
    pub const ALL: [Self; 2] = [Self::Test, Self::Production];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "production",
        }
    }

    /// What a key's text tells of it.
    #[must_use]
    pub fn key_mark(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Production => "prod",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}
