// Values from the vault that a field shows. A value keeps its kind: a security code that a field shows
// as a date would come back as month and year, which the vault's answers show.

import { readRecord } from "./field-options.js";

/** @typedef {import("./field-options.js").Role} Role */
/** @typedef {{ text: string, kind: string }} ResolvedValue */
/** @typedef {{ values: Partial<Record<Role, string>>, kind: string }} SetValues `kind` is "date" for month and year */

/**
 * The text of a value that is a text or a number.
 * @param {unknown} value
 * @returns {string | undefined}
 */
export function plainText(value) {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

/**
 * The texts of the `value` option for the parts of a card or a date.
 * @param {unknown} value
 * @returns {Record<Role, string | undefined>}
 */
export function literalValues(value) {
  const { number, cvc, ...rest } = readRecord(value);
  const month = plainText(rest.month ?? rest.expiration_month);
  const year = plainText(rest.year ?? rest.expiration_year);
  const expiration = month === undefined || year === undefined ? undefined : `${month}/${year}`;
  return { number: plainText(number), expiration, code: plainText(cvc), text: undefined };
}

/**
 * The values of a reference, or of several references for the parts of a card or a date.
 * @param {string} type element type
 * @param {unknown} reference
 * @param {Pick<import("./siblings.js").ControllerAccess, "resolve">} controller
 * @returns {SetValues | undefined} undefined if nothing is known, or a value is of another kind
 */
export function resolveSetValues(type, reference, controller) {
  const resolve = (/** @type {unknown} */ it) => {
    const found = it === undefined ? undefined : controller.resolve(it);
    const text = plainText(found?.value);
    return found === undefined || text === undefined ? undefined : { text, kind: found.kind };
  };
  const source = readRecord(reference);
  const date = resolveDate(resolve(source.month ?? source.expiration_month), resolve(source.year ?? source.expiration_year));
  if (type === "card") return resolveCard(source, date, resolve);
  const single = date ?? resolve(reference);
  if (single === undefined) return undefined;
  const { text, kind } = single;
  switch (type) {
    case "text":
      return { values: { text }, kind: kind === "date" ? "text" : kind };
    case "cardNumber":
      return kind === "number" || kind === "text" ? { values: { number: text }, kind } : undefined;
    case "cardVerificationCode":
      return kind === "code" || kind === "text" ? { values: { code: text }, kind } : undefined;
    case "cardExpirationDate":
      return kind === "date" || kind === "text" ? { values: { expiration: text }, kind } : undefined;
    default:
      return undefined;
  }
}

/**
 * @param {ResolvedValue | undefined} month
 * @param {ResolvedValue | undefined} year
 * @returns {ResolvedValue | undefined}
 */
function resolveDate(month, year) {
  if (month === undefined || year === undefined) return undefined;
  const text = `${month.text}/${year.text}`;
  if (month.kind === "month" && year.kind === "year") return { text, kind: "date" };
  return month.kind === "text" && year.kind === "text" ? { text, kind: "text" } : undefined;
}

/**
 * @param {Record<string, unknown>} source
 * @param {ResolvedValue | undefined} date
 * @param {(reference: unknown) => ResolvedValue | undefined} resolve
 * @returns {SetValues | undefined}
 */
function resolveCard(source, date, resolve) {
  const [number, code] = [resolve(source.number), resolve(source.cvc)];
  const known = [number, date, code].filter((it) => it !== undefined);
  const isCard = (number?.kind ?? "number") === "number" && (date?.kind ?? "date") === "date" && (code?.kind ?? "code") === "code";
  if (known.length === 0 || !(isCard || known.every((it) => it.kind === "text"))) return undefined;
  return { values: { number: number?.text, expiration: date?.text, code: code?.text }, kind: isCard ? "card" : "text" };
}
