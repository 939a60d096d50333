//! The kinds of application, which permissions and rate limits depend on.

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
