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

/** An installed package contains only the build. A checkout runs its sources, or a build of exactly these sources. */
function folder() {
  if (!existsSync(join(root, 'src/main.ts'))) return 'dist'
  return isCurrent() ? 'build' : 'src'
}

// The threads of a process run the same code as its main thread, even if a source changes in the meantime.
const key = 'plinth:code'
const code = getEnvironmentData(key) ?? folder()
setEnvironmentData(key, code)

/** Imports a module of the service; `name` has no extension. */
export const load = (name) => import(`../${code}/${name}.${code === 'src' ? 'ts' : 'js'}`)
