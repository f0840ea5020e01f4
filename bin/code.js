import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'

const root = fileURLToPath(new URL('..', import.meta.url))
const stateFile = join(root, 'build/sources.txt')

/**
 * Describes the sources and the installed packages by size and time of change, with one line per file. A build belongs to
 * exactly one state; any edit makes another one.
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

/** Imports a module of the service, from the code that this process runs; `name` has no extension. */
export const load = (name) => {
  // Code that uses the package without the program, such as a test, may also import the sources of a checkout.
  const code = getEnvironmentData(key) ?? (hasSources ? 'src' : 'dist')
  return import(`../${code}/${name}.${code === 'src' ? 'ts' : 'js'}`)
}

/**
 * Imports the program, and chooses the code that this process runs. An installed package contains only the build; a
 * checkout runs its sources, or a build of exactly these sources. The threads of the process run the same code, even if a
 * source changes in the meantime.
 */
export const loadProgram = (name) => {
  const code = hasSources ? (isCurrent() ? 'build' : 'src') : 'dist'
  setEnvironmentData(key, getEnvironmentData(key) ?? code)
  return load(name)
}
