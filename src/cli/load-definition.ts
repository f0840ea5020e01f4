import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../catalog/service.ts'
import { notGiven } from '../code/collect.ts'
import { codeNotGiven } from '../code/made.ts'
import { type Definition, isDefinition } from '../definition/service.ts'
import { DefinitionError } from '../startup-errors.ts'
import { definitionErrorText } from './definition-errors.ts'

/** A definition, and the file that contains it; `file` is null for the built-in definition. */
export interface LoadedDefinition {
  definition: Definition
  file: string | null
  /** The file and the files that it imports, except those of packages. */
  imported: ReadonlySet<string>
}

/** Default file names for a definition. */
const defaultFiles = ['service.ts', 'service.js']

/**
 * Finds the definition file; null if there is none. In order of precedence, it is `named`, the file that the member
 * `plinth` of the folder's package.json specifies, or the folder's service.ts or service.js. `isFound` is false for
 * `named`. Throws a `DefinitionError` if package.json or its member `plinth` is invalid.
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
 * Loads the definition from a file; without a file, returns the built-in definition. Throws a `DefinitionError` if the
 * file does not exist, cannot be loaded, does not export a `service()` by default, or declares hooks or other code that
 * it does not pass to the service.
 */
export async function loadDefinition(file: string | null | undefined): Promise<Definition> {
  if (file === null || file === undefined) return builtIn
  const path = resolve(file)
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new DefinitionError([`${path} does not exist or is not a file; it should contain the definition`])
  }
  const earlier = new Set(codeNotGiven())
  const module = await load(path)
  if (isDefinition(module.default)) {
    const forgotten = codeNotGiven()
      .filter((made) => !earlier.has(made))
      .map(notGiven)
    if (forgotten.length > 0) throw new DefinitionError([`${path} cannot be served:`, ...forgotten])
    return module.default
  }
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
    throw new DefinitionError([definitionErrorText(error, path)])
  }
}
