// A worker that runs one pattern of the page over a text. See page-rules.js.

/** @typedef {import("./page-rules.js").Rule} Rule */

/**
 * @param {Rule} rule
 * @returns {boolean | string}
 */
function applyRule({ pattern, text, replacement }) {
  pattern.lastIndex = 0;
  return replacement === undefined ? pattern.test(text) : text.replace(pattern, replacement);
}

const scope = /** @type {any} */ (globalThis);
scope.onmessage = (/** @type {{ data: Rule }} */ { data }) => {
  scope.postMessage(applyRule(data));
  // The worker stays busy until it is ended, so that the load tells nothing about the text.
  for (;;);
};
scope.postMessage("ready");
