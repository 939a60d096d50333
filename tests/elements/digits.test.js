// Formatting of card numbers while typing.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findBrand, gapsFor, longestLength } from "../../crates/scrip-elements/web/field/format/brand.js";
import { editKind, formatNumber, onlyDigits } from "../../crates/scrip-elements/web/field/format/digits.js";
import { browserEdit, randomSource } from "./random.js";

const layout = (digits) => {
  const brand = findBrand(digits);
  return { gaps: gapsFor(brand), max: longestLength(brand) };
};

// "|" is the caret.
function edit(before, kind, inserted = "", selectionEnd = undefined) {
  const caret = before.indexOf("|");
  const text = before.replace("|", "");
  const edited = browserEdit(text, caret, selectionEnd ?? caret, kind, inserted);
  const result = formatNumber(edited, kind, { text, caret }, layout);
  return `${result.text.slice(0, result.caret)}|${result.text.slice(result.caret)}`;
}

test("number_format_and_caret_follow_single_edits", () => {
  for (const [before, kind, inserted, expected] of [
    ["|", "insert", "4", "4|"],
    ["4242|", "insert", "4", "4242 4|"],
    ["4242 4|", "backward", "", "4242|"],
    ["4242 |4242", "backward", "", "424|4 242"],
    ["4242| 4242", "forward", "", "4242| 242"],
    ["42|42", "insert", "9", "429|4 2"],
    ["|", "insert", "4242-4242-4242-4242", "4242 4242 4242 4242|"],
    ["|", "insert", "4242 4242 4242 4242", "4242 4242 4242 4242|"],
    ["|", "insert", "Card: 4242 4242", "4242 4242|"],
    ["|", "insert", "\u0664\u0662\u06f4\uff12", "4242|"],
    ["37|", "insert", "8282246310005", "3782 822463 10005|"],
    ["3782 822463 10005|", "insert", "6", "3782 822463 10005|"],
    ["3782| 822463 10005", "insert", "6", "3782| 822463 10005"],
    ["|", "insert", "x", "|"],
    ["12|34", "insert", "a", "12|34"],
  ]) {
    assert.equal(edit(before, kind, inserted), expected, `${before} ${kind} ${inserted}`);
  }
});

test("pasted_number_replaces_the_selected_number_of_another_brand", () => {
  const text = "4242 4242 4242 4242";
  const edited = browserEdit(text, 0, text.length, "insert", "378282246310005");
  assert.equal(formatNumber(edited, "insert", { text, caret: text.length }, layout).text, "3782 822463 10005");
});

test("random_edits_keep_the_digits_and_the_caret", () => {
  for (let seed = 1; seed <= 400; seed += 1) {
    const random = randomSource(seed);
    let state = { text: "", caret: 0 };
    // The model has only digits and the number of digits before the caret.
    let model = "";
    for (let step = 0; step < 60; step += 1) {
      const start = random.below(state.text.length + 1);
      const end = random.below(4) === 0 ? start + random.below(state.text.length - start + 1) : start;
      const kind = random.pick(["insert", "insert", "insert", "backward", "forward"]);
      const inserted = random.pick(["4", "5", "37", "6011", "-", " 12", "9a8"]);
      const [from, to] = [start, end].map((it) => onlyDigits(state.text.slice(0, it)).length);
      let expected;
      let count = from;
      if (kind === "insert") {
        expected = model.slice(0, from) + onlyDigits(inserted) + model.slice(to);
        count = from + onlyDigits(inserted).length;
      } else if (start !== end && from !== to) {
        expected = model.slice(0, from) + model.slice(to);
      } else if (kind === "backward") {
        // A selection of only a separator behaves like a caret at its place.
        expected = model.slice(0, Math.max(0, from - 1)) + model.slice(from);
        count = start === 0 && start === end ? 0 : Math.max(0, from - 1);
      } else {
        expected = model.slice(0, from) + model.slice(from + 1);
      }
      const before = { text: state.text, caret: start };
      const result = formatNumber(browserEdit(state.text, start, end, kind, inserted), kind, before, layout);
      const name = `seed ${seed}, step ${step}: ${kind} ${inserted} at ${start}-${end} of "${state.text}"`;
      assert.doesNotMatch(result.text, /[^\d ]|^ | $| {2}/, name);
      const digits = onlyDigits(result.text);
      const max = layout(expected).max;
      if (expected.length <= max) {
        assert.equal(digits, expected, name);
        assert.equal(onlyDigits(result.text.slice(0, result.caret)).length, count, name);
      } else {
        assert.ok(digits === model || digits === expected.slice(0, max), name);
      }
      assert.ok(result.caret >= 0 && result.caret <= result.text.length, name);
      state = result;
      model = digits;
    }
  }
});

test("input_types_of_browsers_are_recognised", () => {
  assert.equal(editKind("insertCompositionText"), "insert");
  assert.equal(editKind("insertFromPaste"), "insert");
  assert.equal(editKind("deleteContentBackward"), "backward");
  assert.equal(editKind("deleteByCut"), "backward");
  assert.equal(editKind("deleteContentForward"), "forward");
  assert.equal(editKind(undefined), "other");
});
