//! What an application may be allowed to do, and how much of a token it then sees.

/// The kinds of application. Rate limits and permissions differ by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplicationKind {
    Public,
    Private,
    Management,
}

impl ApplicationKind {
    pub const ALL: [Self; 3] = [Self::Public, Self::Private, Self::Management];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Management => "management",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// The part of a key's text that tells its kind.
    #[must_use]
    pub fn key_mark(self) -> &'static str {
        match self {
            Self::Public => "pub",
            Self::Private => "pvt",
            Self::Management => "mgt",
        }
    }
}

use ApplicationKind::{Management, Private, Public};

macro_rules! permissions {
    ($($name:ident $text:literal $kinds:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Permission { $($name),* }

        impl Permission {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// Which kinds of application may hold it.
            #[must_use]
            pub fn kinds(self) -> &'static [ApplicationKind] {
                match self { $(Self::$name => &$kinds),* }
            }

            /// One bit for each permission.
            pub(super) const fn bit(self) -> u64 {
                match self { $(Self::$name => 1 << (Self::$name as u8)),* }
            }
        }
    };
}

#[expect(clippy::as_conversions, reason = "a discriminant of a u8 enum is a u8")]
mod table {
    use super::{ApplicationKind, Management, Private, Public};

    permissions! {
        TokenCreate "token:create" [Public, Private];
        TokenUpdate "token:update" [Public, Private];
        TokenIntentCreate "token-intent:create" [Public, Private];
        SessionCreate "3ds:session:create" [Public, Private];
        TokenRead "token:read" [Private];
        TokenSearch "token:search" [Private];
        TokenDelete "token:delete" [Private];
        TokenUse "token:use" [Private];
        TokenIntentRead "token-intent:read" [Private];
        TokenIntentDelete "token-intent:delete" [Private];
        SessionRead "3ds:session:read" [Private];
        SessionAuthenticate "3ds:session:authenticate" [Private];
        ConnectionFormulas "orchestration:connection_formulas" [Private];
        TenantRead "tenant:read" [Management];
        TenantUpdate "tenant:update" [Management];
        TenantDelete "tenant:delete" [Management];
        ApplicationRead "application:read" [Management];
        ApplicationCreate "application:create" [Management];
        ApplicationUpdate "application:update" [Management];
        ApplicationDelete "application:delete" [Management];
        LogRead "log:read" [Management];
        ReportRead "report:read" [Management];
        KeysRead "keys:read" [Management];
        KeysCreate "keys:create" [Management];
        KeysDelete "keys:delete" [Management];
        WebhookRead "webhook:read" [Management];
        WebhookCreate "webhook:create" [Management];
        WebhookUpdate "webhook:update" [Management];
        WebhookDelete "webhook:delete" [Management];
        ProxyRead "proxy:read" [Management];
        ProxyCreate "proxy:create" [Management];
        ProxyUpdate "proxy:update" [Management];
        ProxyDelete "proxy:delete" [Management];
        ReactorRead "reactor:read" [Management];
        ReactorCreate "reactor:create" [Management];
        ReactorUpdate "reactor:update" [Management];
        ReactorDelete "reactor:delete" [Management];
    }
}

pub use table::Permission;

impl Permission {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == text)
    }

    /// The transform of a permission that was granted without a rule.
    #[must_use]
    pub fn implied_transform(self) -> Transform {
        if self == Self::TokenUse { Transform::Reveal } else { Transform::Mask }
    }
}

/// A set of permissions: one bit each, so that a decision costs an `and`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u64);

impl Permissions {
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn of(permissions: &[Permission]) -> Self {
        let mut bits = 0;
        let mut rest = permissions;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        Self(bits)
    }

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |it| self.has(*it))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, it| bits | it.bit()))
    }
}

/// How much of a token's data an answer shows, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transform {
    Redact,
    Mask,
    Reveal,
}

impl Transform {
    const ALL: [Self; 3] = [Self::Redact, Self::Mask, Self::Reveal];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redact => "redact",
            Self::Mask => "mask",
            Self::Reveal => "reveal",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parsed_back() {
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
        }
        let all: Permissions = Permission::ALL.iter().copied().collect();
        assert_eq!(all.iter().count(), Permission::ALL.len());
    }

    #[test]
    fn weaker_is_less() {
        assert!(Transform::Redact < Transform::Mask && Transform::Mask < Transform::Reveal);
    }
}
