// Edits of one input: each decides about the text before anything reports it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { InputPart } from "../../crates/scrip-elements/web/field/input-part.js";
import { partKind } from "../../crates/scrip-elements/web/field/part-kinds.js";

class FakeElement extends EventTarget {
  value = "";
  selectionStart = 0;
  selectionEnd = 0;
  readOnly = false;
  disabled = false;
  scrollWidth = 0;
  clientWidth = 0;
  setAttribute() {}
  focus() {
    if (!this.disabled) document.activeElement = this;
  }
  setSelectionRange(start, end) {
    [this.selectionStart, this.selectionEnd] = [start, end];
  }
}

globalThis.navigator ??= { platform: "" };
globalThis.document = { createElement: () => new FakeElement(), activeElement: undefined };

function createPart(role, { isPresent = true, takesPaste = true, options = {} } = {}) {
  const world = { isPresent, isSeen: true, changes: 0 };
  const part = new InputPart(role, role, partKind(role, () => options, () => undefined), {
    changed: () => (world.changes += 1),
    presence: () => ({ isPresent: world.isPresent, isDivided: false }),
    acceptsEdits: () => world.isSeen,
    takesPaste: () => takesPaste,
    tellsContent: () => true,
  });
  const send = (name, facts) => {
    const event = Object.assign(new Event(name, { cancelable: true }), facts);
    part.input.dispatchEvent(event);
    return event;
  };
  const edit = (inputType, data) => send("beforeinput", { inputType, data, isComposing: false });
  return {
    part,
    world,
    edit,
    type: (text) => [...text].forEach((it) => edit("insertText", it)),
    paste: (text) => edit("insertFromPaste", text),
    selectAll: () => part.input.setSelectionRange(0, part.input.value.length),
    compose(text) {
      const facts = { inputType: "insertCompositionText", data: text, isComposing: true };
      send("beforeinput", facts);
      part.input.value = text;
      send("input", facts);
    },
    finish: () => send("compositionend", {}),
    // A browser announces no edit before it fills in a value.
    fillIn(text) {
      part.input.value = text;
      send("input", {});
    },
    undo: () => send("keydown", { key: "z", ctrlKey: true, shiftKey: false, altKey: false, metaKey: false }),
  };
}

test("field_that_others_do_not_find_accepts_no_edit", () => {
  const edits = {
    type: (it) => it.type("42"),
    paste: (it) => it.paste("42"),
    compose: (it) => (it.compose("４２"), it.finish()),
    "fill in": (it) => it.fillIn("42"),
    undo: (it) => it.undo(),
    delete: (it) => it.edit("deleteContentBackward", null),
  };
  for (const [name, edit] of Object.entries(edits)) {
    for (const isSeen of [true, false]) {
      const field = createPart("number");
      field.type("51");
      Object.assign(field.world, { isSeen, changes: 0 });
      edit(field);
      const { text } = field.part;
      assert.equal(text === "51", !isSeen, `${name}: ${text}`);
      assert.equal(field.world.changes > 0, isSeen, name);
    }
  }
});

test("composed_text_has_a_state_at_each_input", () => {
  const own = createPart("number");
  own.compose("４５");
  assert.equal(own.part.state, "open");
  own.compose("４５３");
  own.world.isPresent = false;
  own.compose("４５３９");
  assert.equal(own.part.state, "hidden", "the page moved the focus between two keys");
  for (const role of ["number", "text"]) {
    const piece = createPart(role, { isPresent: false });
    piece.compose("８７");
    assert.deepEqual([piece.part.state, piece.part.isComposing], ["hidden", true]);
    piece.world.isPresent = true;
    piece.compose("８７６");
    piece.finish();
    assert.equal(piece.part.state, "hidden", "an action does not open what was composed before");
    assert.equal(piece.part.text, role === "number" ? "876" : "８７６");
  }
});

test("pasted_number_is_open_only_as_a_whole", () => {
  const whole = createPart("number", { isPresent: false });
  whole.paste("4539578763621486");
  assert.equal(whole.part.state, "open");
  const refused = createPart("number", { isPresent: false, takesPaste: false });
  refused.paste("4539578763621486");
  assert.equal(refused.part.state, "hidden", "a number was typed elsewhere");
  const joined = createPart("number");
  joined.paste("51");
  joined.type("4");
  assert.equal(joined.part.state, "hidden");
  const inserted = createPart("number");
  inserted.type("4539");
  inserted.paste("51");
  assert.equal(inserted.part.state, "hidden");
  const shortened = createPart("number");
  shortened.paste("5105");
  shortened.edit("deleteContentBackward", null);
  assert.equal(shortened.part.state, "open", "a deletion joins nothing");
});

test("undo_brings_no_pasted_text_back_next_to_a_typed_one", () => {
  const field = createPart("number");
  field.paste("51");
  field.selectAll();
  field.type("4");
  field.edit("historyUndo", null);
  assert.deepEqual([field.part.text, field.part.state], ["4", "open"]);
});

test("dropped_text_is_refused", () => {
  const field = createPart("number");
  const event = field.edit("insertFromDrop", "5105");
  assert.deepEqual([event.defaultPrevented, field.part.text, field.world.changes], [true, "", 0]);
});

test("edit_that_leaves_the_text_as_it_was_changes_no_state", () => {
  const field = createPart("text", { options: { maxLength: 3 } });
  field.part.rawValue = "697";
  field.part.replaceText("697");
  field.selectAll();
  field.paste("a longer text");
  assert.deepEqual([field.part.text, field.part.rawValue, field.part.state, field.world.changes], ["697", "697", "given", 0]);
  field.selectAll();
  field.paste("abc");
  assert.deepEqual([field.part.text, field.part.rawValue, field.part.state, field.world.changes], ["abc", undefined, "open", 1]);
  const full = createPart("number");
  full.paste("4539578763621486123");
  full.part.state = "hidden";
  full.type("4");
  assert.deepEqual([full.part.state, full.world.changes], ["hidden", 1]);
});

test("focus_of_a_disabled_input_does_not_scroll", () => {
  for (const disabled of [false, true]) {
    const { part } = createPart("number");
    let scrolls = 0;
    Object.assign(part.input, { disabled, form: { scrollIntoView: () => (scrolls += 1) } });
    part.focus();
    assert.deepEqual([scrolls, part.isFocused], disabled ? [0, false] : [1, true]);
  }
  document.activeElement = undefined;
});
