// Edits and caret moves without the browser's own ones.
//
// After an edit a browser scrolls the caret into view, also in the page around the frame. A page that
// shows only a strip of the frame sees by its own scroll position how wide each typed character is, and
// so which one it is. An edit by a script scrolls nothing. So the frame applies the edits itself, and
// scrolls only its input. An edit that it does not know is refused. Text of an input method editor cannot be
// handled so.

/** @typedef {import("./format/digits.js").EditedText} EditedText */

/** @typedef {{ text: string, start: number, end: number }} Selected */

const BACKWARD = /^delete(Content|Word|SoftLine|HardLine)Backward$/;
/** Letters of Hebrew, Arabic and their neighbours. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const FORWARD = /^delete(Content|Word|SoftLine|HardLine)Forward$/;
/** Edits that only a browser can apply: of editors and keyboards that replace a text, and Enter, which edits nothing. */
const BROWSER_EDITS = [
  "insertCompositionText", "insertFromComposition", "deleteCompositionText", "deleteByComposition", "insertReplacementText",
  "insertText", "insertLineBreak",
];

/**
 * The lengths of the last characters as a reader sees them.
 * @param {string} text
 */
function characters(text) {
  const { Segmenter } = Intl;
  return Segmenter === undefined ? [...text] : Array.from(new Segmenter().segment(text), (it) => it.segment);
}

/**
 * The length of the character, word or line next to the caret.
 * @param {string} unit
 * @param {string} text before or after the caret
 * @param {boolean} isBackward
 */
function unitLength(unit, text, isBackward) {
  if (unit === "Content") return characters(text).at(isBackward ? -1 : 0)?.length ?? 0;
  if (unit !== "Word") return text.length;
  if (!isBackward) return /^\s*\S*/.exec(text)?.[0].length ?? 0;
  const words = text.trimEnd();
  return text.length - words.length + (words.split(/\s/).at(-1)?.length ?? 0);
}

/**
 * The text and the caret after an edit. An edit that neither the frame nor the browser must apply changes nothing.
 * @param {{ inputType: string, data: string | null }} event
 * @param {Selected} selected
 * @returns {EditedText | undefined} undefined if the browser must apply the edit
 */
export function applyInput({ inputType, data }, { text, start, end }) {
  const isPaste = inputType === "insertFromPaste" || inputType === "insertFromYank";
  const [before, after] = [text.slice(0, start), text.slice(end)];
  if (data !== null && (inputType === "insertText" || (isPaste && data !== ""))) {
    const inserted = data.replace(/[\r\n]+/g, "");
    return { text: before + inserted + after, caret: start + inserted.length };
  }
  const unit = BACKWARD.exec(inputType)?.[1] ?? FORWARD.exec(inputType)?.[1];
  // The browser would also scroll to the caret where it changes nothing.
  if (unit === undefined && inputType !== "deleteByCut") return BROWSER_EDITS.includes(inputType) ? undefined : { text, caret: start };
  if (start !== end || unit === undefined) return { text: before + after, caret: start };
  const isBackward = BACKWARD.test(inputType);
  const length = unitLength(unit, isBackward ? before : after, isBackward);
  return isBackward
    ? { text: before.slice(0, start - length) + after, caret: start - length }
    : { text: before + after.slice(length), caret: start };
}

/**
 * Where a key moves the caret. `left`, `right` and their words depend on the direction of the text.
 * @typedef {"left" | "right" | "leftWord" | "rightWord" | "leftEnd" | "rightEnd" | "back" | "forth" | "start" | "end" | "none"} CaretMove
 */

/** @type {Record<string, CaretMove>} */
const KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "start", ArrowDown: "end", Home: "start", End: "end" };
/** @type {Record<string, CaretMove>} */
const WORD_KEYS = { ...KEYS, ArrowLeft: "leftWord", ArrowRight: "rightWord" };
/** @type {Record<string, CaretMove>} */
const MAC_COMMAND_KEYS = { ...KEYS, ArrowLeft: "leftEnd", ArrowRight: "rightEnd" };
/** @type {Record<string, CaretMove>} the keys of Emacs, which every input on macOS has; `l` scrolls only */
const MAC_CONTROL_KEYS = { ...KEYS, a: "start", e: "end", b: "back", f: "forth", p: "start", n: "end", v: "end", l: "none" };

/**
 * The move of a key. A browser scrolls the page to the caret after a move, which tells the width of the text before it.
 * @param {Pick<KeyboardEvent, "key" | "ctrlKey" | "altKey" | "metaKey">} event
 * @param {boolean} isMac
 * @returns {CaretMove | undefined} undefined for keys that move no caret
 */
export function caretMove({ key, ctrlKey, altKey, metaKey }, isMac) {
  const name = key.length === 1 ? key.toLowerCase() : key;
  // Elsewhere, Alt and the arrows lead through the history of the browser, and Meta belongs to the system.
  if (!isMac && (altKey || metaKey)) return undefined;
  const controlKeys = isMac ? MAC_CONTROL_KEYS : WORD_KEYS;
  const keys = metaKey ? MAC_COMMAND_KEYS : altKey ? WORD_KEYS : ctrlKey ? controlKeys : KEYS;
  return Object.hasOwn(keys, name) ? keys[name] : undefined;
}

/**
 * The unit of a move, and whether it leads to the end of the text.
 * @param {CaretMove} move
 * @param {boolean} isRightToLeft
 * @returns {[unit: string, isForth: boolean]}
 */
function direction(move, isRightToLeft) {
  const unit = move.endsWith("Word") ? "Word" : move.endsWith("End") || move === "start" || move === "end" ? "Line" : "Content";
  if (/^(left|right)/.test(move)) return [unit, move.startsWith("right") !== isRightToLeft];
  return [unit, move === "forth" || move === "end"];
}

/**
 * The selection after a move. The text decides about the direction of the arrows, and not the page: in a text from
 * right to left, the left arrow moves forward.
 * @param {CaretMove} move
 * @param {boolean} isExtending whether the selection grows, with Shift
 * @param {Selected & { isBackward: boolean }} selected
 * @returns {Selected & { isBackward: boolean }}
 */
export function moveCaret(move, isExtending, { text, start, end, isBackward }) {
  if (move === "none") return { text, start, end, isBackward };
  const head = isBackward ? start : end;
  const anchor = isBackward ? end : start;
  const [unit, isForth] = direction(move, RIGHT_TO_LEFT.test(text));
  const isCollapsing = unit === "Content" && start !== end && !isExtending;
  const length = unitLength(unit, isForth ? text.slice(head) : text.slice(0, head), !isForth);
  const target = isCollapsing ? (isForth ? end : start) : isForth ? head + length : head - length;
  const from = isExtending ? anchor : target;
  return { text, start: Math.min(from, target), end: Math.max(from, target), isBackward: target < from };
}

/**
 * Scrolls an input, and nothing else, so that the caret is visible.
 * @param {HTMLInputElement} input
 * @param {number} caret
 */
export function revealCaret(input, caret) {
  const { scrollWidth, clientWidth, value } = input;
  if (scrollWidth <= clientWidth) return;
  const position = caret === value.length ? scrollWidth : (scrollWidth * caret) / Math.max(1, value.length);
  const isVisible = position >= input.scrollLeft && position <= input.scrollLeft + clientWidth;
  if (!isVisible || caret === value.length) input.scrollLeft = Math.max(0, position - clientWidth / (caret === value.length ? 1 : 2));
}
