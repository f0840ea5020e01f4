// Builds the console, unless the existing build is newer than its sources. Does nothing if the build tool, a
// development dependency, is missing, or if Node.js is too old for it. Without a build, the service responds to
// /console with an explanation.
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../console', import.meta.url))
const vite = fileURLToPath(new URL('../node_modules/vite/bin/vite.js', import.meta.url))
const changed = (path) => statSync(join(folder, path)).mtimeMs

const page = 'dist/index.html'
// A folder's modification time changes when a file in it is added, renamed or deleted.
const sources = globSync(['*.{json,html,ts}', 'src', 'src/**', '../package-lock.json'], { cwd: folder })
const isCurrent = existsSync(join(folder, page)) && sources.every((path) => changed(path) <= changed(page))
if (!isCurrent && existsSync(vite) && Number.parseInt(process.versions.node, 10) >= 24) {
  const { status } = spawnSync(process.execPath, [vite, 'build', '--logLevel', 'warn'], {
    cwd: folder,
    stdio: 'inherit',
  })
  process.exitCode = status ?? 1
}
