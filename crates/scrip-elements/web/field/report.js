// The metadata of a field that the page may know. Pure: tests cover every rule.
//
// 1. A field that was filled by `set` reports only whether it is empty. Its value belongs to the
//    vault or to another field, and a page could test it with options of this field.
// 2. A hidden text reports only whether it is empty and complete, and a closed one only whether it is
//    empty (payer-entry.js): a page could get the digits of a number piece by piece.
// 3. A field with a `validation` of the page reports its last result, so that a page does not learn
//    something with each key.
// 4. Errors appear after the part was left, after `validate`, or while typing with
//    `validateOnChange`.

import { visibleParts } from "./format/brand.js";

/**
 * @typedef {"incomplete" | "invalid"} ErrorType
 *
 * @typedef {object} PartState
 * @property {string} targetId
 * @property {boolean} empty
 * @property {ErrorType | undefined} error also for an empty part
 * @property {boolean} showsError
 * @property {boolean} maskSatisfied whether no character is missing
 *
 * @typedef {object} CardState
 * @property {string} digits
 * @property {string | undefined} brand
 * @property {boolean} complete whether the number is complete
 * @property {boolean} showsLast4 whether the number has its final length
 * @property {unknown} binInfo
 * @property {string | undefined} selectedNetwork
 */

/**
 * The error of a part that is reported now.
 * @param {PartState} part
 */
export function visibleError(part) {
  return part.showsError ? part.error : undefined;
}

/**
 * The fields of the `change` message.
 * @param {object} field
 * @param {PartState[]} field.parts
 * @param {boolean} field.wasSet
 * @param {"open" | "hidden" | "closed"} [field.state] of its texts
 * @param {CardState} [field.card] only with a card number
 * @param {boolean} [field.hasPageValidation]
 * @param {boolean} [field.reportedValidity] the last result of the page's `validation`
 */
export function changeFields(field) {
  const { parts, wasSet, state = "open", card, hasPageValidation = false, reportedValidity = true } = field;
  const empty = parts.every((it) => it.empty);
  if (wasSet) return { empty };
  if (state !== "open") return { empty, complete: state === "hidden" && parts.every((it) => it.error === undefined) };
  const maskSatisfied = parts.every((it) => it.maskSatisfied);
  const valid = hasPageValidation
    ? reportedValidity
    : parts.every((it) => it.error === undefined || (it.empty && !it.showsError));
  const complete = hasPageValidation
    ? maskSatisfied && reportedValidity
    : parts.every((it) => it.error === undefined);
  const errors = parts.flatMap((part) => {
    const type = visibleError(part);
    return type === undefined ? [] : [{ targetId: part.targetId, type }];
  });
  const fields = { empty, complete, valid, maskSatisfied, errors };
  if (card === undefined) return fields;
  return {
    ...fields,
    cardBrand: card.brand ?? "unknown",
    ...visibleParts(card.digits, card.complete, card.showsLast4),
    ...(card.binInfo === undefined ? {} : { binInfo: card.binInfo }),
    ...(card.selectedNetwork === undefined ? {} : { selectedNetwork: card.selectedNetwork }),
  };
}

/**
 * The answer to the controller, without the value. A part that was filled by `set` has no error: an
 * error would tell the page whether the value fits its options.
 * @param {PartState[]} parts
 * @param {boolean} wasSet
 */
export function readingFields(parts, wasSet) {
  const empty = parts.every((it) => it.empty);
  const errors = parts.flatMap(({ targetId, error }) => (error === undefined ? [] : [{ targetId, type: error }]));
  const valid = errors.length === 0;
  return { complete: valid && !(wasSet && empty), valid, empty, errors };
}
