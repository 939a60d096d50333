//! Compares enums and limits of the document with the tables of the code.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    audit::message::OUTCOMES,
    card::{
        TokenType,
        bin_data::{AuthenticationRequirement, Brand, Funding},
    },
    events::DeliveryState,
    idempotency::CallDelivery,
    listing::{NEWEST_TOKENS_MAX, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX},
    policy::{
        AccessCondition, DeduplicationBehavior,
        access::RULES_MAX,
        application::origins::ORIGINS_MAX,
        destination::destination_url::URL_CHARS_MAX,
        proxy::{
            TlsMinimum,
            certificate::PEM_BYTES_MAX,
            draft::TIMEOUT_SECONDS_MAX,
            transform::{
                MatcherType, TRANSFORMS_MAX, TransformType,
                source::{CODE_CHARS_MAX, IDENTIFIER_CHARS_MAX, OPTION_BYTES_MAX},
            },
        },
        webhook::{WebhookStatus, notify_email::EMAIL_CHARS_MAX},
    },
    types::{ApplicationKind, EntityType, EventType, Operation, Permission, TenantKind, Transform},
};
use scrip_threeds::{
    code::{
        AccountAge, AccountChange, AuthenticationCategory, AuthenticationType, CHANGE_WITHOUT_CODE,
        ChallengeCancel, ChallengePreference, ChallengeType, DeliveryTimeFrame, Device,
        LoginMethod, MethodCompletion, PasswordChange, PaymentAccountAge, PriorMethod,
        SHIPPING_WITHOUT_CODE, Scheme, ShippingAddressUse, ShippingMethod, Status,
        ThreeDsSessionType, TransactionType, WhitelistSource, WhitelistStatus,
    },
    fault::Component,
    format::Version,
};
use serde_json::Value;

use crate::openapi::{
    document,
    tests::{assert_limit, assert_limit_usize, named_schemas},
};

type EnumValues = Vec<&'static str>;

/// The enums of each attribute in the document. An attribute in several branches has several.
type EnumsByAttribute = BTreeMap<String, BTreeSet<EnumValues>>;

/// Ignores null, and enums without other values: they only reject an attribute.
fn enums_in_document() -> EnumsByAttribute {
    let mut lists = EnumsByAttribute::new();
    for (name, schema) in named_schemas() {
        let texts: EnumValues =
            schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !texts.is_empty() {
            lists.entry(name).or_default().insert(texts);
        }
    }
    lists
}

macro_rules! names {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.name()).collect::<EnumValues>()
    };
}

/// For enums in which schemes can define codes without a name.
macro_rules! known_names {
    ($Type:ty) => {
        <$Type>::ALL.iter().filter_map(|it| it.name()).collect::<EnumValues>()
    };
}

macro_rules! codes {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.code()).collect::<EnumValues>()
    };
}

macro_rules! texts {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.as_str()).collect::<EnumValues>()
    };
}

fn add_enum(lists: &mut EnumsByAttribute, texts: &[&'static str], attributes: &[&str]) {
    for attribute in attributes {
        lists.entry((*attribute).to_owned()).or_default().insert(texts.to_vec());
    }
}

fn permissions_of_kind(kind: ApplicationKind) -> EnumValues {
    let permissions = Permission::ALL.iter().filter(|it| it.kinds().contains(&kind));
    permissions.map(|it| it.as_str()).collect()
}

fn policy(lists: &mut EnumsByAttribute) {
    let permission_names = texts!(Permission);
    add_enum(lists, &permission_names, &["AccessRule.permissions", "Application.permissions"]);
    let exists = |it: &&Permission| it.missing_feature().is_none();
    let listed: EnumValues = Permission::ALL.iter().filter(exists).map(|it| it.as_str()).collect();
    add_enum(lists, &listed, &["Permission.type"]);
    add_enum(
        lists,
        &permission_names,
        &["CreatedApplication.permissions", "ApplicationUpdate.permissions"],
    );
    add_enum(lists, &permission_names, &["ApplicationUpdate.rules.permissions"]);
    let delegated = permissions_of_kind(ApplicationKind::Private);
    add_enum(lists, &delegated, &["SessionAuthorization.permissions"]);
    add_enum(lists, &delegated, &["SessionAuthorization.rules.permissions"]);
    for kind in ApplicationKind::ALL {
        let permissions = permissions_of_kind(kind);
        add_enum(
            lists,
            &permissions,
            &["NewApplication.permissions", "NewApplication.rules.permissions"],
        );
        add_enum(lists, &[kind.as_str()], &["NewApplication.type"]);
    }
    let kinds = texts!(ApplicationKind);
    add_enum(lists, &kinds, &["Application.type", "CreatedApplication.type"]);
    add_enum(lists, &kinds, &["Permission.application_types", "list_applications.type"]);
    add_enum(lists, &kinds, &["list_permissions.application_type", "list_api_keys.type"]);
    let [is, starts_with] =
        [AccessCondition::IdIs, AccessCondition::IdStartsWith].map(|it| it(String::new()));
    let operators = [is.parts().1, starts_with.parts().1];
    for rule in [
        "AccessRule",
        "ApplicationUpdate.rules",
        "NewApplication.rules",
        "SessionAuthorization.rules",
    ] {
        add_enum(lists, &texts!(Transform), &[&format!("{rule}.transform")]);
        add_enum(lists, &operators, &[&format!("{rule}.conditions.operator")]);
        for attribute in ["id", "container"] {
            add_enum(lists, &[attribute], &[&format!("{rule}.conditions.attribute")]);
        }
    }
    add_enum(lists, &texts!(TenantKind), &["Tenant.type"]);
    for tenant in ["Tenant", "TenantUpdate"] {
        for setting in ["deduplicate_tokens", "disable_ephemeral_proxy", "fingerprint_tokens"] {
            add_enum(lists, &["true", "false"], &[&format!("{tenant}.settings.{setting}")]);
        }
        let behavior = format!("{tenant}.settings.token_deduplication_behavior");
        add_enum(lists, &texts!(DeduplicationBehavior), &[&behavior]);
    }
}

fn proxies(lists: &mut EnumsByAttribute) {
    add_enum(lists, &["active"], &["Proxy.state"]);
    add_enum(lists, &texts!(CallDelivery), &["ProxyError.proxy_error.errors.proxy"]);
    let types = ["ProxyTransform.type", "NewProxyTransform.type"];
    add_enum(lists, &texts!(TransformType), &types);
    let matchers = ["ProxyTransform.matcher", "NewProxyTransform.matcher"];
    add_enum(lists, &texts!(MatcherType), &matchers);
    let versions = ["Proxy.tls_min", "NewProxy.tls_min", "ProxyPatch.tls_min"];
    add_enum(lists, &texts!(TlsMinimum), &versions);
}

fn webhooks(lists: &mut EnumsByAttribute) {
    let names = texts!(EventType);
    let raised: EnumValues = EventType::RAISED.iter().map(|it| it.as_str()).collect();
    for schema in ["NewWebhook", "Webhook", "WebhookWithSecret"] {
        add_enum(lists, &names, &[&format!("{schema}.events")]);
        add_enum(lists, &texts!(WebhookStatus), &[&format!("{schema}.status")]);
    }
    add_enum(lists, &raised, &["list_webhook_event_types"]);
    add_enum(lists, &texts!(DeliveryState), &["WebhookDelivery.status"]);
}

fn tokens(lists: &mut EnumsByAttribute) {
    let types = texts!(TokenType);
    add_enum(
        lists,
        &types,
        &["Token.type", "CreatedToken.type", "UpdatedToken.type", "TokenIntent.type"],
    );
    add_enum(
        lists,
        &types,
        &["NewToken.type", "NewTokenIntent.type", "list_tokens.type", "list_tokens_v1.type"],
    );
    for token_type in &types {
        add_enum(lists, &[token_type], &["NewToken.type", "NewTokenIntent.type"]);
    }
    add_enum(lists, &texts!(DeduplicationBehavior), &["TokenExtras.deduplication_behavior"]);
    let primary = Brand::ALL.iter().filter(|it| it.is_primary()).map(|it| it.as_str());
    add_enum(lists, &primary.collect::<EnumValues>(), &["CardDetails.brand"]);
    add_enum(lists, &texts!(Brand), &["CardDetails.additional.brand"]);
    add_enum(lists, &texts!(Funding), &["CardDetails.funding", "CardDetails.additional.funding"]);
    let authentication = [AuthenticationRequirement::ScaRequired.as_str()];
    add_enum(lists, &authentication, &["CardDetails.authentication"]);
    add_enum(lists, &authentication, &["CardDetails.additional.authentication"]);
    add_enum(lists, &["text"], &["ConnectionFormula.fields.format"]);
    add_enum(lists, &["card"], &["ConnectionFormula.method"]);
}

fn records(lists: &mut EnumsByAttribute) {
    add_enum(lists, &["application", "operator", "vault", "unauthenticated"], &["Log.actor_type"]);
    let entities = texts!(EntityType);
    add_enum(
        lists,
        &entities,
        &["Log.entity_type", "LogEntityType.value", "list_logs.entity_type"],
    );
    let outcomes: EnumValues = OUTCOMES.iter().map(|(it, _)| *it).collect();
    add_enum(lists, &outcomes, &["Log.outcome", "list_logs.outcome"]);
    add_enum(lists, &texts!(Operation), &["list_logs.operation"]);
    add_enum(lists, &["ok"], &["healthz.status"]);
    add_enum(lists, &["ready"], &["readyz.status"]);
}

fn threeds_responses(lists: &mut EnumsByAttribute) {
    let brands = names!(Scheme);
    add_enum(
        lists,
        &brands,
        &["CreatedThreedsSession.card_brand", "CreatedThreedsSession.cardBrand"],
    );
    add_enum(lists, &brands, &["CreatedThreedsSession.additional_card_brands"]);
    add_enum(
        lists,
        &brands,
        &["ThreedsSession.card_brand", "ThreedsSession.additional_card_brands"],
    );
    let versions = codes!(Version);
    add_enum(lists, &versions, &["CreatedThreedsSession.recommended_version"]);
    add_enum(lists, &versions, &["ThreedsSession.version.recommended_version"]);
    add_enum(lists, &versions, &["ThreedsSession.version.available_version"]);
    add_enum(lists, &versions, &["ThreedsSession.version.available_versions"]);
    add_enum(lists, &versions, &["ThreedsAuthentication.threeds_version"]);
    let kinds = names!(ThreeDsSessionType);
    add_enum(lists, &kinds, &["CreatedThreedsSession.type", "ThreedsSession.type"]);
    add_enum(lists, &kinds, &["NewThreedsSession.type"]);
    add_enum(lists, &["browser", "app", "mobile"], &["NewThreedsSession.device"]);
    add_enum(lists, &names!(Device), &["ThreedsSession.device"]);
    let modes = ["iframe", "redirect"];
    add_enum(
        lists,
        &modes,
        &["NewThreedsSession.web_challenge_mode", "ThreedsSession.web_challenge_mode"],
    );
    add_enum(
        lists,
        &codes!(MethodCompletion),
        &["ThreedsSession.method.method_completion_indicator"],
    );
    add_enum(lists, &names!(Component), &["ServiceProblem.error.error_source"]);
    let mut outcome = |name: &str, texts: EnumValues| {
        add_enum(lists, &texts, &[&format!("ThreedsAuthentication.{name}")])
    };
    outcome("authentication_status", names!(Status));
    outcome("authentication_status_code", codes!(Status));
    outcome("directory_status_code", codes!(Status));
    outcome("acs_challenge_mandated", vec!["Y", "N"]);
    outcome("acs_decoupled_authentication", vec!["Y", "N"]);
    outcome("authentication_challenge_type", known_names!(ChallengeType));
    outcome("challenge_preference", known_names!(ChallengePreference));
    outcome("challenge_cancel_reason", known_names!(ChallengeCancel));
    outcome("whitelist_status", names!(WhitelistStatus));
    outcome("whitelist_status_source", known_names!(WhitelistSource));
}

fn threeds_requests(lists: &mut EnumsByAttribute) {
    let mut request = |name: &str, texts: EnumValues| {
        add_enum(lists, &texts, &[&format!("ThreedsAuthenticate.{name}")])
    };
    request("authentication_category", names!(AuthenticationCategory));
    request("authentication_type", names!(AuthenticationType));
    request("challenge_preference", known_names!(ChallengePreference));
    request("purchase_info.transaction_type", names!(TransactionType));
    request("merchant_info.risk_info.delivery_time_frame", names!(DeliveryTimeFrame));
    request("merchant_info.risk_info.shipping_method", names!(ShippingMethod));
    request("cardholder_info.account_type", vec!["debit", "credit"]);
    request("cardholder_info.billing_shipping_address_match", vec!["Y", "N"]);
    request("cardholder_info.authentication_info.method", known_names!(LoginMethod));
    request("cardholder_info.prior_authentication_info.method", known_names!(PriorMethod));
    let mut account = |name: &str, texts: EnumValues| {
        request(&format!("cardholder_info.account_info.{name}"), texts);
    };
    account("account_age", names!(AccountAge));
    let changes = names!(AccountChange).into_iter().chain(CHANGE_WITHOUT_CODE.iter().copied());
    account("account_last_changed", changes.collect());
    account("account_pwd_last_changed", names!(PasswordChange));
    account("payment_account_created", names!(PaymentAccountAge));
    let used = names!(ShippingAddressUse).into_iter().chain(SHIPPING_WITHOUT_CODE.iter().copied());
    account("shipping_address_first_used", used.collect());
}

#[test]
fn every_enum_matches_the_code() {
    let mut lists = EnumsByAttribute::new();
    policy(&mut lists);
    proxies(&mut lists);
    webhooks(&mut lists);
    tokens(&mut lists);
    records(&mut lists);
    threeds_responses(&mut lists);
    threeds_requests(&mut lists);
    let described = enums_in_document();
    for (attribute, texts) in &described {
        assert_eq!(Some(texts), lists.get(attribute), "{attribute}");
    }
    for attribute in lists.keys() {
        assert!(described.contains_key(attribute), "{attribute} is not in the document");
    }
}

#[test]
fn new_application_schema_lists_permissions_of_its_type() {
    let branches = document()["components"]["schemas"]["NewApplication"]["anyOf"].as_array();
    let branches = branches.unwrap();
    assert_eq!(branches.len(), ApplicationKind::ALL.len());
    for (branch, kind) in branches.iter().zip(ApplicationKind::ALL) {
        let attributes = &branch["properties"];
        assert_eq!(branch["title"], kind.as_str());
        assert_eq!(attributes["type"]["enum"][0], kind.as_str());
        let rule = &attributes["rules"]["items"]["properties"];
        for permissions in [&attributes["permissions"], &rule["permissions"]] {
            assert_eq!(
                permissions["items"]["enum"],
                Value::from(permissions_of_kind(kind)),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn each_token_type_has_its_own_schema_branch() {
    // The other branches: the conversion of an intent (tokens only), and encrypted data.
    for (schema, others) in [("NewToken", 2), ("NewTokenIntent", 1)] {
        let branches = document()["components"]["schemas"][schema]["oneOf"].as_array().unwrap();
        assert_eq!(branches.len(), TokenType::ALL.len() + others, "{schema}");
        for (branch, token_type) in branches.iter().zip(TokenType::ALL) {
            assert_eq!(branch["title"], token_type.as_str(), "{schema}");
            assert_eq!(branch["properties"]["type"]["enum"][0], token_type.as_str(), "{schema}");
        }
    }
}

#[test]
fn documented_limits_match_the_vault() {
    let holders = ["NewApplication", "ApplicationUpdate", "SessionAuthorization"];
    for holder in holders {
        let rules = format!("{holder}.rules");
        let permissions = format!("{holder}.permissions");
        assert_limit_usize(&[&rules], "maxItems", RULES_MAX);
        assert_limit_usize(
            &[&permissions, &format!("{rules}.permissions")],
            "maxItems",
            Permission::ALL.len(),
        );
        assert_limit(&[&format!("{rules}.priority")], "maximum", i64::MAX);
    }
    assert_limit_usize(&["ApplicationUpdate.origins"], "maxItems", ORIGINS_MAX);
    let sizes = [
        "list_tokens.size",
        "list_tokens_v1.size",
        "list_applications.size",
        "list_proxies.size",
        "list_webhooks.size",
        "list_webhook_deliveries.size",
        "list_api_keys.size",
        "list_logs.size",
        "TokenSearch.size",
        "NumberedTokenSearch.size",
    ];
    assert_limit_usize(&sizes, "maximum", PAGE_SIZE_MAX);
    assert_limit_usize(&sizes, "default", PAGE_SIZE_DEFAULT);
    assert_limit_usize(&["CursorPagination.page_size"], "maximum", PAGE_SIZE_MAX);
    let numbered = ["list_tokens_v1.page", "NumberedTokenSearch.page"];
    assert_limit_usize(&numbered, "maximum", NEWEST_TOKENS_MAX);
    let pages = ["list_applications.page", "list_api_keys.page", "list_proxies.page"];
    assert_limit(&pages, "maximum", u64::MAX);
    assert_limit(&["list_logs.page"], "maximum", u32::MAX);
}

#[test]
fn documented_limits_of_proxies_and_webhooks_match_the_vault() {
    for request in ["NewProxy", "ProxyPatch"] {
        let attribute = |name: &str| format!("{request}.{name}");
        assert_limit_usize(&[&attribute("destination_url")], "maxLength", URL_CHARS_MAX);
        assert_limit_usize(&[&attribute("ca_pem")], "maxLength", PEM_BYTES_MAX);
        assert_limit(&[&attribute("timeout")], "maximum", TIMEOUT_SECONDS_MAX);
        let lists = [attribute("request_transforms"), attribute("response_transforms")];
        assert_limit_usize(&lists.each_ref().map(String::as_str), "maxItems", TRANSFORMS_MAX);
    }
    assert_limit_usize(&["NewProxyTransform.code"], "maxLength", CODE_CHARS_MAX);
    let identifier = ["NewProxyTransform.options.identifier"];
    assert_limit_usize(&identifier, "maxLength", IDENTIFIER_CHARS_MAX);
    assert_limit_usize(&["NewProxyTransform.options.value"], "maxLength", OPTION_BYTES_MAX);
    let certificate =
        ["NewProxyCertificate.certificate_pem", "NewProxyCertificate.private_key_pem"];
    assert_limit_usize(&certificate, "maxLength", PEM_BYTES_MAX);
    assert_limit_usize(&["NewWebhook.url"], "maxLength", URL_CHARS_MAX);
    assert_limit_usize(&["NewWebhook.notify_email"], "maxLength", EMAIL_CHARS_MAX);
}
