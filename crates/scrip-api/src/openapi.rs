//! The OpenAPI document: made once, of the route table and of the descriptions that stand beside the
//! wire code.
//!
//! A new operation needs an arm in `openapi/operations.rs`, which the compiler asks for; the row of
//! its route says the rest: who may, what kind of body, which idempotency.

mod operations;
mod outside;
mod page;
mod problems;

use std::sync::LazyLock;

use bytes::Bytes;
use scrip_core::caller::Needs;
use serde_json::{Map, Value, json};

use crate::{
    deprecation::{self, Deprecated},
    openapi::operations::describe,
    route::{BodyKind, Counted, Keyless, Route, method_name},
    routes::{ROUTES, callbacks::OUTSIDE, keyless::KEYLESS},
    wire::{
        self,
        described::{Answer, Description, Parameter, Style, Tag},
    },
};

/// The document. Nothing in it depends on how the server runs.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    &DOCUMENT
}

/// As it is served.
pub(crate) fn json() -> Bytes {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    JSON.clone()
}

/// The same for people.
pub(crate) fn html() -> Bytes {
    static HTML: LazyLock<Bytes> = LazyLock::new(|| page::render(document()).into());
    HTML.clone()
}

pub(crate) const STYLE: &str = include_str!("openapi/style.css");

const ABOUT: &str = "A vault for card numbers and personal data.

Every operation but the probes and this document needs an API key in the header `BT-API-KEY`, and most \
need a permission that the key's application holds.

`BT-TRACE-ID` names a request in its answer, in the log and in the records; without one, the server makes \
one up. A path may end with a slash. Attributes that are unknown are passed over; in a request, an optional \
attribute that is null says nothing. In an answer, what is absent is left out, and times are in UTC.

Problems come as `application/problem+json`, and a request that is not valid is told which attributes are \
wrong. No problem repeats what was sent.";

fn build() -> Value {
    let mut paths = Map::new();
    let mut put = |path: &str, method: &str, operation: Value| {
        let path = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(method.to_ascii_lowercase(), operation);
        }
    };
    for (at, row) in ROUTES.iter().enumerate() {
        let Some(described) = describe(row.operation) else { continue };
        put(row.path, method_name(row.method), keyed(row, &operation_id(at, row), &described));
    }
    for row in KEYLESS {
        put(row.path, "GET", keyless(row));
    }
    for row in OUTSIDE {
        let Some(described) = describe(row.operation) else { continue };
        put(row.path, "POST", outside::described(row, &described));
    }
    let tag = |it: Tag| {
        let (name, description) = it.texts();
        json!({"name": name, "description": description})
    };
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Scrip",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "An open, self-hosted tokenization vault.",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": Tag::ALL.map(tag),
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "responses": problems::responses(),
            "headers": headers(),
            "parameters": {"IdempotencyKey": idempotency_key()},
            "securitySchemes": {"api_key": {
                "type": "apiKey",
                "in": "header",
                "name": "BT-API-KEY",
                "description": "The key of an application, or of a session that it authorized.",
            }},
        },
    })
}

fn schemas() -> Map<String, Value> {
    let all = [
        wire::tokens::token::described::components(),
        wire::tokens::list::described::components(),
        wire::tokens::search::described::components(),
        wire::tokens::tokenize::described::components(),
        wire::tokens::detokenize::described::components(),
        wire::tokens::token_intent::described::components(),
        wire::connection_formula::described::components(),
        wire::policy::application::described::components(),
        wire::policy::access::described::components(),
        wire::policy::session::described::components(),
        wire::threeds::described::components(),
        wire::policy::tenant::described::components(),
        wire::log::described::components(),
        wire::policy::usage::described::components(),
        wire::query::described::components(),
        problems::components(),
    ];
    all.into_iter().flatten().map(|(name, it)| (name.to_owned(), it.into_value())).collect()
}

fn headers() -> Value {
    json!({
        "TraceId": {
            "description": "What this request is called in the log: as it was sent, or made up.",
            "required": true,
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        },
        "RetryAfter": {
            "description": "How many seconds to wait before trying again. Absent when a search budget is spent: waiting a moment does not help then.",
            "required": false,
            "schema": {"type": "integer", "minimum": 1},
        },
        "RateLimitLimit": {
            "description": "How many requests the limit allows in its window.",
            "required": false,
            "schema": {"type": "integer", "minimum": 1},
        },
        "RateLimitRemaining": {
            "description": "How many of them are left: none.",
            "required": false,
            "schema": {"type": "integer", "const": 0},
        },
        "RateLimitReset": {
            "description": "In how many seconds there is room again; the same as `Retry-After`.",
            "required": false,
            "schema": {"type": "integer", "minimum": 1},
        },
        "XRateLimitReset": {
            "description": "The same in seconds since 1970.",
            "required": false,
            "schema": {"type": "integer", "minimum": 1},
        },
        "Deprecation": {
            "description": "Since when the operation is deprecated, in seconds since 1970 (RFC 9745).",
            "required": true,
            "schema": {"type": "string", "pattern": "^@[0-9]+$"},
        },
        "Sunset": {
            "description": "The day of its shutdown, which may be long past (RFC 8594).",
            "required": true,
            "schema": {"type": "string", "pattern": "^[A-Z][a-z]{2}, .* GMT$"},
        },
        "Successor": {
            "description": "What to use instead: a link with `rel=\"successor-version\"`.",
            "required": true,
            "schema": {"type": "string", "pattern": "^</.*>; rel=\"successor-version\"$"},
        },
    })
}

/// Unique by nature, which no schema can say.
fn idempotency_key() -> Value {
    json!({
        "name": "BT-IDEMPOTENCY-KEY",
        "in": "header",
        "description": "A text that the client never uses again, such as a UUID. For 24 hours, a \
            request of the same application with the same key is given the first one's answer, \
            whatever it asks for, if that succeeded; while the first is in flight, 409.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
    })
}

/// The operation's own name; on a second route, with a number.
fn operation_id(at: usize, row: &Route) -> String {
    let before = ROUTES.iter().take(at).filter(|it| it.operation == row.operation).count();
    let name = row.operation.as_str();
    if before == 0 { name.to_owned() } else { format!("{name}_{}", before.saturating_add(1)) }
}

/// What needs a key.
fn keyed(row: &Route, id: &str, described: &Description) -> Value {
    let (who, roles, needs) = needed(row.needs);
    let gone = deprecation::of(row.operation);
    let mut operation = common(described, id, &[&who, &gone.map(told).unwrap_or_default()]);
    let mut parameters = parameters(described);
    if honours_a_key(row.body) {
        parameters.push(json!({"$ref": "#/components/parameters/IdempotencyKey"}));
    }
    let mut responses = responses(described);
    let of_row = problems::of_row(row.needs, row.body);
    let (others, problem): (Option<u16>, fn(u16) -> Value) =
        if gone.is_some() { (Some(410), problems::spelled_out) } else { (None, problems::named) };
    for status in of_row.into_iter().chain(described.problems.clone()).chain(others) {
        responses.insert(status.to_string(), problem(status));
    }
    let mut put = |name: &str, value: Value| operation.insert(name.to_owned(), value);
    if gone.is_some() {
        put("deprecated", true.into());
        responses.values_mut().for_each(mark);
    }
    if !parameters.is_empty() {
        put("parameters", parameters.into());
    }
    if let (Some(content_type), Some(body)) = (row.body.content_type(), &described.body) {
        let schema = body.clone().into_value();
        put(
            "requestBody",
            json!({"required": true, "content": {content_type: {"schema": schema}}}),
        );
    }
    put("responses", responses.into());
    put("security", json!([{"api_key": roles}]));
    put("x-scrip-needs", needs);
    operation.into()
}

/// Whether an idempotency key is looked at.
fn honours_a_key(body: BodyKind) -> bool {
    match body {
        BodyKind::None | BodyKind::Question => false,
        BodyKind::Unread | BodyKind::Json | BodyKind::MergePatch => true,
    }
}

fn told(gone: &Deprecated) -> String {
    format!("Deprecated since {}: {}.", gone.since, gone.instead)
}

/// Whatever its status, an answer of a deprecated operation says so.
fn mark(response: &mut Value) {
    let Some(Value::Object(headers)) = response.get_mut("headers") else { return };
    for (name, component) in
        [("Deprecation", "Deprecation"), ("Sunset", "Sunset"), ("Link", "Successor")]
    {
        let header = json!({"$ref": format!("#/components/headers/{component}")});
        headers.insert(name.to_owned(), header);
    }
}

fn keyless(row: &Keyless) -> Value {
    let described = (row.describe)();
    let mut operation = common(&described, row.name, &[]);
    let mut responses = responses(&described);
    let throttled = match row.counted {
        Counted::No => None,
        Counted::ByAddress => Some(429),
    };
    for status in described.problems.iter().copied().chain(throttled) {
        responses.insert(status.to_string(), problems::named(status));
    }
    operation.insert("responses".to_owned(), responses.into());
    operation.insert("security".to_owned(), json!([]));
    operation.into()
}

fn common(described: &Description, id: &str, told: &[&str]) -> Map<String, Value> {
    let parts =
        std::iter::once(described.about).chain(told.iter().copied()).filter(|it| !it.is_empty());
    let description = parts.collect::<Vec<_>>().join("\n\n");
    let mut operation = Map::new();
    let mut put = |name: &str, value: Value| operation.insert(name.to_owned(), value);
    put("operationId", id.into());
    put("summary", described.summary.into());
    put("tags", json!([described.tag.texts().0]));
    if !description.is_empty() {
        put("description", description.into());
    }
    operation
}

/// Who may: in words, as roles, and for programs.
fn needed(needs: Needs) -> (String, Vec<&'static str>, Value) {
    match needs {
        Needs::Key => ("Any key will do.".to_owned(), Vec::new(), json!({"key": "any"})),
        Needs::Kind(kind) => {
            let kind = kind.as_str();
            let who = format!("Needs the key of a {kind} application, whatever its permissions.");
            (who, Vec::new(), json!({"key": kind}))
        }
        Needs::Permission(permission) => {
            let name = permission.as_str();
            let kinds: Vec<_> = permission.kinds().iter().map(|it| it.as_str()).collect();
            let who = format!(
                "Needs the permission `{name}`, which {} applications can hold.",
                kinds.join(" and ")
            );
            (who, vec![name], json!({"permission": name, "application_types": kinds}))
        }
    }
}

fn parameters(described: &Description) -> Vec<Value> {
    let path = described.path.iter().map(|it| (it, "path"));
    let query = described.query.iter().map(|it| (it, "query"));
    let parameter = |(it, place): (&Parameter, &str)| {
        let Parameter { name, about, schema, style } = it;
        let schema = schema.clone().into_value();
        let mut parameter =
            json!({"name": name, "in": place, "description": about, "schema": schema});
        if let (Some(object), "path") = (parameter.as_object_mut(), place) {
            object.insert("required".to_owned(), true.into());
        }
        if let (Some(object), Style::Entries) = (parameter.as_object_mut(), style) {
            object.insert("style".to_owned(), "deepObject".into());
            object.insert("explode".to_owned(), true.into());
        }
        parameter
    };
    path.chain(query).map(parameter).collect()
}

fn responses(described: &Description) -> Map<String, Value> {
    let answer = |it: &Answer| {
        let mut response = json!({
            "description": it.about,
            "headers": {"BT-TRACE-ID": {"$ref": "#/components/headers/TraceId"}},
        });
        let Some(object) = response.as_object_mut() else { return response };
        if let Some((content_type, schema)) = &it.content {
            let schema = schema.clone().into_value();
            object.insert("content".to_owned(), json!({*content_type: {"schema": schema}}));
        }
        if !described.links.is_empty() {
            object.insert("links".to_owned(), links(described));
        }
        response
    };
    described.answers.iter().map(|it| (it.status.to_string(), answer(it))).collect()
}

fn links(described: &Description) -> Value {
    let link = |it: &wire::described::Link| {
        let parameter = |(name, from): &(&str, &str)| ((*name).to_owned(), json!(from));
        let parameters: Map<_, _> = it.parameters.iter().map(parameter).collect();
        let name = it.operation.as_str();
        (name.to_owned(), json!({"operationId": name, "parameters": parameters}))
    };
    described.links.iter().map(link).collect::<Map<_, _>>().into()
}
