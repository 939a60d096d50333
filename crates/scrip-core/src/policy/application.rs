//! Applications and API keys as stored rows.

pub mod origins;
pub mod web_origin;

use zeroize::Zeroizing;

use crate::{
    FieldError,
    policy::{
        AccessPolicy, ChangeStamp, DisplayName,
        application::origins::ApplicationOrigins,
        entity::{
            Column, Entity, EntityRecord, EntityWrites, InvalidRow, RestoreEffect, RestoreWarning,
            RowReader, RowWriter,
        },
    },
    types::{
        ApplicationKind, TenantKind,
        id::{ApiKeyId, ApplicationId, TenantId},
    },
};

pub const APPLICATION: Entity = Entity {
    table: "applications",
    name: "application",
    kind: "application",
    mac_kind: "policy.application",
    columns: &[
        Column::id("tenant").key(),
        Column::id("id").key(),
        Column::text("name"),
        Column::text("kind"),
        Column::text("access"),
        Column::id("created_by").optional().constant(),
        Column::number("created_at").constant(),
        Column::id("modified_by").optional(),
        Column::number("modified_at").optional(),
        Column::mac("mac"),
        Column::text("origins").added(),
    ],
    writes: EntityWrites::Upsert,
    restore_warning: Some(RestoreWarning {
        changes: &[RestoreEffect::Changes],
        text: "applications that change get the permissions and rules of the backup, which may allow \
               more than those of today",
    }),
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRecord {
    pub id: ApplicationId,
    pub tenant: TenantId,
    pub name: DisplayName,
    pub kind: ApplicationKind,
    pub access: AccessPolicy,
    /// Only public applications have origins.
    pub origins: ApplicationOrigins,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
}

impl ApplicationRecord {
    /// Sets the origins.
    /// Errors: only pages of public applications have an origin.
    pub(crate) fn set_origins(&mut self, origins: ApplicationOrigins) -> Result<(), FieldError> {
        if !origins.is_empty() && self.kind != ApplicationKind::Public {
            return Err(FieldError::new("origins", "only a public application can have origins"));
        }
        self.origins = origins;
        Ok(())
    }
}

pub const API_KEY: Entity = Entity {
    table: "api_keys",
    name: "api_key",
    kind: "API key",
    mac_kind: "policy.api-key",
    columns: &[
        Column::id("tenant").key(),
        Column::id("application").key(),
        Column::id("id").key(),
        Column::bytes("digest").unique(),
        Column::id("created_by").optional(),
        Column::number("created_at"),
        Column::mac("mac"),
    ],
    writes: EntityWrites::Insert,
    restore_warning: Some(RestoreWarning {
        changes: &[RestoreEffect::ComesBack],
        text: "keys that come back work again, also those that were deleted on purpose after the \
               backup, and so do access sessions that they authorized; delete them again with: \
               scrip key delete KEY_ID",
    }),
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    pub id: ApiKeyId,
    pub tenant: TenantId,
    pub application: ApplicationId,
    /// The API key itself is returned once and never stored.
    pub digest: [u8; 32],
    pub created: ChangeStamp,
}

/// An application with its API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    pub record: ApplicationRecord,
    /// Oldest first.
    pub api_keys: Vec<ApiKeyRecord>,
}

impl EntityRecord for ApplicationRecord {
    const ENTITY: &'static Entity = &APPLICATION;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("tenant", self.tenant.0);
        row.put("id", self.id.0);
        row.put("name", self.name.as_str());
        row.put("kind", self.kind.as_str());
        row.put("access", self.access.to_text());
        row.put_created(self.created);
        row.put_modified(self.modified);
        row.put("origins", self.origins.to_text());
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        let origins = row.optional_text("origins", ApplicationOrigins::from_stored)?;
        Ok(Self {
            id: ApplicationId(row.id("id")?),
            tenant: row.tenant()?,
            name: row.text("name", DisplayName::from_stored)?,
            kind: row.text("kind", ApplicationKind::parse)?,
            access: row.text("access", AccessPolicy::from_text)?,
            origins: origins.unwrap_or_default(),
            created: row.created()?,
            modified: row.modified()?,
        })
    }

    fn description(&self) -> String {
        format!("{}, {}", self.name.as_str(), self.kind.as_str())
    }
}

impl EntityRecord for ApiKeyRecord {
    const ENTITY: &'static Entity = &API_KEY;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("tenant", self.tenant.0);
        row.put("application", self.application.0);
        row.put("id", self.id.0);
        row.put("digest", self.digest.as_slice());
        row.put_created(self.created);
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        Ok(Self {
            id: ApiKeyId(row.id("id")?),
            tenant: row.tenant()?,
            application: ApplicationId(row.id("application")?),
            digest: row.digest("digest")?,
            created: row.created()?,
        })
    }

    fn description(&self) -> String {
        format!("application {}, created {}", self.application, self.created.at)
    }
}

/// The text of an API key. `Debug` does not print it, and it is wiped when dropped.
#[derive(Clone)]
pub struct ApiKeyText(Zeroizing<String>);

/// The minimum number of distinct bytes of an imported key. A random key has far more.
const API_KEY_DISTINCT_BYTES_MIN: usize = 8;
/// The minimum length of the random part of a key. A shorter text is a truncated copy.
const RANDOM_TEXT_BYTES_MIN: usize = 20;
const API_KEY_BYTES: std::ops::RangeInclusive<usize> = 20..=256;

impl ApiKeyText {
    /// Generates a key, such as `key_test_us_pvt_` and 195 random bits.
    pub fn new(tenant: TenantKind, segment: &str, fill_random: fn(&mut [u8])) -> Self {
        let text =
            format!("key_{}_us_{segment}_{}", tenant.key_segment(), random_text(fill_random));
        Self(Zeroizing::new(text))
    }

    /// Checks an imported key, which another system created.
    /// Errors: the key is too easy to guess, or has characters that are not allowed in a header.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let text = text.trim();
        if !API_KEY_BYTES.contains(&text.len()) {
            return Err(FieldError::new("key", "must have 20 to 256 characters"));
        }
        if !text.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(FieldError::new("key", "must have only letters, digits and symbols"));
        }
        let distinct_bytes: std::collections::BTreeSet<_> = text.bytes().collect();
        if distinct_bytes.len() < API_KEY_DISTINCT_BYTES_MIN {
            return Err(FieldError::new("key", "must have at least 8 different characters"));
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the key was created before keys named the kind of their tenant.
    pub fn is_legacy(text: &str) -> bool {
        !text.contains("_prod_") && !text.contains("_test_")
    }

    /// Whether the text has the form of a key that this vault creates. Imported legacy keys can
    /// have another form.
    pub fn has_key_form(text: &str) -> bool {
        let parts: Vec<&str> = text.splitn(5, '_').collect();
        let ["key", "test" | "prod", region, "pvt" | "pub" | "mgt" | SESSION_KEY_SEGMENT, random] =
            *parts
        else {
            return false;
        };
        let is_alphanumeric = |it: &str| it.bytes().all(|byte| byte.is_ascii_alphanumeric());
        !region.is_empty()
            && random.len() >= RANDOM_TEXT_BYTES_MIN
            && is_alphanumeric(region)
            && is_alphanumeric(random)
    }

    /// Whether the text has the form of an access session key. Only the store knows whether it is
    /// one.
    pub fn is_session_key(text: &str) -> bool {
        text.starts_with("key_") && text.split('_').nth(3) == Some(SESSION_KEY_SEGMENT)
    }
}

hide_in_debug! { ApiKeyText }

/// The segment of an access session key, at the position where an application's key has its kind.
pub(crate) const SESSION_KEY_SEGMENT: &str = "ses";

/// 195 random bits as letters and digits, without letters that look alike.
pub(crate) fn random_text(fill_random: fn(&mut [u8])) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHJKMNPQRSTVWXYZ0123456789";
    let mut bytes = Zeroizing::new([0; 39]);
    fill_random(bytes.as_mut());
    let to_letter = |byte: &u8| LETTERS.get(usize::from(byte % 32)).copied().map(char::from);
    bytes.iter().filter_map(to_letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_keys_state_their_kind_and_are_random() {
        let segment = ApplicationKind::Public.key_segment();
        let create_key = || ApiKeyText::new(TenantKind::Test, segment, scrip_seal::fill_random);
        assert!(create_key().expose().starts_with("key_test_us_pub_"));
        assert_eq!(create_key().expose().len(), "key_test_us_pub_".len() + 39);
        assert_ne!(create_key().expose(), create_key().expose());
        assert!(!ApiKeyText::is_legacy(create_key().expose()));
        assert!(!ApiKeyText::is_session_key(create_key().expose()));
        let session_key =
            ApiKeyText::new(TenantKind::Test, SESSION_KEY_SEGMENT, scrip_seal::fill_random);
        assert!(ApiKeyText::is_session_key(session_key.expose()));
        assert!(!format!("{session_key:?}").contains("key_"));
        assert!(ApiKeyText::is_legacy("key_pvt_us_0123456789abcdef"));
    }

    #[test]
    fn display_name_rejects_empty_long_and_invisible_text() {
        assert_eq!(DisplayName::parse(" Café 7 ").unwrap().as_str(), "Café 7");
        for text in ["", "  ", "a\nb", "a\u{202e}b", "a\u{200b}", &"x".repeat(201)] {
            assert!(DisplayName::parse(text).is_err(), "{text:?} is accepted");
        }
        assert!(DisplayName::parse(&"é".repeat(200)).is_ok());
    }
}
