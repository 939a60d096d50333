//! JSON of applications and their API keys.

#[cfg(test)]
mod tests;

use scrip_core::{
    idempotency::RenderedResponse,
    listing::Page,
    operations::applications::{
        create_api_key::CreatedApiKey,
        create_application::{CreateKey, CreatedApplication, NewApplication},
        update_application::ApplicationUpdate,
    },
    policy::{
        ApiKeyRecord, ApiKeyText, Application, DisplayName,
        application::{origins::ApplicationOrigins, web_origin::WebOrigin},
    },
    types::{ApplicationKind, Permission, Plaintext},
};
use serde::Serialize;

use crate::wire::{
    ParseError,
    json::JsonFields,
    policy::access::{self, RuleBody, RuleHolder},
    query::{QueryParameters, invalid_parameter, page_body},
    response::render,
};

pub(crate) fn parse_new(body: Plaintext) -> Result<NewApplication, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let name = parse_name(&mut fields);
    let kind = fields.required_text("type");
    let kind = fields.parse_choice("type", kind, ApplicationKind::parse, KIND_RULE);
    let access = access::parse(&mut fields, RuleHolder::Application);
    let origins = parse_origins(&mut fields).unwrap_or_default();
    let create_key = match fields.boolean("create_key").into_option() {
        Some(false) => CreateKey::No,
        Some(true) | None => CreateKey::Yes,
    };
    fields.finish_with(name.zip(kind)).map(|(name, kind)| NewApplication {
        name,
        kind,
        access,
        origins,
        create_key,
    })
}

pub(crate) const KIND_RULE: &str = "must be public, private or management";

/// Parses the application types that a list returns. The parameter can be repeated.
pub(crate) fn parse_kinds(query: &QueryParameters<'_>) -> Result<Vec<ApplicationKind>, ParseError> {
    let parse_kind =
        |it| ApplicationKind::parse(it).ok_or_else(|| invalid_parameter("type", KIND_RULE));
    query.all("type").map(parse_kind).collect()
}

/// Parses the attributes that can be changed later: name, permissions and origins.
pub(crate) fn parse_update(body: Plaintext) -> Result<ApplicationUpdate, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let name = parse_name(&mut fields);
    let access = access::parse(&mut fields, RuleHolder::Application);
    let origins = parse_origins(&mut fields);
    fields.finish_with(name).map(|name| ApplicationUpdate { name, access, origins })
}

/// The origins; `None` if the request does not mention them.
fn parse_origins(fields: &mut JsonFields) -> Option<ApplicationOrigins> {
    let texts = fields.texts("origins");
    let origins =
        fields.parse(texts, |it| ApplicationOrigins::parse(&it).map_err(|error| vec![error]));
    origins.into_patch().map(Option::unwrap_or_default)
}

pub(crate) fn parse_name(fields: &mut JsonFields) -> Option<DisplayName> {
    let name = fields.required_text("name");
    fields.parse(name, |it| DisplayName::parse(&it).map_err(|error| vec![error])).into_option()
}

bodies! {
    struct ApplicationBody<'a> {
        id: String,
        tenant_id: String,
        name: &'a str,
        key?: &'a str,
        keys: Vec<KeyBody<'a>>,
        r#type: &'static str,
        permissions: Vec<&'static str>,
        rules: Vec<RuleBody<'a>>,
        /// Only of public applications.
        origins?: Vec<&'a str>,
        created_by?: String,
        created_at: String,
        modified_by?: String,
        modified_at?: String,
    }

    struct KeyBody<'a> {
        id: String,
        key?: &'a str,
        created_by?: String,
        created_at: String,
    }
}

/// The response of Create Application: the only one that contains the key.
pub fn render_created(created: &CreatedApplication) -> RenderedResponse {
    render(201, &body(&created.application, created.api_key.as_ref()))
}

pub fn render_application(application: &Application) -> RenderedResponse {
    render(200, &body(application, None))
}

pub(crate) fn render_list(page: &Page<Application>) -> RenderedResponse {
    render(200, &page_body(page, |it| body(it, None)))
}

pub fn render_created_key(created: &CreatedApiKey) -> RenderedResponse {
    render(201, &key_body(&created.record, Some(&created.api_key)))
}

pub fn render_key(record: &ApiKeyRecord) -> RenderedResponse {
    render(200, &key_body(record, None))
}

/// The plain array that the official clients expect.
pub(crate) fn render_keys(records: &[&ApiKeyRecord]) -> RenderedResponse {
    render(200, &records.iter().map(|it| key_body(it, None)).collect::<Vec<_>>())
}

/// The page for requests with `page` or `size`.
pub(crate) fn render_key_page(page: &Page<ApiKeyRecord>) -> RenderedResponse {
    render(200, &page_body(page, |it| key_body(it, None)))
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
        permissions: access::permission_names(record.access.permissions),
        rules: access::rule_bodies(&record.access),
        origins: (record.kind == ApplicationKind::Public)
            .then(|| record.origins.iter().map(WebOrigin::text).collect()),
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

/// The permissions that an application of this kind can have, or all permissions. Permissions of
/// features that do not exist are left out.
pub(crate) fn render_permissions(kind: Option<ApplicationKind>) -> RenderedResponse {
    let is_allowed = |it: &&Permission| {
        it.missing_feature().is_none() && kind.is_none_or(|kind| it.kinds().contains(&kind))
    };
    let body = |it: &Permission| PermissionBody {
        r#type: it.as_str(),
        description: it.description(),
        application_types: it.kinds().iter().map(|it| it.as_str()).collect(),
    };
    render(200, &Permission::ALL.iter().filter(is_allowed).map(body).collect::<Vec<_>>())
}
