//! Only what the caller may read has a part in what it is shown: pages, cursors and counts.

use std::time::Duration;

use scrip_core::{
    error::{Error, Refusal},
    listing::{CursorPage, NumberedAsked, PageAsked, TokenFilter, TokensAsked},
    operations::tokens::{
        list_tokens::list_tokens, list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1,
    },
    policy::{
        AccessPolicy, AccessRule, Caller, Condition, Permission, Permissions, Reach, Settings,
        Tenant, Transform,
    },
    token::{Container, TokenType, TokenView},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, rule, ruled},
    requests::{VISA, card, create, data, invalid, new_token, refusal},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};
use serde_json::{Value, json};

struct ListingHarness {
    world: VaultHarness,
    tenant: std::sync::Arc<Tenant>,
    owner: Caller,
}

impl ListingHarness {
    async fn open(engine: Engine) -> Self {
        let world = VaultHarness::open(engine).await;
        let tenant = world.tenant(Settings::default()).await;
        let owner = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
        Self { world, tenant, owner }
    }

    async fn put(&self, id: &str, places: &[&str]) {
        let mut new = new_token(TokenType::Token, json!(id));
        new.id = Some(id.to_owned());
        new.containers = Some(containers(places));
        let metadata = [("Who", id), ("all", "Same")];
        new.metadata = Some(metadata.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        new.search_indexes = Some(vec!["{{ data }}".to_owned()]);
        create(&self.world.vault, &self.owner, new).await.unwrap();
        self.world.clock.advance(Duration::from_millis(1));
    }

    async fn reader(&self, rules: &[(&str, Transform)]) -> Caller {
        let may: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
        let rules = rules.iter().map(|(place, it)| rule(place, *it, may));
        self.world.caller(&self.tenant, ruled(rules)).await
    }

    async fn list(&self, caller: &Caller, asked: TokensAsked) -> Result<CursorPage, Error> {
        list_tokens(&self.world.vault, caller, asked).await
    }

    async fn count(&self, caller: &Caller, asked: NumberedAsked) -> (Vec<String>, usize) {
        let page = list_tokens_v1(&self.world.vault, caller, asked).await.unwrap();
        (ids(&page.items), page.total)
    }
}

fn ids(tokens: &[TokenView]) -> Vec<String> {
    tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
}

fn all() -> TokensAsked {
    TokensAsked { container: None, filter: TokenFilter::All, start: None, size: 20 }
}

fn of(filter: TokenFilter) -> TokensAsked {
    TokensAsked { filter, ..all() }
}

fn within(container: &str) -> TokensAsked {
    TokensAsked { container: Some(Container::parse(container).unwrap()), ..all() }
}

fn metadata(name: &str, value: &str) -> TokenFilter {
    TokenFilter::Metadata { name: name.to_owned(), value: value.to_owned() }
}

on_every_engine! {
    ListingHarness;
    the_order_is_by_container_then_creation
    a_container_must_be_ones_own
    what_is_also_elsewhere_is_not_there
    a_page_is_filled_past_what_is_hidden
    each_row_has_its_own_transform
    rules_about_ids_open_no_list
    metadata_is_exact_by_cursor_and_without_case_by_number
    counts_are_of_what_one_may_read
    a_cursor_fits_one_question
    what_has_expired_is_in_no_list
    a_search_is_by_its_own_permission
    several_terms_must_all_hold
    large_tokens_make_short_pages
}

async fn the_order_is_by_container_then_creation(scene: ListingHarness) {
    for (id, place) in [("a-1", "/a/"), ("b-1", "/b/"), ("a-2", "/a/"), ("ab1", "/a/b/")] {
        scene.put(id, &[place]).await;
    }
    let page = scene.list(&scene.owner, all()).await.unwrap();
    assert_eq!(ids(&page.tokens), ["b-1", "ab1", "a-2", "a-1"]);
    let page = scene.list(&scene.owner, within("/a/")).await.unwrap();
    assert_eq!(ids(&page.tokens), ["ab1", "a-2", "a-1"]);
    let (newest, total) = scene.count(&scene.owner, NumberedAsked::default()).await;
    assert_eq!((newest, total), (["ab1", "a-2", "b-1", "a-1"].map(str::to_owned).to_vec(), 4));
}

async fn a_container_must_be_ones_own(scene: ListingHarness) {
    scene.put("one", &["/pci/high/"]).await;
    let reader = scene.reader(&[("/pci/high/", Transform::Mask)]).await;
    let none = Refusal::NoRule(Permission::TokenRead);
    assert_eq!(refusal(scene.list(&reader, within("/pci/")).await), none);
    assert_eq!(refusal(scene.list(&reader, within("/other/")).await), none);
    let page = scene.list(&reader, within("/pci/high/")).await.unwrap();
    assert_eq!(ids(&page.tokens), ["one"]);
    assert_eq!(ids(&scene.list(&reader, within("/pci/high/x/")).await.unwrap().tokens), [""; 0]);
}

async fn what_is_also_elsewhere_is_not_there(scene: ListingHarness) {
    scene.put("mine", &["/a/"]).await;
    scene.put("both", &["/a/", "/secret/"]).await;
    scene.put("turned", &["/secret/", "/a/"]).await;
    scene.put("wide", &["/b/", "/a/"]).await;
    let reader = scene.reader(&[("/a/", Transform::Mask), ("/b/", Transform::Mask)]).await;
    let page = scene.list(&reader, all()).await.unwrap();
    assert_eq!(ids(&page.tokens), ["wide", "mine"]);
    // Under the container that was asked for, and once.
    let page = scene.list(&reader, within("/a/")).await.unwrap();
    assert_eq!(ids(&page.tokens), ["wide", "mine"]);
    assert_eq!(scene.count(&reader, NumberedAsked::default()).await.1, 2);
    assert_eq!(ids(&scene.list(&scene.owner, within("/a/")).await.unwrap().tokens).len(), 4);
}

async fn a_page_is_filled_past_what_is_hidden(scene: ListingHarness) {
    scene.put("old", &["/a/"]).await;
    for at in 0..60 {
        scene.put(&format!("hidden-{at}"), &["/a/", "/secret/"]).await;
    }
    for at in 0..3 {
        scene.put(&format!("new-{at}"), &["/a/"]).await;
    }
    let reader = scene.reader(&[("/a/", Transform::Mask)]).await;
    let page = scene.list(&reader, TokensAsked { size: 4, ..all() }).await.unwrap();
    assert_eq!(ids(&page.tokens), ["new-2", "new-1", "new-0", "old"]);
    // Hidden ones lie behind, and are no reason for another page.
    assert!(page.next.is_none());
    let page = scene.list(&reader, TokensAsked { size: 3, ..all() }).await.unwrap();
    assert!(page.next.is_some());
}

async fn each_row_has_its_own_transform(scene: ListingHarness) {
    for (id, place) in [("clear", "/a/"), ("masked", "/b/"), ("redacted", "/c/")] {
        let mut new = card(VISA);
        (new.id, new.containers) = (Some(id.to_owned()), Some(containers(&[place])));
        create(&scene.world.vault, &scene.owner, new).await.unwrap();
    }
    let rules = [("/a/", Transform::Reveal), ("/b/", Transform::Mask), ("/c/", Transform::Redact)];
    let page = scene.list(&scene.reader(&rules).await, all()).await.unwrap();
    let shown: Vec<Option<Value>> = page.tokens.iter().map(data).collect();
    let masked = json!({"number": "XXXXXXXXXXXX4242"});
    assert_eq!(shown, [None, Some(masked), Some(json!({"number": VISA}))]);
}

async fn rules_about_ids_open_no_list(scene: ListingHarness) {
    scene.put("named", &["/a/"]).await;
    scene.put("other", &["/a/"]).await;
    let rule = |conditions| AccessRule {
        description: String::new(),
        priority: 1,
        reach: Reach::Conditions(conditions),
        transform: Transform::Reveal,
        permissions: Permissions::of(&[Permission::TokenRead]),
    };
    let by_id = || vec![Condition::IdIs("named".to_owned())];
    let access = AccessPolicy { permissions: Permissions::default(), rules: vec![rule(by_id())] };
    let caller = scene.world.changed(&scene.tenant, scene.owner.application(), access);
    assert!(scene.list(&caller, all()).await.unwrap().tokens.is_empty());
    assert_eq!(scene.count(&caller, NumberedAsked::default()).await.1, 0);
    // By its id it is there.
    let asked = || NumberedAsked {
        ids: Some(vec![token_id("named"), token_id("other")]),
        ..NumberedAsked::default()
    };
    assert_eq!(scene.count(&caller, asked()).await.0, ["named"]);

    let inside = vec![Condition::ContainerIs(Container::parse("/a/").unwrap())];
    let access = AccessPolicy { permissions: Permissions::default(), rules: vec![rule(inside)] };
    let caller = scene.world.changed(&scene.tenant, scene.owner.application(), access);
    assert_eq!(scene.list(&caller, all()).await.unwrap().tokens.len(), 2);
}

async fn metadata_is_exact_by_cursor_and_without_case_by_number(scene: ListingHarness) {
    for id in ["Red", "red", "blue"] {
        scene.put(id, &["/a/"]).await;
    }
    let page = scene.list(&scene.owner, of(metadata("Who", "red"))).await.unwrap();
    assert_eq!(ids(&page.tokens), ["red"]);
    for wrong in [metadata("who", "red"), metadata("Who", "RED"), metadata("red", "Who")] {
        assert!(scene.list(&scene.owner, of(wrong)).await.unwrap().tokens.is_empty());
    }
    let asked = NumberedAsked {
        metadata: vec![("WHO".to_owned(), "rED".to_owned())],
        ..NumberedAsked::default()
    };
    assert_eq!(scene.count(&scene.owner, asked).await.0, ["red", "Red"]);
}

async fn counts_are_of_what_one_may_read(scene: ListingHarness) {
    for at in 0..7 {
        scene.put(&format!("mine-{at}"), &["/a/"]).await;
        scene.put(&format!("theirs-{at}"), &["/b/"]).await;
    }
    let reader = scene.reader(&[("/a/", Transform::Mask)]).await;
    let page = |number, size| NumberedAsked {
        page: PageAsked { number, size },
        ..NumberedAsked::default()
    };
    let (second, total) = scene.count(&reader, page(2, 3)).await;
    assert_eq!((second, total), (["mine-3", "mine-2", "mine-1"].map(str::to_owned).to_vec(), 7));
    assert_eq!(scene.count(&reader, page(4, 3)).await, (Vec::new(), 7));
    let far = list_tokens_v1(&scene.world.vault, &reader, page(101, 100)).await;
    assert_eq!(invalid(far), "page");
    let some = NumberedAsked {
        ids: Some(["mine-1", "theirs-1", "nobody", "mine-2"].map(token_id).to_vec()),
        ..NumberedAsked::default()
    };
    assert_eq!(scene.count(&reader, some).await.0, ["mine-2", "mine-1"]);
}

async fn a_cursor_fits_one_question(scene: ListingHarness) {
    for at in 0..4 {
        scene.put(&format!("token-{at}"), &["/a/"]).await;
    }
    let first = || TokensAsked { size: 1, ..of(metadata("all", "Same")) };
    let page = scene.list(&scene.owner, first()).await.unwrap();
    let next = page.next.unwrap();
    let go_on = |asked| TokensAsked { start: Some(next.clone()), ..asked };
    let page = scene.list(&scene.owner, go_on(first())).await.unwrap();
    assert_eq!(ids(&page.tokens), ["token-2"]);
    // Another size is the same question.
    let larger = TokensAsked { size: 2, ..first() };
    assert_eq!(scene.list(&scene.owner, go_on(larger)).await.unwrap().tokens.len(), 2);

    let other_filters = [
        all(),
        of(metadata("all", "same")),
        of(metadata("allS", "ame")),
        of(TokenFilter::Data("token-1".to_owned())),
        of(TokenFilter::Type(TokenType::Token)),
        TokensAsked { container: Some(Container::root()), ..first() },
    ];
    for asked in other_filters {
        assert_eq!(invalid(scene.list(&scene.owner, go_on(asked)).await), "start");
    }
    let may: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
    let other = scene.world.caller(&scene.tenant, ruled([rule("/", Transform::Reveal, may)])).await;
    assert_eq!(invalid(scene.list(&other, go_on(first())).await), "start");
    let own = scene.list(&other, first()).await.unwrap().next.unwrap();
    let searched = TokensAsked { start: Some(own), ..first() };
    assert_eq!(invalid(search_tokens(&scene.world.vault, &other, searched).await), "start");
    let theirs = scene.world.tenant(Settings::default()).await;
    let stranger = scene.world.caller(&theirs, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    assert_eq!(invalid(scene.list(&stranger, go_on(first())).await), "start");
    for at in 0..next.as_bytes().len() {
        let mut bytes = next.as_bytes().to_vec();
        bytes[at] ^= 1;
        let altered = scrip_seal::Sealed::from_stored(bytes);
        let asked = TokensAsked { start: Some(altered), ..first() };
        assert_eq!(invalid(scene.list(&scene.owner, asked).await), "start");
    }
}

async fn what_has_expired_is_in_no_list(scene: ListingHarness) {
    scene.put("stays", &["/a/"]).await;
    let mut new = new_token(TokenType::Token, json!("gone"));
    new.id = Some("goes".to_owned());
    new.containers = Some(containers(&["/a/"]));
    new.expires_at = Some(START.after(Duration::from_secs(60)));
    new.search_indexes = Some(vec!["{{ data }}".to_owned()]);
    create(&scene.world.vault, &scene.owner, new).await.unwrap();
    let may: &[_] = &[Permission::TokenRead, Permission::TokenSearch];
    let caller = scene.world.caller(&scene.tenant, ruled([rule("/", Transform::Mask, may)])).await;
    let found = async || {
        let by_data = || of(TokenFilter::Data("gone".to_owned()));
        let listed = scene.list(&caller, all()).await.unwrap().tokens.len();
        let counted = scene.count(&caller, NumberedAsked::default()).await.1;
        let page = search_tokens(&scene.world.vault, &caller, by_data()).await.unwrap();
        (listed, counted, page.tokens.len())
    };
    assert_eq!(found().await, (2, 2, 1));
    scene.world.clock.advance(Duration::from_secs(60));
    assert_eq!(found().await, (1, 1, 0));
}

async fn a_search_is_by_its_own_permission(scene: ListingHarness) {
    scene.put("one", &["/a/"]).await;
    let (world, tenant) = (&scene.world, &scene.tenant);
    let asked = || of(TokenFilter::Data("one".to_owned()));
    let reads: &[_] = &[Permission::TokenRead];
    let reader = world.caller(tenant, ruled([rule("/", Transform::Mask, reads)])).await;
    let none = Refusal::NoRule(Permission::TokenSearch);
    assert_eq!(refusal(search_tokens(&world.vault, &reader, asked()).await), none);
    let numbered = || NumberedAsked { data: Some("one".to_owned()), ..NumberedAsked::default() };
    assert_eq!(refusal(search_tokens_v1(&world.vault, &reader, numbered()).await), none);
    let searches: &[_] = &[Permission::TokenSearch];
    let searcher = world.caller(tenant, ruled([rule("/a/", Transform::Redact, searches)])).await;
    let page = search_tokens(&world.vault, &searcher, asked()).await.unwrap();
    assert_eq!(ids(&page.tokens), ["one"]);
    assert_eq!(data(&page.tokens[0]), None);
    let page = search_tokens_v1(&world.vault, &searcher, numbered()).await.unwrap();
    assert_eq!((ids(&page.items), page.total), (vec!["one".to_owned()], 1));
    // A value of its data is not one of its metadata.
    let other = of(metadata("one", "one"));
    assert!(search_tokens(&world.vault, &searcher, other).await.unwrap().tokens.is_empty());
    assert!(list_tokens(&world.vault, &searcher, all()).await.is_err());
}

async fn several_terms_must_all_hold(scene: ListingHarness) {
    for id in ["one", "two"] {
        scene.put(id, &["/a/"]).await;
    }
    let asked = |terms: &[(&str, &str)]| {
        let owned = terms.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        NumberedAsked { metadata: owned.collect(), ..NumberedAsked::default() }
    };
    let found = async |terms| scene.count(&scene.owner, asked(terms)).await.1;
    assert_eq!(found(&[("all", "same")]).await, 2);
    assert_eq!(found(&[("all", "same"), ("who", "one")]).await, 1);
    assert_eq!(found(&[("who", "one"), ("all", "same")]).await, 1);
    assert_eq!(found(&[("who", "one"), ("all", "other")]).await, 0);
    assert_eq!(found(&[("who", "one"), ("who", "two")]).await, 0);
}

/// The same caller with the evaluation budget of a new request.
fn next_request(caller: &Caller) -> Caller {
    Caller::new(std::sync::Arc::clone(caller.principal()), caller.origin().clone())
}

async fn large_tokens_make_short_pages(scene: ListingHarness) {
    for at in 0..8 {
        let mut new = new_token(TokenType::Token, json!("x".repeat(900 * 1024)));
        new.id = Some(format!("large-{at}"));
        new.fingerprint_expression = Some("{{ data | slice: 0, 8 }}".to_owned());
        create(&scene.world.vault, &next_request(&scene.owner), new).await.unwrap();
    }
    let (mut seen, mut start, mut pages) = (Vec::new(), None, 0);
    loop {
        let owner = next_request(&scene.owner);
        let page = scene.list(&owner, TokensAsked { start, ..all() }).await.unwrap();
        assert!(page.tokens.len() <= 5);
        seen.extend(ids(&page.tokens));
        (start, pages) = (page.next, pages + 1);
        if start.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), pages), (8, 2));
    let owner = next_request(&scene.owner);
    let counted = list_tokens_v1(&scene.world.vault, &owner, NumberedAsked::default()).await;
    assert!(matches!(counted, Err(Error::Unprocessable { .. })), "{counted:?}");
    let one = NumberedAsked { page: PageAsked { number: 8, size: 1 }, ..NumberedAsked::default() };
    assert_eq!(scene.count(&next_request(&scene.owner), one).await.1, 8);
}
