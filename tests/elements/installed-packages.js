// Packages of the browser tests, for comparison with this project's own modules.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../browser/package.json", import.meta.url));

export const requirePackage = (name) => require(name);
export const importPackage = (name) => import(pathToFileURL(require.resolve(name)));
