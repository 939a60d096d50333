//! A compiled expression.

use serde_json::Value;

use crate::filter::{Filter, JsonPathQuery};

/// Compiled once and evaluated with any number of scopes.
#[derive(Clone)]
pub struct Expression {
    pub(crate) body: Vec<Node>,
    /// The number of variables.
    pub(crate) slots: usize,
    pub(crate) random: bool,
}

/// Prints no content, because literals may be secret, such as the key of an `hmac`.
impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expression({} parts)", self.body.len())
    }
}

impl Expression {
    /// Whether the expression creates an alias, so that each evaluation gives another value. This
    /// is correct for an id that may be taken, but wrong for a fingerprint, an index or a mask.
    pub fn is_random(&self) -> bool {
        self.random
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Text(String),
    Output(Output),
    Assign { slot: usize, value: Output },
    Capture { slot: usize, position: usize, body: Vec<Self> },
    If(Vec<Branch>),
    Case(Case),
    For(Box<For>),
    Break,
    Continue,
}

/// One `{{ }}`, or the value of an `assign`.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) position: usize,
    pub(crate) operand: Operand,
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) filter: &'static Filter,
    /// In the order of the filter's parameters. Omitted arguments in between are null.
    pub(crate) arguments: Vec<Operand>,
    /// Only for a `json` filter.
    pub(crate) query: Option<Box<JsonPathQuery>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Literal(Value),
    Empty,
    Blank,
    Path(Path),
    Loop(LoopProperty),
    Range(Box<(Self, Self)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Root {
    Data,
    Metadata,
    Slot(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Name(String),
    Index(i64),
    Computed(Operand),
}

/// Properties of the innermost loop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LoopProperty {
    Index,
    Index0,
    Rindex,
    Rindex0,
    First,
    Last,
    Length,
}

#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) position: usize,
    pub(crate) condition: Condition,
    pub(crate) body: Vec<Node>,
}

/// `and` and `or` associate to the right, as in Liquid: if a term does not decide the condition,
/// the terms after it do.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) negated: bool,
    /// Empty for `else`.
    pub(crate) terms: Vec<(Comparison, Connector)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connector {
    And,
    Or,
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) left: Operand,
    pub(crate) right: Option<(Relation, Operand)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) position: usize,
    pub(crate) subject: Operand,
    pub(crate) arms: Vec<(Vec<Operand>, Vec<Node>)>,
    pub(crate) else_body: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(crate) struct For {
    pub(crate) position: usize,
    pub(crate) slot: usize,
    pub(crate) list: Operand,
    pub(crate) offset: Option<Operand>,
    pub(crate) limit: Option<Operand>,
    pub(crate) reversed: bool,
    pub(crate) body: Vec<Node>,
    pub(crate) else_body: Vec<Node>,
}
