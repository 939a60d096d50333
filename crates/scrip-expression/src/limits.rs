//! The limits of sources, values and evaluations.

/// The maximum length of a source.
pub const SOURCE_BYTES_MAX: usize = 4 * 1024;
/// The maximum text output of a mix of text, `{{ }}` and `{% %}`.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// The maximum cost of all values that one evaluation reads and creates, including intermediate
/// values.
///
/// A body of 1 MiB can be copied, or read once and rendered once, whatever its content. A short
/// chain of filters over a text of that size passes too.
pub const WORK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum cost of a filter result, unless the input was larger: 1 MiB, like a body.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// The maximum number of outputs, filters, path steps, comparisons, date codes and loop iterations
/// of one evaluation. This is far more than any mask needs, and takes a few milliseconds.
pub const STEPS_MAX: usize = 10_000;
/// The maximum nesting of blocks, indexes and ranges. Each level costs a stack frame in the parser
/// and in the evaluator. Readable expressions need far fewer than sixteen levels.
pub const NESTING_MAX: usize = 16;
/// The maximum depth of JSON with expressions at its leaves. The limit for request bodies is lower.
pub const JSON_DEPTH_MAX: usize = 64;
