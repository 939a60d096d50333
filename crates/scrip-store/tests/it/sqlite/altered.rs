//! Whoever writes to the database file without our keys changes nothing unnoticed.

use rusqlite::Connection;
use scrip_core::{
    error::Error,
    id::TokenId,
    listing::{TokenFilter, TokensAsked},
    operations::tokens::{
        create_token::create_token, get_token::get_token, list_tokens::list_tokens,
        update_token::update_token,
    },
    policy::{Caller, Settings, Transform},
    token::{NewToken, Plain, TokenPatch, TokenSource, TokenType, TokenView},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, rule, ruled},
    requests::{DEBIT, VISA, card, create},
    vault_harness::{Engine, VaultHarness, containers},
};
use serde_json::json;

pub(crate) async fn vault_with_card(engine: Engine) -> (VaultHarness, Caller, TokenId) {
    let world = VaultHarness::open(engine).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let data = Plain::new(json!({"number": "4242424242424242", "cvc": "123"}));
    let new = NewToken {
        id: None,
        source: TokenSource::Data { token_type: TokenType::Card, data },
        mask: None,
        containers: Some(containers(&["/pci/high/", "/a/"])),
        metadata: Some([("who".to_owned(), "me".to_owned())].into()),
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

pub(crate) fn text(view: &TokenView) -> String {
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
    ("tokens", "expressions", "x'00'"),
    ("tokens", "expressions", "zeroblob(33)"),
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
    ("tokens", "indexes", "x''"),
    ("tokens", "indexes", "zeroblob(length(indexes))"),
    ("tokens", "indexes", "CAST(indexes || zeroblob(16) AS BLOB)"),
    ("tokens", "indexes", "CAST(indexes || x'00' AS BLOB)"),
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
    let (world, caller, id) = vault_with_card(Engine::Sqlite).await;
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

/// Entries are in no seal, but what they lead to is: a token is never shown as what it is not.
#[tokio::test]
async fn a_forged_entry_is_noticed() {
    let (world, caller, _) = vault_with_card(Engine::Sqlite).await;
    let outside = Connection::open(world.file()).unwrap();
    let listed = async |filter| {
        let asked = TokensAsked { container: None, filter, start: None, size: 20 };
        list_tokens(&world.vault, &caller, asked).await.map(|it| it.tokens.len())
    };
    assert_eq!(listed(TokenFilter::Type(TokenType::Card)).await.unwrap(), 1);
    let forged = [
        "SELECT tenant, CAST('tbank' AS BLOB), container, created_at, token FROM filed",
        "SELECT tenant, CAST('tbank' AS BLOB), '/a/', created_at, token FROM filed",
        "SELECT tenant, facet, '/zoo/', created_at, token FROM filed",
        "SELECT tenant, facet, container, created_at + 1, token FROM filed",
    ];
    for entries in forged {
        outside.execute_batch("BEGIN; CREATE TEMP TABLE kept AS SELECT * FROM filed").unwrap();
        outside.execute(&format!("INSERT OR IGNORE INTO filed {entries}"), []).unwrap();
        outside.execute_batch("COMMIT").unwrap();
        let outcome = listed(TokenFilter::All).await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{entries}: {outcome:?}");
        outside
            .execute_batch(
                "DELETE FROM filed; INSERT INTO filed SELECT * FROM kept; DROP TABLE kept",
            )
            .unwrap();
        assert_eq!(listed(TokenFilter::All).await.unwrap(), 1);
    }
    outside.execute("UPDATE filed SET token = token + 1000", []).unwrap();
    assert_eq!(listed(TokenFilter::All).await.unwrap(), 0);
}

/// A body, a code and a whole row belong to one token and one tenant.
#[tokio::test]
async fn nothing_can_be_moved_to_another_row() {
    let (world, caller, id) = vault_with_card(Engine::Sqlite).await;
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
    let stranger = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
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

/// Two tokens of different cards. The second is to be given the duplicate key of the first, which
/// then has none.
pub(crate) async fn vault_with_two_cards(engine: Engine) -> (VaultHarness, Caller, [TokenId; 2]) {
    let world = VaultHarness::open(engine).await;
    let tenant = world.tenant(Settings::default()).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    let first = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&world.vault, &caller, card(DEBIT)).await.unwrap().token.id;
    (world, caller, [first, second])
}

/// The statements that move a duplicate key from one token to another.
pub(crate) fn move_duplicate_key([from, to]: &[TokenId; 2]) -> [String; 2] {
    let (from, to) = (from.as_str(), to.as_str());
    [
        format!(
            "UPDATE tokens SET duplicate_key = (SELECT it.duplicate_key FROM tokens AS it
                 WHERE it.id = '{from}') WHERE id = '{to}'"
        ),
        format!("UPDATE tokens SET duplicate_key = NULL WHERE id = '{from}'"),
    ]
}

/// A create with deduplication of the first card. It must not be answered with the second.
pub(crate) async fn check_moved_duplicate_key(world: &VaultHarness, caller: &Caller) {
    let mut again = card(VISA);
    again.deduplicate = Some(true);
    let outcome = create(&world.vault, caller, again).await;
    assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_noticed() {
    let (world, caller, ids) = vault_with_two_cards(Engine::Sqlite).await;
    let outside = Connection::open(world.file()).unwrap();
    for sql in move_duplicate_key(&ids) {
        assert_eq!(outside.execute(&sql, []).unwrap(), 1, "{sql}");
    }
    check_moved_duplicate_key(&world, &caller).await;
}
