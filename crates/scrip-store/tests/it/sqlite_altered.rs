//! Whoever writes to the database file without our keys changes nothing unnoticed.

use rusqlite::Connection;
use scrip_core::{
    caller::Caller,
    error::Error,
    id::TokenId,
    operations::{create_token::create_token, get_token::get_token, update_token::update_token},
    permission::Transform,
    plain::Plain,
    tenant::Settings,
    token::{NewToken, TokenPatch, TokenSource, TokenView},
    token_type::TokenType,
};
use serde_json::json;

use crate::world::{Engine, START, TOKENS, World, containers, ruled};

async fn vault_with_card() -> (World, Caller, TokenId) {
    let world = World::open(Engine::Sqlite).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled(&[("/", Transform::Reveal, TOKENS)])).await;
    let data = Plain::new(json!({"number": "4242424242424242", "cvc": "123"}));
    let new = NewToken {
        id: None,
        source: TokenSource::Data { token_type: TokenType::Card, data },
        mask: None,
        containers: Some(containers(&["/pci/high/", "/a/"])),
        metadata: None,
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: Some(START.after(std::time::Duration::from_secs(3600))),
    };
    let written = create_token(&world.vault, &caller, new, None).await.unwrap();
    let id = written.token.id;
    // So that it has been modified, and every column has a value.
    update_token(&world.vault, &caller, &id, TokenPatch::default(), None).await.unwrap();
    (world, caller, id)
}

fn text(view: &TokenView) -> String {
    let shown = &view.detail.as_ref().unwrap().shown;
    let data = shown.data.as_ref().map(Plain::expose);
    let cvc = shown.cvc.as_ref().map(|it| it.expose());
    format!("{view:?} {data:?} {cvc:?}")
}

/// One column, one altered value at a time; put back before the next.
const ALTERED: &[(&str, &str, &str)] = &[
    ("tokens", "id", "'altered'"),
    ("tokens", "id", "''"),
    ("tokens", "type", "'network_token'"),
    ("tokens", "type", "'unheard_of'"),
    ("tokens", "fingerprint", "NULL"),
    ("tokens", "fingerprint", "zeroblob(32)"),
    ("tokens", "fingerprint", "x'00'"),
    ("tokens", "containers", "'/a/,/pci/high/'"),
    ("tokens", "containers", "'/a/'"),
    ("tokens", "containers", "'/pci/high/,/a/,/a/b/'"),
    ("tokens", "containers", "'/pci/high/a/'"),
    ("tokens", "containers", "''"),
    ("tokens", "containers", "'no container'"),
    ("tokens", "created_by", "zeroblob(16)"),
    ("tokens", "created_by", "x'00'"),
    ("tokens", "created_at", "created_at + 1"),
    ("tokens", "modified_by", "zeroblob(16)"),
    ("tokens", "modified_by", "NULL"),
    ("tokens", "modified_at", "modified_at + 1"),
    ("tokens", "modified_at", "NULL"),
    ("tokens", "expires_at", "NULL"),
    ("tokens", "expires_at", "expires_at + 1"),
    ("tokens", "expires_at", "1"),
    ("tokens", "revision", "revision + 1"),
    ("tokens", "revision", "revision - 1"),
    ("tokens", "body", "x''"),
    ("tokens", "body", "substr(body, 1, length(body) - 1)"),
    ("tokens", "body", "zeroblob(length(body))"),
    ("tokens", "body", "CAST(body || x'00' AS BLOB)"),
    ("cvcs", "expires_at", "expires_at + 1"),
    ("cvcs", "sealed", "x''"),
    ("cvcs", "sealed", "substr(sealed, 1, length(sealed) - 1)"),
];

#[tokio::test]
async fn an_altered_column_is_noticed() {
    let (world, caller, id) = vault_with_card().await;
    let first = text(&get_token(&world.vault, &caller, &id).await.unwrap());
    assert!(first.contains("4242424242424242") && first.contains("\"123\""), "{first}");
    let outside = Connection::open(world.file()).unwrap();
    for (table, column, value) in ALTERED {
        let copy = format!("CREATE TEMP TABLE kept AS SELECT {column} AS it FROM {table}");
        outside.execute_batch(&copy).unwrap();
        outside.execute(&format!("UPDATE {table} SET {column} = {value}"), []).unwrap();
        let outcome = get_token(&world.vault, &caller, &id).await;
        let noticed = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
        assert!(noticed, "{column} = {value}: {outcome:?}");
        let back = format!("UPDATE {table} SET {column} = (SELECT it FROM kept)");
        outside.execute_batch(&format!("{back}; DROP TABLE kept;")).unwrap();
        assert_eq!(text(&get_token(&world.vault, &caller, &id).await.unwrap()), first);
    }
}

/// What is in no seal: a helper of an index, which can hide a duplicate but not show one.
#[tokio::test]
async fn the_index_helper_changes_no_answer() {
    let (world, caller, id) = vault_with_card().await;
    let first = text(&get_token(&world.vault, &caller, &id).await.unwrap());
    let outside = Connection::open(world.file()).unwrap();
    outside.execute("UPDATE tokens SET container_set = '/'", []).unwrap();
    assert_eq!(text(&get_token(&world.vault, &caller, &id).await.unwrap()), first);
}

/// A body, a code and a whole row belong to one token and one tenant.
#[tokio::test]
async fn nothing_can_be_moved_to_another_row() {
    let (world, caller, id) = vault_with_card().await;
    let other = NewToken {
        id: Some("other".to_owned()),
        source: TokenSource::Data {
            token_type: TokenType::Card,
            data: Plain::new(json!({"number": "4000056655665556", "cvc": "456"})),
        },
        mask: None,
        containers: None,
        metadata: None,
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: None,
    };
    create_token(&world.vault, &caller, other, None).await.unwrap();
    let tenant = world.tenant(Settings::default()).await;
    let stranger = world.caller(&tenant, ruled(&[("/", Transform::Reveal, TOKENS)])).await;
    let outside = Connection::open(world.file()).unwrap();

    let swap = "UPDATE cvcs SET (expires_at, sealed) = (SELECT expires_at, sealed FROM cvcs AS it
        WHERE it.token <> cvcs.token)";
    outside.execute("BEGIN", []).unwrap();
    outside.execute(swap, []).unwrap();
    outside.execute("COMMIT", []).unwrap();
    let code = get_token(&world.vault, &caller, &id).await;
    assert!(matches!(code, Err(Error::Internal(_))), "{code:?}");

    let swap =
        "UPDATE tokens SET body = (SELECT body FROM tokens AS it WHERE it.seq <> tokens.seq)";
    outside.execute(swap, []).unwrap();
    let body = get_token(&world.vault, &caller, &id).await;
    assert!(matches!(body, Err(Error::Internal(_))), "{body:?}");

    let give = "UPDATE tokens SET tenant = ?";
    outside.execute(give, [tenant.id.0.as_bytes()]).unwrap();
    let given = get_token(&world.vault, &stranger, &id).await;
    assert!(matches!(given, Err(Error::Internal(_))), "{given:?}");
}
