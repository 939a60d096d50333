// How the payer came to a field without the page: by Tab from another field, or from elsewhere.
//
// A page can focus a place before a field, so that the payer's own Tab leads into the field. A second date of
// a page would then show a security code as a date, and a second number the first digits of what follows
// the card. So a second number or date of an instance has its own text only if the payer came from a field in
// which the payer had acted, or acts in it.

/** How long after the press of Tab the focus may arrive in the next field, in milliseconds. */
const TAB_MS = 1_000;
/** The answers of the vault and the events tell about these. */
const REPORTED_ROLES = ["number", "expiration"];

export class Arrival {
  /** @type {Set<string>} */
  #typedRoles = new Set();
  #tabbedAt = -Infinity;

  /**
   * The payer typed into an input. This stays known: a page can empty the field.
   * @param {string} role
   */
  type(role) {
    this.#typedRoles.add(role);
  }

  /**
   * The payer pressed Tab to leave the field.
   * @param {boolean} isPresent whether the payer had acted in the field before
   * @param {number} now
   */
  pressTab(isPresent, now) {
    this.#tabbedAt = isPresent ? now : -Infinity;
  }

  /** @param {string} role */
  hasTyped(role) {
    return this.#typedRoles.has(role);
  }

  /** @param {number} now */
  hasJustTabbed(now) {
    return now - this.#tabbedAt < TAB_MS;
  }
}

/**
 * Whether a focus that the page did not cause is an action of the payer.
 * @param {readonly string[]} roles of the inputs that get the focus
 * @param {readonly Arrival[]} siblings other fields of the instance
 * @param {number} now
 */
export function isOwnArrival(roles, siblings, now) {
  const reportedRoles = roles.filter((it) => REPORTED_ROLES.includes(it));
  const isSecond = siblings.some((it) => reportedRoles.some((role) => it.hasTyped(role)));
  return !isSecond || siblings.some((it) => it.hasJustTabbed(now));
}
