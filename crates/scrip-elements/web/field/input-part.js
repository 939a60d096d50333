// One input of a field: applies the formatting of its kind, keeps the caret, and has its own undo
// history, because a browser forgets its history when a script changes the text.

import { editKind, toAsciiDigits } from "./format/digits.js";
import { stateAfterEdit } from "./payer-entry.js";
import { applyInput, caretMove, moveCaret, revealCaret } from "./quiet-edits.js";
import { randomId } from "../parent-channel.js";

/**
 * @typedef {import("./format/digits.js").EditedText} EditedText
 * @typedef {import("./field-options.js").Role} Role
 * @typedef {import("./part-kinds.js").PartKind} PartKind
 * @typedef {import("./payer-entry.js").Presence} Presence
 *
 * @typedef {object} PartChange
 * @property {boolean} isTyped at the end, by insertion
 * @property {boolean} isNew nothing of the earlier text remains
 *
 * @typedef {object} PartEvents
 * @property {(part: InputPart, change: PartChange) => void} changed
 * @property {(part: InputPart) => void} focused
 * @property {(part: InputPart) => void} left
 * @property {(part: InputPart, event: KeyboardEvent) => void} key Enter or Escape
 * @property {(part: InputPart) => void} backspaceWhenEmpty
 * @property {() => import("./payer-entry.js").Presence} presence
 * @property {() => boolean} acceptsEdits whether the payer may edit the text at this moment
 * @property {(part: InputPart) => boolean} takesPaste whether a paste without an action is one
 * @property {(part: InputPart) => boolean} tellsContent whether events or answers tell about the text
 */

const HISTORY_MAX = 100;
/** An iPad with a keyboard has the keys of macOS. */
const isMac = () => /Mac|iPhone|iPad/.test(navigator.platform);

export class InputPart {
  /** The value that `set` gave; undefined after an edit. @type {string | undefined} */
  rawValue;
  /** Whether the error is visible. */
  showsError = false;
  /** Counts every change of the value, by whomever. */
  editCount = 0;
  /** Whose text it is. @type {import("./payer-entry.js").EntryState} */
  state = "open";

  /** @type {EditedText} */
  #before = { text: "", caret: 0 };
  /** The text without what an input method editor still composes. */
  #committed = "";
  #wasAllSelected = false;
  /** The text after the last input, which an input method editor may still compose. */
  #latest = "";
  /** Whether the edit is a paste. */
  #isPaste = false;
  /** Whether a part of the text was pasted. */
  #hasPasted = false;
  /** The presence of the payer before the edit. A browser that fills in a value announces no edit. @type {Presence | undefined} */
  #presence;
  /** @type {EditedText[]} */
  #undo = [];
  /** @type {EditedText[]} */
  #redo = [];
  /** @type {PartEvents} */
  #events;

  /**
   * @param {Role} role
   * @param {string} targetId
   * @param {PartKind} kind
   * @param {PartEvents} events
   */
  constructor(role, targetId, kind, events) {
    this.role = role;
    this.targetId = targetId;
    this.kind = kind;
    this.#events = events;
    const input = document.createElement("input");
    this.input = input;
    input.className = role === "text" ? "input" : "input digits";
    input.type = "text";
    input.spellcheck = false;
    input.setAttribute("autocapitalize", "off");
    input.setAttribute("autocorrect", "off");
    this.error = document.createElement("p");
    // A page could navigate the frame to an id that it knows, which moves the focus silently.
    this.error.id = `error-${randomId()}`;
    this.error.className = "unseen";
    this.error.setAttribute("aria-live", "polite");
    this.#listen();
  }

  get text() {
    return this.input.value;
  }

  /** Whether an input method editor still composes a part of the text. */
  get isComposing() {
    return this.input.value !== this.#committed;
  }

  get isFocused() {
    return document.activeElement === this.input;
  }

  get isEmpty() {
    return this.rawValue === undefined ? this.input.value === "" : this.rawValue === "";
  }

  /**
   * Replaces the text, not as an edit of the user.
   * @param {string} text
   */
  replaceText(text) {
    this.editCount += 1;
    this.state = text === "" ? "open" : "given";
    this.forgetHistory();
    this.#before = { text, caret: text.length };
    [this.#committed, this.#latest, this.#hasPasted] = [text, text, false];
    if (this.input.value !== text) this.input.value = text;
  }

  /** Afterwards no undo brings an earlier text back. */
  forgetHistory() {
    this.#undo = [];
    this.#redo = [];
  }

  /**
   * Formats a text as if the user had pasted it.
   * @param {string} text
   */
  pasteText(text) {
    this.replaceText(this.kind.format({ text, caret: text.length }, "insert", { text: "", caret: 0 }).text);
  }

  /**
   * Enters a text that the payer chose, as a browser that fills in a value does.
   * @param {string} text
   */
  fill(text) {
    [this.#presence, this.#isPaste] = [undefined, false];
    this.#changeState(true, true);
    this.#show(this.kind.format({ text, caret: text.length }, "insert", { text: "", caret: 0 }));
    this.#before = { text: this.text, caret: this.text.length };
    this.#finishEdit({ isTyped: false, isNew: true }, false);
  }

  /** Applies the formatting to a text that was typed without it. */
  reformat() {
    const { text } = this;
    this.#show(this.kind.format({ text, caret: text.length }, "insert", { text: "", caret: 0 }));
    this.editCount += 1;
    this.#before = { text: this.text, caret: this.text.length };
  }

  /** Focuses. A browser would scroll the page to the caret, whose position tells the width of the text. */
  focus() {
    this.input.focus({ preventScroll: true });
    if (!this.input.disabled && this.isFocused) this.input.form?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Places the caret at the end and focuses. */
  focusAtEnd() {
    this.focus();
    this.input.setSelectionRange(this.text.length, this.text.length);
  }

  #listen() {
    const { input } = this;
    input.addEventListener("beforeinput", (event) => {
      // Browsers announce an edit also where they refuse it.
      if (input.readOnly || input.disabled) return;
      if (!this.#events.acceptsEdits()) return event.preventDefault();
      if (!event.isComposing) this.#remember();
      this.#presence = this.#events.presence();
      this.#isPaste = event.inputType.startsWith("insertFrom");
      if (event.isComposing) this.#wasAllSelected = false;
      // The page may be the author of a dropped text, and the payer does not read it before.
      if (event.inputType === "insertFromDrop") return event.preventDefault();
      if (event.inputType === "historyUndo" || event.inputType === "historyRedo") {
        event.preventDefault();
        this.#travel(event.inputType === "historyUndo");
        return;
      }
      this.#editQuietly(event);
    });
    input.addEventListener("input", (event) => {
      const { inputType, isComposing } = /** @type {InputEvent} */ (event);
      // The browser's own history may still have a value that was set or cleared.
      // An edit that cannot be prevented is undone: of an input method editor, or of a browser that fills in a value.
      if (inputType?.startsWith("history") || !this.#events.acceptsEdits()) return this.#show(this.#before);
      // Text of an input method editor is changed only when it is finished. Android keyboards also
      // compose plain digits, and these are formatted at once.
      if (isComposing && (this.role === "text" || /[^\x00-\x7f]/.test(this.text))) {
        // It is an edit all the same: two different texts never have one version, and a report has a state.
        this.editCount += 1;
        this.#presence ??= this.#events.presence();
        this.#changeState(false, true);
        return;
      }
      this.#edited(inputType);
    });
    input.addEventListener("compositionend", () => {
      if (!this.#events.acceptsEdits()) return this.#show(this.#before);
      if (this.role !== "text") input.value = input.value.normalize("NFKC");
      this.#presence ??= this.#events.presence();
      this.#edited("insertCompositionText");
    });
    // A page could catch a value that is dragged out of the frame.
    input.addEventListener("dragstart", (event) => event.preventDefault());
    input.addEventListener("keydown", (event) => this.#keyDown(event));
    input.addEventListener("focus", () => this.#events.focused(this));
    input.addEventListener("blur", () => this.#events.left(this));
  }

  /** @param {InputEvent} event before the browser's edit */
  #editQuietly(event) {
    const { input } = this;
    const { value: text, selectionStart: start, selectionEnd: end } = input;
    if (event.isComposing || !event.cancelable || start === null || end === null) return;
    const edited = applyInput(event, { text, start, end });
    if (edited === undefined) return;
    event.preventDefault();
    if (edited.text === text) {
      [this.#presence, this.#isPaste] = [undefined, false];
      return;
    }
    input.value = edited.text;
    input.setSelectionRange(edited.caret, edited.caret);
    this.#edited(event.inputType);
    revealCaret(input, input.selectionStart ?? input.value.length);
  }

  /** @param {KeyboardEvent} event */
  #moveQuietly(event) {
    const { input } = this;
    const { value: text, selectionStart: start, selectionEnd: end } = input;
    const move = caretMove(event, isMac());
    if (move === undefined || start === null || end === null) return;
    const moved = moveCaret(move, event.shiftKey, { text, start, end, isBackward: input.selectionDirection === "backward" });
    event.preventDefault();
    input.setSelectionRange(moved.start, moved.end, moved.isBackward ? "backward" : "forward");
    revealCaret(input, moved.isBackward ? moved.start : moved.end);
  }

  /** @param {KeyboardEvent} event */
  #keyDown(event) {
    if (event.isComposing) return;
    this.#moveQuietly(event);
    if (event.key === "Enter" || event.key === "Escape") this.#events.key(this, event);
    if (event.key === "Backspace" && this.text === "" && !event.repeat) {
      // The key must not also delete in the part that gets the focus.
      event.preventDefault();
      this.#events.backspaceWhenEmpty(this);
      return;
    }
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || (key !== "z" && key !== "y")) return;
    event.preventDefault();
    this.#travel(key === "z" && !event.shiftKey);
  }

  #remember() {
    const { selectionStart, selectionEnd, value } = this.input;
    this.#before = { text: value, caret: selectionStart ?? value.length };
    this.#wasAllSelected = selectionStart === 0 && selectionEnd === value.length;
  }

  /** @param {string | undefined} inputType */
  #edited(inputType) {
    const { input } = this;
    const before = this.#before;
    const caret = input.selectionStart ?? input.value.length;
    const typed = this.role === "text" ? input.value : toAsciiDigits(input.value);
    // Android keyboards report some deletions as a new composition.
    const isShorter = inputType === "insertCompositionText" && typed.length < before.text.length;
    const kind = isShorter && before.text.startsWith(typed) ? "backward" : editKind(inputType);
    // The payer chose what a browser fills in, all of it.
    const isFilled = this.#presence === undefined;
    const isReplaced = isFilled || this.#wasAllSelected;
    const [stateBefore, hadPasted] = [this.state, this.#hasPasted];
    // The state decides whether a mask of the page applies.
    this.#changeState(isReplaced, kind === "insert" || kind === "other");
    const after = this.kind.format({ text: typed, caret }, kind, before);
    this.#show(after);
    if (after.text !== before.text) {
      this.#undo.push(before);
      if (this.#undo.length > HISTORY_MAX) this.#undo.shift();
      this.#redo = [];
    }
    this.#before = after;
    if (after.text === before.text) {
      [this.state, this.#hasPasted] = [after.text === "" ? "open" : stateBefore, hadPasted];
      return;
    }
    const isInsertion = kind === "insert" || kind === "other";
    const isNew = after.text === "" || isReplaced;
    this.#finishEdit({ isTyped: isInsertion && after.caret === after.text.length, isNew }, stateBefore === "open" && !hadPasted);
  }

  /**
   * Decides about the text at each input, before anything reports it.
   * @param {boolean} isReplaced whether the edit replaces the whole text
   * @param {boolean} isInsertion
   */
  #changeState(isReplaced, isInsertion) {
    const { isPresent, isDivided } = this.#presence ?? { isPresent: true, isDivided: false };
    const begins = isReplaced || this.#latest === "";
    // A text that is pasted as a whole is no piece: the page cannot divide it.
    const isWhole = this.#isPaste && begins && this.#events.takesPaste(this);
    const joins = isInsertion && (this.#isPaste || this.#hasPasted);
    const tellsContent = this.#events.tellsContent(this);
    this.state = stateAfterEdit(this.state, { isPresent: isPresent || isWhole, isDivided, begins, tellsContent, joins, role: this.role });
    this.#hasPasted = this.#isPaste || (this.#hasPasted && !begins);
    [this.#presence, this.#isPaste, this.#latest] = [undefined, false, this.text];
  }

  /**
   * @param {PartChange} change
   * @param {boolean} wasOwn whether the payer typed the text before
   */
  #finishEdit(change, wasOwn) {
    this.rawValue = undefined;
    this.editCount += 1;
    this.#wasAllSelected = false;
    // Otherwise an undo would bring the text back as if it had been typed.
    if (change.isNew && !wasOwn) this.forgetHistory();
    if (this.text === "") this.state = "open";
    this.#events.changed(this, change);
  }

  /** @param {EditedText} state */
  #show({ text, caret }) {
    const { input } = this;
    if (input.value !== text) input.value = text;
    [this.#committed, this.#latest] = [text, text];
    // Setting the selection of an input without focus moves the focus in Safari.
    if (document.activeElement === input && input.selectionStart !== caret) input.setSelectionRange(caret, caret);
  }

  /** @param {boolean} isUndo */
  #travel(isUndo) {
    if (this.input.readOnly || this.input.disabled || !this.#events.acceptsEdits()) return;
    const [from, to] = isUndo ? [this.#undo, this.#redo] : [this.#redo, this.#undo];
    const state = from.pop();
    if (state === undefined) return;
    this.#remember();
    const wasOwn = this.state === "open" && !this.#hasPasted;
    this.#presence = this.#events.presence();
    this.#changeState(false, false);
    to.push(this.#before);
    this.#show(state);
    this.#before = state;
    this.#finishEdit({ isTyped: false, isNew: state.text === "" }, wasOwn);
  }
}
