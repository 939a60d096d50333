// Expiration dates: typing, reading, checking and output.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkExpiration, formatDate, formatExpiration, isDateFormat, parseExpiration } from "../../crates/scrip-elements/web/field/format/expiration.js";
import { browserEdit, randomSource } from "./random.js";

const NOW = new Date(2026, 10, 17);

function type(keys, spacing = true) {
  let state = { text: "", caret: 0 };
  for (const key of keys) {
    const kind = key === "<" ? "backward" : "insert";
    const edited = browserEdit(state.text, state.caret, state.caret, kind, key);
    state = formatExpiration(edited, kind, state, spacing);
  }
  return state.text;
}

test("typed_dates_are_formatted", () => {
  for (const [keys, expected] of [
    ["1", "1"],
    ["5", "05 / "],
    ["12", "12 / "],
    ["1/", "01 / "],
    ["1/30", "01 / 30"],
    ["130", "01 / 30"],
    ["0130", "01 / 30"],
    ["01/2030", "01 / 30"],
    ["012030", "01 / 30"],
    ["01203", "01 / 203"],
    ["1230", "12 / 30"],
    ["123099", "12 / 30"],
    ["12<", "1"],
    ["123<", "12"],
    ["123<<", "1"],
    ["5<", "0"],
    ["5<<", ""],
    ["00", "0"],
    ["x", ""],
  ]) {
    assert.equal(type(keys), expected, keys);
  }
  assert.equal(type("1230", false), "12/30");
});

// "|" is the caret.
function edit(before, kind, inserted = "") {
  const caret = before.indexOf("|");
  const text = before.replace("|", "");
  const result = formatExpiration(browserEdit(text, caret, caret, kind, inserted), kind, { text, caret }, true);
  return `${result.text.slice(0, result.caret)}|${result.text.slice(result.caret)}`;
}

test("edits_inside_a_date_keep_month_and_year_separate", () => {
  for (const [before, kind, inserted, expected] of [
    ["12| / 30", "backward", "", "1| / 30"],
    ["1| / 30", "insert", "1", "11| / 30"],
    ["1 / 3|", "insert", "0", "01 / 30|"],
    ["12 / |30", "backward", "", "1| / 30"],
    ["12 |/ 30", "backward", "", "1| / 30"],
    ["12| / 30", "forward", "", "12| / 0"],
    ["|12 / 30", "forward", "", "|2 / 30"],
    ["12| / 30", "insert", "5", "12| / 30"],
    ["12 / 30|", "insert", "5", "12 / 30|"],
    ["12 / 3|", "insert", "1", "12 / 31|"],
    ["|12 / 30", "insert", "0", "|12 / 30"],
    ["1| / 30", "backward", "", "| / 30"],
    ["| / 30", "insert", "1", "1| / 30"],
    ["| / 30", "insert", "5", "05| / 30"],
  ]) {
    assert.equal(edit(before, kind, inserted), expected, `${before} ${kind} ${inserted}`);
  }
});

test("pasted_dates_are_read", () => {
  for (const text of ["1/30", "130", "01/2030", "0130", "01 / 30", "01-30", "1.2030", "\u0660\u0661/\u0663\u0660"]) {
    assert.deepEqual(parseExpiration(text), { month: 1, year: 2030 }, text);
    const edited = browserEdit("", 0, 0, "insert", text);
    assert.equal(formatExpiration(edited, "insert", { text: "", caret: 0 }, true).text, "01 / 30", text);
  }
  for (const text of ["", "1", "13/30", "00/30", "1/3", "12/1999", "12/305", "ab/cd"]) {
    assert.equal(parseExpiration(text), undefined, text);
  }
});

test("past_dates_are_invalid_after_the_last_month", () => {
  assert.equal(checkExpiration("11 / 26", NOW), undefined);
  assert.equal(checkExpiration("10 / 26", NOW), "invalid");
  assert.equal(checkExpiration("10 / 26", NOW, 1), undefined);
  assert.equal(checkExpiration("10 / 25", NOW, 1), "invalid");
  assert.equal(checkExpiration("12 / ", NOW), "incomplete");
  assert.equal(checkExpiration("12 / 3", NOW), "incomplete");
  assert.equal(checkExpiration("13/30", NOW), "invalid");
});

test("dates_are_output_by_format_tokens", () => {
  const date = { month: 3, year: 2030 };
  for (const [format, expected] of [
    ["MM/yyyy", "03/2030"],
    ["M/yy", "3/30"],
    ["yyyy-MM", "2030-03"],
    ["LLyy", "0330"],
    ["M', 'y", "3, 2030"],
    ["", ""],
  ]) {
    assert.equal(formatDate(date, format), expected, format);
    assert.ok(isDateFormat(format), format);
  }
});

test("format_of_a_date_adds_neither_digits_nor_letters_and_repeats_nothing", () => {
  const formats = ["'Month' M, y", "'00'yy'00000'", "00yy", "yy''yy", "yyyyyyyy", "yyy", "MMM", "MM LL", "MM/yy/'٣'", "MM/yy x", "'0", "MM'²'"];
  for (const format of formats) assert.equal(isDateFormat(format), false, format);
});

test("random_edits_keep_the_date_readable_and_the_caret_inside", () => {
  for (let seed = 1; seed <= 400; seed += 1) {
    const random = randomSource(seed);
    let state = { text: "", caret: 0 };
    for (let step = 0; step < 40; step += 1) {
      const start = random.below(state.text.length + 1);
      const end = random.below(4) === 0 ? state.text.length : start;
      const kind = random.pick(["insert", "insert", "backward", "forward"]);
      const edited = browserEdit(state.text, start, end, kind, random.pick(["0", "1", "2", "3", "9", "/", "12/3"]));
      const spacing = seed % 2 === 0;
      const result = formatExpiration(edited, kind, { text: state.text, caret: start }, spacing);
      const name = `seed ${seed}, step ${step}: ${kind} at ${start}-${end} of "${state.text}"`;
      assert.match(result.text, spacing ? /^(\d{0,2}|\d{0,2} \/ \d{0,3})$/ : /^(\d{0,2}|\d{0,2}\/\d{0,3})$/, name);
      assert.ok(result.caret >= 0 && result.caret <= result.text.length, name);
      if (kind !== "insert" && start === end) {
        const removed = state.text.replace(/\D/g, "").length - result.text.replace(/\D/g, "").length;
        assert.ok(removed === 0 || removed === 1, `${name}: ${result.text}`);
      }
      state = result;
    }
  }
});
