//! Permissions of applications, and transforms that decide how much of a token they show.

pub use self::table::Permission;

use serde::{Deserialize, Serialize};

use crate::types::ApplicationKind;

macro_rules! permissions {
    ($($name:ident $text:literal $kinds:expr, $about:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Permission { $($name),* }

        impl Permission {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The kinds of application that may have the permission.
            pub fn kinds(self) -> &'static [ApplicationKind] {
                match self { $(Self::$name => &$kinds),* }
            }

            /// A description of the allowed operations, for the person who grants the permission.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $about),* }
            }

            /// One bit for each permission.
            pub(super) const fn bit(self) -> u64 {
                match self { $(Self::$name => 1 << (Self::$name as u8)),* }
            }
        }
    };
}

impl Permission {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == text)
    }

    /// The permissions of features that exist and that an application of this kind can have.
    pub fn grantable(kind: ApplicationKind) -> impl Iterator<Item = Self> {
        let is_grantable = move |it: &Self| it.kinds().contains(&kind);
        Self::ALL.iter().copied().filter(is_grantable).filter(|it| it.missing_feature().is_none())
    }

    /// The feature of the permission, if this server does not have the feature. An application can
    /// have the permission, because the interface defines it, but it allows nothing.
    pub fn missing_feature(self) -> Option<MissingFeature> {
        MissingFeature::find_by_permission(self.as_str())
    }

    /// Whether the permission is decided for each container. The other permissions apply to the
    /// whole tenant.
    pub fn is_container_scoped(self) -> bool {
        use Permission::{
            ProxyInvoke, TokenCreate, TokenDelete, TokenIntentCreate, TokenIntentDelete,
            TokenIntentRead, TokenRead, TokenSearch, TokenUpdate, TokenUse,
        };
        let token_permissions =
            [TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenSearch, TokenUse, ProxyInvoke];
        let intent_permissions = [TokenIntentCreate, TokenIntentRead, TokenIntentDelete];
        token_permissions.contains(&self) || intent_permissions.contains(&self) || self.is_threeds()
    }

    /// Whether the transform of the permission decides how much of a token's data a response shows.
    pub fn shows_data(self) -> bool {
        use Permission::{ProxyInvoke, TokenIntentCreate, TokenIntentDelete, TokenIntentRead};
        let others = [TokenIntentCreate, TokenIntentRead, TokenIntentDelete, ProxyInvoke];
        self.is_container_scoped() && !others.contains(&self) && !self.is_threeds()
    }

    /// Whether the permission is for 3-D Secure. Such a permission is decided in the containers of
    /// the card.
    pub(crate) fn is_threeds(self) -> bool {
        use Permission::{ThreeDsSessionAuthenticate, ThreeDsSessionCreate, ThreeDsSessionRead};
        [ThreeDsSessionCreate, ThreeDsSessionRead, ThreeDsSessionAuthenticate].contains(&self)
    }

    /// The transform of a permission without an access rule.
    pub fn implied_transform(self) -> Transform {
        let is_use = [Self::TokenUse, Self::ProxyInvoke].contains(&self);
        if is_use { Transform::Reveal } else { Transform::Mask }
    }
}

/// A set of permissions: one bit each, so a decision costs one `and`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "Vec<&'static str>", try_from = "Vec<String>")]
pub struct Permissions(u64);

impl Permissions {
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Whether the two sets have a permission in common.
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn from_list(permissions: &[Permission]) -> Self {
        let mut bits = 0;
        let mut remaining = permissions;
        while let [first, tail @ ..] = remaining {
            bits |= first.bit();
            remaining = tail;
        }
        Self(bits)
    }

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |it| self.has(*it))
    }
}

impl From<Permissions> for Vec<&'static str> {
    fn from(permissions: Permissions) -> Self {
        permissions.iter().map(Permission::as_str).collect()
    }
}

impl TryFrom<Vec<String>> for Permissions {
    type Error = &'static str;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        let permissions: Option<_> = names.iter().map(|it| Permission::parse(it)).collect();
        permissions.ok_or("is not a permission")
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, it| bits | it.bit()))
    }
}

words! {
    /// How much of a token's data a response shows, weakest first.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Transform {
        Redact = "redact",
        Mask = "mask",
        Reveal = "reveal",
    }
}

#[expect(clippy::as_conversions, reason = "a discriminant of a u8 enum is a u8")]
mod table {
    use crate::types::ApplicationKind::{self, Management, Private, Public};

    permissions! {
        TokenCreate "token:create" [Public, Private], "Create tokens";
        TokenUpdate "token:update" [Public, Private], "Update tokens";
        TokenIntentCreate "token-intent:create" [Public, Private], "Create token intents";
        ThreeDsSessionCreate "3ds:session:create" [Public, Private], "Create 3-D Secure sessions";
        TokenRead "token:read" [Private], "Read and list tokens";
        TokenSearch "token:search" [Private], "Search tokens";
        TokenDelete "token:delete" [Private], "Delete tokens";
        TokenUse "token:use" [Private], "Use tokens in requests that the vault sends to any destination";
        TokenIntentRead "token-intent:read" [Private], "Read token intents";
        TokenIntentDelete "token-intent:delete" [Private], "Delete token intents";
        ThreeDsSessionRead "3ds:session:read" [Private], "Read 3-D Secure sessions";
        ThreeDsSessionAuthenticate "3ds:session:authenticate" [Private], "Authenticate 3-D Secure sessions and read their results";
        ProxyInvoke "proxy:invoke" [Private], "Use tokens in requests through pre-configured proxies";
        ConnectionFormulas "orchestration:connection_formulas" [Private], "Read the catalog of connection formulas";
        TenantRead "tenant:read" [Management], "Read the tenant, its settings and its quotas";
        TenantUpdate "tenant:update" [Management], "Update the tenant and its settings";
        TenantDelete "tenant:delete" [Management], "Delete the tenant and everything in it";
        ApplicationRead "application:read" [Management], "Read applications and their API keys (never the text of a key)";
        ApplicationCreate "application:create" [Management], "Create applications with any permissions, and API keys of every application";
        ApplicationUpdate "application:update" [Management], "Update applications and their permissions";
        ApplicationDelete "application:delete" [Management], "Delete applications and API keys";
        LogRead "log:read" [Management], "Read the audit log";
        ReportRead "report:read" [Management], "Read usage reports";
        KeysRead "keys:read" [Management], "List client encryption keys (never a private key)";
        KeysCreate "keys:create" [Management], "Create client encryption keys, for which browsers and phones encrypt data";
        KeysDelete "keys:delete" [Management], "Delete client encryption keys; data that is encrypted for them cannot be stored any more";
        WebhookRead "webhook:read" [Management], "Read webhooks (never their secrets)";
        WebhookCreate "webhook:create" [Management], "Create webhooks, which send the events of the tenant to any URL";
        WebhookUpdate "webhook:update" [Management], "Update webhooks: their URLs, events and secrets";
        WebhookDelete "webhook:delete" [Management], "Delete webhooks";
        ProxyRead "proxy:read" [Management], "Read proxies with their keys and configurations";
        ProxyCreate "proxy:create" [Management], "Create proxies";
        ProxyUpdate "proxy:update" [Management], "Update proxies; with application:update also where they send data";
        ProxyDelete "proxy:delete" [Management], "Delete proxies";
        ReactorRead "reactor:read" [Management], "Read reactors";
        ReactorCreate "reactor:create" [Management], "Create reactors";
        ReactorUpdate "reactor:update" [Management], "Update reactors";
        ReactorDelete "reactor:delete" [Management], "Delete reactors";
    }
}

words! {
    /// A feature of the interface that is not built. Delete the variant when the feature is built.
    pub enum MissingFeature {
        /// Code of a tenant that runs in the vault.
        Reactors = "reactors",
        Documents = "documents",
        BankAccountVerification = "bank account verification",
        GooglePay = "Google Pay",
        ApplePay = "Apple Pay",
        AccountUpdater = "account updater",
        NetworkTokenRequests = "requests for network tokens",
        People = "members, invitations and roles",
        Connections = "connections",
        ApplicationTemplates = "application templates",
    }
}

impl MissingFeature {
    /// The feature of a permission. The first part of the permission's name decides.
    pub fn find_by_permission(name: &str) -> Option<Self> {
        let (resource, _) = name.split_once(':')?;
        match resource {
            "reactor" => Some(Self::Reactors),
            "documents" => Some(Self::Documents),
            "google-pay" => Some(Self::GooglePay),
            "apple-pay" => Some(Self::ApplePay),
            "account-updater" => Some(Self::AccountUpdater),
            "network-token" => Some(Self::NetworkTokenRequests),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ApplicationKind::{Management, Private, Public};

    #[test]
    fn permission_names_are_unique_and_parse_back() {
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
        }
        let all: Permissions = Permission::ALL.iter().copied().collect();
        assert_eq!(all.iter().count(), Permission::ALL.len());
    }

    #[test]
    fn grantable_permissions_are_those_of_existing_features() {
        let names = |kind| Permission::grantable(kind).map(Permission::as_str).collect::<Vec<_>>();
        assert_eq!(names(Public).len(), 4);
        assert_eq!(names(Private).len(), 14);
        let management = names(Management);
        assert_eq!(management.len(), 20, "{management:?}");
        assert!(management.iter().all(|it| !it.starts_with("reactor:")), "{management:?}");
    }

    #[test]
    fn transforms_are_ordered_from_redact_to_reveal() {
        assert!(Transform::Redact < Transform::Mask && Transform::Mask < Transform::Reveal);
    }
}
