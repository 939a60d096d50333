//! Only tokens that the caller may read affect its lists: pages, cursors and counts.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error,
    card::TokenType,
    listing::{CursorPage, PageRequest},
    operations::tokens::{
        ListTokensQuery, OffsetPageQuery, TokenFilter, list_tokens::list_tokens,
        list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1,
    },
    policy::{AccessCondition, AccessPolicy, AccessRule, AccessScope, Caller, Tenant},
    token::TokenView,
    types::{Container, Permission, Permissions, Transform, error::Denial},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, create, expect_denial, expect_invalid_field, new_token, visible_data},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};
use serde_json::{Value, json};

struct ListingHarness {
    vault_harness: VaultHarness,
    tenant: Arc<Tenant>,
    owner: Caller,
}

impl ListingHarness {
    async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.default_tenant().await;
        let access = access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]);
        let owner = harness.caller(&tenant, access).await;
        Self { vault_harness: harness, tenant, owner }
    }

    async fn put(&self, id: &str, container_names: &[&str]) {
        let mut token = new_token(TokenType::Token, json!(id));
        token.id = Some(id.to_owned());
        token.containers = Some(containers(container_names));
        let metadata = [("Who", id), ("all", "Same")];
        token.metadata =
            Some(metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        token.search_indexes = Some(vec!["{{ data }}".to_owned()]);
        create(&self.vault_harness.vault, &self.owner, token).await.unwrap();
        self.vault_harness.clock.advance(Duration::from_millis(1));
    }

    async fn reader(&self, rules: &[(&str, Transform)]) -> Caller {
        let permissions: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
        let rules = rules.iter().map(|(container, it)| access_rule(container, *it, permissions));
        self.vault_harness.caller(&self.tenant, access_with_rules(rules)).await
    }

    async fn list(
        &self,
        caller: &Caller,
        query: ListTokensQuery,
    ) -> Result<CursorPage<TokenView>, Error> {
        list_tokens(&self.vault_harness.vault, caller, query).await
    }

    async fn count(&self, caller: &Caller, query: OffsetPageQuery) -> (Vec<String>, usize) {
        let page = list_tokens_v1(&self.vault_harness.vault, caller, query).await.unwrap();
        (ids(&page.items), page.total)
    }
}

fn ids(tokens: &[TokenView]) -> Vec<String> {
    tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
}

fn query_all() -> ListTokensQuery {
    ListTokensQuery { container: None, filter: TokenFilter::All, start: None, size: 20 }
}

fn query_with_filter(filter: TokenFilter) -> ListTokensQuery {
    ListTokensQuery { filter, ..query_all() }
}

fn query_in_container(container: &str) -> ListTokensQuery {
    ListTokensQuery { container: Some(Container::parse(container).unwrap()), ..query_all() }
}

fn metadata_filter(name: &str, value: &str) -> TokenFilter {
    TokenFilter::Metadata { name: name.to_owned(), value: value.to_owned() }
}

on_every_engine! {
    ListingHarness;
    tokens_are_listed_by_container_then_creation
    listing_a_container_without_a_rule_is_denied
    token_also_in_an_unreadable_container_is_not_listed
    page_is_filled_past_unreadable_tokens
    each_listed_token_has_the_transform_of_its_container
    id_conditions_do_not_allow_listing
    metadata_filter_is_exact_in_cursor_lists_and_case_insensitive_in_offset_pages
    totals_count_only_readable_tokens
    token_cursor_is_rejected_with_another_query_or_caller
    expired_tokens_are_not_listed_or_found
    search_requires_the_token_search_permission
    all_metadata_terms_must_match
    offset_page_filters_are_combined
    large_tokens_shorten_pages
}

async fn tokens_are_listed_by_container_then_creation(harness: ListingHarness) {
    for (id, container) in [("a-1", "/a/"), ("b-1", "/b/"), ("a-2", "/a/"), ("ab1", "/a/b/")] {
        harness.put(id, &[container]).await;
    }
    let page = harness.list(&harness.owner, query_all()).await.unwrap();
    assert_eq!(ids(&page.items), ["b-1", "ab1", "a-2", "a-1"]);
    let page = harness.list(&harness.owner, query_in_container("/a/")).await.unwrap();
    assert_eq!(ids(&page.items), ["ab1", "a-2", "a-1"]);
    let (newest, total) = harness.count(&harness.owner, OffsetPageQuery::default()).await;
    assert_eq!((newest, total), (["ab1", "a-2", "b-1", "a-1"].map(str::to_owned).to_vec(), 4));
}

async fn listing_a_container_without_a_rule_is_denied(harness: ListingHarness) {
    harness.put("one", &["/pci/high/"]).await;
    let reader = harness.reader(&[("/pci/high/", Transform::Mask)]).await;
    let denial = Denial::NoRule(Permission::TokenRead);
    assert_eq!(expect_denial(harness.list(&reader, query_in_container("/pci/")).await), denial);
    assert_eq!(expect_denial(harness.list(&reader, query_in_container("/other/")).await), denial);
    let page = harness.list(&reader, query_in_container("/pci/high/")).await.unwrap();
    assert_eq!(ids(&page.items), ["one"]);
    let page = harness.list(&reader, query_in_container("/pci/high/x/")).await.unwrap();
    assert_eq!(ids(&page.items), [""; 0]);
}

async fn token_also_in_an_unreadable_container_is_not_listed(harness: ListingHarness) {
    harness.put("mine", &["/a/"]).await;
    harness.put("both", &["/a/", "/secret/"]).await;
    harness.put("turned", &["/secret/", "/a/"]).await;
    harness.put("wide", &["/b/", "/a/"]).await;
    let reader = harness.reader(&[("/a/", Transform::Mask), ("/b/", Transform::Mask)]).await;
    let page = harness.list(&reader, query_all()).await.unwrap();
    assert_eq!(ids(&page.items), ["wide", "mine"]);
    // Listed once, under the requested container.
    let page = harness.list(&reader, query_in_container("/a/")).await.unwrap();
    assert_eq!(ids(&page.items), ["wide", "mine"]);
    assert_eq!(harness.count(&reader, OffsetPageQuery::default()).await.1, 2);
    let page = harness.list(&harness.owner, query_in_container("/a/")).await.unwrap();
    assert_eq!(ids(&page.items).len(), 4);
}

async fn page_is_filled_past_unreadable_tokens(harness: ListingHarness) {
    harness.put("old", &["/a/"]).await;
    for number in 0..60 {
        harness.put(&format!("hidden-{number}"), &["/a/", "/secret/"]).await;
    }
    for number in 0..3 {
        harness.put(&format!("new-{number}"), &["/a/"]).await;
    }
    let reader = harness.reader(&[("/a/", Transform::Mask)]).await;
    let page = harness.list(&reader, ListTokensQuery { size: 4, ..query_all() }).await.unwrap();
    assert_eq!(ids(&page.items), ["new-2", "new-1", "new-0", "old"]);
    // Hidden tokens follow, and do not cause another page.
    assert!(page.next.is_none());
    let page = harness.list(&reader, ListTokensQuery { size: 3, ..query_all() }).await.unwrap();
    assert!(page.next.is_some());
}

async fn each_listed_token_has_the_transform_of_its_container(harness: ListingHarness) {
    for (id, container) in [("clear", "/a/"), ("masked", "/b/"), ("redacted", "/c/")] {
        let mut token = card(VISA);
        (token.id, token.containers) = (Some(id.to_owned()), Some(containers(&[container])));
        create(&harness.vault_harness.vault, &harness.owner, token).await.unwrap();
    }
    let rules = [("/a/", Transform::Reveal), ("/b/", Transform::Mask), ("/c/", Transform::Redact)];
    let page = harness.list(&harness.reader(&rules).await, query_all()).await.unwrap();
    let visible: Vec<Option<Value>> = page.items.iter().map(visible_data).collect();
    let masked = json!({"number": "XXXXXXXXXXXX4242"});
    assert_eq!(visible, [None, Some(masked), Some(json!({"number": VISA}))]);
}

async fn id_conditions_do_not_allow_listing(harness: ListingHarness) {
    harness.put("named", &["/a/"]).await;
    harness.put("other", &["/a/"]).await;
    let build_rule = |conditions| AccessRule {
        description: String::new(),
        priority: 1,
        scope: AccessScope::Conditions(conditions),
        transform: Transform::Reveal,
        permissions: Permissions::from_list(&[Permission::TokenRead]),
    };
    let id_condition = || vec![AccessCondition::IdIs("named".to_owned())];
    let access = AccessPolicy {
        permissions: Permissions::default(),
        rules: vec![build_rule(id_condition())],
    };
    let caller = harness.vault_harness.caller_with_access(
        &harness.tenant,
        harness.owner.application(),
        access,
    );
    assert!(harness.list(&caller, query_all()).await.unwrap().items.is_empty());
    assert_eq!(harness.count(&caller, OffsetPageQuery::default()).await.1, 0);
    // A lookup by id finds it.
    let query = || OffsetPageQuery {
        ids: Some(vec![token_id("named"), token_id("other")]),
        ..OffsetPageQuery::default()
    };
    assert_eq!(harness.count(&caller, query()).await.0, ["named"]);
    // Other filters list nothing, and a container needs a rule, even together with the id.
    let of_type =
        OffsetPageQuery { token_type: Some(TokenType::Token), ..OffsetPageQuery::default() };
    assert_eq!(harness.count(&caller, of_type).await.1, 0);
    let in_container =
        OffsetPageQuery { container: Some(Container::parse("/a/").unwrap()), ..query() };
    let denied = list_tokens_v1(&harness.vault_harness.vault, &caller, in_container).await;
    assert_eq!(expect_denial(denied), Denial::NoRule(Permission::TokenRead));

    let container_condition = vec![AccessCondition::ContainerIs(Container::parse("/a/").unwrap())];
    let access = AccessPolicy {
        permissions: Permissions::default(),
        rules: vec![build_rule(container_condition)],
    };
    let caller = harness.vault_harness.caller_with_access(
        &harness.tenant,
        harness.owner.application(),
        access,
    );
    assert_eq!(harness.list(&caller, query_all()).await.unwrap().items.len(), 2);
}

async fn metadata_filter_is_exact_in_cursor_lists_and_case_insensitive_in_offset_pages(
    harness: ListingHarness,
) {
    for id in ["Red", "red", "blue"] {
        harness.put(id, &["/a/"]).await;
    }
    let page = harness
        .list(&harness.owner, query_with_filter(metadata_filter("Who", "red")))
        .await
        .unwrap();
    assert_eq!(ids(&page.items), ["red"]);
    for other_filter in [
        metadata_filter("who", "red"),
        metadata_filter("Who", "RED"),
        metadata_filter("red", "Who"),
    ] {
        assert!(
            harness
                .list(&harness.owner, query_with_filter(other_filter))
                .await
                .unwrap()
                .items
                .is_empty()
        );
    }
    let query = OffsetPageQuery {
        metadata: vec![("WHO".to_owned(), "rED".to_owned())],
        ..OffsetPageQuery::default()
    };
    assert_eq!(harness.count(&harness.owner, query).await.0, ["red", "Red"]);
}

async fn totals_count_only_readable_tokens(harness: ListingHarness) {
    for number in 0..7 {
        harness.put(&format!("mine-{number}"), &["/a/"]).await;
        harness.put(&format!("theirs-{number}"), &["/b/"]).await;
    }
    let reader = harness.reader(&[("/a/", Transform::Mask)]).await;
    let page_query = |number, size| OffsetPageQuery {
        page: PageRequest { number, size },
        ..OffsetPageQuery::default()
    };
    let (second, total) = harness.count(&reader, page_query(2, 3)).await;
    assert_eq!((second, total), (["mine-3", "mine-2", "mine-1"].map(str::to_owned).to_vec(), 7));
    assert_eq!(harness.count(&reader, page_query(4, 3)).await, (Vec::new(), 7));
    let far_page =
        list_tokens_v1(&harness.vault_harness.vault, &reader, page_query(101, 100)).await;
    assert_eq!(expect_invalid_field(far_page), "page");
    let ids_query = OffsetPageQuery {
        ids: Some(["mine-1", "theirs-1", "unknown", "mine-2"].map(token_id).to_vec()),
        ..OffsetPageQuery::default()
    };
    assert_eq!(harness.count(&reader, ids_query).await.0, ["mine-2", "mine-1"]);
}

#[track_caller]
fn assert_start_rejected<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert_eq!(expect_invalid_field(outcome), "start");
}

async fn token_cursor_is_rejected_with_another_query_or_caller(harness: ListingHarness) {
    for number in 0..4 {
        harness.put(&format!("token-{number}"), &["/a/"]).await;
    }
    let first_query =
        || ListTokensQuery { size: 1, ..query_with_filter(metadata_filter("all", "Same")) };
    let page = harness.list(&harness.owner, first_query()).await.unwrap();
    let next = page.next.unwrap();
    let continue_with = |query| ListTokensQuery { start: Some(next.clone()), ..query };
    let page = harness.list(&harness.owner, continue_with(first_query())).await.unwrap();
    assert_eq!(ids(&page.items), ["token-2"]);
    // Another page size uses the same cursor.
    let larger = ListTokensQuery { size: 2, ..first_query() };
    assert_eq!(harness.list(&harness.owner, continue_with(larger)).await.unwrap().items.len(), 2);

    let other_filters = [
        query_all(),
        query_with_filter(metadata_filter("all", "same")),
        query_with_filter(metadata_filter("allS", "ame")),
        query_with_filter(TokenFilter::Data("token-1".to_owned())),
        query_with_filter(TokenFilter::Type(TokenType::Token)),
        ListTokensQuery { container: Some(Container::root()), ..first_query() },
    ];
    for query in other_filters {
        assert_start_rejected(harness.list(&harness.owner, continue_with(query)).await);
    }
    let permissions: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
    let other_caller = harness.vault_harness.revealing_caller(&harness.tenant, permissions).await;
    assert_start_rejected(harness.list(&other_caller, continue_with(first_query())).await);
    let own_cursor = harness.list(&other_caller, first_query()).await.unwrap().next.unwrap();
    let search_query = ListTokensQuery { start: Some(own_cursor), ..first_query() };
    let vault = &harness.vault_harness.vault;
    assert_start_rejected(search_tokens(vault, &other_caller, search_query).await);
    let other_tenant = harness.vault_harness.default_tenant().await;
    let stranger = harness.vault_harness.revealing_caller(&other_tenant, TOKENS).await;
    assert_start_rejected(harness.list(&stranger, continue_with(first_query())).await);
    for index in 0..next.as_bytes().len() {
        let mut bytes = next.as_bytes().to_vec();
        bytes[index] ^= 1;
        let altered = scrip_seal::Sealed::from_stored(bytes);
        let query = ListTokensQuery { start: Some(altered), ..first_query() };
        assert_start_rejected(harness.list(&harness.owner, query).await);
    }
}

async fn expired_tokens_are_not_listed_or_found(harness: ListingHarness) {
    harness.put("stays", &["/a/"]).await;
    let mut token = new_token(TokenType::Token, json!("gone"));
    token.id = Some("goes".to_owned());
    token.containers = Some(containers(&["/a/"]));
    token.expires_at = Some(START.plus(Duration::from_secs(60)));
    token.search_indexes = Some(vec!["{{ data }}".to_owned()]);
    create(&harness.vault_harness.vault, &harness.owner, token).await.unwrap();
    let permissions: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
    let caller = harness
        .vault_harness
        .caller(
            &harness.tenant,
            access_with_rules([access_rule("/", Transform::Mask, permissions)]),
        )
        .await;
    let count_found = async || {
        let data_query = || query_with_filter(TokenFilter::Data("gone".to_owned()));
        let listed_count = harness.list(&caller, query_all()).await.unwrap().items.len();
        let total = harness.count(&caller, OffsetPageQuery::default()).await.1;
        let page =
            search_tokens(&harness.vault_harness.vault, &caller, data_query()).await.unwrap();
        (listed_count, total, page.items.len())
    };
    assert_eq!(count_found().await, (2, 2, 1));
    harness.vault_harness.clock.advance(Duration::from_secs(60));
    assert_eq!(count_found().await, (1, 1, 0));
}

async fn search_requires_the_token_search_permission(harness: ListingHarness) {
    harness.put("one", &["/a/"]).await;
    let (vault_harness, tenant) = (&harness.vault_harness, &harness.tenant);
    let query = || query_with_filter(TokenFilter::Data("one".to_owned()));
    let read_permissions: &[_] = &[Permission::TokenRead];
    let reader = vault_harness
        .caller(tenant, access_with_rules([access_rule("/", Transform::Mask, read_permissions)]))
        .await;
    let denial = Denial::NoRule(Permission::TokenSearch);
    assert_eq!(expect_denial(search_tokens(&vault_harness.vault, &reader, query()).await), denial);
    let offset_query =
        || OffsetPageQuery { data: Some("one".to_owned()), ..OffsetPageQuery::default() };
    assert_eq!(
        expect_denial(search_tokens_v1(&vault_harness.vault, &reader, offset_query()).await),
        denial
    );
    let search_permissions: &[_] = &[Permission::TokenSearch];
    let searcher = vault_harness
        .caller(
            tenant,
            access_with_rules([access_rule("/a/", Transform::Redact, search_permissions)]),
        )
        .await;
    let page = search_tokens(&vault_harness.vault, &searcher, query()).await.unwrap();
    assert_eq!(ids(&page.items), ["one"]);
    assert_eq!(visible_data(&page.items[0]), None);
    let page = search_tokens_v1(&vault_harness.vault, &searcher, offset_query()).await.unwrap();
    assert_eq!((ids(&page.items), page.total), (vec!["one".to_owned()], 1));
    // A filter on metadata does not match values of the data.
    let metadata_query = query_with_filter(metadata_filter("one", "one"));
    assert!(
        search_tokens(&vault_harness.vault, &searcher, metadata_query)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(list_tokens(&vault_harness.vault, &searcher, query_all()).await.is_err());
}

async fn all_metadata_terms_must_match(harness: ListingHarness) {
    for id in ["one", "two"] {
        harness.put(id, &["/a/"]).await;
    }
    let query = |terms: &[(&str, &str)]| {
        let metadata = terms.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        OffsetPageQuery { metadata: metadata.collect(), ..OffsetPageQuery::default() }
    };
    let count_found = async |terms| harness.count(&harness.owner, query(terms)).await.1;
    assert_eq!(count_found(&[("all", "same")]).await, 2);
    assert_eq!(count_found(&[("all", "same"), ("who", "one")]).await, 1);
    assert_eq!(count_found(&[("who", "one"), ("all", "same")]).await, 1);
    assert_eq!(count_found(&[("who", "one"), ("all", "other")]).await, 0);
    assert_eq!(count_found(&[("who", "one"), ("who", "two")]).await, 0);
}

async fn offset_page_filters_are_combined(harness: ListingHarness) {
    for (id, container) in [("one", "/a/"), ("two", "/a/b/"), ("far", "/c/")] {
        harness.put(id, &[container]).await;
    }
    create(&harness.vault_harness.vault, &harness.owner, card(VISA)).await.unwrap();
    let page = harness.list(&harness.owner, query_with_filter(metadata_filter("Who", "two")));
    let fingerprint = page.await.unwrap().items[0].fingerprint;
    let find = async |query| harness.count(&harness.owner, query).await.0;
    let all = OffsetPageQuery::default;
    let container = || Some(Container::parse("/a/").unwrap());
    let tokens = || Some(TokenType::Token);
    assert_eq!(find(OffsetPageQuery { container: container(), ..all() }).await, ["two", "one"]);
    let found = find(OffsetPageQuery { token_type: tokens(), ..all() }).await;
    assert_eq!(found, ["far", "two", "one"]);
    assert_eq!(find(OffsetPageQuery { fingerprint, ..all() }).await, ["two"]);
    let other_type = OffsetPageQuery { fingerprint, token_type: Some(TokenType::Card), ..all() };
    assert_eq!(find(other_type).await, [""; 0]);
    let metadata = vec![("all".to_owned(), "same".to_owned())];
    let query = OffsetPageQuery { metadata, token_type: tokens(), container: container(), ..all() };
    assert_eq!(find(query).await, ["two", "one"]);
    let ids = || Some(["one", "far"].map(token_id).to_vec());
    let query = OffsetPageQuery { ids: ids(), container: container(), ..all() };
    assert_eq!(find(query).await, ["one"]);
    let query = OffsetPageQuery { ids: ids(), token_type: Some(TokenType::Card), ..all() };
    assert_eq!(find(query).await, [""; 0]);
}

/// The same caller with the evaluation budget of a new request.
fn next_request(caller: &Caller) -> Caller {
    Caller::new(Arc::clone(caller.principal()), caller.origin().clone())
}

async fn large_tokens_shorten_pages(harness: ListingHarness) {
    for number in 0..8 {
        let mut token = new_token(TokenType::Token, json!("x".repeat(900 * 1024)));
        token.id = Some(format!("large-{number}"));
        token.fingerprint_expression = Some("{{ data | slice: 0, 8 }}".to_owned());
        create(&harness.vault_harness.vault, &next_request(&harness.owner), token).await.unwrap();
    }
    let (mut listed_ids, mut start, mut page_count) = (Vec::new(), None, 0);
    loop {
        let owner = next_request(&harness.owner);
        let page = harness.list(&owner, ListTokensQuery { start, ..query_all() }).await.unwrap();
        assert!(page.items.len() <= 5);
        listed_ids.extend(ids(&page.items));
        (start, page_count) = (page.next, page_count + 1);
        if start.is_none() {
            break;
        }
    }
    assert_eq!((listed_ids.len(), page_count), (8, 2));
    let owner = next_request(&harness.owner);
    let whole_page =
        list_tokens_v1(&harness.vault_harness.vault, &owner, OffsetPageQuery::default()).await;
    assert!(matches!(whole_page, Err(Error::Unprocessable { .. })), "{whole_page:?}");
    let last_page =
        OffsetPageQuery { page: PageRequest { number: 8, size: 1 }, ..OffsetPageQuery::default() };
    assert_eq!(harness.count(&next_request(&harness.owner), last_page).await.1, 8);
}
