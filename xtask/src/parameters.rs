//! The parameters of functions: how many there are, and which are anonymous tuples.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::{FnArg, ImplItemFn, ItemFn, Signature, TraitItemFn, Type, visit::Visit};

use crate::sources;

/// The maximum number of parameters. A function that needs more takes a struct.
pub const PARAMETERS_MAX: usize = 7;

/// A function and the numbers of its parameters.
#[derive(Debug)]
pub struct FunctionParameters {
    pub function: String,
    pub line: usize,
    /// Parameters without `self`.
    pub parameter_count: usize,
    /// Parameters with a tuple type or a reference to one.
    pub tuple_count: usize,
}

impl FunctionParameters {
    /// Whether the function has an anonymous tuple as a parameter, or too many parameters.
    pub fn violates_limits(&self) -> bool {
        self.tuple_count > 0 || self.parameter_count > PARAMETERS_MAX
    }
}

/// Lists the functions below `folder`, including tests, with parameters that break a rule.
pub fn find_violations(folder: &Path) -> Result<Vec<(PathBuf, FunctionParameters)>> {
    let mut violations = Vec::new();
    for file in sources::files_with_extension(folder, "rs")? {
        let file_violations =
            list_functions(&file)?.into_iter().filter(FunctionParameters::violates_limits);
        violations.extend(file_violations.map(|it| (file.clone(), it)));
    }
    Ok(violations)
}

/// Lists the functions of a file with their parameters, including tests.
pub fn list_functions(file: &Path) -> Result<Vec<FunctionParameters>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let mut collector = FunctionCollector::default();
    collector.visit_file(&parsed);
    Ok(collector.functions)
}

#[derive(Default)]
struct FunctionCollector {
    functions: Vec<FunctionParameters>,
}

impl FunctionCollector {
    fn add(&mut self, signature: &Signature) {
        let types = signature.inputs.iter().filter_map(|it| match it {
            FnArg::Typed(typed) => Some(&*typed.ty),
            _ => None,
        });
        let types: Vec<_> = types.collect();
        let tuple_count = types.iter().filter(|it| is_tuple(it)).count();
        let line = Span::start(&signature.ident.span()).line;
        let function = signature.ident.to_string();
        self.functions.push(FunctionParameters {
            function,
            line,
            parameter_count: types.len(),
            tuple_count,
        });
    }
}

fn is_tuple(parameter_type: &Type) -> bool {
    if let Type::Reference(it) = parameter_type {
        is_tuple(&it.elem)
    } else if let Type::Paren(it) = parameter_type {
        is_tuple(&it.elem)
    } else {
        matches!(parameter_type, Type::Tuple(it) if !it.elems.is_empty())
    }
}

impl<'ast> Visit<'ast> for FunctionCollector {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.add(&function.sig);
        syn::visit::visit_trait_item_fn(self, function);
    }
}
