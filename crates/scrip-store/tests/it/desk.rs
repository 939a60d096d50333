//! The store's methods with what most tests do not care about filled in.

use std::time::Duration;

use scrip_core::{
    answer::AnswerRecord,
    audit::{AuditRecord, Operation},
    caller::{Caller, Permit},
    cvc::CvcRecord,
    id::ApplicationId,
    permission::Permission,
    store::{
        AskedAnswer, Changed, Claimed, CvcChange, Deduplicate, DeleteToken, InsertToken, Inserted,
        Modified, Render, Store, StoreError, StoredToken, TokenRecord, UpdateToken, Updated,
    },
    tenant::Settings,
    time::{Clock, Timestamp},
    token_type::TokenType,
};
use scrip_seal::{Fingerprint, Sealed};
use uuid::Uuid;

use crate::world::{Engine, START, TOKENS, World, containers, plain, token_id};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct Desk {
    pub(crate) caller: Caller,
    /// Somebody of another tenant.
    pub(crate) stranger: Caller,
    pub(crate) world: World,
}

impl Desk {
    pub(crate) async fn open(engine: Engine) -> Self {
        let world = World::open(engine).await;
        let ours = world.tenant(Settings::default()).await;
        let theirs = world.tenant(Settings::default()).await;
        let caller = world.caller(&ours, plain(TOKENS)).await;
        let stranger = world.caller(&theirs, plain(TOKENS)).await;
        Self { caller, stranger, world }
    }

    /// The same desk with the stranger in front of it.
    pub(crate) fn turned(self) -> Self {
        Self { caller: self.stranger, stranger: self.caller, world: self.world }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.world.vault.store
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.world.clock.advance(by);
    }

    pub(crate) fn permit(&self, permission: Permission) -> Permit {
        self.caller.permit(permission, &containers(&["/"])).unwrap()
    }

    pub(crate) fn audit(&self, operation: Operation) -> AuditRecord {
        AuditRecord::new(operation, &self.caller, self.now())
    }

    pub(crate) fn insertion(&self, token: StoredToken, deduplicate: Deduplicate) -> InsertToken {
        let audit = self.audit(Operation::CreateToken);
        InsertToken { token, deduplicate, audit, render: None }
    }

    pub(crate) async fn insert(&self, record: TokenRecord) -> Inserted {
        let insert = self.insertion(bare(record), Deduplicate::No);
        self.store().insert_token(self.permit(Permission::TokenCreate), insert).await.unwrap()
    }

    pub(crate) async fn insert_once(&self, record: TokenRecord) -> Inserted {
        let insert = self.insertion(bare(record), Deduplicate::Yes);
        self.store().insert_token(self.permit(Permission::TokenCreate), insert).await.unwrap()
    }

    pub(crate) async fn insert_answered(
        &self,
        token: StoredToken,
        render: Render<Inserted>,
    ) -> Result<Inserted, StoreError> {
        let insert = self.insertion(token, Deduplicate::Yes);
        let insert = InsertToken { render: Some(render), ..insert };
        self.store().insert_token(self.permit(Permission::TokenCreate), insert).await
    }

    pub(crate) async fn find(&self, id: &str) -> Option<StoredToken> {
        let inquiry = self.caller.inquire(Permission::TokenRead).unwrap();
        self.store().find_token(inquiry, &token_id(id), self.now()).await.unwrap()
    }

    pub(crate) fn change(&self, token: TokenRecord, deduplicate: Deduplicate) -> UpdateToken {
        let audit = self.audit(Operation::UpdateToken);
        UpdateToken { token, cvc: CvcChange::Keep, deduplicate, audit, render: None }
    }

    pub(crate) async fn update(&self, update: UpdateToken) -> Updated {
        self.store().update_token(self.permit(Permission::TokenUpdate), update).await.unwrap()
    }

    pub(crate) async fn delete(&self, id: &str, revision: i64) -> Changed {
        let audit = self.audit(Operation::DeleteToken);
        let delete = DeleteToken { id: token_id(id), revision, audit };
        self.store().delete_token(self.permit(Permission::TokenDelete), delete).await.unwrap()
    }

    /// In as many steps as it takes; how many tokens went.
    pub(crate) async fn sweep(&self, ended: Timestamp) -> usize {
        let mut swept = 0;
        loop {
            let audit = AuditRecord::of_vault(Operation::ExpireToken, self.now());
            match self.store().sweep_tokens(ended, audit).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    pub(crate) async fn sweep_cvcs(&self, ended: Timestamp) -> usize {
        let mut swept = 0;
        loop {
            match self.store().sweep_cvcs(ended).await.unwrap() {
                0 => return swept,
                some => swept += some,
            }
        }
    }

    /// Tokens, codes, and records of what was done.
    pub(crate) async fn counts(&self) -> [u64; 3] {
        let status = self.store().status().await.unwrap();
        ["tokens", "verification_codes", "audit_records"]
            .map(|name| status.counts.iter().find(|(it, _)| *it == name).unwrap().1)
    }

    pub(crate) async fn claim(&self, digest: [u8; 32]) -> Claimed {
        let now = self.now();
        let tenant = self.caller.tenant().id;
        let asked = AskedAnswer { tenant, digest, now, since: now.before(DAY) };
        self.store().claim_answer(asked).await.unwrap()
    }

    pub(crate) fn answer(&self, digest: [u8; 32]) -> AnswerRecord {
        AnswerRecord {
            digest,
            created_at: self.now(),
            head: Sealed::from_stored(b"head".to_vec()),
            data: Some(Sealed::from_stored(b"data".to_vec())),
        }
    }
}

/// A token that differs from another sample only by its id.
pub(crate) fn record(id: &str) -> TokenRecord {
    TokenRecord {
        id: token_id(id),
        token_type: TokenType::Token,
        fingerprint: Some(Fingerprint([7; 32])),
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
pub(crate) fn revised(before: &TokenRecord) -> TokenRecord {
    let by = ApplicationId(Uuid::from_bytes([4; 16]));
    TokenRecord {
        modified: Some(Modified { by, at: START.after(Duration::from_secs(1)) }),
        revision: before.revision + 1,
        body: Sealed::from_stored(b"revised".to_vec()),
        ..before.clone()
    }
}

pub(crate) fn bare(record: TokenRecord) -> StoredToken {
    StoredToken { record, cvc: None }
}

pub(crate) fn code(text: &str) -> CvcRecord {
    let sealed = Sealed::from_stored(text.as_bytes().to_vec());
    CvcRecord { expires_at: START.after(Duration::from_secs(60)), sealed }
}
