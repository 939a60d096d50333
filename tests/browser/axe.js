// Checks a page with axe-core.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const SCRIPT = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

// The violations of a page, without the content of its frames: they have tests of their own.
export async function findViolations(page) {
  await page.evaluate(await readFile(SCRIPT, "utf8"));
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { iframes: false });
    return violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`);
  });
}
