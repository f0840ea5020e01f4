import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

const root = fileURLToPath(new URL('..', import.meta.url))
const stateFile = join(root, 'build/sources.txt')

/**
 * Describes the sources and the installed packages: one line per file, with its size and modification time. A build
 * belongs to exactly one such state, because any edit changes it.
 */
export function stateOfSources() {
  const sources = readdirSync(join(root, 'src'), { recursive: true }).filter((path) => path.endsWith('.ts'))
  const paths = [...sources.map((path) => join('src', path)).toSorted(), 'node_modules/.package-lock.json']
  const lines = paths.map((path) => {
    const { size, mtimeMs } = statSync(join(root, path), { throwIfNoEntry: false }) ?? {}
    return `${path} ${size} ${mtimeMs}\n`
  })
  return lines.join('')
}

const isCurrent = () => existsSync(stateFile) && readFileSync(stateFile, 'utf8') === stateOfSources()

const hasSources = existsSync(join(root, 'src/main.ts'))
const key = 'plinth:code'

/**
 * Imports a module of the service from the sources or the build, whichever this process runs; `name` has no extension.
 */
export const load = (name) => {
  // If `loadProgram` was not called, for example in a test that imports the package, a checkout uses its sources.
  const code = getEnvironmentData(key) ?? (hasSources ? 'src' : 'dist')
  return import(`../${code}/${name}.${code === 'src' ? 'ts' : 'js'}`)
}

/**
 * Chooses the code that this process runs, and imports the program from it. An installed package contains only the
 * build; a checkout runs its sources, or a build of exactly these sources. All threads of the process run the same
 * code, even if a source file changes in the meantime.
 */
export const loadProgram = (name) => {
  const code = hasSources ? (isCurrent() ? 'build' : 'src') : 'dist'
  setEnvironmentData(key, getEnvironmentData(key) ?? code)
  return load(name)
}
