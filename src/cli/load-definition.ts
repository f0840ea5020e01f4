import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../catalog/service.ts'
import { type Definition, isDefinition } from '../definition/service.ts'
import { DefinitionError } from '../startup-errors.ts'

/** A definition, and the file it is from; null for the built-in one. */
export interface LoadedDefinition {
  definition: Definition
  file: string | null
}

/** Looked for in a folder where no definition is named. */
const usualFiles = ['service.ts', 'service.js']

/**
 * The file of the definition to use: the one that is named, else the one that `plinth` in the folder's package.json names,
 * else its service.ts or service.js; null without any. `isFound` where nobody named it. Throws `DefinitionError` when
 * package.json says something else.
 */
export function findDefinition(named: string | null, folder: string): { file: string | null; isFound: boolean } {
  if (named !== null) return { file: named, isFound: false }
  const usual = usualFiles.find((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile())
  const file = namedByPackage(join(folder, 'package.json')) ?? usual ?? null
  return { file: file && resolve(folder, file), isFound: file !== null }
}

/** What `plinth` in a package.json names, if there is one and it names any. */
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
 * The definition in a file, the built-in one when none is named. Throws `DefinitionError` when there is no such file, when
 * it fails, or when its default export was not made by `service`.
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

/** The author's own code: where it failed is what they need, and not how it was loaded. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [message, ...places] = (error.stack ?? error.message).split(/\n(?= {4}at )/)
  const own = places.slice(
    0,
    places.findIndex((place) => place.includes('node:internal/modules')),
  )
  return [message, ...own].join('\n')
}
