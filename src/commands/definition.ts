import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../built-in.ts'
import { type Definition, isDefinition } from '../definition.ts'
import { DefinitionError } from '../resources/declaration-rules.ts'

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
