// Makes one script of CommonJS packages, for pages of the tests. The files of the packages stay unmodified.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// Files that browsers need in place of the files for Node.
const BROWSER_FILES = { axios: "axios/dist/browser/axios.cjs", os: "os-browserify/browser.js" };

// `names` are packages. The script defines `window.packages`, by name.
export function bundlePackages(names) {
  const modules = new Map();
  const add = (request, from) => {
    const require = createRequire(from);
    const path = require.resolve(BROWSER_FILES[request] ?? request);
    if (modules.has(path)) return path;
    const text = readFileSync(path, "utf8");
    const entry = { text, imports: {} };
    modules.set(path, entry);
    for (const [, name] of text.matchAll(/\brequire\(["']([^"']+)["']\)/g)) entry.imports[name] = add(name, path);
    return path;
  };
  const roots = Object.fromEntries(names.map((name) => [name, add(name, import.meta.url)]));
  const entries = [...modules].map(
    ([path, { text, imports }]) =>
      `${JSON.stringify(path)}: { imports: ${JSON.stringify(imports)}, run(module, exports, require) {\n${text}\n} }`,
  );
  return `(() => {
  window.process = { env: { NODE_ENV: "production" } };
  window.global = window;
  const modules = { ${entries.join(",\n")} };
  const load = (path) => {
    const entry = modules[path];
    if (entry.module === undefined) {
      entry.module = { exports: {} };
      entry.run.call(entry.module.exports, entry.module, entry.module.exports, (name) => load(entry.imports[name]));
    }
    return entry.module.exports;
  };
  window.packages = {};
  for (const [name, path] of Object.entries(${JSON.stringify(roots)})) {
    Object.defineProperty(window.packages, name, { get: () => load(path) });
  }
})();`;
}
