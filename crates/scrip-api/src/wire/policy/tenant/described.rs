//! The tenant, described.

use scrip_core::{
    quota::Quotas,
    tenant::{DeduplicationBehavior, Settings, TenantKind},
};
use serde_json::{Value, json};

use crate::wire::{
    described::{Description, Tag, operation},
    policy::{
        application::described::name,
        tenant::{SETTINGS, TenantBody, quotas_body, settings},
    },
    schema::{
        Attribute, Schema, always, answer, boolean, instant, named, one_of, request, sometimes,
        text, uuid, whole,
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let tenant = answer([
        always("id", uuid()),
        always("name", text()),
        always("type", one_of(TenantKind::ALL.map(TenantKind::as_str))),
        always("settings", answer(each_setting(always))),
        always("created_at", instant()),
        sometimes("modified_by", uuid()),
        sometimes("modified_at", instant()),
    ]);
    let seconds = || whole().about("In seconds.");
    let quotas = answer([
        always("log_retention_seconds", seconds()),
        always("tokenize_limit", whole()),
        always("detokenize_limit", whole()),
        always("cvc_retention_seconds", seconds()),
        always("token_intent_retention_seconds", seconds()),
        always("rate_limit", text().pattern("^(default|off|[0-9]{1,5}%)$")),
        always("threeds_access", boolean()),
        always("deletion_grace_seconds", seconds()),
    ]);
    let update = request([
        always("name", name()),
        sometimes(
            "settings",
            request(each_setting(sometimes)).about(
                "Those that are named change; null takes one back to its default; the others stay.",
            ),
        ),
    ]);
    let changed = json!({"name": "Acme", "settings": {"deduplicate_tokens": "true"}});
    vec![
        ("Tenant", tenant.examples([example()])),
        ("Quotas", quotas.examples([json!(quotas_body(&Quotas::default_for(TenantKind::Test)))])),
        ("TenantUpdate", update.examples([changed])),
    ]
}

/// With the values that the setting itself accepts. All of them are texts.
fn each_setting(
    attribute: fn(&'static str, Schema) -> Attribute,
) -> impl Iterator<Item = Attribute> {
    let known = ["true", "false"];
    let known =
        known.into_iter().chain(DeduplicationBehavior::ALL.map(DeduplicationBehavior::as_str));
    let known: Vec<_> = known.collect();
    SETTINGS.iter().map(move |(name, _, set)| {
        let accepts = |it: &&'static str| set(&mut Settings::default(), Some(it)).is_some();
        attribute(name, one_of(known.iter().copied().filter(accepts)))
    })
}

fn example() -> Value {
    json!(TenantBody {
        id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        name: "Acme",
        r#type: TenantKind::Test.as_str(),
        settings: settings(&Settings::default()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
    })
}

pub(crate) fn get() -> Description {
    operation(Tag::Tenant, "Get the tenant").answer(200, "The tenant of the key.", named("Tenant"))
}

pub(crate) fn update() -> Description {
    operation(Tag::Tenant, "Update the tenant")
        .body(named("TenantUpdate"))
        .answer(200, "The tenant as it is now.", named("Tenant"))
        .problem(404)
        .problem(422)
}

pub(crate) fn delete() -> Description {
    operation(Tag::Tenant, "Delete the tenant")
        .about(
            "Its API keys stop at once. Its own keys are destroyed, and everything in it with them, when the \
             quota `deletion_grace_seconds` is over; until then an operator can restore it.",
        )
        .done("It is gone, and so is the key that asked.")
        .problem(404)
}

pub(crate) fn quotas() -> Description {
    operation(Tag::Tenant, "Get the quotas")
        .about("What the tenant may use, and for how long things are kept for it.")
        .answer(200, "The quotas of the tenant.", named("Quotas"))
}
