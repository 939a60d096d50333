// Edits that the frame applies itself do what the browser's own edits do.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applyInput, caretMove, moveCaret } from "../../crates/scrip-elements/web/field/quiet-edits.js";
import { browserEdit, randomSource } from "./random.js";

// "ab|cd" has a caret, "a[bc]d" a selection.
function parse(marked) {
  const start = marked.search(/[|[]/);
  const text = marked.replace(/[|[\]]/g, "");
  return { text, start, end: marked.includes("[") ? marked.indexOf("]") - 1 : start };
}

const show = ({ text, caret }) => `${text.slice(0, caret)}|${text.slice(caret)}`;

test("edit_equals_the_edit_of_a_browser", () => {
  const random = randomSource(11);
  const types = { insert: "insertText", backward: "deleteContentBackward", forward: "deleteContentForward" };
  for (let round = 0; round < 5_000; round += 1) {
    const text = Array.from({ length: random.below(12) }, () => random.pick([..."ab 123"])).join("");
    const [start, end] = [random.below(text.length + 1), random.below(text.length + 1)].sort((a, b) => a - b);
    const kind = random.pick(Object.keys(types));
    const edited = applyInput({ inputType: types[kind], data: kind === "insert" ? "x" : null }, { text, start, end });
    assert.deepEqual(edited, browserEdit(text, start, end, kind, "x"), `${kind} ${text} ${start} ${end}`);
  }
});

test("deletion_removes_whole_characters_words_and_lines", () => {
  const cases = [
    ["deleteContentBackward", "a👩‍👧|b", "a|b"],
    ["deleteContentForward", "a|👩‍👧b", "a|b"],
    ["deleteWordBackward", "one two |", "one |"],
    ["deleteWordForward", "one| two three", "one| three"],
    ["deleteSoftLineBackward", "one two|x", "|x"],
    ["deleteHardLineForward", "one| two", "one|"],
    ["deleteByCut", "a[bc]d", "a|d"],
    ["deleteWordBackward", "a[bc]d", "a|d"],
  ];
  for (const [inputType, before, after] of cases) assert.equal(show(applyInput({ inputType, data: null }, parse(before))), after, inputType);
});

test("pasted_text_has_no_line_breaks", () => {
  assert.equal(show(applyInput({ inputType: "insertFromPaste", data: "4242\r\n4242" }, parse("a|b"))), "a42424242|b");
  assert.equal(show(applyInput({ inputType: "insertFromPaste", data: null }, parse("a|b"))), "a|b", "an image has no text");
});

test("browser_applies_edits_of_editors_and_keyboards", () => {
  for (const inputType of ["insertCompositionText", "insertReplacementText", "insertLineBreak"]) {
    assert.equal(applyInput({ inputType, data: "x" }, parse("a|b")), undefined, inputType);
  }
  assert.equal(applyInput({ inputType: "insertText", data: null }, parse("a|b")), undefined);
});

test("edit_that_the_frame_does_not_know_changes_nothing", () => {
  for (const inputType of ["insertTranspose", "deleteEntireSoftLine", "deleteByDrag", "insertLink", "formatBold", ""]) {
    assert.equal(show(applyInput({ inputType, data: "x" }, parse("a[b]c"))), "a|bc", inputType);
  }
  assert.equal(show(applyInput({ inputType: "insertFromYank", data: "xy" }, parse("a|b"))), "axy|b");
  assert.equal(show(applyInput({ inputType: "insertFromYank", data: null }, parse("a|b"))), "a|b");
});

test("caret_moves_and_selects_by_keys", () => {
  const move = (key, marked, shiftKey = false, isBackward = false) => {
    const moved = moveCaret(caretMove({ key }, false), shiftKey, { ...parse(marked), isBackward });
    return `${moved.start}-${moved.end}${moved.isBackward ? " back" : ""}`;
  };
  assert.deepEqual(["ArrowLeft", "ArrowRight", "Home", "End"].map((it) => move(it, "ab|cd")), ["1-1", "3-3", "0-0", "4-4"]);
  assert.deepEqual(["ArrowLeft", "ArrowRight"].map((it) => move(it, "a[bc]d")), ["1-1", "3-3"], "a selection ends at its side");
  assert.deepEqual([move("ArrowLeft", "|ab"), move("ArrowRight", "ab|")], ["0-0", "2-2"]);
  assert.deepEqual([move("ArrowRight", "a[b]cd", true), move("ArrowLeft", "a[b]cd", true), move("Home", "ab|cd", true)], ["1-3", "1-1", "0-2 back"]);
  assert.equal(move("ArrowLeft", "a[b]cd", true, true), "0-2 back");
  assert.deepEqual(["ArrowLeft", "ArrowRight", "Home"].map((it) => move(it, "של|ום")), ["3-3", "1-1", "0-0"], "from right to left");
});

test("caret_moves_by_words_and_to_the_ends", () => {
  const move = (name, marked, isExtending = false) => {
    const { start, end } = moveCaret(name, isExtending, { ...parse(marked), isBackward: false });
    return `${start}-${end}`;
  };
  assert.deepEqual(["leftWord", "rightWord"].map((it) => move(it, "one two |three four")), ["4-4", "13-13"]);
  assert.deepEqual(["leftWord", "rightWord"].map((it) => move(it, "one two |three four", true)), ["4-8", "8-13"]);
  assert.deepEqual(["leftWord", "rightWord"].map((it) => move(it, "אב |גד")), ["5-5", "0-0"], "from right to left");
  assert.deepEqual(["leftEnd", "rightEnd"].map((it) => move(it, "ab|c")), ["0-0", "3-3"]);
  assert.deepEqual(["leftEnd", "rightEnd"].map((it) => move(it, "א|בג")), ["3-3", "0-0"], "from right to left");
  assert.equal(move("none", "a[b]c"), "1-2");
});

test("keys_that_move_the_caret_are_known_on_each_system", () => {
  const moves = (isMac, modifier, keys) => keys.map((key) => caretMove({ key, [modifier]: true }, isMac));
  const arrows = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  const words = ["leftWord", "rightWord", "start", "end", "start", "end"];
  const letters = [..."aebfpnvl"];
  assert.deepEqual(moves(false, "ctrlKey", arrows), words);
  assert.deepEqual(moves(true, "altKey", arrows), words);
  assert.deepEqual(moves(true, "metaKey", arrows), ["leftEnd", "rightEnd", "start", "end", "start", "end"]);
  assert.deepEqual(moves(true, "ctrlKey", letters), ["start", "end", "back", "forth", "start", "end", "end", "none"]);
  for (const modifier of ["shiftKey", "ctrlKey", "altKey", "metaKey"]) {
    assert.deepEqual(moves(false, modifier, letters), letters.map(() => undefined), modifier);
  }
  assert.deepEqual(moves(false, "altKey", arrows), arrows.map(() => undefined), "the history of the browser");
  assert.deepEqual(moves(true, "metaKey", [..."acvxz", "constructor"]), [..."acvxz", "x"].map(() => undefined));
});
