//! The card of a 3DS session after its token intent is converted.

use scrip_seal::{Mac, Place};

use crate::{
    policy::{PolicyRow, SignedRow},
    token::body::read_number_version,
    token_batch::{TokenWrite, WriteOutcome},
    types::{
        Containers,
        id::{CardNumberVersion, TenantId, TokenId, TokenIntentId},
    },
};

/// The card of a session, from the columns of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreeDsSessionCard {
    Token(TokenId),
    Intent {
        id: TokenIntentId,
        /// Written by the conversion of the intent.
        conversion: Option<SignedRow<ConvertedIntent>>,
    },
}

/// The card columns of a session's row.
#[derive(Debug, Clone, Copy)]
pub struct ThreeDsSessionCardColumns<'a> {
    pub token: Option<&'a str>,
    pub intent: Option<TokenIntentId>,
    /// A conversion writes this column and the following ones.
    pub containers: Option<&'a str>,
    pub number_version: Option<CardNumberVersion>,
    pub mac: Option<Mac>,
}

/// The token that an intent was converted to. It has its own MAC, because the conversion writes it
/// without decrypting the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedIntent {
    pub tenant: TenantId,
    pub intent: TokenIntentId,
    pub token: TokenId,
    /// The containers of the token at the conversion.
    pub containers: Containers,
    /// The number version of the token at the conversion.
    pub number_version: Option<CardNumberVersion>,
}

impl PolicyRow for ConvertedIntent {
    fn place(&self) -> Place {
        Place::new("session.converted-intent")
            .bytes(self.tenant.0.as_bytes())
            .bytes(self.intent.0.as_bytes())
            .text(self.token.as_str())
            .text(&self.containers.to_text())
            .optional_bytes(self.number_version.as_ref().map(|it| it.0.as_bytes().as_slice()))
    }
}

impl ThreeDsSessionCard {
    /// The token of the row, from its creation or by a conversion.
    pub fn token(&self) -> Option<&TokenId> {
        match self {
            Self::Token(id) => Some(id),
            Self::Intent { conversion, .. } => conversion.as_ref().map(|it| &it.record.token),
        }
    }

    pub fn intent(&self) -> Option<TokenIntentId> {
        match self {
            Self::Token(_) => None,
            Self::Intent { id, .. } => Some(*id),
        }
    }

    pub fn conversion(&self) -> Option<&SignedRow<ConvertedIntent>> {
        match self {
            Self::Token(_) => None,
            Self::Intent { conversion, .. } => conversion.as_ref(),
        }
    }

    /// Parses the columns of a row. `None` when they are not valid.
    pub fn from_row(tenant: TenantId, columns: ThreeDsSessionCardColumns<'_>) -> Option<Self> {
        let ThreeDsSessionCardColumns { token, intent, containers, number_version, mac } = columns;
        let token = match token {
            Some(text) => Some(TokenId::parse(text).ok()?),
            None => None,
        };
        match (token, intent, containers, mac) {
            (_, _, None, _) if number_version.is_some() => None,
            (Some(token), None, None, None) => Some(Self::Token(token)),
            (None, Some(id), None, None) => Some(Self::Intent { id, conversion: None }),
            (Some(token), Some(id), Some(containers), Some(mac)) => {
                let containers = Containers::parse(containers.split(',')).ok()?;
                let record =
                    ConvertedIntent { tenant, intent: id, token, containers, number_version };
                Some(Self::Intent { id, conversion: Some(SignedRow { record, mac }) })
            }
            (_, _, _, _) => None,
        }
    }

    /// Binds the session to its card. The conversion is not included, because it happens later and
    /// has its own MAC.
    pub(crate) fn add_to_place(&self, place: Place) -> Place {
        let (token, intent) = match self {
            Self::Token(id) => (Some(id.as_str().as_bytes()), None),
            Self::Intent { id, .. } => (None, Some(id.0)),
        };
        let intent = intent.as_ref().map(|it| it.as_bytes().as_slice());
        place.optional_bytes(token).optional_bytes(intent)
    }
}

/// The signed row for the sessions of an intent, after the outcome of the write that converts the intent
/// is known.
pub fn sign_conversion(
    write: &TokenWrite,
    intent: TokenIntentId,
    outcome: &WriteOutcome,
) -> SignedRow<ConvertedIntent> {
    let (permit, written) = match write {
        TokenWrite::Insert(it) => (&it.permit, &it.token.record),
        TokenWrite::Update(it) => (&it.permit, &it.token),
    };
    let record = match outcome {
        WriteOutcome::New | WriteOutcome::Updated => written,
        WriteOutcome::Existing(existing) => &existing.record,
    };
    let (tenant, keys) = (permit.tenant().id, &permit.tenant().keys);
    let (token, containers) = (record.id.clone(), record.containers.clone());
    let number_version = read_number_version(keys, tenant, record);
    let record = ConvertedIntent { tenant, intent, token, containers, number_version };
    SignedRow::new(keys, record)
}
