//! Compares the lists of values and the limits in the document with the tables of the code.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    audit::{EntityType, Operation, message::OUTCOMES},
    card::bin_data::{Authentication, Brand, Funding},
    listing::{
        SURVEY_TOKENS_MAX,
        page::{PAGE_SIZE, PAGE_SIZE_MAX},
    },
    policy::{
        ApplicationKind, Condition, DeduplicationBehavior, Permission, TenantKind, Transform,
        access::RULES_MAX,
    },
    token::TokenType,
};
use scrip_threeds::{
    code::{
        AccountAge, AccountChange, AuthenticationCategory, AuthenticationType, CHANGE_WITHOUT_CODE,
        ChallengeCancel, ChallengePreference, ChallengeType, DeliveryTimeFrame, Device,
        LoginMethod, MethodCompletion, PasswordChange, PaymentAccountAge, PriorMethod,
        SHIPPING_WITHOUT_CODE, Scheme, SessionType, ShippingAddressUse, ShippingMethod, Status,
        TransactionType, WhitelistSource, WhitelistStatus,
    },
    fault::Component,
    format::Version,
};
use serde_json::Value;

use crate::openapi::{
    document,
    tests::{assert_limit, assert_limit_usize, named_schemas},
};

type Texts = Vec<&'static str>;

/// The lists that each attribute has in the document. An attribute in branches has several.
type Lists = BTreeMap<String, BTreeSet<Texts>>;

/// Null is a way to say nothing, and a list of nothing else is there to refuse.
fn described() -> Lists {
    let mut lists = Lists::new();
    for (name, schema) in named_schemas() {
        let texts: Texts =
            schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !texts.is_empty() {
            lists.entry(name).or_default().insert(texts);
        }
    }
    lists
}

macro_rules! names {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.name()).collect::<Texts>()
    };
}

/// Of a list in which schemes can have codes without a name.
macro_rules! known {
    ($Type:ty) => {
        <$Type>::ALL.iter().filter_map(|it| it.name()).collect::<Texts>()
    };
}

macro_rules! codes {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.code()).collect::<Texts>()
    };
}

macro_rules! texts {
    ($Type:ty) => {
        <$Type>::ALL.iter().map(|it| it.as_str()).collect::<Texts>()
    };
}

fn put(lists: &mut Lists, texts: &[&'static str], attributes: &[&str]) {
    for attribute in attributes {
        lists.entry((*attribute).to_owned()).or_default().insert(texts.to_vec());
    }
}

fn held_by(kind: ApplicationKind) -> Texts {
    let held = Permission::ALL.iter().filter(|it| it.kinds().contains(&kind));
    held.map(|it| it.as_str()).collect()
}

fn policy(lists: &mut Lists) {
    let all = texts!(Permission);
    put(lists, &all, &["AccessRule.permissions", "Application.permissions", "Permission.type"]);
    put(lists, &all, &["CreatedApplication.permissions", "ApplicationUpdate.permissions"]);
    put(lists, &all, &["ApplicationUpdate.rules.permissions"]);
    let lent = held_by(ApplicationKind::Private);
    put(lists, &lent, &["SessionAuthorization.permissions"]);
    put(lists, &lent, &["SessionAuthorization.rules.permissions"]);
    for kind in ApplicationKind::ALL {
        let held = held_by(kind);
        put(lists, &held, &["NewApplication.permissions", "NewApplication.rules.permissions"]);
        put(lists, &[kind.as_str()], &["NewApplication.type"]);
    }
    let kinds = texts!(ApplicationKind);
    put(lists, &kinds, &["Application.type", "CreatedApplication.type"]);
    put(lists, &kinds, &["Permission.application_types", "list_applications.type"]);
    put(lists, &kinds, &["list_permissions.application_type"]);
    let [is, starts_with] = [Condition::IdIs, Condition::IdStartsWith].map(|it| it(String::new()));
    let operators = [is.parts().1, starts_with.parts().1];
    for rule in [
        "AccessRule",
        "ApplicationUpdate.rules",
        "NewApplication.rules",
        "SessionAuthorization.rules",
    ] {
        put(lists, &texts!(Transform), &[&format!("{rule}.transform")]);
        put(lists, &operators, &[&format!("{rule}.conditions.operator")]);
        for attribute in ["id", "container"] {
            put(lists, &[attribute], &[&format!("{rule}.conditions.attribute")]);
        }
    }
    put(lists, &texts!(TenantKind), &["Tenant.type"]);
    for tenant in ["Tenant", "TenantUpdate"] {
        for setting in ["deduplicate_tokens", "disable_ephemeral_proxy", "fingerprint_tokens"] {
            put(lists, &["true", "false"], &[&format!("{tenant}.settings.{setting}")]);
        }
        let behavior = format!("{tenant}.settings.token_deduplication_behavior");
        put(lists, &texts!(DeduplicationBehavior), &[&behavior]);
    }
}

fn tokens(lists: &mut Lists) {
    let types = texts!(TokenType);
    put(
        lists,
        &types,
        &["Token.type", "CreatedToken.type", "UpdatedToken.type", "TokenIntent.type"],
    );
    put(lists, &types, &["NewToken.type", "NewTokenIntent.type", "list_tokens.type"]);
    for token_type in &types {
        put(lists, &[token_type], &["NewToken.type", "NewTokenIntent.type"]);
    }
    put(lists, &texts!(DeduplicationBehavior), &["TokenExtras.deduplication_behavior"]);
    let primary = Brand::ALL.iter().filter(|it| it.is_primary()).map(|it| it.as_str());
    put(lists, &primary.collect::<Texts>(), &["CardDetails.brand"]);
    put(lists, &texts!(Brand), &["CardDetails.additional.brand"]);
    put(lists, &texts!(Funding), &["CardDetails.funding", "CardDetails.additional.funding"]);
    let authentication = [Authentication::ScaRequired.as_str()];
    put(lists, &authentication, &["CardDetails.authentication"]);
    put(lists, &authentication, &["CardDetails.additional.authentication"]);
    put(lists, &["text"], &["ConnectionFormula.fields.format"]);
    put(lists, &["card"], &["ConnectionFormula.method"]);
}

fn records(lists: &mut Lists) {
    put(lists, &["application", "operator", "vault", "outsider"], &["Log.actor_type"]);
    let entities = texts!(EntityType);
    put(lists, &entities, &["Log.entity_type", "LogEntityType.value", "list_logs.entity_type"]);
    let outcomes: Texts = OUTCOMES.iter().map(|(it, _)| *it).collect();
    put(lists, &outcomes, &["Log.outcome", "list_logs.outcome"]);
    put(lists, &texts!(Operation), &["list_logs.operation"]);
    put(lists, &["ok"], &["healthz.status"]);
    put(lists, &["ready"], &["readyz.status"]);
}

fn threeds_responses(lists: &mut Lists) {
    let brands = names!(Scheme);
    put(lists, &brands, &["CreatedThreedsSession.card_brand", "CreatedThreedsSession.cardBrand"]);
    put(lists, &brands, &["CreatedThreedsSession.additional_card_brands"]);
    put(lists, &brands, &["ThreedsSession.card_brand", "ThreedsSession.additional_card_brands"]);
    let versions = codes!(Version);
    put(lists, &versions, &["CreatedThreedsSession.recommended_version"]);
    put(lists, &versions, &["ThreedsSession.version.recommended_version"]);
    put(lists, &versions, &["ThreedsSession.version.available_version"]);
    put(lists, &versions, &["ThreedsSession.version.available_versions"]);
    put(lists, &versions, &["ThreedsAuthentication.threeds_version"]);
    let kinds = names!(SessionType);
    put(lists, &kinds, &["CreatedThreedsSession.type", "ThreedsSession.type"]);
    put(lists, &kinds, &["NewThreedsSession.type"]);
    put(lists, &["browser", "app", "mobile"], &["NewThreedsSession.device"]);
    put(lists, &names!(Device), &["ThreedsSession.device"]);
    let modes = ["iframe", "redirect"];
    put(
        lists,
        &modes,
        &["NewThreedsSession.web_challenge_mode", "ThreedsSession.web_challenge_mode"],
    );
    put(lists, &codes!(MethodCompletion), &["ThreedsSession.method.method_completion_indicator"]);
    put(lists, &names!(Component), &["ServiceProblem.error.error_source"]);
    let mut outcome =
        |name: &str, texts: Texts| put(lists, &texts, &[&format!("ThreedsAuthentication.{name}")]);
    outcome("authentication_status", names!(Status));
    outcome("authentication_status_code", codes!(Status));
    outcome("directory_status_code", codes!(Status));
    outcome("acs_challenge_mandated", vec!["Y", "N"]);
    outcome("acs_decoupled_authentication", vec!["Y", "N"]);
    outcome("authentication_challenge_type", known!(ChallengeType));
    outcome("challenge_preference", known!(ChallengePreference));
    outcome("challenge_cancel_reason", known!(ChallengeCancel));
    outcome("whitelist_status", names!(WhitelistStatus));
    outcome("whitelist_status_source", known!(WhitelistSource));
}

fn threeds_requests(lists: &mut Lists) {
    let mut asked =
        |name: &str, texts: Texts| put(lists, &texts, &[&format!("ThreedsAuthenticate.{name}")]);
    asked("authentication_category", names!(AuthenticationCategory));
    asked("authentication_type", names!(AuthenticationType));
    asked("challenge_preference", known!(ChallengePreference));
    asked("purchase_info.transaction_type", names!(TransactionType));
    asked("merchant_info.risk_info.delivery_time_frame", names!(DeliveryTimeFrame));
    asked("merchant_info.risk_info.shipping_method", names!(ShippingMethod));
    asked("cardholder_info.account_type", vec!["debit", "credit"]);
    asked("cardholder_info.billing_shipping_address_match", vec!["Y", "N"]);
    asked("cardholder_info.authentication_info.method", known!(LoginMethod));
    asked("cardholder_info.prior_authentication_info.method", known!(PriorMethod));
    let mut account = |name: &str, texts: Texts| {
        asked(&format!("cardholder_info.account_info.{name}"), texts);
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
fn every_list_of_values_is_that_of_the_code() {
    let mut lists = Lists::new();
    policy(&mut lists);
    tokens(&mut lists);
    records(&mut lists);
    threeds_responses(&mut lists);
    threeds_requests(&mut lists);
    let described = described();
    for (attribute, texts) in &described {
        assert_eq!(Some(texts), lists.get(attribute), "{attribute}");
    }
    for attribute in lists.keys() {
        assert!(described.contains_key(attribute), "{attribute} is not in the document");
    }
}

#[test]
fn new_application_holds_permissions_of_its_type() {
    let branches = document()["components"]["schemas"]["NewApplication"]["anyOf"].as_array();
    let branches = branches.unwrap();
    assert_eq!(branches.len(), ApplicationKind::ALL.len());
    for (branch, kind) in branches.iter().zip(ApplicationKind::ALL) {
        let attributes = &branch["properties"];
        assert_eq!(branch["title"], kind.as_str());
        assert_eq!(attributes["type"]["enum"][0], kind.as_str());
        let rule = &attributes["rules"]["items"]["properties"];
        for permissions in [&attributes["permissions"], &rule["permissions"]] {
            assert_eq!(permissions["items"]["enum"], Value::from(held_by(kind)), "{kind:?}");
        }
    }
}

#[test]
fn each_token_type_has_a_branch_of_its_own() {
    for (schema, others) in [("NewToken", 1), ("NewTokenIntent", 0)] {
        let branches = document()["components"]["schemas"][schema]["oneOf"].as_array().unwrap();
        assert_eq!(branches.len(), TokenType::ALL.len() + others, "{schema}");
        for (branch, token_type) in branches.iter().zip(TokenType::ALL) {
            assert_eq!(branch["title"], token_type.as_str(), "{schema}");
            assert_eq!(branch["properties"]["type"]["enum"][0], token_type.as_str(), "{schema}");
        }
    }
}

#[test]
fn limits_are_those_of_the_vault() {
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
    let sizes = [
        "list_tokens.size",
        "list_tokens_v1.size",
        "list_applications.size",
        "list_api_keys.size",
        "list_logs.size",
        "TokenSearch.size",
        "NumberedTokenSearch.size",
    ];
    assert_limit_usize(&sizes, "maximum", PAGE_SIZE_MAX);
    assert_limit_usize(&sizes, "default", PAGE_SIZE);
    assert_limit_usize(&["CursorPagination.page_size"], "maximum", PAGE_SIZE_MAX);
    let numbered = ["list_tokens_v1.page", "NumberedTokenSearch.page"];
    assert_limit_usize(&numbered, "maximum", SURVEY_TOKENS_MAX);
    assert_limit(&["list_applications.page", "list_api_keys.page"], "maximum", u64::MAX);
    assert_limit(&["list_logs.page"], "maximum", u32::MAX);
}
