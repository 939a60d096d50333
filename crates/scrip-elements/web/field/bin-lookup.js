// Details of the card by its first digits, from the controller.

import { visibleParts } from "./format/brand.js";
import { findController } from "./siblings.js";

/**
 * Looks up the digits that the page may see, and keeps the newest answer.
 * @param {string} nonce
 * @param {() => void} changed
 */
export function createBinLookup(nonce, changed) {
  let bin = "";
  /** @type {unknown} */
  let details;
  return {
    get details() {
      return details;
    },
    /** @param {string} digits the card number; empty ends the lookup */
    follow(digits) {
      const wanted = visibleParts(digits, false, false).cardBin ?? "";
      if (wanted === bin) return;
      // The details of six digits stay until those of eight digits arrive.
      if (bin === "" || !wanted.startsWith(bin)) details = undefined;
      bin = wanted;
      if (wanted === "") return;
      const answer = findController(nonce)?.lookUpBin(wanted);
      Promise.resolve(answer).then(
        (found) => {
          if (bin !== wanted || typeof found !== "object" || found === null) return;
          details = JSON.parse(JSON.stringify(found));
          changed();
        },
        () => {
          // Without details the field works as before; the next digits ask again.
          if (bin === wanted) bin = "";
        },
      );
    },
  };
}
