//! Whoever writes to the database file without our keys changes nothing unnoticed.

use rusqlite::Connection;
use scrip_core::{
    error::Error,
    id::TokenId,
    listing::{ListTokensQuery, TokenFilter},
    operations::tokens::{
        create_token::create_token, get_token::get_token, list_tokens::list_tokens,
        update_token::update_token,
    },
    policy::{Caller, TenantSettings, Transform},
    token::{NewToken, Plaintext, TokenPatch, TokenSource, TokenType, TokenView},
};
use scrip_testing::{
    clock::START,
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{DEBIT, VISA, card, create},
    vault_harness::{Engine, VaultHarness, containers},
};
use serde_json::json;

pub(crate) async fn vault_with_card(engine: Engine) -> (VaultHarness, Caller, TokenId) {
    let harness = VaultHarness::open(engine).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let data = Plaintext::new(json!({"number": "4242424242424242", "cvc": "123"}));
    let new = NewToken {
        id: None,
        source: TokenSource::Data { token_type: TokenType::Card, data },
        mask: None,
        containers: Some(containers(&["/pci/high/", "/a/"])),
        metadata: Some([("who".to_owned(), "me".to_owned())].into()),
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: Some(START.plus(std::time::Duration::from_secs(3600))),
    };
    let written = create_token(&harness.vault, &caller, new, None).await.unwrap();
    let id = written.token.id;
    // So that it has been modified, and every column has a value.
    update_token(&harness.vault, &caller, &id, TokenPatch::default(), None).await.unwrap();
    (harness, caller, id)
}

pub(crate) fn describe(view: &TokenView) -> String {
    let shown = &view.detail.as_ref().unwrap().visible;
    let data = shown.data.as_ref().map(Plaintext::expose);
    let cvc = shown.cvc.as_ref().map(|it| it.expose());
    format!("{view:?} {data:?} {cvc:?}")
}

/// One column, one altered value at a time; put back before the next.
const ALTERATIONS: &[(&str, &str, &str)] = &[
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
async fn altered_token_column_is_detected() {
    let (harness, caller, id) = vault_with_card(Engine::Sqlite).await;
    let first = describe(&get_token(&harness.vault, &caller, &id).await.unwrap());
    assert!(first.contains("4242424242424242") && first.contains("\"123\""), "{first}");
    let attacker = Connection::open(harness.file()).unwrap();
    for (table, column, value) in ALTERATIONS {
        let copy = format!("CREATE TEMP TABLE kept AS SELECT {column} AS it FROM {table}");
        attacker.execute_batch(&copy).unwrap();
        attacker.execute(&format!("UPDATE {table} SET {column} = {value}"), []).unwrap();
        let outcome = get_token(&harness.vault, &caller, &id).await;
        let noticed = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
        assert!(noticed, "{column} = {value}: {outcome:?}");
        let back = format!("UPDATE {table} SET {column} = (SELECT it FROM kept)");
        attacker.execute_batch(&format!("{back}; DROP TABLE kept;")).unwrap();
        assert_eq!(describe(&get_token(&harness.vault, &caller, &id).await.unwrap()), first);
    }
}

/// Entries are in no seal, but what they lead to is: a token is never shown as what it is not.
#[tokio::test]
async fn forged_index_entry_is_detected() {
    let (harness, caller, _) = vault_with_card(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    let listed = async |filter| {
        let query = ListTokensQuery { container: None, filter, start: None, size: 20 };
        list_tokens(&harness.vault, &caller, query).await.map(|it| it.tokens.len())
    };
    assert_eq!(listed(TokenFilter::Type(TokenType::Card)).await.unwrap(), 1);
    let forged = [
        "SELECT tenant, CAST('tbank' AS BLOB), container, created_at, token FROM filed",
        "SELECT tenant, CAST('tbank' AS BLOB), '/a/', created_at, token FROM filed",
        "SELECT tenant, facet, '/zoo/', created_at, token FROM filed",
        "SELECT tenant, facet, container, created_at + 1, token FROM filed",
    ];
    for entries in forged {
        attacker.execute_batch("BEGIN; CREATE TEMP TABLE kept AS SELECT * FROM filed").unwrap();
        attacker.execute(&format!("INSERT OR IGNORE INTO filed {entries}"), []).unwrap();
        attacker.execute_batch("COMMIT").unwrap();
        let outcome = listed(TokenFilter::All).await;
        assert!(matches!(outcome, Err(Error::Internal(_))), "{entries}: {outcome:?}");
        attacker
            .execute_batch(
                "DELETE FROM filed; INSERT INTO filed SELECT * FROM kept; DROP TABLE kept",
            )
            .unwrap();
        assert_eq!(listed(TokenFilter::All).await.unwrap(), 1);
    }
    attacker.execute("UPDATE filed SET token = token + 1000", []).unwrap();
    assert_eq!(listed(TokenFilter::All).await.unwrap(), 0);
}

/// A body, a code and a whole row belong to one token and one tenant.
#[tokio::test]
async fn swapped_cvcs_bodies_and_reassigned_rows_are_detected() {
    let (harness, caller, id) = vault_with_card(Engine::Sqlite).await;
    let other = NewToken {
        id: Some("other".to_owned()),
        source: TokenSource::Data {
            token_type: TokenType::Card,
            data: Plaintext::new(json!({"number": "4000056655665556", "cvc": "456"})),
        },
        mask: None,
        containers: None,
        metadata: None,
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: None,
    };
    create_token(&harness.vault, &caller, other, None).await.unwrap();
    let tenant = harness.tenant(TenantSettings::default()).await;
    let stranger = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let attacker = Connection::open(harness.file()).unwrap();

    let swap = "UPDATE cvcs SET (expires_at, sealed) = (SELECT expires_at, sealed FROM cvcs AS it
        WHERE it.token <> cvcs.token)";
    attacker.execute("BEGIN", []).unwrap();
    attacker.execute(swap, []).unwrap();
    attacker.execute("COMMIT", []).unwrap();
    let code = get_token(&harness.vault, &caller, &id).await;
    assert!(matches!(code, Err(Error::Internal(_))), "{code:?}");

    let swap =
        "UPDATE tokens SET body = (SELECT body FROM tokens AS it WHERE it.seq <> tokens.seq)";
    attacker.execute(swap, []).unwrap();
    let body = get_token(&harness.vault, &caller, &id).await;
    assert!(matches!(body, Err(Error::Internal(_))), "{body:?}");

    let give = "UPDATE tokens SET tenant = ?";
    attacker.execute(give, [tenant.id.0.as_bytes()]).unwrap();
    let given = get_token(&harness.vault, &stranger, &id).await;
    assert!(matches!(given, Err(Error::Internal(_))), "{given:?}");
}

/// Two tokens of different cards. The second is to be given the duplicate key of the first, which
/// then has none.
pub(crate) async fn vault_with_two_cards(engine: Engine) -> (VaultHarness, Caller, [TokenId; 2]) {
    let harness = VaultHarness::open(engine).await;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let caller = harness
        .caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]))
        .await;
    let first = create(&harness.vault, &caller, card(VISA)).await.unwrap().token.id;
    let second = create(&harness.vault, &caller, card(DEBIT)).await.unwrap().token.id;
    (harness, caller, [first, second])
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
pub(crate) async fn check_moved_duplicate_key(harness: &VaultHarness, caller: &Caller) {
    let mut again = card(VISA);
    again.deduplicate = Some(true);
    let outcome = create(&harness.vault, caller, again).await;
    assert!(matches!(outcome, Err(Error::Internal(_))), "{outcome:?}");
}

#[tokio::test]
async fn duplicate_key_of_another_token_is_noticed() {
    let (harness, caller, ids) = vault_with_two_cards(Engine::Sqlite).await;
    let attacker = Connection::open(harness.file()).unwrap();
    for sql in move_duplicate_key(&ids) {
        assert_eq!(attacker.execute(&sql, []).unwrap(), 1, "{sql}");
    }
    check_moved_duplicate_key(&harness, &caller).await;
}
