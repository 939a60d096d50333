// The owner of a text, and what the page may learn about it.
//
// A page can empty a field, set values, drop keys, and move the focus between two keys. So it can divide
// what a payer types into pieces, and join a piece with a text of its own. Whatever a field reports about
// a piece, or a call tells about it, is a part of the whole. So each text has one state, and every report,
// every call and every focus change asks for it:
//
// | state | whose text | events | calls |
// |---|---|---|---|
// | given | set by the page or the vault | what its owner may know | accepted |
// | open | begun by an action of the payer, without the page since | everything | accepted |
// | hidden | may be a piece | emptiness, completeness of the whole | accepted with a mark |
// | closed | a piece for sure, or joined with a given text | emptiness | refused |
//
// No text becomes more open while a part of it remains, except for a text with rules of the page: it has
// no end, and each action of the payer allows one report about it.

import { isWholeNumber } from "./number-content.js";
import { onlyDigits } from "./format/digits.js";
import { parseExpiration } from "./format/expiration.js";

/** @typedef {"given" | "open" | "hidden" | "closed"} EntryState */
/** @typedef {import("./field-options.js").Role} Role */

/**
 * @typedef {object} Presence
 * @property {boolean} isPresent whether the payer acted in the frame since it got the focus
 * @property {boolean} isDivided whether the page took an unfinished text away, and the payer has not acted since
 *
 * @typedef {object} TextFacts
 * @property {Role} role
 * @property {string} text
 * @property {boolean} isEmpty
 * @property {EntryState} state
 * @property {boolean} isComposing
 */

/**
 * The state of a text after an edit.
 * @param {EntryState} state before the edit
 * @param {Presence & { begins: boolean, tellsContent: boolean, joins: boolean, role: Role }} edit `begins`: nothing of
 *   the earlier text remains; `tellsContent`: events or answers tell more about the text than its emptiness and
 *   length; `joins`: the edit joins a pasted text with another one, and the page may have written the pasted one
 * @returns {EntryState}
 */
export function stateAfterEdit(state, { begins, isPresent, isDivided, tellsContent, joins, role }) {
  if (isDivided) return "closed";
  if (begins) return isPresent || !tellsContent ? "open" : "hidden";
  if (state === "given") return role === "text" && !tellsContent ? "open" : "closed";
  // Each report about a text needs an action of its own, so a piece in a text tells no more.
  return state === "open" && (!isPresent || joins) && tellsContent && role !== "text" ? "hidden" : state;
}

/**
 * The state of a text after an action of the payer in its field.
 * @param {EntryState} state
 * @param {Role} role
 * @returns {EntryState}
 */
export function stateAfterAction(state, role) {
  return state === "hidden" && role === "text" ? "open" : state;
}

/**
 * The state of a field with several texts.
 * @param {Pick<TextFacts, "isEmpty" | "state">[]} parts
 * @returns {"open" | "hidden" | "closed"}
 */
export function fieldState(parts) {
  const states = parts.filter((it) => !it.isEmpty).map((it) => it.state);
  if (states.includes("closed")) return "closed";
  return states.includes("hidden") ? "hidden" : "open";
}

/**
 * Whether a hidden text is complete. The text alone decides: with an option of the page, such as accepted brands
 * or years, completeness would tell more about it.
 * @param {Role} role
 * @param {string} text
 */
function isWhole(role, text) {
  if (role === "number") return isWholeNumber(onlyDigits(text));
  if (role === "expiration") return parseExpiration(text) !== undefined;
  return role === "code" && /^\d{3,4}$/.test(text);
}

/**
 * The error of a text that the page may know.
 * @param {TextFacts} part
 * @param {"incomplete" | "invalid" | undefined} error of the text itself
 * @returns {"incomplete" | "invalid" | undefined}
 */
export function entryError({ role, text, isEmpty, state, isComposing }, error) {
  // The payer has not finished the text yet.
  if (isComposing) return "incomplete";
  if (isEmpty) return error;
  if (state === "closed") return "invalid";
  if (state !== "hidden") return error;
  return isWhole(role, text) ? undefined : "incomplete";
}

/**
 * Whether the payer is still typing the text. A text without a form has no end.
 * @param {TextFacts & { kind: { check: (text: string) => unknown } }} part
 */
export function isUnfinished({ role, kind, text, isEmpty, state, isComposing }) {
  if (isComposing) return true;
  if (isEmpty || state === "given") return false;
  if (role === "number" || state === "hidden") return !isWhole(role, text);
  return role === "text" || kind.check(text) !== undefined;
}

/** How long after the last digit of a number a page may move the focus on, in milliseconds. */
const ADVANCE_MS = 2_000;

/**
 * Whether a page may move the focus from a finished number on to the date, as many pages do. The date is
 * then the payer's own. What the payer types after the date is a security code, so each number gives one
 * such move, and only while the payer is in the number.
 */
export class NumberAdvance {
  /** @type {number | undefined} */
  #finishedAt;
  #isUsed = false;

  /** The payer begins a new number. */
  begin() {
    this.#finishedAt = undefined;
    this.#isUsed = false;
  }

  /**
   * The number was edited. Options of the page have no effect on whether it is finished: with them, a
   * beginning of a number would be finished.
   * @param {string} text
   * @param {EntryState} state
   * @param {number} now
   */
  edit(text, state, now) {
    this.#finishedAt = state === "open" && isWholeNumber(onlyDigits(text)) ? now : undefined;
  }

  /** Another part of the frame was edited or got the focus. */
  end() {
    this.#finishedAt = undefined;
  }

  /**
   * Uses the move.
   * @param {boolean} isInNumber whether the payer is present, and the input of the number has the focus
   * @param {number} now
   */
  use(isInNumber, now) {
    if (!isInNumber || this.#isUsed || this.#finishedAt === undefined || now - this.#finishedAt >= ADVANCE_MS) return false;
    this.#isUsed = true;
    return true;
  }
}

/** Whether the payer is in the frame by an action, or because the page moved the focus there. */
export class PayerEntry {
  #isPresent = false;
  #isDivided = false;
  #isFocusedByPage = false;

  /** @returns {Presence} */
  get presence() {
    return { isPresent: this.#isPresent && !this.#isDivided, isDivided: this.#isDivided };
  }

  /** The payer pressed inside the frame, or pressed Tab or Enter in it. */
  act() {
    this.#isPresent = true;
    this.#isDivided = false;
    this.#isFocusedByPage = false;
  }

  /**
   * The focus came to the frame, or the payer released Tab there. If the page moved the focus, this is no
   * action: otherwise a page could send the payer from Tab to any field.
   * @returns {boolean} whether it is an action
   */
  arrive() {
    if (this.#isFocusedByPage) return false;
    this.act();
    return true;
  }

  /** The frame lost the focus to another one, so the next focus may be the payer's own. */
  leave() {
    this.pause();
    this.#isFocusedByPage = false;
  }

  /**
   * The page took keys from the payer, or the window lost the focus. Who moved the focus into the frame stays
   * known: otherwise a page could move the focus, lock the field and open it, and Tab would count there.
   */
  pause() {
    this.#isPresent = false;
  }

  /** The page moves the focus into the field. */
  focusByPage() {
    this.#isPresent = false;
    this.#isFocusedByPage = true;
  }

  /**
   * The page emptied the field, or replaced its content.
   * @param {boolean} isUnfinished whether the payer was still typing
   */
  interrupt(isUnfinished) {
    this.#isPresent = false;
    if (isUnfinished) this.#isDivided = true;
  }
}
