//! Applications and their keys on the wire.

#[cfg(test)]
mod tests;

use scrip_core::{
    idempotency::Rendered,
    listing::Page,
    operations::applications::{
        create_api_key::CreatedApiKey,
        create_application::{CreateKey, CreatedApplication, NewApplication},
    },
    policy::{
        AccessPolicy, ApiKeyRecord, ApiKeyText, Application, ApplicationKind, Name, Permission,
    },
    token::Plain,
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    answer::render,
    fields::Fields,
    policy::access::{self, Holder, RuleBody},
    query::paged,
};

pub(crate) fn parse_new(body: Plain) -> Result<NewApplication, ParseError> {
    let mut fields = Fields::of(body)?;
    let name = parse_name(&mut fields);
    let kind = fields.required_text("type");
    let kind = fields.parse_choice("type", kind, ApplicationKind::parse, KIND_RULE);
    let access = access::parse(&mut fields, Holder::Application);
    let create_key = match fields.boolean("create_key").given() {
        Some(false) => CreateKey::No,
        Some(true) | None => CreateKey::Yes,
    };
    fields.finish_with(name.zip(kind)).map(|(name, kind)| NewApplication {
        name,
        kind,
        access,
        create_key,
    })
}

pub(crate) const KIND_RULE: &str = "must be public, private or management";

/// A name and rights: everything that can be changed later.
pub(crate) fn parse_update(body: Plain) -> Result<(Name, AccessPolicy), ParseError> {
    let mut fields = Fields::of(body)?;
    let name = parse_name(&mut fields);
    let access = access::parse(&mut fields, Holder::Application);
    fields.finish_with(name).map(|name| (name, access))
}

pub(crate) fn parse_name(fields: &mut Fields) -> Option<Name> {
    let name = fields.required_text("name");
    fields.parse(name, |it| Name::parse(&it).map_err(|error| vec![error])).given()
}

#[derive(Serialize)]
struct ApplicationBody<'a> {
    id: String,
    tenant_id: String,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    keys: Vec<KeyBody<'a>>,
    r#type: &'static str,
    permissions: Vec<&'static str>,
    rules: Vec<RuleBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

#[derive(Serialize)]
struct KeyBody<'a> {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    created_at: String,
}

/// The answer to Create Application: the only one with its key.
pub fn created(created: &CreatedApplication) -> Rendered {
    render(201, &body(&created.application, created.api_key.as_ref()))
}

pub fn found(application: &Application) -> Rendered {
    render(200, &body(application, None))
}

pub(crate) fn listed(page: &Page<Application>) -> Rendered {
    render(200, &paged(page, |it| body(it, None)))
}

pub fn created_key(created: &CreatedApiKey) -> Rendered {
    render(201, &key_body(&created.record, Some(&created.api_key)))
}

pub fn found_key(record: &ApiKeyRecord) -> Rendered {
    render(200, &key_body(record, None))
}

/// As the official clients read it.
pub(crate) fn listed_keys(records: &[&ApiKeyRecord]) -> Rendered {
    render(200, &records.iter().map(|it| key_body(it, None)).collect::<Vec<_>>())
}

/// For whoever asks for a page.
pub(crate) fn paged_keys(page: &Page<ApiKeyRecord>) -> Rendered {
    render(200, &paged(page, |it| key_body(it, None)))
}

fn body<'a>(application: &'a Application, key: Option<&'a ApiKeyText>) -> ApplicationBody<'a> {
    let record = &application.record;
    ApplicationBody {
        id: record.id.to_string(),
        tenant_id: record.tenant.to_string(),
        name: record.name.as_str(),
        key: key.map(ApiKeyText::expose),
        keys: application.api_keys.iter().map(|it| key_body(it, key)).collect(),
        r#type: record.kind.as_str(),
        permissions: access::names(record.access.permissions),
        rules: access::rules(&record.access),
        created_by: record.created.by.map(|it| it.to_string()),
        created_at: record.created.at.to_string(),
        modified_by: record.modified.and_then(|it| it.by).map(|it| it.to_string()),
        modified_at: record.modified.map(|it| it.at.to_string()),
    }
}

fn key_body<'a>(record: &ApiKeyRecord, key: Option<&'a ApiKeyText>) -> KeyBody<'a> {
    KeyBody {
        id: record.id.to_string(),
        key: key.map(ApiKeyText::expose),
        created_by: record.created.by.map(|it| it.to_string()),
        created_at: record.created.at.to_string(),
    }
}

#[derive(Serialize)]
struct PermissionBody {
    r#type: &'static str,
    description: &'static str,
    application_types: Vec<&'static str>,
}

/// Those that this kind of application may hold, or all.
pub(crate) fn permissions(kind: Option<ApplicationKind>) -> Rendered {
    let held = |it: &&Permission| kind.is_none_or(|kind| it.kinds().contains(&kind));
    let body = |it: &Permission| PermissionBody {
        r#type: it.as_str(),
        description: it.description(),
        application_types: it.kinds().iter().map(|it| it.as_str()).collect(),
    };
    render(200, &Permission::ALL.iter().filter(held).map(body).collect::<Vec<_>>())
}
