//! The most expensive requests that the limits allow, for every route. The cost test sends them in a
//! debug build and checks the charged work; `bench --cost` measures their processor time.

use scrip_core::{
    policy::CallerRequirement,
    types::{ApplicationKind, Operation, Permission},
};
use serde_json::{Map, Value, json};

/// Who sends a worst input. What a caller may see decides what the vault computes for it: a partial
/// patch withholds outputs only without a reveal right, and numbers count as guesses only then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorstCaller {
    Reveal,
    Masks,
    Browser,
    Session,
    Management,
}

impl WorstCaller {
    pub const ALL: [Self; 5] =
        [Self::Reveal, Self::Masks, Self::Browser, Self::Session, Self::Management];

    pub fn name(self) -> &'static str {
        match self {
            Self::Reveal => "reveal",
            Self::Masks => "masks",
            Self::Browser => "public",
            Self::Session => "session",
            Self::Management => "management",
        }
    }

    /// Whether the caller has the right that the route needs.
    pub fn may_call(self, requirement: CallerRequirement) -> bool {
        let kind = match self {
            Self::Reveal | Self::Masks => ApplicationKind::Private,
            Self::Browser => ApplicationKind::Public,
            Self::Session => {
                return match requirement {
                    CallerRequirement::Permission(it) => mask_permissions().contains(&it),
                    CallerRequirement::AnyKey | CallerRequirement::Kind(_) => false,
                };
            }
            Self::Management => ApplicationKind::Management,
        };
        match requirement {
            CallerRequirement::AnyKey => self == Self::Reveal,
            CallerRequirement::Kind(it) => it == kind && self != Self::Masks,
            CallerRequirement::Permission(it) if self == Self::Masks => {
                mask_permissions().contains(&it)
            }
            CallerRequirement::Permission(it) => it.kinds().contains(&kind),
        }
    }
}

/// The permissions of the callers that see masks: an application and an access session.
pub fn mask_permissions() -> Vec<Permission> {
    let permissions = Permission::grantable(ApplicationKind::Private);
    permissions.filter(|it| it.is_container_scoped()).collect()
}

/// The same as an attribute of an application, or of the authorization of an access session.
pub fn mask_rights() -> Value {
    let names: Vec<_> = mask_permissions().into_iter().map(Permission::as_str).collect();
    json!({"permissions": names})
}

/// A request of a route that costs as much as the limits allow.
#[derive(Debug, Clone, Copy)]
pub struct WorstInput {
    pub operation: Operation,
    pub input: &'static str,
    pub query: &'static str,
    pub body: fn() -> Option<Value>,
    /// Patches of the token that come first, so that a large token is stored.
    pub stored: fn() -> Vec<Value>,
}

const fn input(
    operation: Operation,
    input: &'static str,
    body: fn() -> Option<Value>,
) -> WorstInput {
    WorstInput { operation, input, query: "", body, stored: Vec::new }
}

const fn list(operation: Operation, input: &'static str, query: &'static str) -> WorstInput {
    WorstInput { operation, input, query, body: || None, stored: Vec::new }
}

pub const WORST_INPUTS: &[WorstInput] = &[
    input(Operation::CreateToken, "largest data", || Some(large_token())),
    input(Operation::CreateToken, "deepest data", || Some(deep_token())),
    input(Operation::CreateToken, "most values", || {
        Some(json!({"type": "token", "data": vec![1; 99_000]}))
    }),
    input(Operation::CreateToken, "16 search indexes", || Some(indexed_token())),
    input(Operation::CreateToken, "most numbers", || Some(numbers_token())),
    input(Operation::CreateToken, "most numbers with nine digits", || {
        Some(json!({"type": "token", "data": "420-51-4455[".repeat(28 * 1024)}))
    }),
    input(Operation::UpdateToken, "largest data", || Some(json!({"data": long_text()}))),
    input(Operation::UpdateToken, "most numbers", || Some(json!({"data": {"n": number_text()}}))),
    WorstInput {
        stored: || vec![token_with_most_outputs()],
        ..input(Operation::UpdateToken, "one of most inputs of most outputs", || {
            Some(json!({"data": {"a0": "1"}}))
        })
    },
    WorstInput {
        stored: || vec![token_with_most_outputs()],
        ..input(Operation::UpdateToken, "most members, most outputs", || {
            let members = (0..30_000).map(|it| (format!("a{it}"), json!("1")));
            Some(json!({"data": members.collect::<Map<_, _>>()}))
        })
    },
    WorstInput {
        stored: || {
            let patch = |name: &str| json!({"data": {name: many_values()}, "search_indexes": []});
            ["a", "b"].map(patch).into()
        },
        ..input(Operation::UpdateToken, "largest stored token", || {
            Some(json!({"metadata": {"a": "1"}}))
        })
    },
    input(Operation::CreateToken, "16 search indexes in 16 containers", || {
        Some(token_in_containers())
    }),
    input(Operation::Tokenize, "200 tokens", || Some(most_tokens())),
    input(Operation::Tokenize, "most index entries", || {
        Some(json!(vec![token_in_containers(); 3]))
    }),
    input(Operation::Tokenize, "largest body without tokens", || Some(json!({"a": long_text()}))),
    input(Operation::Detokenize, "largest body", || Some(json!({"a": long_text()}))),
    input(Operation::Detokenize, "1,000 expressions", || Some(thousand_expressions())),
    input(Operation::SearchTokens, "longest query", || Some(json!({"query": long_query()}))),
    input(Operation::SearchTokensV1, "longest query", || Some(json!({"query": long_query()}))),
    list(Operation::ListTokens, "largest page", "?size=100"),
    list(Operation::ListTokensV1, "largest page", "?size=100"),
    input(Operation::CreateTokenIntent, "largest data", || Some(large_token())),
    input(Operation::UpdateTenant, "name", || Some(json!({"name": "x".repeat(200)}))),
    input(Operation::CreateApplication, "64 rules", || Some(application())),
    input(Operation::UpdateApplication, "64 rules", || Some(application())),
    list(Operation::ListApplications, "largest page", "?size=100"),
    input(Operation::CreateApiKey, "another key", || None),
    input(Operation::CreateProxy, "32 masks", || Some(proxy_with_masks())),
    input(Operation::CreateProxy, "16 largest transforms", || Some(proxy_with_templates())),
    input(Operation::UpdateProxy, "32 masks", || Some(proxy_with_masks())),
    input(Operation::PatchProxy, "32 masks", || Some(masks())),
    input(Operation::PatchProxy, "name only", || Some(json!({"name": "renamed"}))),
    list(Operation::ListProxies, "largest page", "?size=100"),
    input(Operation::CreateClientKey, "another key", || Some(json!({"expires_at": null}))),
    input(Operation::UpdateWebhook, "all attributes", || Some(webhook())),
    input(Operation::RotateWebhookSecret, "another secret", || None),
    list(Operation::ListWebhookDeliveries, "largest page", "?size=100"),
    list(Operation::ListLogs, "largest page", "?size=100"),
    list(Operation::GetTenantUsage, "report", ""),
];

/// Routes without a row, each with the reason.
pub const EXCUSED_OPERATIONS: &[(Operation, &str)] = &[
    (Operation::GetToken, ONE_ROW),
    (Operation::DeleteToken, ONE_ROW),
    (Operation::GetTokenIntent, ONE_ROW),
    (Operation::DeleteTokenIntent, ONE_ROW),
    (Operation::GetTenant, ONE_ROW),
    (Operation::DeleteTenant, AS_UPDATE_TENANT),
    (Operation::GetTenantQuotas, ONE_ROW),
    (Operation::GetApplicationByKey, ONE_ROW),
    (Operation::GetApplication, ONE_ROW),
    (Operation::DeleteApplication, AS_CREATE),
    (Operation::RegenerateApplicationKey, "the operation was removed and responds 410"),
    (Operation::ListApiKeys, "an application has at most 100 keys, in memory"),
    (Operation::GetApiKey, ONE_ROW),
    (Operation::DeleteApiKey, AS_CREATE),
    (Operation::ListPermissions, CONSTANT),
    (Operation::GetProxy, ONE_ROW),
    (Operation::DeleteProxy, AS_CREATE),
    (
        Operation::SetProxyClientCertificate,
        "needs a chain with its key; parsed in a slot above 64 KiB of work",
    ),
    (Operation::DeleteProxyClientCertificate, AS_CREATE),
    (Operation::ListClientKeys, "a tenant has at most 100 keys, in memory"),
    (Operation::GetClientKey, ONE_ROW),
    (Operation::GetClientPublicKey, ONE_ROW),
    (Operation::DeleteClientKey, AS_CREATE),
    (Operation::CreateWebhook, "as UpdateWebhook, and limited by a quota of five"),
    (Operation::ListWebhooks, "a tenant has at most 100 webhooks, in memory"),
    (Operation::ListWebhookEventTypes, CONSTANT),
    (Operation::GetWebhook, ONE_ROW),
    (Operation::DeleteWebhook, AS_CREATE),
    (Operation::TestWebhook, "one sealed delivery"),
    (
        Operation::ReplayWebhookDeliveries,
        "one statement that updates at most 100,000 rows of the caller's webhook, in batches",
    ),
    (Operation::CreateAccessSession, "no body, one row"),
    (Operation::AuthorizeAccessSession, "at most 64 rules, as CreateApplication, and one row"),
    (Operation::CreateThreeDsSession, THREEDS),
    (Operation::GetThreeDsSession, ONE_ROW),
    (Operation::UpdateThreeDsSession, THREEDS),
    (Operation::AuthenticateThreeDsSession, THREEDS),
    (Operation::GetChallengeResult, ONE_ROW),
    (Operation::GetCardDetails, "one lookup in memory"),
    (Operation::ListLogEntityTypes, CONSTANT),
    (Operation::ListConnectionFormulas, CONSTANT),
];

const ONE_ROW: &str = "no body; reads or deletes one row";
const CONSTANT: &str = "a constant list";
const AS_CREATE: &str = "no body; the policy change is that of the create of the same entity";
const AS_UPDATE_TENANT: &str = "no body; the policy change is that of UpdateTenant";
const THREEDS: &str = "bodies of at most 72 KiB, in clear columns of one row";

/// Text that fills most of the largest allowed data.
fn long_text() -> String {
    "0123456789 ".repeat(30 * 1024)
}

/// Half of the values and most of half of the bytes that a token may have.
fn many_values() -> Value {
    json!(vec!["0123456789abcdef"; 49_000])
}

/// Numbers of a card each, in runs of both kinds: brackets end the one and not the other.
fn number_text() -> String {
    "4242424242424242[".repeat(20 * 1024)
}

fn numbers_token() -> Value {
    json!({"type": "token", "data": number_text()})
}

/// Mask leaves, search indexes and a fingerprint that read as many inputs as a source can name.
fn token_with_most_outputs() -> Value {
    let expression = |first: usize| -> String {
        (first..first + 300).map(|it| format!("{{{{data.a{it}}}}}")).collect()
    };
    let leaves: Vec<_> = (0..14).map(expression).collect();
    let indexes: Vec<_> = (0..16).map(|it| expression(it * 20)).collect();
    let data: Map<_, _> = (0..700).map(|it| (format!("a{it}"), json!("0"))).collect();
    json!({"data": data, "mask": leaves, "search_indexes": indexes,
        "fingerprint_expression": expression(0)})
}

fn large_token() -> Value {
    json!({"type": "token", "data": long_text()})
}

fn deep_token() -> Value {
    let data = (0..14).fold(json!("x"), |inner, _| json!({"a": inner, "b": [1, 2, 3]}));
    json!({"type": "token", "data": data})
}

fn indexed_token() -> Value {
    let indexes: Vec<_> = (0..16)
        .map(|it| format!("{{{{ data.n | append: '{it}' | reverse | upcase | slice: 1, 40000 }}}}"))
        .collect();
    json!({"type": "token", "data": {"n": "x".repeat(40_000)}, "search_indexes": indexes,
        "fingerprint_expression": "{{ data.n | reverse }}"})
}

fn most_tokens() -> Value {
    let token = |it: usize| (format!("t{it}"), json!({"type": "token", "data": format!("v{it}")}));
    Value::Object((0..200).map(token).collect())
}

/// One entry for each container and search index, for the type and for the fingerprint.
fn token_in_containers() -> Value {
    let containers: Vec<_> = (0..16).map(|it| format!("/c{it}/")).collect();
    let indexes: Vec<_> = (0..16).map(|it| format!("{{{{ data.n | append: '{it}' }}}}")).collect();
    json!({"type": "token", "data": {"n": "x"}, "containers": containers,
        "search_indexes": indexes})
}

/// The id in the expressions of worst inputs. A measurement replaces it by that of a token.
pub const TOKEN_ID: &str = "00000000-0000-4000-8000-000000000000";

fn thousand_expressions() -> Value {
    let entry = |it: usize| (format!("e{it}"), json!(format!("{{{{ {TOKEN_ID} }}}}")));
    Value::Object((0..1000).map(entry).collect())
}

/// The longest term. A query has one.
fn long_query() -> String {
    format!("metadata.order:\"{}\"", "x".repeat(3900))
}

fn application() -> Value {
    let rule = |it: usize| {
        json!({"description": "x".repeat(60), "priority": it, "container": format!("/c{it}/"),
            "transform": "mask", "permissions": ["token:read"]})
    };
    json!({"name": "cost", "type": "private", "rules": (1..=64).map(rule).collect::<Vec<_>>()})
}

/// Sixteen masks for each direction, each with as many classes as the steps allow.
fn masks() -> Value {
    let mask = |it: usize| {
        json!({"type": "mask", "matcher": "regex", "replacement": "*",
            "expression": format!("({}{it})", r"\W*".repeat(80))})
    };
    let masks = |first: usize| (first..first + 16).map(mask).collect::<Vec<_>>();
    json!({"request_transforms": masks(100), "response_transforms": masks(200)})
}

fn proxy_with_masks() -> Value {
    let mut proxy = masks();
    proxy["name"] = json!("masks");
    proxy["destination_url"] = json!("https://psp.example/v1");
    proxy
}

fn proxy_with_templates() -> Value {
    let append = json!({"type": "append_text", "options": {"value": "{{ req.a }} ".repeat(1300)}});
    json!({"name": "templates", "destination_url": "https://psp.example/v1",
        "response_transforms": vec![append; 16]})
}

/// A proxied call that costs as much as the limits allow.
#[derive(Debug, Clone, Copy)]
pub struct WorstCall {
    pub input: &'static str,
    /// The transforms of its proxy.
    pub transforms: fn() -> Value,
    /// A header with an expression.
    pub header: Option<&'static str>,
    /// Whether the call has an idempotency key, so that it is compared.
    pub is_idempotent: bool,
    pub content_type: &'static str,
    pub body: fn() -> String,
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The destination repeats the body, so transforms of the answer read the same text.
pub const WORST_CALLS: &[WorstCall] = &[
    WorstCall {
        input: "32 transforms, largest body",
        transforms: append_transforms,
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || json!({"a": "x".repeat(300 * 1024), "b": "y".repeat(300 * 1024)}).to_string(),
    },
    WorstCall {
        input: "32 masks, largest body",
        transforms: masks,
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || json!({"a": "4242 4242 ".repeat(60 * 1024)}).to_string(),
    },
    WorstCall {
        input: "1,000 expressions",
        transforms: || json!({}),
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || thousand_expressions().to_string(),
    },
    WorstCall {
        input: "signature of the largest body",
        transforms: || json!({}),
        header: Some("{{ proxy.request.body | hmac: 'sha-512', 'key' | to_base64 }}"),
        is_idempotent: false,
        content_type: JSON,
        body: || json!({"a": "x".repeat(900 * 1024)}).to_string(),
    },
    WorstCall {
        input: "4 texts with most fields",
        transforms: form_transforms,
        header: None,
        is_idempotent: false,
        content_type: FORM,
        body: || "A1&".repeat(300 * 1024),
    },
    WorstCall {
        input: "14 largest templates, tiny body",
        transforms: condition_templates,
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || "{}".to_owned(),
    },
    WorstCall {
        input: "4 templates with most reads, most values in 64 KiB",
        transforms: || reading_templates("request_transforms", "req", 4),
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || json!({"a": vec![""; 21_000]}).to_string(),
    },
    WorstCall {
        input: "template with most reads after a parsed answer",
        transforms: || reading_templates("response_transforms", "res", 2),
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || json!({"a": vec![""; 90_000]}).to_string(),
    },
    WorstCall {
        input: "2 locations of long names, most names",
        transforms: || {
            let append = |it: usize| {
                let location = format!("$['{}{it}']", "\u{390}".repeat(118));
                json!({"type": "append_json", "options": {"location": location, "value": "1"}})
            };
            json!({"request_transforms": (0..2).map(append).collect::<Vec<_>>()})
        },
        header: None,
        is_idempotent: false,
        content_type: JSON,
        body: || {
            let names: Vec<_> = (0..90_000).map(|it| format!("\"{it:05x}\":0")).collect();
            format!("{{{}}}", names.join(","))
        },
    },
    WorstCall {
        input: "idempotent, most values",
        transforms: || json!({}),
        header: None,
        is_idempotent: true,
        content_type: JSON,
        body: || json!(vec![0; 500_000]).to_string(),
    },
];

fn append_transforms() -> Value {
    let transforms = |object: &str| -> Vec<_> {
        let value = format!("{{{{ {object} | slice: 0, 10 }}}}");
        let append = |it: usize| {
            json!({"type": "append_json",
                "options": {"location": format!("$.new{it}"), "value": value}})
        };
        (0..16).map(append).collect()
    };
    json!({"request_transforms": transforms("req.a"), "response_transforms": transforms("res.a")})
}

/// Long conditions, which take the longest to compile.
fn condition_templates() -> Value {
    let conditions = "@.a==1||".repeat(28);
    let expression = format!("{{{{req|json:'$[?({conditions}@.b==2)]'}}}}");
    let value = expression.repeat(32_000 / expression.len());
    let append = |it: usize| {
        json!({"type": "append_header",
            "options": {"location": format!("x-a{it}"), "value": value}})
    };
    let transforms: Vec<_> = (0..7).map(append).collect();
    json!({"request_transforms": transforms, "response_transforms": transforms})
}

/// Each template reads the same value as often as it can, and then as many different values.
fn reading_templates(list: &str, object: &str, count: usize) -> Value {
    let template = |it: usize| {
        let value: String = match it % 2 {
            0 => format!("{{{{ {object}.a }}}}").repeat(2_900),
            _ => (0..2_000).map(|it| format!("{{{{{object}.a{it}}}}}")).collect(),
        };
        json!({"type": "append_json",
            "options": {"location": format!("$.b{it}"), "value": value}})
    };
    json!({list: (0..count).map(template).collect::<Vec<_>>()})
}

/// Each text has as many fields as a transform can append.
fn form_transforms() -> Value {
    let append = |first: usize| {
        let fields: String = (first..first + 5000).map(|it| format!("&{it:x}")).collect();
        json!({"type": "append_text", "options": {"value": fields}})
    };
    json!({"request_transforms": (0..4).map(|it| append(it * 5000)).collect::<Vec<_>>()})
}

fn webhook() -> Value {
    json!({"name": "cost", "url": format!("https://shop.example/{}", "x".repeat(2000)),
        "events": ["token.created", "proxy.updated"], "notify_email": "ops@shop.example"})
}
