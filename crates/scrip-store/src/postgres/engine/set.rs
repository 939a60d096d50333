//! The rows of many writes that do not touch each other, put by one statement for each table.

use std::collections::HashSet;

use deadpool_postgres::Object;
use scrip_core::{
    answer::AnswerRecord,
    disclosure::{DuplicateKey, DuplicateKeys, DuplicateLookup},
    id::TenantId,
    store::{InsertToken, StoreError, StoredToken},
    token_intent::StoredTokenIntent,
};
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use crate::postgres::tokens::entries::entry_columns;
use crate::postgres::engine::row::column;
use crate::shared::tokens::rows::index_bytes;
use crate::postgres::engine::statement::Parameters;
use crate::postgres::engine::statement::fault;
use crate::postgres::engine::transaction::Question;

/// Whatever has such an id or such a duplicate key, live or not. Whoever is found here
/// only looks as if it were in the way; that is told apart where each write is done by itself.
///
/// Scalar subqueries are never made a join, which an engine that has not counted its rows yet
/// would do by going through all of them.
pub(crate) const FIND_OBSTACLES: &str = "
-- find_obstacles
SELECT it.at FROM unnest($2::bigint[], $3::text[]) AS it (at, id)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.id = it.id) IS NOT NULL
UNION ALL
    SELECT it.at FROM unnest($4::bigint[], $5::bytea[]) AS it (at, key)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.duplicate_key = it.key
    LIMIT 1) IS NOT NULL
UNION ALL
    SELECT it.at FROM unnest($6::bigint[], $7::bytea[]) AS it (at, key)
WHERE (SELECT number FROM tokens WHERE tenant = $1 AND tokens.duplicate_read_key = it.key
    LIMIT 1) IS NOT NULL";

/// What must not be there when tokens are inserted.
#[derive(Debug, Default)]
pub(crate) struct Obstacles<'a> {
    ids: (Vec<i64>, Vec<&'a str>),
    keys: (Vec<i64>, Vec<Vec<u8>>),
    read_keys: (Vec<i64>, Vec<Vec<u8>>),
}

impl<'a> Obstacles<'a> {
    /// `at` is by what it is told again.
    pub(crate) fn of(&mut self, at: usize, insert: &'a InsertToken) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let record = &insert.token.record;
        self.ids.0.push(at);
        self.ids.1.push(record.id.as_str());
        let Some(lookup) = DuplicateLookup::of(record, insert.deduplicate) else { return };
        for DuplicateKey(key) in lookup.keys {
            self.keys.0.push(at);
            self.keys.1.push(key.to_vec());
        }
        if let Some(DuplicateKey(key)) = lookup.read_key {
            self.read_keys.0.push(at);
            self.read_keys.1.push(key.to_vec());
        }
    }

    pub(crate) fn parameters<'b>(&'b self, tenant: &'b Uuid) -> Parameters<'b, 7> {
        let (keys, read_keys) = (&self.keys, &self.read_keys);
        [tenant, &self.ids.0, &self.ids.1, &keys.0, &keys.1, &read_keys.0, &read_keys.1]
    }

    /// Nothing, where there is nothing to ask.
    pub(crate) fn asked<'b>(&self, parameters: &'b Parameters<'b, 7>) -> Option<Question<'b>> {
        (!self.ids.0.is_empty()).then_some(Question { sql: FIND_OBSTACLES, parameters })
    }
}

/// Those that have something in their way.
pub(crate) fn hindered(rows: &[Row]) -> Result<HashSet<usize>, StoreError> {
    let at = |row| column::<i64>(row, 0).map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    rows.iter().map(at).collect()
}

/// Columns of one transaction. Nobody else of the tenant writes, and nothing was in the way: so a
/// key that is there already is an error, and takes all of it back.
#[derive(Debug, Default)]
pub(crate) struct Set<'a> {
    tokens: Vec<(i64, &'a StoredToken)>,
    intents: Vec<&'a StoredTokenIntent>,
    /// Each with the numbers of the tokens that it shows.
    answers: Vec<(&'a AnswerRecord, Vec<i64>)>,
}

pub(crate) const INSERT_TOKENS: &str = "
-- insert_tokens
WITH made AS (
    INSERT INTO tokens (tenant, number, id, type, fingerprint, containers, created_by, created_at,
        expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key)
    SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::text[],
        $7::uuid[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bytea[], $12::bytea[],
        $20::bytea[], $21::bytea[], $22::bytea[])
), coded AS (
    INSERT INTO cvcs (tenant, token, expires_at, sealed)
    SELECT $1, * FROM unnest($13::bigint[], $14::bigint[], $15::bytea[])
)
    INSERT INTO filed (tenant, facet, container, created_at, token)
    SELECT $1, * FROM unnest($16::bytea[], $17::text[], $18::bigint[], $19::bigint[])";

const INSERT_INTENTS: &str = "
-- insert_token_intents
WITH made AS (
    INSERT INTO token_intents
        (tenant, id, type, fingerprint, created_by, created_at, expires_at, body, containers)
    SELECT $1, * FROM unnest($2::uuid[], $3::text[], $4::bytea[], $5::uuid[], $6::bigint[],
        $7::bigint[], $8::bytea[], $12::text[])
)
    INSERT INTO intent_cvcs (tenant, intent, expires_at, sealed)
    SELECT $1, * FROM unnest($9::uuid[], $10::bigint[], $11::bytea[])";

const INSERT_ANSWERS: &str = "
-- insert_answers
WITH answered AS (
    INSERT INTO answers (tenant, digest, created_at, head)
    SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bytea[])
)
    INSERT INTO answer_data (tenant, digest, at, token, sealed)
    SELECT $1, * FROM unnest($5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[])";

/// Those of a set that it needs.
#[derive(Debug)]
pub(crate) struct Statements {
    tokens: Option<Statement>,
    intents: Option<Statement>,
    answers: Option<Statement>,
}

impl<'a> Set<'a> {
    pub(crate) fn token(&mut self, number: i64, token: &'a StoredToken) {
        self.tokens.push((number, token));
    }

    pub(crate) fn intent(&mut self, intent: &'a StoredTokenIntent) {
        self.intents.push(intent);
    }

    pub(crate) fn answer(&mut self, answer: &'a AnswerRecord, numbers: Vec<i64>) {
        self.answers.push((answer, numbers));
    }

    pub(crate) async fn prepare(&self, client: &Object) -> Result<Statements, StoreError> {
        let prepare = async |needs: bool, sql| match needs {
            true => client.prepare_cached(sql).await.map(Some).map_err(fault),
            false => Ok(None),
        };
        Ok(Statements {
            tokens: prepare(!self.tokens.is_empty(), INSERT_TOKENS).await?,
            intents: prepare(!self.intents.is_empty(), INSERT_INTENTS).await?,
            answers: prepare(!self.answers.is_empty(), INSERT_ANSWERS).await?,
        })
    }

    /// All are sent before any is answered.
    pub(crate) async fn put(
        &self,
        client: &Object,
        TenantId(tenant): TenantId,
        statements: Statements,
    ) -> Result<(), tokio_postgres::Error> {
        let Statements { tokens, intents, answers } = &statements;
        tokio::try_join!(
            biased;
            self.put_tokens(client, &tenant, tokens.as_ref()),
            self.put_intents(client, &tenant, intents.as_ref()),
            self.put_answers(client, &tenant, answers.as_ref()),
        )
        .map(drop)
    }

    async fn put_tokens(
        &self,
        client: &Object,
        tenant: &Uuid,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let number: Vec<_> = self.tokens.iter().map(|(number, _)| *number).collect();
        let records = || self.tokens.iter().map(|(_, it)| &it.record);
        let id: Vec<_> = records().map(|it| it.id.as_str()).collect();
        let of_type: Vec<_> = records().map(|it| it.token_type.as_str()).collect();
        let fingerprint: Vec<_> =
            records().map(|it| it.fingerprint.as_ref().map(|it| it.0.as_slice())).collect();
        let containers: Vec<_> = records().map(|it| it.containers.text()).collect();
        let created_by: Vec<_> = records().map(|it| it.created_by.0).collect();
        let created_at: Vec<_> = records().map(|it| it.created_at.unix_ms).collect();
        let expires_at: Vec<_> = records().map(|it| it.expires_at.map(|it| it.unix_ms)).collect();
        let revision: Vec<_> = records().map(|it| it.revision).collect();
        let indexes: Vec<_> = records().map(|it| index_bytes(&it.indexes)).collect();
        let body: Vec<_> = records().map(|it| it.body.as_bytes()).collect();
        let expressions: Vec<_> = records().map(|it| it.expressions.to_bytes().to_vec()).collect();
        let keys = || records().map(DuplicateKeys::of);
        let bytes = |it: Option<DuplicateKey>| it.map(|it| it.0.to_vec());
        let duplicate_key: Vec<_> = keys().map(|it| bytes(it.key)).collect();
        let duplicate_read_key: Vec<_> = keys().map(|it| bytes(it.read_key)).collect();
        let (mut coded, mut ends, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut facets, mut places) = (Vec::new(), Vec::new());
        let (mut filed_at, mut filed) = (Vec::new(), Vec::new());
        for (number, StoredToken { record, cvc }) in &self.tokens {
            if let Some(code) = cvc {
                coded.push(*number);
                ends.push(code.expires_at.unix_ms);
                codes.push(code.sealed.as_bytes());
            }
            let (of, places_of) = entry_columns(record);
            filed_at.extend(of.iter().map(|_| record.created_at.unix_ms));
            filed.extend(of.iter().map(|_| *number));
            facets.extend(of);
            places.extend(places_of);
        }
        let columns: Parameters<'_, 22> = [
            tenant,
            &number,
            &id,
            &of_type,
            &fingerprint,
            &containers,
            &created_by,
            &created_at,
            &expires_at,
            &revision,
            &indexes,
            &body,
            &coded,
            &ends,
            &codes,
            &facets,
            &places,
            &filed_at,
            &filed,
            &expressions,
            &duplicate_key,
            &duplicate_read_key,
        ];
        client.execute(statement, &columns).await.map(drop)
    }

    async fn put_intents(
        &self,
        client: &Object,
        tenant: &Uuid,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let records = || self.intents.iter().map(|it| &it.record);
        let id: Vec<_> = records().map(|it| it.id.0).collect();
        let of_type: Vec<_> = records().map(|it| it.token_type.as_str()).collect();
        let fingerprint: Vec<_> =
            records().map(|it| it.fingerprint.as_ref().map(|it| it.0.as_slice())).collect();
        let created_by: Vec<_> = records().map(|it| it.created_by.0).collect();
        let created_at: Vec<_> = records().map(|it| it.created_at.unix_ms).collect();
        let expires_at: Vec<_> = records().map(|it| it.expires_at.unix_ms).collect();
        let body: Vec<_> = records().map(|it| it.body.as_bytes()).collect();
        let containers: Vec<_> = records().map(|it| it.containers.text()).collect();
        let codes =
            || self.intents.iter().filter_map(|it| Some((it.record.id.0, it.cvc.as_ref()?)));
        let coded: Vec<_> = codes().map(|(id, _)| id).collect();
        let ends: Vec<_> = codes().map(|(_, it)| it.expires_at.unix_ms).collect();
        let sealed: Vec<_> = codes().map(|(_, it)| it.sealed.as_bytes()).collect();
        let columns: Parameters<'_, 12> = [
            tenant,
            &id,
            &of_type,
            &fingerprint,
            &created_by,
            &created_at,
            &expires_at,
            &body,
            &coded,
            &ends,
            &sealed,
            &containers,
        ];
        client.execute(statement, &columns).await.map(drop)
    }

    async fn put_answers(
        &self,
        client: &Object,
        tenant: &Uuid,
        statement: Option<&Statement>,
    ) -> Result<(), tokio_postgres::Error> {
        let Some(statement) = statement else { return Ok(()) };
        let answers = || self.answers.iter().map(|(it, _)| it);
        let digest: Vec<_> = answers().map(|it| it.digest.as_slice()).collect();
        let created_at: Vec<_> = answers().map(|it| it.created_at.unix_ms).collect();
        let head: Vec<_> = answers().map(|it| it.head.as_bytes()).collect();
        let (mut of, mut at) = (Vec::new(), Vec::new());
        let (mut tokens, mut sealed) = (Vec::new(), Vec::new());
        for (answer, numbers) in &self.answers {
            for part in &answer.parts {
                of.push(answer.digest.as_slice());
                at.push(i64::try_from(part.at).unwrap_or(i64::MAX));
                // Without a number the engine takes none of it.
                tokens.push(numbers.get(part.at).copied());
                sealed.push(part.sealed.as_bytes());
            }
        }
        let columns: Parameters<'_, 8> =
            [tenant, &digest, &created_at, &head, &of, &at, &tokens, &sealed];
        client.execute(statement, &columns).await.map(drop)
    }
}
