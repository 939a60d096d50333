// Masks of text fields.

import assert from "node:assert/strict";
import { test } from "node:test";

import { formatMask, readMask, satisfiesMask } from "../../crates/scrip-elements/web/field/format/mask.js";
import { browserEdit, randomSource } from "./random.js";

const D = /\d/;
const PHONE = readMask(["+1 (", D, D, D, ")", " ", D, D, D, "-", D, D, D, D]);
const SSN = readMask([D, D, D, "-", D, D, "-", D, D, D, D]);

function edit(before, kind, inserted, mask) {
  const caret = before.indexOf("|");
  const text = before.replace("|", "");
  const result = formatMask(browserEdit(text, caret, caret, kind, inserted), kind, { text, caret }, mask);
  return `${result.text.slice(0, result.caret)}|${result.text.slice(result.caret)}`;
}

test("masked_text_and_caret_follow_single_edits", () => {
  for (const [before, kind, inserted, expected, mask] of [
    ["|", "insert", "5", "+1 (5|", PHONE],
    ["+1 (55|", "insert", "5", "+1 (555) |", PHONE],
    ["+1 (555) |", "backward", "", "+1 (55|", PHONE],
    ["+1 (555|) 123", "backward", "", "+1 (55|1) 23", PHONE],
    ["+1 (555) |123", "backward", "", "+1 (55|1) 23", PHONE],
    ["|", "insert", "+1 (555) 123-4567", "+1 (555) 123-4567|", PHONE],
    ["|", "insert", "5551234567", "+1 (555) 123-4567|", PHONE],
    ["|", "insert", "a", "|", PHONE],
    ["+1 (1|", "insert", "5", "+1 (15|", PHONE],
    ["12|", "insert", "3", "123-|", SSN],
    ["123-|", "insert", "-", "123-|", SSN],
    ["123|-45", "forward", "", "123|-5", SSN],
    ["12|3-45", "insert", "9", "129|-34-5", SSN],
    ["123-45-6789|", "insert", "0", "123-45-6789|", SSN],
  ]) {
    assert.equal(edit(before, kind, inserted, mask), expected, `${before} ${kind} ${inserted}`);
  }
});

test("mask_is_satisfied_only_by_a_full_text", () => {
  assert.ok(satisfiesMask(SSN, "123-45-6789"));
  assert.ok(!satisfiesMask(SSN, "123-45-678"));
  assert.ok(!satisfiesMask(SSN, "123x45-6789"));
});

test("mask_with_global_patterns_gives_the_same_answer_twice", () => {
  const mask = readMask([/\d/g, /\d/y]);
  for (let round = 0; round < 3; round += 1) assert.ok(satisfiesMask(mask, "12"));
});

test("option_that_is_no_mask_is_ignored", () => {
  for (const option of [undefined, null, "999", [], [1], [{}], Array(501).fill(D)]) {
    assert.equal(readMask(option), undefined);
  }
});

test("random_edits_keep_the_text_inside_the_mask", () => {
  for (const mask of [PHONE, SSN]) {
    for (let seed = 1; seed <= 300; seed += 1) {
      const random = randomSource(seed);
      let state = { text: "", caret: 0 };
      for (let step = 0; step < 40; step += 1) {
        const start = random.below(state.text.length + 1);
        const end = random.below(4) === 0 ? start + random.below(state.text.length - start + 1) : start;
        const kind = random.pick(["insert", "insert", "insert", "backward", "forward"]);
        const inserted = random.pick(["1", "2", "34", "x", "-", "(5) 6"]);
        const name = `seed ${seed}, step ${step}: ${kind} ${inserted} at ${start}-${end} of "${state.text}"`;
        const edited = browserEdit(state.text, start, end, kind, inserted);
        const result = formatMask(edited, kind, { text: state.text, caret: start }, mask);
        assert.ok(satisfiesMask(mask.slice(0, result.text.length), result.text), `${name}: ${result.text}`);
        assert.ok(result.caret >= 0 && result.caret <= result.text.length, name);
        state = result;
      }
    }
  }
});

test("pattern_of_the_page_never_sees_a_typed_character", (context) => {
  const pattern = /[a-z\u{1f600}\ud83d]/u;
  const mask = readMask([pattern, pattern]);
  const test = RegExp.prototype.test;
  context.after(() => {
    RegExp.prototype.test = test;
  });
  RegExp.prototype.test = () => assert.fail("a pattern ran");
  assert.equal(edit("|", "insert", "ab", mask), "ab|");
  assert.equal(edit("|", "insert", "😀", mask), "|", "characters outside of the table are refused");
  assert.equal(satisfiesMask(mask, "ab"), true);
  assert.equal(satisfiesMask(mask, "a1"), false);
});

test("mask_with_too_many_patterns_is_no_mask", () => {
  const patterns = (count) => Array.from({ length: count }, (_, index) => new RegExp(`[${index}]`));
  assert.equal(readMask(patterns(32)).length, 32);
  assert.equal(readMask(patterns(33)), undefined);
  assert.equal(readMask(Array(400).fill(/a/)).length, 400);
});
