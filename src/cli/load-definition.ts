import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../catalog/service.ts'
import { type Definition, isDefinition } from '../definition/service.ts'
import { DefinitionError } from '../startup-errors.ts'

/** A definition and its file; null for the built-in one. */
export interface LoadedDefinition {
  definition: Definition
  file: string | null
}

/** Default file names of a definition. */
const usualFiles = ['service.ts', 'service.js']

/**
 * The definition's file: the named one, else the one in `plinth` of the folder's package.json, else its service.ts or
 * service.js; null if there is none. `isFound` is true if it was not named. Throws `DefinitionError` if `plinth` in
 * package.json is invalid.
 */
export function findDefinition(named: string | null, folder: string): { file: string | null; isFound: boolean } {
  if (named !== null) return { file: named, isFound: false }
  const usual = usualFiles.find((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile())
  const file = namedByPackage(join(folder, 'package.json')) ?? usual ?? null
  return { file: file && resolve(folder, file), isFound: file !== null }
}

/** The file named by `plinth` in a package.json, if any. */
function namedByPackage(path: string): string | null {
  if (!existsSync(path)) return null
  const { plinth } = contentOf(path)
  if (plinth === undefined) return null
  if (typeof plinth === 'string') return plinth
  throw new DefinitionError([`${path}: "plinth" must name the file of the service, such as "./service.ts"`])
}

function contentOf(path: string): { plinth?: unknown } {
  try {
    return Object(JSON.parse(readFileSync(path, 'utf8')))
  } catch (error) {
    throw new DefinitionError([`${path} cannot be read: ${error instanceof Error ? error.message : error}`])
  }
}

/**
 * Loads the definition in a file, by default the built-in one. Throws `DefinitionError` if the file does not exist or fails,
 * or if its default export was not created by `service`.
 */
export async function loadDefinition(file: string | null | undefined): Promise<Definition> {
  if (file === null || file === undefined) return builtIn
  const path = resolve(file)
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new DefinitionError([`There is no file ${path}, where the definition of the service was looked for`])
  }
  const module = await load(path)
  if (isDefinition(module.default)) return module.default
  throw new DefinitionError([
    `${path} has no definition: its default export must be made by service() of the plinth that runs here,`,
    "    import { collection, service } from 'plinth'",
    '    export default service({ resources: [ … ] })',
  ])
}

async function load(path: string): Promise<{ default?: unknown }> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    if (error instanceof DefinitionError) throw new DefinitionError([`${path} cannot be served:`, error.message])
    throw new DefinitionError([`${path} cannot be loaded: ${told(error)}`])
  }
}

/** The stack in the author's own code, without the frames of the loader. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [message, ...places] = (error.stack ?? error.message).split(/\n(?= {4}at )/)
  const own = places.slice(
    0,
    places.findIndex((place) => place.includes('node:internal/modules')),
  )
  return [message, ...own].join('\n')
}
