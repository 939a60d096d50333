//! The store's methods with what most tests do not care about filled in.

pub mod sessions;

use std::time::Duration;

use scrip_core::{
    audit::{AuditRecord, Operation},
    id::ApplicationId,
    idempotency::{AnswerPart, AnswerRecord, AskedAnswer, Claimed},
    policy::{Caller, Inquiry, Permission, Permit, Settings},
    store::{Changed, Ending, Store, StoreError},
    time::{Clock, Month, Timestamp},
    token::{
        Batched, CvcChange, CvcRecord, Deduplicate, DeleteToken, ExpressionMarks, Modified,
        Obstacle, Outcome, Render, StoredToken, TokenBatch, TokenRecord, TokenType, TokenWrite,
        write,
    },
};
use scrip_seal::{Fingerprint, Sealed};
use uuid::Uuid;

use crate::{
    clock::START,
    policy::{TOKENS, plain},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct StoreHarness {
    pub caller: Caller,
    /// Somebody of another tenant.
    pub stranger: Caller,
    pub world: VaultHarness,
}

/// A batch of one insert.
pub struct InsertToken {
    pub token: StoredToken,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub render: Option<Render>,
}

/// A batch of one update.
pub struct UpdateToken {
    pub token: TokenRecord,
    pub cvc: CvcChange,
    pub deduplicate: Deduplicate,
    pub audit: AuditRecord,
    pub render: Option<Render>,
}

/// What became of one insert.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted {
    New,
    Existing(Box<StoredToken>),
    IdTaken,
}

/// What became of one update.
#[derive(Debug, PartialEq, Eq)]
pub enum Updated {
    Done,
    Duplicate(Box<StoredToken>),
    Stale,
}

pub fn inserted(batched: Result<Batched, StoreError>) -> Result<Inserted, StoreError> {
    Ok(match one(batched?) {
        Ok(Outcome::New) => Inserted::New,
        Ok(Outcome::Existing(found)) => Inserted::Existing(found),
        Err(Obstacle::IdTaken) => Inserted::IdTaken,
        Err(Obstacle::Duplicate(found)) => Inserted::Existing(found),
        other => panic!("{other:?}"),
    })
}

pub fn updated(batched: Result<Batched, StoreError>) -> Result<Updated, StoreError> {
    Ok(match one(batched?) {
        Ok(Outcome::Updated) => Updated::Done,
        Ok(Outcome::Existing(found)) => Updated::Duplicate(found),
        Err(Obstacle::Stale) => Updated::Stale,
        other => panic!("{other:?}"),
    })
}

fn one(batched: Batched) -> Result<Outcome, Obstacle> {
    match batched {
        Batched::Written(mut outcomes) if outcomes.len() == 1 => Ok(outcomes.remove(0)),
        Batched::Refused(mut obstacles) if obstacles.len() == 1 => Err(obstacles.remove(0).1),
        other @ (Batched::Written(_) | Batched::Refused(_)) => panic!("{other:?}"),
    }
}

impl StoreHarness {
    pub async fn open(engine: Engine) -> Self {
        let world = VaultHarness::open(engine).await;
        let ours = world.tenant(Settings::default()).await;
        let theirs = world.tenant(Settings::default()).await;
        let caller = world.caller(&ours, plain(TOKENS)).await;
        let stranger = world.caller(&theirs, plain(TOKENS)).await;
        Self { caller, stranger, world }
    }

    /// The same desk with the stranger in front of it.
    pub fn turned(self) -> Self {
        Self { caller: self.stranger, stranger: self.caller, world: self.world }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.world.vault.store
    }

    pub fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    pub fn advance(&self, by: Duration) {
        self.world.clock.advance(by);
    }

    pub fn permit(&self, permission: Permission) -> Permit {
        self.caller.permit(permission, &containers(&["/"])).unwrap()
    }

    pub fn audit(&self, operation: Operation) -> AuditRecord {
        AuditRecord::new(operation, &self.caller, self.now())
    }

    pub fn insertion(&self, token: StoredToken, deduplicate: Deduplicate) -> InsertToken {
        let audit = self.audit(Operation::CreateToken);
        InsertToken { token, deduplicate, audit, render: None }
    }

    pub fn inquiry(&self) -> Inquiry {
        self.caller.inquire(Permission::TokenCreate).unwrap()
    }

    /// An insert as the store takes it.
    pub fn sent(&self, insert: InsertToken) -> (Inquiry, TokenBatch) {
        let InsertToken { token, deduplicate, audit, render } = insert;
        let permit = self.permit(Permission::TokenCreate);
        let insert = write::InsertToken { permit, token, intent: None, deduplicate, audit };
        (self.inquiry(), TokenBatch { writes: vec![TokenWrite::Insert(insert)], render })
    }

    pub async fn insert_token(&self, insert: InsertToken) -> Result<Inserted, StoreError> {
        let (inquiry, batch) = self.sent(insert);
        inserted(self.store().write_tokens(inquiry, batch).await)
    }

    pub async fn insert(&self, record: TokenRecord) -> Inserted {
        self.insert_token(self.insertion(bare(record), Deduplicate::No)).await.unwrap()
    }

    pub async fn insert_once(&self, record: TokenRecord) -> Inserted {
        self.insert_token(self.insertion(bare(record), Deduplicate::Yes)).await.unwrap()
    }

    pub async fn insert_answered(
        &self,
        token: StoredToken,
        render: Render,
    ) -> Result<Inserted, StoreError> {
        let insert = self.insertion(token, Deduplicate::Yes);
        self.insert_token(InsertToken { render: Some(render), ..insert }).await
    }

    pub async fn find(&self, id: &str) -> Option<StoredToken> {
        let inquiry = self.caller.inquire(Permission::TokenRead).unwrap();
        self.store().find_token(inquiry, &token_id(id), self.now()).await.unwrap()
    }

    pub fn change(&self, token: TokenRecord, deduplicate: Deduplicate) -> UpdateToken {
        let audit = self.audit(Operation::UpdateToken);
        UpdateToken { token, cvc: CvcChange::Keep, deduplicate, audit, render: None }
    }

    pub async fn update_token(&self, update: UpdateToken) -> Result<Updated, StoreError> {
        let UpdateToken { token, cvc, deduplicate, audit, render } = update;
        let permit = self.permit(Permission::TokenUpdate);
        let update = write::UpdateToken {
            permit,
            token,
            cvc,
            intent: None,
            deduplicate,
            unless_named: None,
            audit,
        };
        let batch = TokenBatch { writes: vec![TokenWrite::Update(update)], render };
        updated(self.store().write_tokens(self.inquiry(), batch).await)
    }

    pub async fn update(&self, update: UpdateToken) -> Updated {
        self.update_token(update).await.unwrap()
    }

    pub async fn delete(&self, id: &str, revision: i64) -> Changed {
        let audit = self.audit(Operation::DeleteToken);
        let delete = DeleteToken { id: token_id(id), revision, audit };
        self.store().delete_token(self.permit(Permission::TokenDelete), delete).await.unwrap()
    }

    /// In as many steps as it takes; how many tokens went.
    pub async fn sweep(&self, ended: Timestamp) -> usize {
        let mut swept = 0;
        loop {
            let audit = self.world.vault.audit.of_vault(Operation::ExpireToken, self.now());
            let audit = audit.unwrap();
            match self.store().sweep(Ending::Token, ended, audit).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    pub async fn sweep_cvcs(&self, ended: Timestamp) -> usize {
        let mut swept = 0;
        loop {
            match self.store().sweep_cvcs(ended).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    pub async fn sweep_usage(&self, month: Month) -> usize {
        let mut swept = 0;
        loop {
            match self.store().sweep_usage(month).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    /// Tokens, codes, and records of what was done.
    pub async fn counts(&self) -> [u64; 3] {
        let status = self.store().status().await.unwrap();
        ["tokens", "verification_codes", "audit_records"]
            .map(|name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1)
    }

    pub async fn claim(&self, digest: [u8; 32]) -> Claimed {
        let now = self.now();
        let tenant = self.caller.tenant().id;
        let asked = AskedAnswer { tenant, digest, now, since: now.before(DAY) };
        self.store().claim_answer(asked).await.unwrap()
    }

    pub fn answer(&self, digest: [u8; 32]) -> AnswerRecord {
        AnswerRecord {
            digest,
            created_at: self.now(),
            head: Sealed::from_stored(b"head".to_vec()),
            parts: vec![AnswerPart { at: 0, sealed: Sealed::from_stored(b"data".to_vec()) }],
        }
    }
}

/// A token that differs from another sample only by its id.
pub fn record(id: &str) -> TokenRecord {
    TokenRecord {
        id: token_id(id),
        token_type: TokenType::Token,
        fingerprint: Some(Fingerprint([7; 32])),
        expressions: ExpressionMarks::default(),
        containers: containers(&["/b/", "/a/"]),
        created_by: ApplicationId(Uuid::from_bytes([3; 16])),
        created_at: START,
        modified: None,
        expires_at: None,
        revision: 0,
        indexes: vec![],
        body: Sealed::from_stored(id.as_bytes().to_vec()),
    }
}

/// What a record becomes by an update.
pub fn revised(before: &TokenRecord) -> TokenRecord {
    let by = ApplicationId(Uuid::from_bytes([4; 16]));
    TokenRecord {
        modified: Some(Modified { by, at: START.after(Duration::from_secs(1)) }),
        revision: before.revision + 1,
        body: Sealed::from_stored(b"revised".to_vec()),
        ..before.clone()
    }
}

pub fn bare(record: TokenRecord) -> StoredToken {
    StoredToken { record, cvc: None }
}

pub fn code(text: &str) -> CvcRecord {
    let sealed = Sealed::from_stored(text.as_bytes().to_vec());
    CvcRecord { expires_at: START.after(Duration::from_secs(60)), sealed }
}
