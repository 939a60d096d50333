//! Records, described.

use scrip_core::{
    audit::{
        EntityType, Operation,
        chain::{Log, LogRecord},
        message::OUTCOMES,
    },
    id::{ApiKeyId, ApplicationId, TenantId},
    time::Timestamp,
};
use scrip_seal::Mac;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::wire::{
    described::{Description, Tag, operation, parameter},
    log::{ENTITY_CHARS_MAX, body},
    query::described::{cursor_page_of, page_parameters},
    schema::{Schema, always, answer, instant, list, named, one_of, sometimes, text, uuid},
    tokens::{list::described::start, token::described::expiry},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let record = answer([
        always("id", text().pattern("^(audit|access)-[0-9]+$")),
        always("tenant_id", uuid()),
        sometimes("actor_id", uuid().about("The application; absent when it was none.")),
        always("actor_type", one_of(["application", "operator", "vault", "outsider"])),
        sometimes("api_key_id", uuid().about("The API key that authenticated the request.")),
        sometimes("entity_type", entity_type()),
        sometimes("entity_id", text().about("Absent where there is none to name.")),
        always("operation", text()),
        always("outcome", outcome()),
        sometimes("message", text()),
        sometimes("trace_id", text()),
        always("address", text()),
        always("created_at", instant()),
    ]);
    let of =
        |next: Value| json!({"pagination": {"page_size": 20, "next": next}, "data": [example()]});
    let page =
        cursor_page_of(named("Log")).examples([of(json!("AgEAAAAB3Q0rXw")), of(json!(null))]);
    let kind = answer([always("display_name", text()), always("value", entity_type())]);
    let kind = kind.examples([json!({"display_name": "Token", "value": "token"})]);
    vec![("Log", record.examples([example()])), ("LogPage", page), ("LogEntityType", kind)]
}

fn entity_type() -> Schema {
    one_of(EntityType::ALL.map(EntityType::as_str))
}

fn outcome() -> Schema {
    one_of(OUTCOMES.iter().map(|(it, _)| *it))
}

fn example() -> Value {
    let id = |byte| Uuid::from_bytes([byte; 16]);
    let record = LogRecord {
        tenant: TenantId(id(0x5f)),
        n: 17,
        at: Timestamp { unix_ms: 1_793_525_400_000 },
        actor_kind: "application".to_owned(),
        actor: Some(ApplicationId(id(0x0b))),
        operation: Operation::GetToken.as_str().to_owned(),
        entity: id(0xd3).to_string(),
        outcome: "masked".to_owned(),
        trace: "7f3b".to_owned(),
        address: "192.0.2.7".to_owned(),
        api_key: Some(ApiKeyId(id(0x4c))),
        os_user: None,
        repeats: None,
        link: Mac([0; 32]),
    };
    json!(body(Log::Access, &record))
}

pub(crate) fn list_all() -> Description {
    let operations = one_of(Operation::ALL.iter().map(|it| it.as_str()));
    let date = || expiry().about("In any form that `expires_at` of a token takes.");
    let [page, size] = page_parameters(u64::from(u32::MAX));
    operation(Tag::Logs, "List what was recorded")
        .about(
            "What was done, seen and refused in the tenant, the newest first, for as long as its log \
             retention says. All filters go together. Each page that is read is recorded, too.

A page by `start` may be shorter than asked and still have a `next`: go on until that is null. Pages by \
number are counted from `start`, or from the newest; they cost what lies before them, and end where that \
is too much. They leave out the records of pages that were read, which would move them, unless \
`operation` asks for those.",
        )
        .query([
            parameter("entity_type", entity_type(), "Only about such things."),
            parameter("entity_id", text().sized(0, ENTITY_CHARS_MAX), "Only about this one."),
            parameter("operation", operations, "Only by this operation."),
            parameter("outcome", outcome(), "Only with this outcome."),
            parameter("actor_id", uuid(), "Only by this application."),
            parameter("start_date", date(), "Not before this."),
            parameter("end_date", date(), "Before this."),
            parameter("start", start(), "The `next` of a page before."),
            page,
            size,
        ])
        .answer(200, "A page of records.", named("LogPage"))
        .problem(422)
}

pub(crate) fn entity_types() -> Description {
    operation(Tag::Logs, "List the types of what records are about").answer(
        200,
        "All of them.",
        list(named("LogEntityType")),
    )
}
