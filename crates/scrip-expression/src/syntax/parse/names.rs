//! Which names mean something, and what.

use crate::{
    filter,
    syntax::{ast::Root, lexeme::Misplaced},
};

#[derive(Debug, Default)]
pub(crate) struct Names<'s> {
    variables: Vec<Variable<'s>>,
    /// The variables of the loops around, innermost last.
    loops: Vec<(&'s str, usize)>,
    slots: usize,
    /// In a detokenization only its tokens can be named.
    closed: bool,
}

#[derive(Debug)]
struct Variable<'s> {
    name: &'s str,
    slot: usize,
    first_use: usize,
    defined: bool,
}

/// Names with a meaning of their own.
const RESERVED: &[&str] = &[
    "data", "metadata", "forloop", "true", "false", "nil", "null", "empty", "blank", "and", "or",
    "in", "contains",
];

impl<'s> Names<'s> {
    pub(crate) fn closed() -> Self {
        Self { closed: true, ..Self::default() }
    }

    pub(crate) fn root(&mut self, name: &'s str, at: usize) -> Result<Root, Misplaced> {
        match name {
            _ if self.closed => Err((at, "only quoted text and numbers can be used here")),
            "data" => Ok(Root::Data),
            "metadata" => Ok(Root::Metadata),
            _ => {
                let inner = self.loops.iter().rev().find(|(it, _)| *it == name);
                let slot = inner.map(|(_, slot)| *slot);
                Ok(Root::Slot(slot.unwrap_or_else(|| self.variable(name, at, false))))
            }
        }
    }

    /// For `assign` and `capture`. They may follow a use, in a loop.
    pub(crate) fn define(&mut self, name: &'s str, at: usize) -> Result<usize, Misplaced> {
        free(name, at)?;
        Ok(self.variable(name, at, true))
    }

    pub(crate) fn enter_loop(&mut self, name: &'s str, at: usize) -> Result<usize, Misplaced> {
        free(name, at)?;
        let slot = self.new_slot();
        self.loops.push((name, slot));
        Ok(slot)
    }

    pub(crate) fn leave_loop(&mut self) {
        self.loops.pop();
    }

    pub(crate) fn in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// How many slots there are, once every name that was used has been defined.
    pub(crate) fn finish(&self) -> Result<usize, Misplaced> {
        match self.variables.iter().find(|it| !it.defined) {
            Some(unknown) => Err((unknown.first_use, "only data and metadata can be named here")),
            None => Ok(self.slots),
        }
    }

    fn variable(&mut self, name: &'s str, at: usize, defined: bool) -> usize {
        if let Some(known) = self.variables.iter_mut().find(|it| it.name == name) {
            known.defined |= defined;
            return known.slot;
        }
        let slot = self.new_slot();
        self.variables.push(Variable { name, slot, first_use: at, defined });
        slot
    }

    fn new_slot(&mut self) -> usize {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }
}

/// A variable with the name of a filter would make a comma mean two things.
fn free(name: &str, at: usize) -> Result<(), Misplaced> {
    if RESERVED.contains(&name) {
        return Err((at, "this name has a meaning already"));
    }
    match filter::find(name) {
        Some(_) => Err((at, "this is the name of a filter")),
        None => Ok(()),
    }
}
