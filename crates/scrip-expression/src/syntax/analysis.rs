//! Static analysis of an expression: which data it reads, and a canonical form that is independent of
//! spacing.

use std::fmt::Write;

use crate::{
    Expression,
    syntax::ast::{Branch, Call, Case, Comparison, For, Node, Operand, Output, Path, Root, Step},
};

impl Expression {
    /// The paths into `data` that the expression can read. An empty path is all of the data. A path
    /// may include more than is read (`data[data.x]` counts as all of the data), never less.
    pub fn data_inputs(&self) -> Vec<Vec<&str>> {
        let mut inputs = Vec::new();
        visit_operands(&self.body, &mut |operand| {
            if let Operand::Path(Path { root: Root::Data, steps }) = operand {
                inputs.push(static_steps(steps));
            }
        });
        inputs
    }

    /// Whether the expression can read `metadata`.
    pub fn reads_metadata(&self) -> bool {
        let mut reads_metadata = false;
        visit_operands(&self.body, &mut |operand| {
            let is_metadata = matches!(operand, Operand::Path(Path { root: Root::Metadata, .. }));
            reads_metadata |= is_metadata;
        });
        reads_metadata
    }

    /// Equal for two sources exactly if they are parsed into the same tree. Spaces inside the
    /// braces and the two notations of a property make no difference.
    pub fn canonical_text(&self) -> String {
        let mut text = String::new();
        write_nodes(&mut text, &self.body);
        text
    }
}

/// The steps up to the first one that only evaluation determines. A step into an array stands for the
/// whole array, because a patch replaces whole arrays; so does a property of the whole value.
fn static_steps(steps: &[Step]) -> Vec<&str> {
    steps.iter().map_while(step_name).collect()
}

fn step_name(step: &Step) -> Option<&str> {
    match step {
        Step::Name(name) if !may_read_whole_value(name) => Some(name),
        Step::Name(_) | Step::Index(_) | Step::Computed(_) => None,
    }
}

/// Whether a property of this name can be other than a member of an object: a size, or an item of an array.
fn may_read_whole_value(name: &str) -> bool {
    matches!(name, "size" | "first" | "last") || name.parse::<usize>().is_ok()
}

fn visit_operands<'e>(nodes: &'e [Node], visit: &mut dyn FnMut(&'e Operand)) {
    for node in nodes {
        match node {
            Node::Text(_) | Node::Break | Node::Continue => (),
            Node::Output(output) | Node::Assign { value: output, .. } => {
                visit_output(output, visit);
            }
            Node::Capture { body, .. } => visit_operands(body, visit),
            Node::If(branches) => {
                for Branch { condition, body, .. } in branches {
                    for (Comparison { left, right }, _) in &condition.terms {
                        visit_operand(left, visit);
                        right.iter().for_each(|(_, right)| visit_operand(right, visit));
                    }
                    visit_operands(body, visit);
                }
            }
            Node::Case(Case { subject, arms, else_body: otherwise, .. }) => {
                visit_operand(subject, visit);
                for (values, body) in arms {
                    values.iter().for_each(|it| visit_operand(it, visit));
                    visit_operands(body, visit);
                }
                visit_operands(otherwise, visit);
            }
            Node::For(it) => {
                let For { list, offset, limit, body, else_body: otherwise, .. } = it.as_ref();
                visit_operand(list, visit);
                offset.iter().chain(limit).for_each(|it| visit_operand(it, visit));
                visit_operands(body, visit);
                visit_operands(otherwise, visit);
            }
        }
    }
}

fn visit_output<'e>(output: &'e Output, visit: &mut dyn FnMut(&'e Operand)) {
    visit_operand(&output.operand, visit);
    for Call { arguments, .. } in &output.calls {
        arguments.iter().for_each(|it| visit_operand(it, visit));
    }
}

fn visit_operand<'e>(it: &'e Operand, visit: &mut dyn FnMut(&'e Operand)) {
    visit(it);
    match it {
        Operand::Path(path) => {
            for step in &path.steps {
                match step {
                    Step::Computed(inner) => visit_operand(inner, visit),
                    Step::Name(_) | Step::Index(_) => (),
                }
            }
        }
        Operand::Range(ends) => {
            visit_operand(&ends.0, visit);
            visit_operand(&ends.1, visit);
        }
        Operand::Literal(_) | Operand::Empty | Operand::Blank | Operand::Loop(_) => (),
    }
}

/// Writing to a `String` cannot fail.
macro_rules! append {
    ($to:expr, $($format:tt)*) => {
        _ = write!($to, $($format)*)
    };
}

fn write_nodes(to: &mut String, nodes: &[Node]) {
    for node in nodes {
        match node {
            Node::Text(text) => append!(to, "text{text:?}"),
            Node::Output(output) => write_output(to, output),
            Node::Assign { slot, value } => {
                append!(to, "assign {slot}");
                write_output(to, value);
            }
            Node::Capture { slot, body, .. } => {
                append!(to, "capture {slot}");
                write_block(to, body);
            }
            Node::If(branches) => {
                for Branch { condition, body, .. } in branches {
                    append!(to, "if {}", condition.negated);
                    for (Comparison { left, right }, connector) in &condition.terms {
                        write_operand(to, left);
                        if let Some((relation, right)) = right {
                            append!(to, "{relation:?}");
                            write_operand(to, right);
                        }
                        append!(to, "{connector:?}");
                    }
                    write_block(to, body);
                }
                append!(to, "endif");
            }
            Node::Case(Case { subject, arms, else_body: otherwise, .. }) => {
                append!(to, "case");
                write_operand(to, subject);
                for (values, body) in arms {
                    append!(to, "when");
                    values.iter().for_each(|it| write_operand(to, it));
                    write_block(to, body);
                }
                write_block(to, otherwise);
            }
            Node::For(it) => write_for(to, it),
            Node::Break => append!(to, "break"),
            Node::Continue => append!(to, "continue"),
        }
        to.push(';');
    }
}

fn write_for(to: &mut String, it: &For) {
    let For { slot, list, offset, limit, reversed, body, else_body: otherwise, .. } = it;
    append!(to, "for {slot} {reversed}");
    write_operand(to, list);
    for (name, bound) in [("offset", offset), ("limit", limit)] {
        if let Some(bound) = bound {
            append!(to, "{name}");
            write_operand(to, bound);
        }
    }
    write_block(to, body);
    write_block(to, otherwise);
}

fn write_block(to: &mut String, nodes: &[Node]) {
    to.push('{');
    write_nodes(to, nodes);
    to.push('}');
}

fn write_output(to: &mut String, output: &Output) {
    append!(to, "output");
    write_operand(to, &output.operand);
    for Call { filter, arguments, .. } in &output.calls {
        append!(to, "|{}", filter.name);
        arguments.iter().for_each(|it| write_operand(to, it));
    }
}

fn write_operand(to: &mut String, it: &Operand) {
    match it {
        Operand::Literal(value) => append!(to, "({value})"),
        Operand::Empty => append!(to, "(empty)"),
        Operand::Blank => append!(to, "(blank)"),
        Operand::Loop(property) => append!(to, "({property:?})"),
        Operand::Range(ends) => {
            append!(to, "range");
            write_operand(to, &ends.0);
            write_operand(to, &ends.1);
        }
        Operand::Path(Path { root, steps }) => {
            append!(to, "({root:?}");
            for step in steps {
                match step {
                    Step::Name(name) => append!(to, ".{name:?}"),
                    Step::Index(at) => append!(to, "[{at}]"),
                    Step::Computed(inner) => {
                        to.push('[');
                        write_operand(to, inner);
                        to.push(']');
                    }
                }
            }
            to.push(')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Expression {
        Expression::parse(source).unwrap()
    }

    #[test]
    fn data_inputs_name_every_path_that_can_be_read() {
        let whole_data: &[&str] = &[];
        let rows: [(&str, Vec<&[&str]>); 10] = [
            ("literal", vec![]),
            ("{{ data }}", vec![whole_data]),
            ("{{ data | stringify }}", vec![whole_data]),
            ("{{ data.a.b | append: data.c }}", vec![&["a", "b"], &["c"]]),
            ("{{ data.size }}{{ data.a.size }}", vec![whole_data, &["a"]]),
            ("{{ data.a.first.b }}{{ data.a.last }}{{ data.a['0'] }}", vec![&["a"]; 3]),
            ("{{ data[data.k].x }}", vec![whole_data, &["k"]]),
            ("{% assign x = data.a %}{{ x }}{{ metadata.m }}", vec![&["a"]]),
            (
                "{% if data.a == data.b %}{% for i in data.l limit: data.n %}{% endfor %}{% endif %}",
                vec![&["a"], &["b"], &["l"], &["n"]],
            ),
            (
                "{% case data.a %}{% when data.b %}{{ (1..data.c) | join }}{% endcase %}",
                vec![&["a"], &["b"], &["c"]],
            ),
        ];
        for (source, expected) in rows {
            assert_eq!(parse(source).data_inputs(), expected, "{source}");
        }
    }

    #[test]
    fn every_use_of_metadata_is_found() {
        let sources = [
            "{{ metadata.a }}",
            "{{ data | append: metadata.a }}",
            "{{ data[metadata.a] }}",
            "{% for i in data %}{% if metadata.a == i %}{{ i }}{% endif %}{% endfor %}",
        ];
        for source in sources {
            assert!(parse(source).reads_metadata(), "{source}");
        }
        for source in ["metadata", "{{ data.metadata }}", "{{ data | append: 'metadata' }}"] {
            assert!(!parse(source).reads_metadata(), "{source}");
        }
    }

    #[test]
    fn canonical_text_ignores_spacing_and_keeps_every_difference() {
        let equal_sources = ["{{data.number}}", "{{  data.number  }}", "{{ data['number'] }}"];
        for source in equal_sources {
            assert_eq!(parse(source).canonical_text(), parse(equal_sources[0]).canonical_text());
        }
        let different = [
            "{{ data.number }}",
            "{{ data.number }} ",
            "data.number",
            "{{ data.numbers }}",
            "{{ metadata.number }}",
            "{{ data.number | slice: 1 }}",
            "{{ data.number | slice: 1, 2 }}",
            "{{ data | json: '$.number' }}",
            "{{ data | json: '$.numbers' }}",
            "{% if data.number %}a{% endif %}",
            "{% unless data.number %}a{% endunless %}",
            "{% for d in data.number %}a{% endfor %}",
        ];
        for (at, left) in different.iter().enumerate() {
            for right in different.iter().skip(at + 1) {
                assert_ne!(parse(left).canonical_text(), parse(right).canonical_text());
            }
        }
    }
}
