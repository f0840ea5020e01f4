import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../catalog/service.ts'
import { type Definition, isDefinition } from '../definition/service.ts'
import { DefinitionError } from '../startup-errors.ts'

/** A definition and the file that contains it; null for the built-in definition. */
export interface LoadedDefinition {
  definition: Definition
  file: string | null
}

/** Default file names for a definition. */
const defaultFiles = ['service.ts', 'service.js']

/**
 * Finds the definition file: the given file, else the file specified by `plinth` in the folder's package.json, else the
 * folder's service.ts or service.js; null if there is none. `isFound` is true if this search found the file, false if the
 * file was given. Throws a `DefinitionError` if `plinth` in package.json is invalid.
 */
export function findDefinition(named: string | null, folder: string): { file: string | null; isFound: boolean } {
  if (named !== null) return { file: named, isFound: false }
  const byDefault = defaultFiles.find((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile())
  const file = namedByPackage(join(folder, 'package.json')) ?? byDefault ?? null
  return { file: file && resolve(folder, file), isFound: file !== null }
}

/** Returns the file that `plinth` in a package.json specifies, if any. */
function namedByPackage(path: string): string | null {
  if (!existsSync(path)) return null
  const { plinth } = contentOf(path)
  if (plinth === undefined) return null
  if (typeof plinth === 'string') return plinth
  throw new DefinitionError([`${path}: "plinth" must be the path of the definition, such as "./service.ts"`])
}

function contentOf(path: string): { plinth?: unknown } {
  try {
    return Object(JSON.parse(readFileSync(path, 'utf8')))
  } catch (error) {
    throw new DefinitionError([`${path} cannot be read: ${error instanceof Error ? error.message : error}`])
  }
}

/**
 * Loads the definition from a file, or returns the built-in definition. Throws a `DefinitionError` if the file does not
 * exist, cannot be loaded, or has a default export that is not a `service()`.
 */
export async function loadDefinition(file: string | null | undefined): Promise<Definition> {
  if (file === null || file === undefined) return builtIn
  const path = resolve(file)
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new DefinitionError([`${path} does not exist or is not a file; it should contain the definition`])
  }
  const module = await load(path)
  if (isDefinition(module.default)) return module.default
  throw new DefinitionError([
    `${path} has no definition: its default export must be a service() of this installation of plinth,`,
    "    import { collection, service } from 'plinth'",
    '    export default service({ resources: [ … ] })',
  ])
}

async function load(path: string): Promise<{ default?: unknown }> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    if (error instanceof DefinitionError) throw new DefinitionError([`${path} cannot be served:`, error.message])
    throw new DefinitionError([`${path} cannot be loaded: ${ownStack(error)}`])
  }
}

/** Returns an error's stack up to the first frame in Node's module loader. */
function ownStack(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [message, ...frames] = (error.stack ?? error.message).split(/\n(?= {4}at )/)
  const end = frames.findIndex((frame) => frame.includes('node:internal/modules'))
  return [message, ...(end === -1 ? frames : frames.slice(0, end))].join('\n')
}
