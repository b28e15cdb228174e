// Builds the console: one script, one style sheet, each named by a hash, and the page that has them.
import { build } from "esbuild";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const [target] = process.argv.slice(2);
if (!target) throw new Error("usage: node build.mjs FOLDER");
const fresh = `${target}.new`;
await rm(fresh, { recursive: true, force: true });
await mkdir(fresh, { recursive: true });
const built = await build({
  entryPoints: { app: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  legalComments: "none",
  outdir: fresh,
  metafile: true,
});
const names = Object.keys(built.metafile.outputs).map((path) => basename(path));
const named = (suffix) => {
  const found = names.filter((name) => name.endsWith(suffix));
  if (found.length !== 1) throw new Error(`one ${suffix} was expected, not ${found.length}`);
  return found[0];
};
const page = (await readFile("src/index.html", "utf8"))
  .replace("app.css", named(".css"))
  .replace("app.js", named(".js"));
await writeFile(join(fresh, "index.html"), page);
const icon = await readFile("src/icon.svg", "utf8");
await writeFile(join(fresh, "icon.svg"), icon);
await rm(target, { recursive: true, force: true });
await rename(fresh, target);
console.log((await readdir(target)).toSorted().join("\n"));
