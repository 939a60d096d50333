// The metadata of a field that the page may know. Pure: tests cover every rule.
//
// 1. A field that was filled by `set` reports only whether it is empty. Its value belongs to the
//    vault or to another field, and a page could test it with options of this field.
// 2. A field with a `validation` of the page reports its validity as of the last blur, so that a
//    page does not learn something with each key.
// 3. Errors appear after the part was left, after `validate`, or while typing with
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
 * @param {object} state
 * @param {PartState[]} state.parts
 * @param {boolean} state.wasSet
 * @param {CardState} [state.card] only with a card number
 * @param {boolean} [state.hasPageValidation]
 * @param {boolean} [state.validAtBlur] the validity at the last blur
 */
export function changeFields({ parts, wasSet, card, hasPageValidation = false, validAtBlur = true }) {
  const empty = parts.every((it) => it.empty);
  if (wasSet) return { empty };
  const maskSatisfied = parts.every((it) => it.maskSatisfied);
  const valid = hasPageValidation
    ? validAtBlur
    : parts.every((it) => it.error === undefined || (it.empty && !it.showsError));
  const complete = hasPageValidation
    ? maskSatisfied && validAtBlur
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
 * The answer to the controller, without the value. A field that was filled by `set` has no errors:
 * an error would tell the page whether the value fits its options.
 * @param {PartState[]} parts
 * @param {boolean} wasSet
 */
export function readingFields(parts, wasSet) {
  const empty = parts.every((it) => it.empty);
  if (wasSet) return { complete: !empty, valid: true, empty, errors: [] };
  const errors = parts.flatMap(({ targetId, error }) => (error === undefined ? [] : [{ targetId, type: error }]));
  return { complete: errors.length === 0, valid: errors.length === 0, empty, errors };
}
