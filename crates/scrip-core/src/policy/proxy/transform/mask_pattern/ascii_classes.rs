//! The syntax of mask expressions: classes such as `\d` are those of ASCII.
//!
//! A class of Unicode letters has hundreds of ranges, and compiling some of them takes seconds. A
//! masked value is a number or a key, so ASCII suffices. `.` and negated classes still match whole
//! characters, so that a match never ends inside of one.

use regex_syntax::{
    ast::{
        self, Ast, ClassAscii, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet,
        ClassSetItem,
    },
    hir::{Hir, translate::TranslatorBuilder},
};

use super::MaskPatternError;

const NESTING_MAX: u32 = 32;
const INVALID: &str =
    "is not a valid regular expression (look-around and back-references are not supported)";

/// Parses an expression. It is not compiled yet.
pub(super) fn parse_ascii_classes(expression: &str) -> Result<Hir, MaskPatternError> {
    let invalid = MaskPatternError::Invalid(INVALID);
    let parser = ast::parse::ParserBuilder::new().nest_limit(NESTING_MAX).build().parse(expression);
    let mut tree = parser.map_err(|_| invalid)?;
    replace_classes(&mut tree)?;
    TranslatorBuilder::new().build().translate(expression, &tree).map_err(|_| invalid)
}

/// Replaces `\d`, `\s` and `\w` by classes of ASCII.
fn replace_classes(tree: &mut Ast) -> Result<(), MaskPatternError> {
    match tree {
        Ast::ClassPerl(class) => {
            let kind = ClassSet::Item(ClassSetItem::Ascii(to_ascii(class)));
            let (span, negated) = (class.span, false);
            *tree = Ast::class_bracketed(ClassBracketed { span, negated, kind });
            Ok(())
        }
        Ast::ClassUnicode(_) => Err(MaskPatternError::UnicodeClass),
        Ast::ClassBracketed(class) => replace_in_set(&mut class.kind),
        Ast::Repetition(repetition) => replace_classes(&mut repetition.ast),
        Ast::Group(group) => replace_classes(&mut group.ast),
        Ast::Alternation(parts) => parts.asts.iter_mut().try_for_each(replace_classes),
        Ast::Concat(parts) => parts.asts.iter_mut().try_for_each(replace_classes),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Literal(_) | Ast::Dot(_) | Ast::Assertion(_) => Ok(()),
    }
}

fn replace_in_set(set: &mut ClassSet) -> Result<(), MaskPatternError> {
    match set {
        ClassSet::Item(item) => replace_in_item(item),
        ClassSet::BinaryOp(operation) => {
            replace_in_set(&mut operation.lhs)?;
            replace_in_set(&mut operation.rhs)
        }
    }
}

fn replace_in_item(item: &mut ClassSetItem) -> Result<(), MaskPatternError> {
    match item {
        ClassSetItem::Perl(class) => {
            *item = ClassSetItem::Ascii(to_ascii(class));
            Ok(())
        }
        ClassSetItem::Unicode(_) => Err(MaskPatternError::UnicodeClass),
        ClassSetItem::Bracketed(class) => replace_in_set(&mut class.kind),
        ClassSetItem::Union(union) => union.items.iter_mut().try_for_each(replace_in_item),
        ClassSetItem::Empty(_)
        | ClassSetItem::Literal(_)
        | ClassSetItem::Range(_)
        | ClassSetItem::Ascii(_) => Ok(()),
    }
}

fn to_ascii(class: &ClassPerl) -> ClassAscii {
    let kind = match class.kind {
        ClassPerlKind::Digit => ClassAsciiKind::Digit,
        ClassPerlKind::Space => ClassAsciiKind::Space,
        ClassPerlKind::Word => ClassAsciiKind::Word,
    };
    ClassAscii { span: class.span, kind, negated: class.negated }
}
