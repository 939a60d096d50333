// Edits and caret moves without the browser's own ones.
//
// After an edit a browser scrolls the caret into view, also in the page around the frame. A page that
// shows only a strip of the frame sees by its own scroll position how wide each typed character is, and
// so which one it is. An edit by a script scrolls nothing. So the frame applies the edits itself, and
// scrolls only its input. Text of an input method editor cannot be handled so.

/** @typedef {import("./format/digits.js").EditedText} EditedText */

/** @typedef {{ text: string, start: number, end: number }} Selected */

const BACKWARD = /^delete(Content|Word|SoftLine|HardLine)Backward$/;
/** Letters of Hebrew, Arabic and their neighbours. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const FORWARD = /^delete(Content|Word|SoftLine|HardLine)Forward$/;

/**
 * The lengths of the last characters as a reader sees them.
 * @param {string} text
 */
function characters(text) {
  const { Segmenter } = Intl;
  return Segmenter === undefined ? [...text] : Array.from(new Segmenter().segment(text), (it) => it.segment);
}

/**
 * @param {string} unit of the deletion
 * @param {string} text before or after the caret
 * @param {boolean} isBackward
 */
function deletedLength(unit, text, isBackward) {
  if (unit === "Content") return characters(text).at(isBackward ? -1 : 0)?.length ?? 0;
  if (unit !== "Word") return text.length;
  return (isBackward ? /\S*\s*$/ : /^\s*\S*/).exec(text)?.[0].length ?? 0;
}

/**
 * The text and the caret after an edit.
 * @param {{ inputType: string, data: string | null }} event
 * @param {Selected} selected
 * @returns {EditedText | undefined} undefined if the browser must apply the edit
 */
export function applyInput({ inputType, data }, { text, start, end }) {
  const isInsertion = inputType === "insertText" || inputType === "insertFromPaste";
  const [before, after] = [text.slice(0, start), text.slice(end)];
  // A paste without text changes nothing, and the browser would scroll to the caret.
  if (inputType === "insertFromPaste" && !data) return { text, caret: start };
  if (isInsertion && data !== null) {
    const inserted = data.replace(/[\r\n]+/g, "");
    return { text: before + inserted + after, caret: start + inserted.length };
  }
  const unit = BACKWARD.exec(inputType)?.[1] ?? FORWARD.exec(inputType)?.[1];
  if (unit === undefined && inputType !== "deleteByCut") return undefined;
  if (start !== end || unit === undefined) return { text: before + after, caret: start };
  const isBackward = BACKWARD.test(inputType);
  const length = deletedLength(unit, isBackward ? before : after, isBackward);
  return isBackward
    ? { text: before.slice(0, start - length) + after, caret: start - length }
    : { text: before + after.slice(length), caret: start };
}

/**
 * The selection after a key that moves the caret. The text decides about the direction of the arrows, and not
 * the page: in a text from right to left, the left arrow moves forward.
 * @param {{ key: string, shiftKey: boolean }} event
 * @param {Selected & { isBackward: boolean }} selected
 * @returns {(Selected & { isBackward: boolean }) | undefined} undefined for other keys
 */
export function moveCaret({ key, shiftKey }, { text, start, end, isBackward }) {
  const head = isBackward ? start : end;
  const anchor = isBackward ? end : start;
  const back = start !== end && !shiftKey ? start : head - (characters(text.slice(0, head)).at(-1)?.length ?? 0);
  const forth = start !== end && !shiftKey ? end : head + (characters(text.slice(head))[0]?.length ?? 0);
  const [left, right] = RIGHT_TO_LEFT.test(text) ? [forth, back] : [back, forth];
  const steps = {
    ArrowLeft: left,
    ArrowRight: right,
    Home: 0,
    ArrowUp: 0,
    End: text.length,
    ArrowDown: text.length,
  };
  const target = Object.hasOwn(steps, key) ? steps[/** @type {keyof typeof steps} */ (key)] : undefined;
  if (target === undefined) return undefined;
  const from = shiftKey ? anchor : target;
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
