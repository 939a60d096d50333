// Starts Debian's Chromium without a window. A failed test leaves a screenshot.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const PICTURES = join(ROOT, "target/browser");

export const DESKTOP = { viewport: { width: 1120, height: 820 } };
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const DOCUMENTED = join(ROOT, "docs/images");

// `localhost` is another site than `127.0.0.1`: the hosted fields of the demo are there.
const LOOPBACK_HOSTS = ["127.0.0.1", "localhost"];

// `hosts` are names that `args` map to this machine.
export async function startBrowser({ hosts = [], args = [] } = {}) {
  // Its own sandbox needs rights that a container may not have. The browser only loads our pages.
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", ...args] });
  const allowedHosts = [...LOOPBACK_HOSTS, ...hosts];
  return {
    // Runs `use` with a page and checks some rules for every page: nothing is loaded from other
    // origins, no script fails, and no policy is violated.
    async withPage(name, options, use) {
      const context = await browser.newContext(options);
      context.setDefaultTimeout(60_000);
      const faults = [];
      await context.route(
        (url) => !allowedHosts.includes(url.hostname),
        (route) => {
          faults.push(`loads ${route.request().url()}`);
          return route.abort();
        },
      );
      const page = await context.newPage();
      const watch = (it) => {
        it.on("pageerror", (error) => faults.push(`script failed: ${error.message}`));
        it.on("console", (message) => {
          if (message.text().includes("Content Security Policy")) faults.push(message.text());
        });
        it.on("dialog", (dialog) => {
          faults.push(`a script ran: ${dialog.message()}`);
          return dialog.dismiss();
        });
      };
      watch(page);
      context.on("page", watch);
      try {
        await use(page, faults);
        if (faults.length > 0) throw new Error(faults.join("\n"));
      } catch (error) {
        await mkdir(PICTURES, { recursive: true });
        const path = join(PICTURES, `${name.replace(/[^a-z0-9]+/gi, "-")}.png`);
        await page.screenshot({ path, fullPage: true }).catch(() => {});
        error.message += `\n  picture: ${path}`;
        throw error;
      } finally {
        await context.close();
      }
    },
    stop: () => browser.close(),
  };
}

// Writes a picture for the guides, with SCRIP_TEST_GOLDEN=write.
export async function picture(page, name) {
  const image = await page.screenshot({ animations: "disabled" });
  if (process.env.SCRIP_TEST_GOLDEN !== "write") return;
  assert.ok(image.length < 150_000, `${name} has ${image.length} bytes`);
  await mkdir(DOCUMENTED, { recursive: true });
  await writeFile(join(DOCUMENTED, `${name}.png`), image);
}
